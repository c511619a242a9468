/* SPDX-License-Identifier: BSD-3-Clause */
/* Every MPI function that the plug-in calls for collectives: its results, and the datatypes and operations passed to
 * it. */
#include "support.h"

enum {
    COUNT = 12,
    GUARD = 77,
    WINDOW = 512 /* elements of 64 bits in mpi.buffer_size */
};

/* Element i of rank r: small numbers that every dtype has, with zeros, and with sums that can be halved. */
static int element(tutti_dtype dtype, int rank, int i)
{
    if (dtype == TUTTI_BOOL) {
        return rank == 0 ? i % 2 : i / 2 % 2;
    }
    return i % 3 + (rank == 0 ? 0 : 2 * (i / 3 % 2));
}

static int reduced(tutti_dtype dtype, tutti_reduce_op op, int i)
{
    const int a = element(dtype, 0, i);
    const int b = element(dtype, 1, i);
    switch (op) {
    case TUTTI_SUM:
    case TUTTI_PREMUL_SUM:
        return dtype == TUTTI_BOOL ? (a | b) : a + b;
    case TUTTI_AVG:
        return (a + b) / 2;
    case TUTTI_PRODUCT:
        return a * b;
    case TUTTI_MIN:
        return a < b ? a : b;
    case TUTTI_MAX:
        return a > b ? a : b;
    case TUTTI_BAND:
        return a & b;
    case TUTTI_BOR:
        return a | b;
    case TUTTI_BXOR:
        return a ^ b;
    case TUTTI_LAND:
        return a && b;
    default:
        return a || b;
    }
}

/* The bits of a small number in a float with so many bits of mantissa. */
static uint64_t float_bits(int value, int mantissa, int bias)
{
    int exponent = 0;
    while (value >> (exponent + 1) != 0) {
        exponent++;
    }
    const uint64_t fraction = ((uint64_t)(value - (1 << exponent)) << mantissa) >> exponent;
    return value == 0 ? 0 : ((uint64_t)(exponent + bias) << mantissa) | fraction;
}

static uint64_t bits_of(tutti_dtype dtype, int value)
{
    switch (dtype) {
    case TUTTI_F64:
        return float_bits(value, 52, 1023);
    case TUTTI_F32:
        return float_bits(value, 23, 127);
    case TUTTI_F16:
        return float_bits(value, 10, 15);
    case TUTTI_BF16:
        return float_bits(value, 7, 127);
    case TUTTI_F8_E4M3:
        return float_bits(value, 3, 7);
    case TUTTI_F8_E5M2:
        return float_bits(value, 2, 15);
    default:
        return (uint64_t)value;
    }
}

static void put(tutti_dtype dtype, void *to, int i, int value)
{
    const uint64_t bits = bits_of(dtype, value);
    memcpy((char *)to + (size_t)i * tutti_dtype_size(dtype), &bits, tutti_dtype_size(dtype)); /* little-endian */
}

static bool has(tutti_dtype dtype, const void *from, int i, int value)
{
    const uint64_t bits = bits_of(dtype, value);
    return memcmp((const char *)from + (size_t)i * tutti_dtype_size(dtype), &bits, tutti_dtype_size(dtype)) == 0;
}

static void fill(tutti_dtype dtype, void *to, int rank, int count)
{
    for (int i = 0; i < count; i++) {
        put(dtype, to, i, element(dtype, rank, i));
    }
}

/* ---- arguments of MPI -------------------------------------------------------------------------------------------- */

static MPI_Datatype native_type(tutti_dtype dtype)
{
    const MPI_Datatype types[TUTTI_DTYPE_COUNT] = {
        [TUTTI_F64] = MPI_DOUBLE,  [TUTTI_F32] = MPI_FLOAT,    [TUTTI_I32] = MPI_INT32_T,
        [TUTTI_I64] = MPI_INT64_T, [TUTTI_U32] = MPI_UINT32_T, [TUTTI_U64] = MPI_UINT64_T,
    };
    const bool native =
        dtype <= TUTTI_F32 || dtype == TUTTI_I32 || dtype == TUTTI_I64 || dtype == TUTTI_U32 || dtype == TUTTI_U64;
    return native ? types[dtype] : MPI_DATATYPE_NULL;
}

static MPI_Op native_op(tutti_reduce_op op)
{
    switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVG:
    case TUTTI_PREMUL_SUM:
        return MPI_SUM;
    case TUTTI_PRODUCT:
        return MPI_PROD;
    case TUTTI_BAND:
        return MPI_BAND;
    case TUTTI_BOR:
        return MPI_BOR;
    case TUTTI_BXOR:
        return MPI_BXOR;
    default:
        return MPI_OP_NULL;
    }
}

static bool is_predefined(MPI_Op op)
{
    const MPI_Op all[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR};
    bool found = false;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        found = found || op == all[i];
    }
    return found;
}

/* A datatype of Tutti's own with the size of the dtype, and an operation over Tutti's kernels. */
static bool is_own(const struct call_counter *w, tutti_dtype dtype)
{
    int size = 0;
    int unused[3];
    int combiner = MPI_COMBINER_NAMED;
    PMPI_Type_size(w->type, &size);
    PMPI_Type_get_envelope(w->type, &unused[0], &unused[1], &unused[2], &combiner);
    return combiner != MPI_COMBINER_NAMED && size == (int)tutti_dtype_size(dtype) && w->op != MPI_OP_NULL &&
           !is_predefined(w->op);
}

/* The table of reductions in docs/mpi.md. */
static bool is_as_documented(const struct call_counter *w, tutti_dtype dtype, tutti_reduce_op op)
{
    const bool narrow = dtype >= TUTTI_F16 && dtype <= TUTTI_F8_E5M2;
    const bool integer = dtype >= TUTTI_I8 && dtype <= TUTTI_U64;
    if (narrow && (op == TUTTI_AVG || op == TUTTI_PREMUL_SUM)) {
        return w->type == MPI_FLOAT && w->op == MPI_SUM;
    }
    if (integer && op == TUTTI_AVG) {
        return w->type == MPI_INT64_T && w->op == MPI_SUM;
    }
    const bool native = native_type(dtype) != MPI_DATATYPE_NULL && native_op(op) != MPI_OP_NULL;
    return native ? w->type == native_type(dtype) && w->op == native_op(op) : is_own(w, dtype);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

static void expect_reduction(tutti_group *group, tutti_dtype dtype, tutti_reduce_op op)
{
    const int64_t count = COUNT;
    const int rank = tutti_group_rank(group);
    uint64_t in[COUNT] = {0};
    uint64_t out[COUNT] = {0};
    tutti_error error = {0};
    DLTensor from = tutti_tensor_1d(in, &count, dtype);
    DLTensor to = tutti_tensor_1d(out, &count, dtype);
    fill(dtype, in, rank, COUNT);
    call_counter_take(COUNTED_ALLREDUCE);
    EXPECT_OK(tutti_all_reduce(group, &from, &to, op, TUTTI_CALL(.error = &error)));
    const struct call_counter w = call_counter_take(COUNTED_ALLREDUCE);
    snprintf(error.message, sizeof(error.message), "%s of %s", tutti_reduce_op_name(op), tutti_dtype_name(dtype));
    ledger_expect(w.calls == 1, "MPI_Allreduce is called once", error.message, __FILE__, __LINE__);
    ledger_expect(is_as_documented(&w, dtype, op), "MPI gets another datatype or operation", error.message, __FILE__,
                  __LINE__);
    for (int i = 0; i < COUNT; i++) {
        ledger_expect(has(dtype, out, i, reduced(dtype, op, i)), "a wrong result", error.message, __FILE__, __LINE__);
    }
}

static void all_reduce(tutti_group *group)
{
    for (tutti_dtype dtype = 1; dtype < TUTTI_DTYPE_COUNT; dtype++) {
        for (tutti_reduce_op op = 1; op < TUTTI_REDUCE_OP_COUNT; op++) {
            if (tutti_reduce_op_valid(op, dtype)) {
                expect_reduction(group, dtype, op);
            }
        }
    }
}

/* An average of integers is a sum of 64 bits, in chunks of mpi.buffer_size. */
static void average_in_pieces(tutti_group *group)
{
    static int32_t values[3 * WINDOW];
    const int64_t count = 3 * WINDOW;
    tutti_error error = {0};
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_I32);
    fill(TUTTI_I32, values, tutti_group_rank(group), 3 * WINDOW);
    call_counter_take(COUNTED_ALLREDUCE);
    EXPECT_OK(tutti_all_reduce(group, &t, &t, TUTTI_AVG, TUTTI_CALL(.error = &error)));
    EXPECT(call_counter_take(COUNTED_ALLREDUCE).calls == 3);
    for (int i = 0; i < 3 * WINDOW; i++) {
        EXPECT(values[i] == reduced(TUTTI_I32, TUTTI_AVG, i));
    }
}

static void reduce(tutti_group *group)
{
    const int64_t count = COUNT;
    const int rank = tutti_group_rank(group);
    float in[COUNT];
    float out[COUNT];
    tutti_error error = {0};
    DLTensor from = tutti_tensor_1d(in, &count, TUTTI_F32);
    DLTensor to = tutti_tensor_1d(out, &count, TUTTI_F32);
    for (int root = 0; root < RANKS; root++) {
        fill(TUTTI_F32, in, rank, COUNT);
        memset(out, GUARD, sizeof(out));
        call_counter_take(COUNTED_REDUCE);
        EXPECT_OK(tutti_reduce(group, &from, rank == root ? &to : NULL, TUTTI_SUM, root, TUTTI_CALL(.error = &error)));
        const struct call_counter w = call_counter_take(COUNTED_REDUCE);
        EXPECT(w.calls == 1 && w.type == MPI_FLOAT && w.op == MPI_SUM);
        for (int i = 0; i < COUNT && rank == root; i++) {
            EXPECT(has(TUTTI_F32, out, i, reduced(TUTTI_F32, TUTTI_SUM, i)));
        }
    }
}

/* Parts of the same length, and of different ones. */
static void reduce_scatter(tutti_group *group)
{
    const int64_t count = COUNT;
    const int64_t half = COUNT / 2;
    const int64_t counts[RANKS] = {COUNT - 2, 2};
    const int rank = tutti_group_rank(group);
    double in[COUNT];
    double out[COUNT];
    tutti_error error = {0};
    DLTensor from = tutti_tensor_1d(in, &count, TUTTI_F64);
    DLTensor to = tutti_tensor_1d(out, &half, TUTTI_F64);
    fill(TUTTI_F64, in, rank, COUNT);
    memset(out, GUARD, sizeof(out));
    call_counter_take(COUNTED_REDUCE_SCATTER_BLOCK);
    EXPECT_OK(tutti_reduce_scatter(group, &from, &to, TUTTI_PRODUCT, 0, TUTTI_CALL(.error = &error)));
    struct call_counter w = call_counter_take(COUNTED_REDUCE_SCATTER_BLOCK);
    EXPECT(w.calls == 1 && w.type == MPI_DOUBLE && w.op == MPI_PROD);
    for (int i = 0; i < half; i++) {
        EXPECT(has(TUTTI_F64, out, i, reduced(TUTTI_F64, TUTTI_PRODUCT, rank * (int)half + i)));
    }
    memset(out, GUARD, sizeof(out));
    to = tutti_tensor_1d(out, &counts[rank], TUTTI_F64);
    call_counter_take(COUNTED_REDUCE_SCATTER);
    EXPECT_OK(tutti_reduce_scatter_v(group, &from, &to, TUTTI_SUM, 0, counts, TUTTI_CALL(.error = &error)));
    w = call_counter_take(COUNTED_REDUCE_SCATTER);
    EXPECT(w.calls == 1 && w.type == MPI_DOUBLE && w.op == MPI_SUM);
    for (int i = 0; i < counts[rank]; i++) {
        EXPECT(has(TUTTI_F64, out, i, reduced(TUTTI_F64, TUTTI_SUM, rank * (int)counts[0] + i)));
    }
}

/* ---- data movement ----------------------------------------------------------------------------------------------- */

/* Bytes, whatever the dtype. */
static void copies(tutti_group *group, tutti_dtype dtype)
{
    const int64_t count = COUNT;
    const int64_t twice = RANKS * COUNT;
    const int rank = tutti_group_rank(group);
    const int root = dtype % RANKS;
    uint64_t own[COUNT] = {0};
    uint64_t all[RANKS * COUNT] = {0};
    tutti_error error = {0};
    DLTensor one = tutti_tensor_1d(own, &count, dtype);
    DLTensor both = tutti_tensor_1d(all, &twice, dtype);
    fill(dtype, own, rank, COUNT);
    call_counter_take(COUNTED_ALLGATHER);
    EXPECT_OK(tutti_all_gather(group, &one, &both, 0, TUTTI_CALL(.error = &error)));
    struct call_counter w = call_counter_take(COUNTED_ALLGATHER);
    EXPECT(w.calls == 1 && w.type == MPI_BYTE);
    for (int i = 0; i < RANKS * COUNT; i++) {
        EXPECT(has(dtype, all, i, element(dtype, i / COUNT, i % COUNT)));
    }
    call_counter_take(COUNTED_BCAST);
    EXPECT_OK(tutti_broadcast(group, &one, root, TUTTI_CALL(.error = &error)));
    w = call_counter_take(COUNTED_BCAST);
    EXPECT(w.calls == 1 && w.type == MPI_BYTE);
    for (int i = 0; i < COUNT; i++) {
        EXPECT(has(dtype, own, i, element(dtype, root, i)));
    }
}

/* ---- barrier, and asynchronous operations ------------------------------------------------------------------------ */

/* Rank 1's barrier has not ended before rank 0, which waits for a message of rank 1's, begins its own. */
static void barrier(tutti_group *group)
{
    const int64_t one = 1;
    int32_t ended = 1;
    int32_t value = 1;
    tutti_error error = {0};
    tutti_work *work = NULL;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    const int64_t limit = ledger_limit_ms();
    call_counter_take(COUNTED_BARRIER);
    if (tutti_group_rank(group) == 1) {
        EXPECT_OK(tutti_barrier_async(group, TUTTI_CALL(.error = &error), &work));
        EXPECT_OK(tutti_work_test(work, &ended));
        EXPECT(ended == 0);
        EXPECT_OK(tutti_send(group, &t, 0, 0, TUTTI_CALL(.error = &error, .timeout_ms = limit)));
    } else {
        EXPECT_OK(tutti_recv(group, &t, 1, 0, TUTTI_CALL(.error = &error, .timeout_ms = limit), NULL));
        EXPECT_OK(tutti_barrier_async(group, TUTTI_CALL(.error = &error), &work));
    }
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT(tutti_work_release(work) == TUTTI_OK);
    EXPECT_OK(tutti_barrier(group, TUTTI_CALL(.error = &error)));
    EXPECT(call_counter_take(COUNTED_BARRIER).calls == 2);
}

static void asynchronous(tutti_group *group)
{
    const int64_t count = COUNT;
    const int rank = tutti_group_rank(group);
    int64_t values[COUNT];
    int64_t sums[COUNT];
    tutti_error error = {0};
    tutti_work *sum = NULL;
    tutti_work *broadcast = NULL;
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_I64);
    DLTensor s = tutti_tensor_1d(sums, &count, TUTTI_I64);
    fill(TUTTI_I64, values, rank, COUNT);
    call_counter_take(COUNTED_ALLREDUCE);
    call_counter_take(COUNTED_BCAST);
    EXPECT_OK(tutti_all_reduce_async(group, &t, &s, TUTTI_SUM, TUTTI_CALL(.error = &error), &sum));
    EXPECT_OK(tutti_broadcast_async(group, &t, 1, TUTTI_CALL(.error = &error), &broadcast));
    EXPECT_OK(tutti_work_wait(sum, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_wait(broadcast, TUTTI_FOREVER));
    for (int i = 0; i < COUNT; i++) {
        EXPECT(sums[i] == reduced(TUTTI_I64, TUTTI_SUM, i) && values[i] == element(TUTTI_I64, 1, i));
    }
    EXPECT(call_counter_take(COUNTED_ALLREDUCE).calls == 1 && call_counter_take(COUNTED_BCAST).calls == 1);
    EXPECT(tutti_work_release(sum) == TUTTI_OK && tutti_work_release(broadcast) == TUTTI_OK);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* A refused call never reaches MPI, and the group stays usable. */
static void refusals(tutti_group *group)
{
    const int64_t count = COUNT;
    float values[COUNT] = {0};
    tutti_error error = {0};
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_F32);
    DLTensor complex = t;
    DLTensor elsewhere = t;
    DLTensor logical = tutti_tensor_1d(values, &count, TUTTI_BOOL);
    complex.dtype = (DLDataType){kDLComplex, 64, 1};
    elsewhere.device.device_type = kDLCUDA;
    call_counter_take(COUNTED_ALLREDUCE);
    const tutti_call *call = TUTTI_CALL(.error = &error);
    EXPECT_STATUS(TUTTI_INVALID_ARGUMENT, tutti_all_reduce(group, NULL, &t, TUTTI_SUM, call));
    EXPECT_STATUS(TUTTI_INVALID_ARGUMENT, tutti_reduce(group, NULL, &t, TUTTI_SUM, 0, call));
    EXPECT_STATUS(TUTTI_INVALID_ARGUMENT, tutti_broadcast(group, NULL, 0, call));
    EXPECT_STATUS(TUTTI_INVALID_ARGUMENT, tutti_all_gather(group, NULL, &t, 0, call));
    EXPECT_STATUS(TUTTI_INVALID_ARGUMENT, tutti_reduce_scatter(group, NULL, &t, TUTTI_SUM, 0, call));
    EXPECT_STATUS(TUTTI_INVALID_ARGUMENT, tutti_send(group, NULL, 0, 0, call));
    EXPECT_STATUS(TUTTI_INVALID_ARGUMENT, tutti_recv(group, NULL, 0, 0, call, NULL));
    EXPECT_STATUS(TUTTI_INVALID_ARGUMENT, tutti_all_reduce(group, &complex, &complex, TUTTI_SUM, call));
    EXPECT_STATUS(TUTTI_INVALID_ARGUMENT, tutti_all_reduce(group, &logical, &logical, TUTTI_AVG, call));
    EXPECT_STATUS(TUTTI_INVALID_ARGUMENT, tutti_all_reduce(group, &t, &t, TUTTI_REDUCE_OP_COUNT, call));
    EXPECT_STATUS(TUTTI_DEVICE_MISMATCH, tutti_all_reduce(group, &elsewhere, &elsewhere, TUTTI_SUM, call));
    EXPECT(call_counter_take(COUNTED_ALLREDUCE).calls == 0);
}

int main(void)
{
    tutti_error error = {0};
    tutti_group *group = ledger_group((const char *const[]){"mpi.buffer_size=4096", NULL});
    EXPECT(call_counter_take(COUNTED_INIT_THREAD).level == MPI_THREAD_MULTIPLE);
    all_reduce(group);
    average_in_pieces(group);
    reduce(group);
    reduce_scatter(group);
    for (tutti_dtype dtype = 1; dtype < TUTTI_DTYPE_COUNT; dtype++) {
        copies(group, dtype);
    }
    barrier(group);
    asynchronous(group);
    refusals(group);
    EXPECT_OK(tutti_barrier(group, TUTTI_CALL(.error = &error)));
    EXPECT_OK(tutti_group_destroy(group, &error));
    return 0;
}
