/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results of the backends nccl and rccl over the doubles, bit for bit: every collective, in and out of place,
 * contiguous parts and parts in rows, of equal and of different lengths, with 1, 2 and 4 ranks, in old and new versions
 * of the library. The test computes the expected results from the definition; all numbers are small enough to be exact
 * in every type.
 *
 * tutti-test: seconds=60 timeout=600
 */
#include <math.h>

#include "nccl_support.h"
#include "repetitions.h"

enum { MOST_ELEMENTS = 1 << 17 };

static int number_of(int rank, int part, size_t element)
{
    return (rank * 7 + part * 5 + (int)(element % 1009) * 3) % 5 + 1;
}

/* A number that the type holds exactly, in its bits. */
static void encode(tutti_dtype dtype, double value, unsigned char *to)
{
    const float f32 = (float)value;
    uint64_t bits = (uint64_t)(int64_t)value;
    uint32_t single;
    int exponent;
    memcpy(&single, &f32, sizeof(single));
    switch (dtype) {
    case TUTTI_F64:
        memcpy(&bits, &value, sizeof(bits));
        break;
    case TUTTI_F32:
        bits = single;
        break;
    case TUTTI_BF16:
        bits = single >> 16;
        break;
    case TUTTI_F16: {
        const double mantissa = frexp(value, &exponent); /* 0.5 to 1 */
        bits = (uint64_t)((exponent + 14) << 10) + (uint64_t)((mantissa * 2 - 1) * 1024);
        break;
    }
    default:
        break;
    }
    memcpy(to, &bits, tti_dtype_size(dtype)); /* little-endian */
}

/* ---- one operation ----------------------------------------------------------------------------------------------- */

struct sample {
    unsigned char *host[3]; /* source, expected, result */
    unsigned char *device[2];
};

static void sample_make(const struct rank *r, struct sample *s)
{
    for (int i = 0; i < 3; i++) {
        CHECK((s->host[i] = malloc(MOST_ELEMENTS * 8)) != NULL);
        memset(s->host[i], 0xee, MOST_ELEMENTS * 8);
    }
    for (int i = 0; i < 2; i++) {
        s->device[i] = device_alloc(r, MOST_ELEMENTS * 8);
    }
}

static void sample_free(const struct rank *r, struct sample *s)
{
    for (int i = 0; i < 3; i++) {
        free(s->host[i]);
    }
    for (int i = 0; i < 2; i++) {
        device_free(r, s->device[i]);
    }
}

/* Runs the operation on host[0] and compares the output tensor (in place: the same) with host[1]. `in` and `out` are
 * the offsets of op->src and op->dst in their tensors. */
static void run_sample(const struct rank *r, struct sample *s, tutti_op *op, size_t in, size_t out, bool in_place,
                       size_t bytes)
{
    const tutti_backend_ops *ops = r->backend->ops;
    tutti_error error;
    tti_error_clear(&error);
    memset(s->host[2], 0xee, bytes);
    device_copy(r, s->device[0], s->host[0], bytes);
    device_copy(r, s->device[1], s->host[2], bytes);
    op->src = s->device[0] + in;
    op->dst = (in_place ? s->device[0] : s->device[1]) + out;
    CHECK(ops->supports(r->state, op) != NULL);
    CHECK_OK(ops->run(r->state, op, &error));
    device_copy(r, s->host[2], in_place ? s->device[0] : s->device[1], bytes);
    if (memcmp(s->host[1], s->host[2], bytes) != 0) {
        size_t i = 0;
        while (s->host[1][i] == s->host[2][i]) {
            i++;
        }
        fprintf(stderr, "rank %d of %d: %s of %s, %s, %s: byte %zu of %zu is %02x, not %02x\n", r->rank, r->size,
                tutti_operation_name(op->kind), tutti_dtype_name(op->dtype), tutti_reduce_op_name(op->redop),
                in_place ? "in place" : "out of place", i, bytes, s->host[2][i], s->host[1][i]);
        _exit(1);
    }
    if (!in_place) {
        device_copy(r, s->host[2], s->device[0], bytes);
        CHECK(memcmp(s->host[0], s->host[2], bytes) == 0);
    }
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* The reduction of all ranks' numbers. */
static double reduced(const struct rank *r, const tutti_op *op, int part, size_t element)
{
    double result = 0;
    for (int s = 0; s < r->size; s++) {
        double x = number_of(s, part, element);
        x *= op->redop == TUTTI_PREMUL_SUM ? s + 1 : 1;
        switch (op->redop) {
        case TUTTI_PRODUCT:
            result = s == 0 ? x : result * x;
            break;
        case TUTTI_MIN:
            result = s == 0 || x < result ? x : result;
            break;
        case TUTTI_MAX:
            result = s == 0 || x > result ? x : result;
            break;
        default:
            result += x;
            break;
        }
    }
    return op->redop == TUTTI_AVG ? result / r->size : result;
}

static void check_reduce(const struct rank *r, struct sample *s, tutti_op op, int32_t root, size_t count, bool in_place)
{
    const size_t item = tti_dtype_size(op.dtype);
    const bool here = root < 0 || root == r->rank;
    memset(s->host[1], 0xee, count * item);
    for (size_t i = 0; i < count; i++) {
        encode(op.dtype, number_of(r->rank, 0, i), s->host[0] + i * item);
        if (here) {
            encode(op.dtype, reduced(r, &op, 0, i), s->host[1] + i * item);
        } else if (in_place) {
            encode(op.dtype, number_of(r->rank, 0, i), s->host[1] + i * item);
        }
    }
    op.kind = root < 0 ? TUTTI_OP_ALL_REDUCE : TUTTI_OP_REDUCE;
    op.root = root < 0 ? 0 : root;
    op.count = count;
    op.scale = r->rank + 1;
    run_sample(r, s, &op, 0, 0, in_place, count * item);
}

static void check_reductions(const struct rank *r, struct sample *s)
{
    static const tutti_dtype dtypes[] = {TUTTI_F64, TUTTI_F32, TUTTI_F16, TUTTI_BF16, TUTTI_I8,
                                         TUTTI_I32, TUTTI_I64, TUTTI_U8,  TUTTI_U32,  TUTTI_U64};
    static const tutti_reduce_op redops[] = {TUTTI_SUM, TUTTI_PRODUCT, TUTTI_MIN,
                                             TUTTI_MAX, TUTTI_AVG,     TUTTI_PREMUL_SUM};
    int supported = 0;
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
        for (size_t o = 0; o < sizeof(redops) / sizeof(redops[0]); o++) {
            const tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, dtypes[d], redops[o]);
            if ((dtypes[d] == TUTTI_BF16 && redops[o] == TUTTI_PRODUCT) || !r->backend->ops->supports(r->state, &op)) {
                continue;
            }
            supported++;
            check_reduce(r, s, op, -1, 100, false);
            check_reduce(r, s, op, r->size - 1, 33, true);
        }
    }
    CHECK(supported >= 26); /* 9 types in the oldest version: sums and products; 6 of integers: smallest and largest */
    const tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, TUTTI_F32, TUTTI_SUM);
    const size_t large = (size_t)repetitions(100000);
    check_reduce(r, s, op, -1, 0, false);
    check_reduce(r, s, op, -1, large, true);
    check_reduce(r, s, op, 0, large, false);
}

/* ---- joined tensors ---------------------------------------------------------------------------------------------- */

/* Rows of parts. `counts` NULL: `each` elements a part. */
struct rows {
    size_t outer;
    int64_t each;
    const int64_t *counts;
    const int64_t *displacements;
    size_t length; /* elements of a row */
};

static size_t width_of(const struct rows *rows, int part)
{
    return (size_t)(rows->counts ? rows->counts[part] : rows->each);
}

/* The place of an element of a part in the joined tensor. */
static size_t place_of(const struct rows *rows, int part, size_t element)
{
    size_t at = 0;
    const size_t width = width_of(rows, part);
    for (int p = 0; p < part; p++) {
        at += width_of(rows, p);
    }
    at = rows->displacements ? (size_t)rows->displacements[part] : at;
    return element / width * rows->length + at + element % width;
}

static tutti_parts parts_of(const struct rows *rows, size_t item)
{
    return (tutti_parts){.outer = rows->outer,
                         .pitch = rows->length * item,
                         .unit = item,
                         .each = rows->each,
                         .counts = rows->counts,
                         .displacements = rows->displacements};
}

/* Writes part `part` of rank `rank` into a joined tensor, or (rows NULL) compact. */
static void put(const struct rows *rows, const struct rows *shape, tutti_dtype dtype, int rank, int part, int place,
                unsigned char *to)
{
    const size_t item = tti_dtype_size(dtype);
    for (size_t i = 0; i < shape->outer * width_of(shape, place); i++) {
        encode(dtype, number_of(rank, part, i), to + (rows ? place_of(rows, place, i) : i) * item);
    }
}

static void check_all_gather(const struct rank *r, struct sample *s, const struct rows *rows, int32_t root,
                             bool in_place)
{
    const tutti_dtype dtype = TUTTI_I16; /* copied, though the library has no such type */
    const size_t bytes = rows->outer * rows->length * 2;
    const size_t own = in_place ? place_of(rows, r->rank, 0) * 2 : 0;
    const bool here = root < 0 || root == r->rank;
    tutti_op op = op_of(root < 0 ? TUTTI_OP_ALL_GATHER : TUTTI_OP_GATHER, dtype, 0);
    memset(s->host[0], 0xee, bytes);
    memset(s->host[1], 0xee, bytes);
    put(in_place ? rows : NULL, rows, dtype, r->rank, 0, r->rank, s->host[0]);
    if (in_place && !here) {
        memcpy(s->host[1], s->host[0], bytes);
    }
    for (int p = 0; p < r->size && here; p++) {
        put(rows, rows, dtype, p, 0, p, s->host[1]);
    }
    op.count = rows->outer * width_of(rows, r->rank);
    op.recv_parts = parts_of(rows, 2);
    op.root = root < 0 ? 0 : root;
    op.dim = rows->outer > 1;
    run_sample(r, s, &op, own, 0, in_place, bytes);
}

static void check_scatter(const struct rank *r, struct sample *s, const struct rows *rows, int32_t root, bool in_place)
{
    const tutti_dtype dtype = TUTTI_F32;
    const size_t bytes = rows->outer * rows->length * 4;
    const size_t own = in_place ? place_of(rows, r->rank, 0) * 4 : 0;
    tutti_op op = op_of(TUTTI_OP_SCATTER, dtype, 0);
    memset(s->host[0], 0xee, bytes);
    for (int p = 0; p < r->size && root == r->rank; p++) {
        put(rows, rows, dtype, root, p, p, s->host[0]);
    }
    memset(s->host[1], 0xee, bytes);
    if (in_place) {
        memcpy(s->host[1], s->host[0], bytes);
    }
    put(NULL, rows, dtype, root, r->rank, r->rank, s->host[1] + own);
    op.count = rows->outer * width_of(rows, r->rank);
    op.send_parts = parts_of(rows, 4);
    op.root = root;
    op.dim = rows->outer > 1;
    run_sample(r, s, &op, 0, own, in_place, bytes);
}

static void check_reduce_scatter(const struct rank *r, struct sample *s, const struct rows *rows, tutti_reduce_op redop,
                                 bool in_place)
{
    const size_t bytes = rows->outer * rows->length * 4;
    const size_t own = in_place ? place_of(rows, r->rank, 0) * 4 : 0;
    tutti_op op = op_of(TUTTI_OP_REDUCE_SCATTER, TUTTI_F32, redop);
    op.count = rows->outer * width_of(rows, r->rank);
    op.send_parts = parts_of(rows, 4);
    op.dim = rows->outer > 1;
    op.scale = r->rank + 1;
    if (!r->backend->ops->supports(r->state, &op)) {
        return;
    }
    memset(s->host[0], 0xee, bytes);
    for (int p = 0; p < r->size; p++) {
        put(rows, rows, op.dtype, r->rank, p, p, s->host[0]);
    }
    memset(s->host[1], 0xee, bytes);
    if (in_place) {
        memcpy(s->host[1], s->host[0], bytes);
    }
    for (size_t i = 0; i < op.count; i++) {
        encode(op.dtype, reduced(r, &op, r->rank, i), s->host[1] + own + i * 4);
    }
    run_sample(r, s, &op, 0, own, in_place, bytes);
}

static void check_all_to_all(const struct rank *r, struct sample *s, const struct rows *send, const struct rows *recv)
{
    const size_t longest = send->length > recv->length ? send->length : recv->length;
    tutti_op op = op_of(TUTTI_OP_ALL_TO_ALL, TUTTI_U8, 0);
    memset(s->host[0], 0xee, send->outer * longest);
    memset(s->host[1], 0xee, send->outer * longest);
    for (int p = 0; p < r->size; p++) {
        put(send, send, op.dtype, r->rank, p, p, s->host[0]);
        put(recv, recv, op.dtype, p, r->rank, p, s->host[1]);
    }
    op.count = send->outer * send->length;
    op.send_parts = parts_of(send, 1);
    op.recv_parts = parts_of(recv, 1);
    op.dim = send->outer > 1;
    run_sample(r, s, &op, 0, 0, false, send->outer * longest);
}

static void check_joined(const struct rank *r, struct sample *s)
{
    static const int64_t counts[MOST_RANKS] = {3, 0, 2, 1};
    static const int64_t backwards[MOST_RANKS] = {8, 6, 3, 1};
    static const int64_t few[MOST_RANKS] = {0, 0, 0, 0};
    for (size_t outer = 1; outer <= 3; outer += 2) {
        const int64_t each = outer == 1 ? 301 : 5;
        const struct rows plain = {.outer = outer, .each = each, .length = (size_t)(each * r->size)};
        size_t sum = 0;
        for (int p = 0; p < r->size; p++) {
            sum += (size_t)counts[p];
        }
        const struct rows different = {.outer = outer, .counts = counts, .length = sum};
        const struct rows apart = {.outer = outer, .counts = counts, .displacements = backwards, .length = 12};
        const struct rows nothing = {.outer = outer, .counts = few, .length = 1};
        for (int in_place = 0; in_place <= (outer == 1); in_place++) {
            check_all_gather(r, s, &plain, -1, in_place);
            check_all_gather(r, s, &different, -1, in_place && counts[r->rank] > 0);
            check_all_gather(r, s, &apart, -1, in_place && counts[r->rank] > 0);
            check_reduce_scatter(r, s, &plain, TUTTI_SUM, in_place);
            check_reduce_scatter(r, s, &plain, TUTTI_PREMUL_SUM, in_place);
            check_reduce_scatter(r, s, &different, TUTTI_SUM, in_place && counts[r->rank] > 0);
            check_reduce_scatter(r, s, &different, TUTTI_AVG, false);
            for (int32_t root = 0; root < r->size; root += 3) {
                check_all_gather(r, s, &plain, root, in_place && root == r->rank);
                check_scatter(r, s, &plain, root, in_place && root == r->rank);
            }
        }
        check_all_gather(r, s, &nothing, -1, false);
        check_all_to_all(r, s, &plain, &plain);
        int64_t sent[MOST_RANKS];
        int64_t received[MOST_RANKS];
        struct rows send = {.outer = outer, .counts = sent};
        struct rows recv = {.outer = outer, .counts = received};
        for (int p = 0; p < r->size; p++) {
            sent[p] = (r->rank + 2 * p) % 3;
            received[p] = (p + 2 * r->rank) % 3;
            send.length += (size_t)sent[p];
            recv.length += (size_t)received[p];
        }
        check_all_to_all(r, s, &send, &recv);
    }
}

static void check_broadcast(const struct rank *r, struct sample *s, int32_t root, size_t count)
{
    tutti_op op = op_of(TUTTI_OP_BROADCAST, TUTTI_U16, 0);
    for (size_t i = 0; i < count; i++) {
        encode(op.dtype, number_of(r->rank, 0, i), s->host[0] + i * 2);
        encode(op.dtype, number_of(root, 0, i), s->host[1] + i * 2);
    }
    op.count = count;
    op.root = root;
    run_sample(r, s, &op, 0, 0, true, count * 2);
}

static void all_kinds(struct rank *r)
{
    struct sample s;
    tutti_error error;
    tti_error_clear(&error);
    CHECK_OK(rank_open(r, &error));
    sample_make(r, &s);
    check_reductions(r, &s);
    check_joined(r, &s);
    check_broadcast(r, &s, 0, 1000);
    check_broadcast(r, &s, r->size - 1, 0);
    check_broadcast(r, &s, r->size - 1, (size_t)repetitions(77777));
    tutti_op barrier = op_of(TUTTI_OP_BARRIER, 0, 0);
    CHECK_OK(r->backend->ops->run(r->state, &barrier, &error));
    CHECK(barrier.sequence > 50);
    CHECK(strcmp(r->backend->ops->algorithm(r->state, 0), r->backend->name) == 0);
    rank_close(r);
    sample_free(r, &s);
}

static void run_with(const tutti_backend *backend, int32_t size, const char *library)
{
    const struct job job = {.backend = backend, .size = size, .library = library, .run = all_kinds};
    run_job(&job);
}

static void newest_nccl(void **cmocka_state)
{
    (void)cmocka_state;
    run_with(&tti_backend_nccl, 2, "nccl_new");
    run_with(&tti_backend_nccl, 4, "nccl_new");
}

static void one_rank(void **cmocka_state)
{
    (void)cmocka_state;
    run_with(&tti_backend_nccl, 1, "nccl_new");
    run_with(&tti_backend_rccl, 1, "rccl_new");
}

/* 2.18: communicators in the background, but no all_to_all, gather and scatter. */
static void middle_nccl(void **cmocka_state)
{
    (void)cmocka_state;
    run_with(&tti_backend_nccl, 4, "nccl_middle");
}

/* 2.7: no communicators in the background, and no averages and weighted sums. */
static void oldest_nccl(void **cmocka_state)
{
    (void)cmocka_state;
    run_with(&tti_backend_nccl, 2, "nccl_old");
}

static void both_rccl(void **cmocka_state)
{
    (void)cmocka_state;
    run_with(&tti_backend_rccl, 2, "rccl_new");
    run_with(&tti_backend_rccl, 4, "rccl_old");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_nccl), cmocka_unit_test(one_rank),  cmocka_unit_test(middle_nccl),
        cmocka_unit_test(oldest_nccl), cmocka_unit_test(both_rccl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
