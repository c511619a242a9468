/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti/shape.h: the operation accepts the shape that the function returns. Both refuse the same arguments. A new
 * tensor of that shape works like the caller's own.
 */
#include <stdbool.h>
#include <tutti/shape.h>

#include "api/check.h"

#define RANKS 3

/* The test allocates more than there is on purpose. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* Not instrumented: the sanitizer calls it before it has set itself up. */
const char *__tsan_default_options(void);
__attribute__((no_sanitize("thread"))) const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static int64_t shape[TUTTI_MAX_NDIM];
static _Thread_local int64_t got[TUTTI_MAX_NDIM];
static _Thread_local int32_t dims;
static _Thread_local tutti_error e;

static bool is(int32_t ndim, int64_t a, int64_t b, int64_t c)
{
    const int64_t wanted[3] = {a, b, c};
    bool same = dims == ndim;
    for (int32_t d = 0; d < ndim; d++) {
        same = same && got[d] == wanted[d];
    }
    memset(got, 0xff, sizeof(got));
    dims = -1;
    return same;
}

/* Only shape and dtype of the input count: it has no memory. */
static void equal_parts(tutti_group *g)
{
    int64_t part[3] = {6, 9, 5};
    int64_t strides[3] = {INT64_MAX, INT64_MIN, 0};
    DLTensor t = tutti_tensor_nd(NULL, 3, part, TUTTI_BF16);
    for (int pass = 0; pass < 2; pass++) {
        t.strides = pass == 0 ? NULL : strides;
        EXPECT_OK(tutti_all_gather_shape(g, &t, 0, got, &dims, &e));
        EXPECT(is(3, 18, 9, 5));
        EXPECT_OK(tutti_all_gather_shape(g, &t, -1, got, &dims, &e));
        EXPECT(is(3, 6, 9, 15));
        EXPECT_OK(tutti_reduce_scatter_shape(g, &t, -2, got, &dims, &e));
        EXPECT(is(3, 6, 3, 5));
        EXPECT_OK(tutti_reduce_scatter_shape(g, &t, 0, got, &dims, NULL));
        EXPECT(is(3, 2, 9, 5));
        EXPECT_OK(tutti_all_to_all_shape(g, &t, 1, got, &dims, &e));
        EXPECT(is(3, 6, 9, 5));
    }
    EXPECT_OK(tutti_all_to_all_shape(g, &t, 1, got, NULL, &e));
    EXPECT(dims == -1);
    DLTensor scalar = tutti_tensor_nd(NULL, 0, NULL, TUTTI_F64);
    EXPECT_OK(tutti_all_gather_shape(g, &scalar, -1, got, &dims, &e));
    EXPECT(is(1, RANKS, 0, 0));
    part[1] = 0;
    EXPECT_OK(tutti_all_gather_shape(g, &t, 0, got, &dims, &e));
    EXPECT(is(3, 18, 0, 5));
}

static void counted_parts(tutti_group *g)
{
    const int32_t me = tutti_group_rank(g);
    const int64_t counts[RANKS] = {4, 0, 3};
    int64_t part[2] = {2, counts[me]};
    DLTensor t = tutti_tensor_nd(NULL, 2, part, TUTTI_I8);
    EXPECT_OK(tutti_all_gather_v_shape(g, &t, -1, counts, got, &dims, &e));
    EXPECT(is(2, 2, 7, 0));
    EXPECT_OK(tutti_all_to_all_v_shape(g, &t, 1, counts, got, &dims, &e));
    EXPECT(is(2, 2, 7, 0));
    part[1] = 7;
    EXPECT_OK(tutti_reduce_scatter_v_shape(g, &t, 1, counts, got, &dims, &e));
    EXPECT(is(2, 2, counts[me], 0));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "the own part",
                 tutti_all_gather_v_shape(g, &t, 1, counts, got, &dims, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "counts sum to 7",
                 tutti_reduce_scatter_v_shape(g, &t, 0, counts, got, &dims, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "recv_counts is NULL",
                 tutti_all_to_all_v_shape(g, &t, 0, NULL, got, &dims, &e));
    const int64_t negative[RANKS] = {4, -1, 3};
    const int64_t huge[RANKS] = {INT64_MAX, 1, 3};
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "recv_counts[1] is -1",
                 tutti_all_to_all_v_shape(g, &t, 0, negative, got, &dims, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "63 bits", tutti_all_to_all_v_shape(g, &t, 0, huge, got, &dims, &e));
    const int64_t large[RANKS] = {INT64_MAX / 2, 0, 0}; /* as a sum it fits, as bytes it does not */
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "the output is too large",
                 tutti_all_to_all_v_shape(g, &t, 0, large, got, &dims, &e));
    EXPECT(is(-1, 0, 0, 0));
}

static void refusals(tutti_group *g)
{
    int64_t part[2] = {4, 6};
    DLTensor t = tutti_tensor_nd(NULL, 2, part, TUTTI_F32);
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "group is NULL", tutti_all_gather_shape(NULL, &t, 0, got, &dims, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "input is NULL", tutti_all_gather_shape(g, NULL, 0, got, &dims, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "shape is NULL", tutti_all_gather_shape(g, &t, 0, NULL, &dims, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "dim is -2 to 1", tutti_all_gather_shape(g, &t, 2, got, &dims, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "dim is -2 to 1", tutti_all_to_all_shape(g, &t, -3, got, &dims, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "3 ranks cannot share equally",
                 tutti_reduce_scatter_shape(g, &t, 0, got, &dims, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "3 ranks cannot share equally",
                 tutti_all_to_all_shape(g, &t, 0, got, &dims, &e));
    EXPECT(e.rank == tutti_group_rank(g) && e.operation == TUTTI_OP_ALL_TO_ALL);
    DLTensor odd = t;
    odd.dtype.lanes = 2;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "unknown dtype", tutti_all_gather_shape(g, &odd, 0, got, &dims, &e));
    int64_t large[2] = {INT64_MAX / 8, 1};
    t.shape = large;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "times 3 ranks", tutti_all_gather_shape(g, &t, 0, got, &dims, &e));
    int64_t hidden[2] = {INT64_MAX / 2, 0}; /* no bytes, but more rows than an int64_t holds */
    t.shape = hidden;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "times 3 ranks", tutti_all_gather_shape(g, &t, 0, got, &dims, &e));
    EXPECT(is(-1, 0, 0, 0));
}

/* Shape, tensor and operation together: each along the last dimension. */
static void whole(tutti_group *g)
{
    const int32_t me = tutti_group_rank(g);
    int32_t data[2][RANKS];
    int64_t both[2] = {2, RANKS};
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < RANKS; j++) {
            data[i][j] = 100 * me + 10 * i + j;
        }
    }
    const DLTensor in = tutti_tensor_nd(data, 2, both, TUTTI_I32);
    DLManagedTensorVersioned *out = NULL;
    EXPECT_OK(tutti_all_gather_shape(g, &in, -1, got, &dims, &e));
    memset(&e, 0xaa, sizeof(e)); /* Tutti fills all of it */
    EXPECT_OK(tutti_tensor_empty(g, TUTTI_I32, dims, got, &out, &e));
    EXPECT(e.status == TUTTI_OK && e.operation == TUTTI_OP_ALLOC && e.rank == tutti_group_rank(g));
    EXPECT(out && tutti_tensor_is_compact(&out->dl_tensor) && tutti_tensor_count(&out->dl_tensor) == 2 * RANKS * RANKS);
    EXPECT(((uintptr_t)out->dl_tensor.data & 63) == 0 && out->dl_tensor.device.device_type == kDLCPU);
    EXPECT_OK(tutti_all_gather(g, &in, &out->dl_tensor, -1, NULL));
    const int32_t *all = out->dl_tensor.data;
    bool right = true;
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < RANKS * RANKS; j++) {
            right = right && all[i * RANKS * RANKS + j] == 100 * (j / RANKS) + 10 * i + j % RANKS;
        }
    }
    EXPECT(right);
    out->deleter(out);
    EXPECT_OK(tutti_reduce_scatter_shape(g, &in, -1, got, &dims, &e));
    EXPECT_OK(tutti_tensor_empty(g, TUTTI_I32, dims, got, &out, &e));
    EXPECT_OK(tutti_reduce_scatter(g, &in, &out->dl_tensor, TUTTI_SUM, -1, NULL));
    all = out->dl_tensor.data;
    EXPECT(all[0] == 300 + 3 * me && all[1] == 330 + 3 * me);
    out->deleter(out);
}

static void tensors(tutti_group *g)
{
    DLManagedTensorVersioned *t = NULL;
    const int64_t none[2] = {0, 4};
    const int64_t negative = -1;
    const int64_t huge = INT64_MAX / 8;
    EXPECT_OK(tutti_tensor_empty(g, TUTTI_F64, 2, none, &t, NULL));
    EXPECT(t && tutti_tensor_count(&t->dl_tensor) == 0 && t->dl_tensor.shape != none);
    t->deleter(t);
    EXPECT_OK(tutti_tensor_empty(g, TUTTI_F64, 0, NULL, &t, NULL));
    *(double *)t->dl_tensor.data = 1;
    t->deleter(t);
    t = NULL;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "dtype is 99", tutti_tensor_empty(g, 99, 2, none, &t, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "-1 as length", tutti_tensor_empty(g, TUTTI_I8, 1, &negative, &t, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "17 dimensions", tutti_tensor_empty(g, TUTTI_I8, 17, shape, &t, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL as shape", tutti_tensor_empty(g, TUTTI_I8, 1, NULL, &t, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "tensor is NULL", tutti_tensor_empty(g, TUTTI_I8, 2, none, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, "no memory for a tensor of", tutti_tensor_empty(g, TUTTI_I8, 1, &huge, &t, &e));
    EXPECT(t == NULL);
    EXPECT_USABLE(g);
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    equal_parts(g);
    counted_parts(g);
    refusals(g);
    whole(g);
    tensors(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
