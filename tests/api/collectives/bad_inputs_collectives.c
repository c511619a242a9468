/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bad arguments of collectives, one case each: the status, and a message that names the argument. Afterwards the group
 * still works. All ranks pass the same bad argument, since a mistake of one rank shows only at the deadline.
 */
#include <math.h>

#include "api/async/start_functions.h"
#include "api/bad_inputs.h"

#define RANKS 3

static DLTensor f32(float *data, const int64_t *length)
{
    return tutti_tensor_1d(data, length, TUTTI_F32);
}

static void options(tutti_group *g)
{
    tutti_error e;
    float data[4] = {0};
    int64_t four = 4;
    DLTensor t = f32(data, &four);
    EXPECT(tutti_all_reduce(NULL, &t, &t, TUTTI_SUM, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "group", tutti_barrier(NULL, OPTIONS));
    BAD("lane", tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e, .lane = 1)));
    BAD("lane", tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e, .lane = -1)));
    BAD("timeout_ms", tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e, .timeout_ms = -2)));
    BAD("flags", tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e, .flags = 1u << 30)));
    /* Options that were not initialised: their `error` still receives the failure. */
    tutti_call zero = {0};
    tutti_work *work = NULL;
    tutti_events *events = NULL;
    EXPECT(tutti_all_reduce(g, &t, &t, TUTTI_SUM, &zero) == TUTTI_INVALID_ARGUMENT);
    EXPECT_USABLE(g);
    zero.error = &e;
    BAD("all_reduce: call.size is 0; use TUTTI_CALL", tutti_all_reduce(g, &t, &t, TUTTI_SUM, &zero));
    EXPECT(e.operation == TUTTI_OP_ALL_REDUCE && e.size == sizeof(e));
    BAD("barrier: call.size is 0; use TUTTI_CALL", tutti_barrier_async(g, &zero, &work));
    BAD("send: call.size is 0; use TUTTI_CALL", tutti_send(g, &t, 0, 0, &zero));
    BAD("recv: call.size is 0; use TUTTI_CALL", tutti_recv_async(g, &t, 0, 0, &zero, NULL, &work));
    EXPECT_OK(tutti_events_create(g, &events, NULL));
    BAD("events_start: call.size is 0; use TUTTI_CALL",
        tutti_events_start(events, 1, start_never, NULL, &zero, NULL, NULL, &work, NULL));
    EXPECT_OK(tutti_events_destroy(events, NULL));
    EXPECT(!work);
    zero.size = 12; /* of no version: nothing in it is read */
    memset(&e, 0, sizeof(e));
    EXPECT(tutti_all_reduce(g, &t, &t, TUTTI_SUM, &zero) == TUTTI_INVALID_ARGUMENT && e.status == TUTTI_OK);
    EXPECT_USABLE(g);
    tutti_call init;
    memset(&init, 0xff, sizeof(init));
    tutti_call_init(&init);
    EXPECT(init.size == sizeof(init) && init.flags == 0 && init.timeout_ms == 0 && init.lane == 0 && init.tag == 0 &&
           init.scale == 0 && !init.stream && !init.error && !init.callback && !init.user);
    tutti_call_init(NULL);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, &init));
}

static void forms(tutti_group *g)
{
    tutti_error e;
    float a[12] = {0};
    float b[12] = {0};
    int16_t narrow[12] = {0};
    int64_t four = 4;
    int64_t three = 3;
    int64_t twelve = 12;
    int64_t matrix[2] = {2, 2};
    int64_t wide[2] = {2, 6};
    DLTensor in = f32(a, &four);
    DLTensor other_dtype = tutti_tensor_1d(narrow, &four, TUTTI_F16);
    DLTensor other_length = f32(b, &three);
    DLTensor other_ndim = tutti_tensor_nd(b, 2, matrix, TUTTI_F32);
    BAD("all_reduce: output has dtype f16 but input has f32",
        tutti_all_reduce(g, &in, &other_dtype, TUTTI_SUM, OPTIONS));
    BAD("dimension 0 of output has length 3", tutti_all_reduce(g, &in, &other_length, TUTTI_SUM, OPTIONS));
    BAD("output has 2 dimensions", tutti_all_reduce(g, &in, &other_ndim, TUTTI_SUM, OPTIONS));
    BAD("dtype", tutti_reduce(g, &in, &other_dtype, TUTTI_SUM, tutti_group_rank(g), OPTIONS));
    DLTensor joined_dtype = tutti_tensor_1d(narrow, &twelve, TUTTI_F16);
    DLTensor joined_ndim = tutti_tensor_nd(b, 2, wide, TUTTI_F32);
    DLTensor joined = f32(b, &twelve);
    BAD("output has dtype f16", tutti_all_gather(g, &in, &joined_dtype, 0, OPTIONS));
    BAD("output has 2 dimensions", tutti_all_gather(g, &in, &joined_ndim, 0, OPTIONS));
    DLTensor short_part = f32(a, &three);
    BAD("parts of 3", tutti_all_gather(g, &short_part, &joined, 0, OPTIONS));
    BAD("parts of 3", tutti_gather(g, &short_part, &joined, 0, tutti_group_rank(g), OPTIONS));
    BAD("parts of 3", tutti_scatter(g, &joined, &short_part, 0, tutti_group_rank(g), OPTIONS));
    BAD("parts of 3", tutti_reduce_scatter(g, &joined, &short_part, TUTTI_SUM, 0, OPTIONS));
    BAD("output has dtype f16", tutti_all_to_all(g, &joined, &joined_dtype, 0, OPTIONS));
    /* off the root the output is not used, so only its own dtype can be wrong there */
    int64_t rows[2] = {2, 2};
    int64_t cols[2] = {6, 3};
    DLTensor part2 = tutti_tensor_nd(a, 2, rows, TUTTI_F32);
    float big[18] = {0};
    DLTensor joined2 = tutti_tensor_nd(big, 2, cols, TUTTI_F32);
    BAD("dimension 1 of output has length 3", tutti_all_gather(g, &part2, &joined2, 0, OPTIONS));
}

static void indivisible(tutti_group *g)
{
    tutti_error e;
    float a[8] = {0};
    float b[8] = {0};
    int64_t seven = 7;
    int64_t two = 2;
    DLTensor joined = f32(a, &seven);
    DLTensor same = f32(b, &seven);
    DLTensor part = f32(b, &two);
    BAD("length 7 along dimension 0", tutti_scatter(g, &joined, &part, 0, tutti_group_rank(g), OPTIONS));
    BAD("length 7 along dimension 0", tutti_reduce_scatter(g, &joined, &part, TUTTI_SUM, 0, OPTIONS));
    BAD("length 7 along dimension 0", tutti_all_to_all(g, &joined, &same, 0, OPTIONS));
}

static void too_large(tutti_group *g)
{
    tutti_error e;
    uint8_t byte = 0;
    uint8_t other[8] = {0};
    int64_t huge = INT64_C(1) << 62;
    int64_t eight = 8;
    DLTensor in = tutti_tensor_1d(&byte, &huge, TUTTI_U8);
    DLTensor out = tutti_tensor_1d(other, &eight, TUTTI_U8);
    BAD("times 3 ranks", tutti_all_gather(g, &in, &out, 0, OPTIONS));
    BAD("times 3 ranks", tutti_gather(g, &in, NULL, 0, (tutti_group_rank(g) + 1) % RANKS, OPTIONS));
    BAD("times 3 ranks", tutti_scatter(g, NULL, &in, 0, (tutti_group_rank(g) + 1) % RANKS, OPTIONS));
    int64_t hidden[3] = {INT64_MAX, INT64_MAX, 0};
    int64_t hidden_joined[3] = {INT64_MAX, INT64_MAX, 0};
    DLTensor empty = tutti_tensor_nd(NULL, 3, hidden, TUTTI_F32);
    DLTensor empty_joined = tutti_tensor_nd(NULL, 3, hidden_joined, TUTTI_F32);
    BAD("too large", tutti_all_gather(g, &empty, &empty_joined, 2, OPTIONS));
}

static void reduce_ops(tutti_group *g)
{
    tutti_error e;
    float a[4] = {0};
    int32_t i[4] = {0};
    uint8_t b[4] = {0};
    int64_t four = 4;
    DLTensor f = f32(a, &four);
    DLTensor n = tutti_tensor_1d(i, &four, TUTTI_I32);
    DLTensor t = tutti_tensor_1d(b, &four, TUTTI_BOOL);
    BAD("op is 0", tutti_all_reduce(g, &f, &f, 0, OPTIONS));
    BAD("op is -1", tutti_all_reduce(g, &f, &f, -1, OPTIONS));
    BAD("op is 12", tutti_all_reduce(g, &f, &f, TUTTI_REDUCE_OP_COUNT, OPTIONS));
    BAD("op is 99", tutti_reduce(g, &f, &f, 99, 0, OPTIONS));
    BAD("op band is not defined on dtype f32", tutti_all_reduce(g, &f, &f, TUTTI_BAND, OPTIONS));
    BAD("op lor is not defined on dtype f32", tutti_reduce(g, &f, &f, TUTTI_LOR, 0, OPTIONS));
    BAD("op avg is not defined on dtype bool", tutti_all_reduce(g, &t, &t, TUTTI_AVG, OPTIONS));
    BAD("op premul_sum is not defined on dtype bool", tutti_all_reduce(g, &t, &t, TUTTI_PREMUL_SUM, OPTIONS));
    float big[12] = {0};
    int64_t twelve = 12;
    DLTensor joined = f32(big, &twelve);
    BAD("op is 50", tutti_reduce_scatter(g, &joined, &f, 50, 0, OPTIONS));
    BAD("op bxor", tutti_reduce_scatter(g, &joined, &f, TUTTI_BXOR, 0, OPTIONS));
    int64_t counts[RANKS] = {4, 4, 4};
    BAD("op bxor", tutti_reduce_scatter_v(g, &joined, &f, TUTTI_BXOR, 0, counts, OPTIONS));
    BAD("scale is 0.5", tutti_all_reduce(g, &n, &n, TUTTI_PREMUL_SUM, TUTTI_CALL(.error = &e, .scale = 0.5)));
    BAD("scale is 1e+17", tutti_all_reduce(g, &n, &n, TUTTI_PREMUL_SUM, TUTTI_CALL(.error = &e, .scale = 1e17)));
    BAD("scale is", tutti_all_reduce(g, &n, &n, TUTTI_PREMUL_SUM, TUTTI_CALL(.error = &e, .scale = NAN)));
    EXPECT_OK(tutti_all_reduce(g, &f, &f, TUTTI_PREMUL_SUM, TUTTI_CALL(.error = &e, .scale = 0.5)));
    EXPECT_OK(tutti_all_reduce(g, &n, &n, TUTTI_PREMUL_SUM, TUTTI_CALL(.error = &e, .scale = -3)));
}

static void roots_and_dims(tutti_group *g)
{
    tutti_error e;
    float a[4] = {0};
    float b[12] = {0};
    int64_t four = 4;
    int64_t twelve = 12;
    DLTensor t = f32(a, &four);
    DLTensor all = f32(b, &twelve);
    const int32_t roots[] = {-1, RANKS, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        BAD("root is", tutti_broadcast(g, &t, roots[i], OPTIONS));
        BAD("root is", tutti_reduce(g, &t, &t, TUTTI_SUM, roots[i], OPTIONS));
        BAD("root is", tutti_gather(g, &t, &all, 0, roots[i], OPTIONS));
        BAD("root is", tutti_scatter(g, &all, &t, 0, roots[i], OPTIONS));
    }
    const int32_t dims[] = {-2, 1, INT32_MAX, INT32_MIN};
    float c[12] = {0};
    DLTensor other = f32(c, &twelve);
    int64_t counts[RANKS] = {4, 4, 4};
    for (int i = 0; i < 4; i++) {
        BAD("has 1 dimensions: dim is -1 to 0", tutti_all_gather(g, &t, &all, dims[i], OPTIONS));
        BAD("dim is", tutti_gather(g, &t, &all, dims[i], 0, OPTIONS));
        BAD("dim is", tutti_scatter(g, &all, &t, dims[i], 0, OPTIONS));
        BAD("dim is", tutti_reduce_scatter(g, &all, &t, TUTTI_SUM, dims[i], OPTIONS));
        BAD("dim is", tutti_all_to_all(g, &all, &other, dims[i], OPTIONS));
        BAD("dim is", tutti_all_gather_v(g, &t, &all, dims[i], counts, NULL, OPTIONS));
        BAD("dim is", tutti_reduce_scatter_v(g, &all, &t, TUTTI_SUM, dims[i], counts, OPTIONS));
        BAD("dim is", tutti_all_to_all_v(g, &all, &other, dims[i], counts, NULL, counts, NULL, OPTIONS));
    }
}

static void overlaps(tutti_group *g)
{
    tutti_error e;
    float a[24] = {0};
    int64_t four = 4;
    int64_t twelve = 12;
    int32_t me = tutti_group_rank(g);
    DLTensor in = f32(a, &four);
    DLTensor shifted = f32(a + 1, &four);
    DLTensor joined = f32(a, &twelve);
    DLTensor joined_shifted = f32(a + 1, &twelve);
    DLTensor wrong_slice = f32(a + 4 * ((me + 1) % RANKS), &four);
    DLTensor own_but_one = f32(a + 4 * me + 1, &four);
    BAD("output overlaps input", tutti_all_reduce(g, &in, &shifted, TUTTI_SUM, OPTIONS));
    BAD("output overlaps input", tutti_reduce(g, &in, &shifted, TUTTI_SUM, me, OPTIONS));
    BAD("in place", tutti_all_gather(g, &wrong_slice, &joined, 0, OPTIONS));
    BAD("in place", tutti_all_gather(g, &own_but_one, &joined, 0, OPTIONS));
    BAD("in place", tutti_gather(g, &wrong_slice, &joined, 0, me, OPTIONS));
    BAD("in place", tutti_scatter(g, &joined, &wrong_slice, 0, me, OPTIONS));
    BAD("in place", tutti_reduce_scatter(g, &joined, &wrong_slice, TUTTI_SUM, 0, OPTIONS));
    BAD("no in-place form", tutti_all_to_all(g, &joined, &joined, 0, OPTIONS));
    BAD("no in-place form", tutti_all_to_all(g, &joined, &joined_shifted, 0, OPTIONS));
    int64_t counts[RANKS] = {4, 4, 4};
    BAD("in place", tutti_all_gather_v(g, &wrong_slice, &joined, 0, counts, NULL, OPTIONS));
    BAD("in place", tutti_reduce_scatter_v(g, &joined, &wrong_slice, TUTTI_SUM, 0, counts, OPTIONS));
    BAD("no in-place form", tutti_all_to_all_v(g, &joined, &joined, 0, counts, NULL, counts, NULL, OPTIONS));
    /* along dimension 1 the own part is not contiguous */
    int64_t part[2] = {2, 2};
    int64_t whole[2] = {2, 2 * RANKS};
    int64_t strides[2] = {2 * RANKS, 1};
    DLTensor view = tutti_tensor_nd(a + 2 * me, 2, part, TUTTI_F32);
    view.strides = strides;
    DLTensor out = tutti_tensor_nd(a, 2, whole, TUTTI_F32);
    BAD("contiguous", tutti_all_gather(g, &view, &out, 1, OPTIONS));
    /* the same memory with other strides is not the same tensor */
    int64_t square[2] = {3, 3};
    int64_t transposed[2] = {1, 3};
    DLTensor m = tutti_tensor_nd(a, 2, square, TUTTI_F32);
    DLTensor mt = m;
    mt.strides = transposed;
    BAD("output overlaps input", tutti_all_reduce(g, &m, &mt, TUTTI_SUM, OPTIONS));
    int64_t backwards = -1;
    DLTensor reversed = f32(a + 3, &four);
    reversed.strides = &backwards;
    BAD("output overlaps input", tutti_all_reduce(g, &reversed, &in, TUTTI_SUM, OPTIONS));
    BAD("output overlaps input", tutti_all_reduce(g, &in, &reversed, TUTTI_SUM, OPTIONS));
    /* every part of the input is the same memory: writing the own one would write all */
    int64_t rows[2] = {RANKS, 4};
    int64_t row[2] = {1, 4};
    int64_t expanded[2] = {0, 1};
    DLTensor same = tutti_tensor_nd(a, 2, rows, TUTTI_F32);
    same.strides = expanded;
    DLTensor own = tutti_tensor_nd(a, 2, row, TUTTI_F32);
    BAD("memory of their own", tutti_scatter(g, &same, &own, 0, me, OPTIONS));
    BAD("memory of their own", tutti_reduce_scatter(g, &same, &own, TUTTI_SUM, 0, OPTIONS));
    BAD("output overlaps itself", tutti_all_reduce(g, &same, &same, TUTTI_SUM, OPTIONS));
    BAD("output overlaps itself", tutti_reduce(g, &same, &same, TUTTI_SUM, me, OPTIONS));
}

static void nothing_is_legal(tutti_group *g)
{
    int64_t none = 0;
    int64_t empty_rows[2] = {0, 5};
    int64_t counts[RANKS] = {0, 0, 0};
    DLTensor t = tutti_tensor_1d(NULL, &none, TUTTI_F32);
    DLTensor u = tutti_tensor_nd(NULL, 2, empty_rows, TUTTI_I8);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, NULL));
    EXPECT_OK(tutti_reduce(g, &t, tutti_group_rank(g) == 1 ? &t : NULL, TUTTI_SUM, 1, NULL));
    EXPECT_OK(tutti_broadcast(g, &t, 2, NULL));
    EXPECT_OK(tutti_all_gather(g, &t, &t, 0, NULL));
    EXPECT_OK(tutti_all_gather(g, &u, &u, 0, NULL));
    EXPECT_OK(tutti_gather(g, &t, tutti_group_rank(g) == 0 ? &t : NULL, 0, 0, NULL));
    EXPECT_OK(tutti_scatter(g, tutti_group_rank(g) == 0 ? &t : NULL, &t, 0, 0, NULL));
    EXPECT_OK(tutti_reduce_scatter(g, &t, &t, TUTTI_MAX, 0, NULL));
    EXPECT_OK(tutti_all_to_all(g, &t, &t, 0, NULL));
    EXPECT_OK(tutti_all_gather_v(g, &t, &t, 0, counts, NULL, NULL));
    EXPECT_OK(tutti_reduce_scatter_v(g, &t, &t, TUTTI_SUM, 0, counts, NULL));
    EXPECT_OK(tutti_all_to_all_v(g, &t, &t, 0, counts, counts, counts, counts, NULL));
    EXPECT_USABLE(g);
}

struct seen {
    int calls;
    tutti_status status;
    tutti_status inside;
    tutti_group *group;
};

static void on_end(tutti_status status, const tutti_error *error, void *user)
{
    struct seen *s = user;
    tutti_error e;
    s->calls++;
    s->status = status;
    EXPECT(error->status == status);
    s->inside = tutti_barrier(s->group, TUTTI_CALL(.error = &e));
}

static void callbacks(tutti_group *g)
{
    float a[4] = {0};
    int64_t four = 4;
    DLTensor t = f32(a, &four);
    struct seen s = {.group = g};
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.callback = on_end, .user = &s)));
    EXPECT(s.calls == 1 && s.status == TUTTI_OK && s.inside == TUTTI_WOULD_DEADLOCK);
    /* an error before the operation starts: no callback */
    EXPECT(tutti_broadcast(g, &t, -1, TUTTI_CALL(.callback = on_end, .user = &s)) == TUTTI_INVALID_ARGUMENT);
    EXPECT(s.calls == 1);
    EXPECT_USABLE(g);
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    options(g);
    forms(g);
    indivisible(g);
    too_large(g);
    reduce_ops(g);
    roots_and_dims(g);
    overlaps(g);
    nothing_is_legal(g);
    callbacks(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
