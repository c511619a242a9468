/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call cache serves a call with the signature of an earlier call of the same thread. Its result must be that of the
 * slow path. Every call here follows a similar call, and differs from it in one property.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "api/check.h"
#include "time_limits.h"

#define RANKS 3
#define COUNT 6 /* divides by RANKS */

static const int64_t count = COUNT;

#define WITH_ERROR(...) TUTTI_CALL(.error = &error, __VA_ARGS__)

static void fill(float *values, int n, float first)
{
    for (int i = 0; i < n; i++) {
        values[i] = first + (float)i;
    }
}

/* sum over ranks of (rank + 1 + i) */
static float sum_at(int i)
{
    return (float)(RANKS * (RANKS + 1)) / 2 + (float)(RANKS * i);
}

static int is_sum(const float *values)
{
    for (int i = 0; i < COUNT; i++) {
        if (values[i] != sum_at(i)) {
            return 0;
        }
    }
    return 1;
}

/* The call that the others resemble: the cache holds it after the second call in a row. */
static void reduce_twice(tutti_group *group)
{
    float in[COUNT];
    float out[COUNT];
    fill(in, COUNT, (float)tutti_group_rank(group) + 1);
    DLTensor input = tutti_tensor_1d(in, &count, TUTTI_F32);
    DLTensor output = tutti_tensor_1d(out, &count, TUTTI_F32);
    for (int round = 0; round < 2; round++) {
        memset(out, 0, sizeof(out));
        EXPECT_OK(tutti_all_reduce(group, &input, &output, TUTTI_SUM, NULL));
        EXPECT(is_sum(out));
    }
}

static void test_memory(tutti_group *group)
{
    float values[2 * COUNT];
    tutti_error error;
    reduce_twice(group);
    reduce_twice(group);
    fill(values, COUNT, (float)tutti_group_rank(group) + 1);
    DLTensor input = tutti_tensor_1d(values, &count, TUTTI_F32);
    DLTensor output = tutti_tensor_1d(values, &count, TUTTI_F32);
    EXPECT_OK(tutti_all_reduce(group, &input, &input, TUTTI_SUM, NULL)); /* in place, one tensor */
    EXPECT(is_sum(values));
    fill(values, COUNT, (float)tutti_group_rank(group) + 1);
    EXPECT_OK(tutti_all_reduce(group, &input, &output, TUTTI_SUM, NULL)); /* in place, two tensors */
    EXPECT(is_sum(values));

    output.data = values + 1;
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "overlaps",
                 tutti_all_reduce(group, &input, &output, TUTTI_SUM, WITH_ERROR(0)));
    output.data = values + COUNT;
    output.byte_offset = 1;
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "not a multiple",
                 tutti_all_reduce(group, &input, &output, TUTTI_SUM, WITH_ERROR(0)));
    output.data = values + COUNT + 2;
    output.byte_offset = UINT64_MAX - 3; /* values + COUNT + 1, by way of the end of the address space */
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "address space",
                 tutti_all_reduce(group, &input, &output, TUTTI_SUM, WITH_ERROR(0)));
    output.byte_offset = 0;
    output.data = NULL;
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "NULL",
                 tutti_all_reduce(group, &input, &output, TUTTI_SUM, WITH_ERROR(0)));
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "NULL",
                 tutti_all_reduce(group, &input, NULL, TUTTI_SUM, WITH_ERROR(0)));
    output.data = (void *)(UINTPTR_MAX - 3); /* its end wraps around */
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "address space",
                 tutti_all_reduce(group, &input, &output, TUTTI_SUM, WITH_ERROR(0)));
    output.data = values + COUNT;
    output.device.device_type = kDLCUDA;
    EXPECT_ERROR(&error, TUTTI_DEVICE_MISMATCH, "device",
                 tutti_all_reduce(group, &input, &output, TUTTI_SUM, WITH_ERROR(0)));
    output.device.device_type = kDLCPU;
    output.shape = NULL;
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "shape",
                 tutti_all_reduce(group, &input, &output, TUTTI_SUM, WITH_ERROR(0)));
    EXPECT_USABLE(group);
}

static void test_types_and_shapes(tutti_group *group)
{
    const int32_t rank = tutti_group_rank(group);
    const int64_t none = 0;
    const int64_t square[2] = {2, COUNT / 2};
    const int64_t compact[2] = {COUNT / 2, 1};
    const int64_t turned[2] = {1, 2};
    const int64_t every_other = 2;
    float values[2 * COUNT];
    int32_t whole[COUNT];
    tutti_error error;

    /* without elements, and with them */
    DLTensor empty = tutti_tensor_1d(NULL, &none, TUTTI_F32);
    EXPECT_OK(tutti_all_reduce(group, &empty, &empty, TUTTI_SUM, NULL));
    reduce_twice(group);
    EXPECT_OK(tutti_all_reduce(group, &empty, &empty, TUTTI_SUM, NULL));
    reduce_twice(group);

    for (int i = 0; i < COUNT; i++) {
        whole[i] = rank + 1;
    }
    DLTensor integers = tutti_tensor_1d(whole, &count, TUTTI_I32);
    EXPECT_OK(tutti_all_reduce(group, &integers, &integers, TUTTI_SUM, NULL));
    EXPECT(whole[0] == RANKS * (RANKS + 1) / 2 && whole[COUNT - 1] == whole[0]);
    EXPECT_OK(tutti_all_reduce(group, &integers, &integers, TUTTI_BOR, NULL));
    reduce_twice(group);
    DLTensor floats = tutti_tensor_1d(values, &count, TUTTI_F32);
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "bor",
                 tutti_all_reduce(group, &floats, &floats, TUTTI_BOR, WITH_ERROR(0)));
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "op is 99",
                 tutti_all_reduce(group, &floats, &floats, 99, WITH_ERROR(0)));

    /* as many elements in two dimensions; with and without strides; not compact */
    fill(values, COUNT, (float)rank + 1);
    floats = tutti_tensor_nd(values, 2, square, TUTTI_F32);
    for (int round = 0; round < 2; round++) {
        fill(values, COUNT, (float)rank + 1);
        EXPECT_OK(tutti_all_reduce(group, &floats, &floats, TUTTI_SUM, NULL));
        EXPECT(is_sum(values));
        floats.strides = (int64_t *)(uintptr_t)compact;
    }
    floats.strides = (int64_t *)(uintptr_t)turned;
    DLTensor plain = tutti_tensor_nd(values + COUNT, 2, square, TUTTI_F32);
    fill(values, COUNT, (float)rank + 1);
    EXPECT_OK(tutti_all_reduce(group, &floats, &plain, TUTTI_SUM, NULL));
    EXPECT(values[COUNT] == sum_at(0) && values[COUNT + 1] == sum_at(2) && values[COUNT + 3] == sum_at(1));
    floats = tutti_tensor_1d(values, &count, TUTTI_F32);
    floats.strides = (int64_t *)(uintptr_t)&every_other;
    for (int i = 0; i < COUNT; i++) {
        values[2 * i] = (float)(rank + 1 + i);
        values[2 * i + 1] = -1;
    }
    EXPECT_OK(tutti_all_reduce(group, &floats, &floats, TUTTI_SUM, NULL));
    EXPECT(values[0] == sum_at(0) && values[1] == -1 && values[2] == sum_at(1));
    EXPECT_USABLE(group);
}

static void count_calls(tutti_status status, const tutti_error *error, void *user)
{
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK);
    ++*(int *)user;
}

static void test_options(tutti_group *group)
{
    const int32_t rank = tutti_group_rank(group);
    float value = 1;
    int64_t one = 1;
    int called = 0;
    tutti_error error = {0};
    int64_t sequence = 0;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_F32);
    for (int round = 0; round < 3; round++) {
        value = 1;
        memset(&error, 0x55, sizeof(error));
        EXPECT_OK(tutti_all_reduce(group, &t, &t, TUTTI_PREMUL_SUM, WITH_ERROR(.timeout_ms = LONG_MS - 1)));
        EXPECT(value == RANKS);
        EXPECT(error.status == TUTTI_OK && error.operation == TUTTI_OP_ALL_REDUCE && error.rank == rank &&
               error.deadline_ms == LONG_MS - 1 && error.message[0] == 0 && strcmp(error.backend, "local") == 0);
        EXPECT(round == 0 || error.sequence == sequence + 1);
        sequence = error.sequence;
    }
    const tutti_call refused[] = {
        {.size = sizeof(tutti_call), .lane = 1000},          {.size = sizeof(tutti_call), .lane = -1},
        {.size = sizeof(tutti_call), .timeout_ms = -2},      {.size = sizeof(tutti_call), .flags = 1u << 30},
        {.size = sizeof(tutti_call), .operation_id = 1},     {.size = sizeof(tutti_call), .stream = &value},
        {.size = sizeof(tutti_call), .token = (void *)&one}, {.size = 4},
        {.size = offsetof(tutti_call, error) + 4}, /* half a pointer */
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        EXPECT_OK(tutti_all_reduce(group, &t, &t, TUTTI_PREMUL_SUM, NULL));
        EXPECT(tutti_all_reduce(group, &t, &t, TUTTI_PREMUL_SUM, &refused[i]) == TUTTI_INVALID_ARGUMENT);
    }
    const tutti_call taken[] = {
        {.size = sizeof(tutti_call), .scale = 2},
        {.size = sizeof(tutti_call), .callback = count_calls, .user = &called},
        {.size = sizeof(tutti_call), .lane = 1},
        {.size = sizeof(tutti_call), .tag = 7},
    };
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        value = 1;
        EXPECT_OK(tutti_all_reduce(group, &t, &t, TUTTI_PREMUL_SUM, NULL));
        EXPECT(value == RANKS);
        value = 1;
        EXPECT_OK(tutti_all_reduce(group, &t, &t, TUTTI_PREMUL_SUM, &taken[i]));
        EXPECT(value == (taken[i].scale == 2 ? 2 * RANKS : RANKS));
    }
    EXPECT(called == 1);
    /* rank 0 will not find this call at its next one, the others may; all use lane 0 for it */
    float single = 1;
    DLTensor odd = tutti_tensor_1d(&single, &one, TUTTI_F32);
    odd.ndim = rank == 0 ? 0 : 1;
    EXPECT_OK(tutti_all_reduce(group, &odd, &odd, TUTTI_PREMUL_SUM, TUTTI_CALL(.lane = 1)));
    value = 1;
    EXPECT_OK(tutti_all_reduce(group, &t, &t, TUTTI_PREMUL_SUM, NULL));
    EXPECT(value == RANKS);
    /* a tag is part of what ranks compare */
    EXPECT_OK(tutti_all_reduce(group, &t, &t, TUTTI_PREMUL_SUM, NULL));
    EXPECT_ERROR(&error, TUTTI_MISMATCH, "tag",
                 tutti_all_reduce(group, &t, &t, TUTTI_PREMUL_SUM, WITH_ERROR(.tag = rank == 1 ? 7 : 0)));
    EXPECT_OK(tutti_all_reduce(group, &t, &t, TUTTI_PREMUL_SUM, NULL));
    EXPECT_OK(tutti_batch_begin(group, NULL));
    EXPECT_ERROR(&error, TUTTI_BAD_STATE, "batch", tutti_all_reduce(group, &t, &t, TUTTI_PREMUL_SUM, WITH_ERROR(0)));
    EXPECT_OK(tutti_batch_end(group, NULL));
    EXPECT_USABLE(group);
}

/* The options of a caller of an older version end where it knew of no more: nothing behind them is read. */
static void test_older_callers(tutti_group *group)
{
    const size_t page = 4096;
    unsigned char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED && mprotect(memory + page, page, PROT_NONE) == 0);
    static const size_t sizes[] = {80, 72, 24};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && memory != MAP_FAILED; i++) {
        tutti_call *older = (tutti_call *)(memory + page - sizes[i]);
        memset(older, 0, sizes[i]);
        older->size = (uint32_t)sizes[i];
        reduce_twice(group);
        for (int round = 0; round < 3; round++) {
            EXPECT_OK(tutti_barrier(group, round == 1 ? NULL : older));
        }
    }
    munmap(memory, 2 * page);
}

/* The rank's own part in its place, elsewhere, and at a forbidden place. */
static void test_parts(tutti_group *group)
{
    const int32_t rank = tutti_group_rank(group);
    const int64_t part = COUNT / RANKS;
    float joined[COUNT];
    float own[COUNT / RANKS];
    tutti_error error;
    DLTensor all = tutti_tensor_1d(joined, &count, TUTTI_F32);
    DLTensor mine = tutti_tensor_1d(own, &part, TUTTI_F32);
    for (int round = 0; round < 4; round++) {
        float *from = round % 2 == 0 ? own : joined + rank * part;
        mine.data = from;
        from[0] = from[1] = (float)rank;
        EXPECT_OK(tutti_all_gather(group, &mine, &all, 0, NULL));
        EXPECT(joined[0] == 0 && joined[1] == 0 && joined[2] == 1 && joined[3] == 1 && joined[4] == 2 &&
               joined[5] == 2);
    }
    mine.data = joined + (rank + 1) % RANKS * part;
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "", tutti_all_gather(group, &mine, &all, 0, WITH_ERROR(0)));
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "", tutti_all_gather(group, &all, &all, 0, WITH_ERROR(0)));
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "dim", tutti_all_gather(group, &mine, &all, 1, WITH_ERROR(0)));
    for (int round = 0; round < 4; round++) {
        float *to = round % 2 == 0 ? own : joined + rank * part;
        mine.data = to;
        fill(joined, COUNT, (float)rank + 1);
        EXPECT_OK(tutti_reduce_scatter(group, &all, &mine, TUTTI_SUM, 0, NULL));
        EXPECT(to[0] == sum_at(2 * rank) && to[1] == sum_at(2 * rank + 1));
    }
    mine.data = joined + (rank + 1) % RANKS * part;
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "",
                 tutti_reduce_scatter(group, &all, &mine, TUTTI_SUM, 0, WITH_ERROR(0)));
    float other[COUNT];
    DLTensor there = tutti_tensor_1d(other, &count, TUTTI_F32);
    for (int round = 0; round < 3; round++) {
        fill(joined, COUNT, (float)(10 * rank));
        EXPECT_OK(tutti_all_to_all(group, &all, &there, 0, NULL));
        EXPECT(other[0] == (float)(2 * rank) && other[2] == (float)(10 + 2 * rank));
    }
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "in-place", tutti_all_to_all(group, &all, &all, 0, WITH_ERROR(0)));
    EXPECT_USABLE(group);
}

/* The root changes. An argument that only the root uses may have any value elsewhere. */
static void test_roots(tutti_group *group)
{
    const int32_t rank = tutti_group_rank(group);
    const int64_t part = COUNT / RANKS;
    float joined[COUNT];
    float own[COUNT];
    tutti_error error;
    DLTensor all = tutti_tensor_1d(joined, &count, TUTTI_F32);
    DLTensor full = tutti_tensor_1d(own, &count, TUTTI_F32);
    DLTensor mine = tutti_tensor_1d(own, &part, TUTTI_F32);
    for (int32_t round = 0; round < 3 * RANKS; round++) {
        const int32_t root = round / 3;
        DLTensor *there = rank == root ? &all : round % 2 == 0 ? NULL : (DLTensor *)(uintptr_t)16;
        memset(joined, 0, sizeof(joined));
        own[0] = own[1] = (float)rank;
        EXPECT_OK(tutti_gather(group, &mine, there, 0, root, NULL));
        EXPECT(rank != root || (joined[0] == 0 && joined[2] == 1 && joined[5] == 2));
        EXPECT_OK(tutti_scatter(group, there, &mine, 0, root, NULL));
        EXPECT(own[0] == (float)rank && own[1] == (float)rank);
        fill(own, COUNT, (float)rank + 1);
        EXPECT_OK(tutti_reduce(group, &full, there, TUTTI_SUM, root, NULL));
        EXPECT(rank != root || is_sum(joined));
        own[0] = (float)(rank + round);
        EXPECT_OK(tutti_broadcast(group, &full, root, NULL));
        EXPECT(own[0] == (float)(root + round));
        EXPECT_OK(tutti_barrier(group, NULL));
    }
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "root", tutti_broadcast(group, &full, RANKS, WITH_ERROR(0)));
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "root", tutti_broadcast(group, &full, -1, WITH_ERROR(0)));
    EXPECT_USABLE(group);
}

/* One rank repeats its call while the others make another. */
static void test_mismatch(tutti_group *group)
{
    const int32_t rank = tutti_group_rank(group);
    const int64_t fewer = COUNT - 1;
    float values[COUNT] = {0};
    tutti_error error;
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_F32);
    for (int round = 0; round < 3; round++) {
        EXPECT_OK(tutti_all_reduce(group, &t, &t, TUTTI_MAX, NULL));
    }
    t.shape = (int64_t *)(uintptr_t)(rank == 1 ? &fewer : &count);
    EXPECT_ERROR(&error, TUTTI_MISMATCH, "rank", tutti_all_reduce(group, &t, &t, TUTTI_MAX, WITH_ERROR(0)));
    EXPECT(error.rank == rank && error.operation == TUTTI_OP_ALL_REDUCE);
    t.shape = (int64_t *)(uintptr_t)&count;
    EXPECT_OK(tutti_all_reduce(group, &t, &t, TUTTI_MAX, NULL));
    EXPECT_USABLE(group);
}

/* More groups than the call cache of a thread has entries, some of them of another size; and one that is destroyed. */
static void test_groups(tutti_group *group)
{
    enum { PARTS = 20 };
    const int32_t rank = tutti_group_rank(group);
    tutti_group *parts[PARTS] = {NULL};
    tutti_error error;
    float value = 1;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_F32);
    for (int i = 0; i < PARTS; i++) {
        EXPECT_OK(tutti_group_split(group, i % 2 == 0 && rank == 0, 0, NULL, &parts[i], NULL));
    }
    for (int i = 0; i < 3 * PARTS; i++) {
        const int32_t size = tutti_group_size(parts[i % PARTS]);
        EXPECT(size == (i % 2 == 1 ? RANKS : rank == 0 ? 1 : RANKS - 1));
        for (int round = 0; round < 3; round++) {
            value = 1;
            EXPECT_OK(tutti_all_reduce(parts[i % PARTS], &t, &t, TUTTI_SUM, NULL));
            EXPECT(value == (float)size);
        }
    }
    for (int i = 0; i < PARTS; i++) {
        EXPECT_OK(tutti_group_destroy(parts[i], NULL));
        EXPECT_ERROR(&error, TUTTI_BAD_STATE, "destroyed",
                     tutti_all_reduce(parts[i], &t, &t, TUTTI_SUM, WITH_ERROR(0)));
    }
    EXPECT_ERROR(&error, TUTTI_INVALID_ARGUMENT, "NULL", tutti_all_reduce(NULL, &t, &t, TUTTI_SUM, WITH_ERROR(0)));
    EXPECT_USABLE(group);
}

static tutti_status rank_main(tutti_group *group, void *user)
{
    (void)user;
    test_memory(group);
    test_types_and_shapes(group);
    test_options(group);
    test_older_callers(group);
    test_parts(group);
    test_roots(group);
    test_mismatch(group);
    test_groups(group);
    return TUTTI_OK;
}

int main(void)
{
    setenv("TUTTI_LANES", "2", 1);
    test_ranks(RANKS, rank_main);
    return test_result();
}
