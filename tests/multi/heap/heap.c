/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=1,2,4 timeout=120 trees=release,debug,address,undefined */
/*
 * tutti_alloc and tutti_free between processes: every size class of blocks, in operations, through sub-groups, freed
 * and used again, and the error when there is not enough. Engines may use such memory in any way; results must be
 * right.
 */
#include "heap_support.h"
#include "time_limits.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Without the check of threads that thread sanitizer makes at an exit: only the parent can join threads that have
 * ended. */
__attribute__((noreturn)) static void end_child(int code)
{
    syscall(SYS_exit_group, code);
    __builtin_unreachable();
}

static const size_t sizes[] = {1, 64, 100, 4095, 4096, 5000, 65536, (2 << 20) - 1, 2 << 20, (5 << 20) + 12};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static size_t alignment_of(size_t bytes)
{
    return bytes >= (2 << 20) ? 2 << 20 : bytes >= 4096 ? 4096 : 64;
}

static void many_sizes(tutti_group *g)
{
    void *blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        EXPECT_OK(tutti_alloc(g, sizes[i], &blocks[i], &err));
        EXPECT((uintptr_t)blocks[i] % alignment_of(sizes[i]) == 0);
        memset(blocks[i], (int)i + 1, sizes[i]);
        for (size_t k = 0; k < i; k++) {
            EXPECT((char *)blocks[k] + sizes[k] <= (char *)blocks[i] ||
                   (char *)blocks[i] + sizes[i] <= (char *)blocks[k]);
        }
    }
    for (size_t i = 0; i < SIZES; i++) {
        const unsigned char *block = blocks[i];
        EXPECT(block[0] == i + 1 && block[sizes[i] / 2] == i + 1 && block[sizes[i] - 1] == i + 1);
        if (sizes[i] >= 64) {
            check_sum(g, blocks[i], sizes[i] / sizeof(float));
        }
        memset(blocks[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < SIZES; i += 2) {
        EXPECT_OK(tutti_free(g, blocks[i], &err));
    }
    for (size_t i = 0; i < SIZES; i += 2) { /* the holes are used again, large ones with fresh pages */
        EXPECT_OK(tutti_alloc(g, sizes[i], &blocks[i], &err));
        memset(blocks[i], 0x77, sizes[i]);
    }
    for (size_t i = 0; i < SIZES; i++) {
        const unsigned char *block = blocks[i];
        EXPECT(block[sizes[i] - 1] == (i % 2 ? block[0] : 0x77));
        EXPECT_OK(tutti_free(g, blocks[i], &err));
    }
}

/* Different on every rank, nothing on some. */
static void own_sizes(tutti_group *g)
{
    int32_t rank = tutti_group_rank(g);
    void *memory = &rank;
    size_t bytes = rank % 2 ? 0 : (size_t)(rank + 1) * 100000;
    EXPECT_OK(tutti_alloc(g, bytes, &memory, &err));
    EXPECT(bytes == 0 ? memory == NULL : memory != NULL);
    if (bytes) {
        memset(memory, 1, bytes);
    }
    EXPECT_OK(tutti_free(g, memory, &err));
    EXPECT_OK(tutti_free(g, NULL, &err));
}

/* In, out and in place, heap and private memory mixed: rank r's source is on the heap if bit r of the pattern is
 * set. */
static void mixed(tutti_group *g)
{
    int32_t rank = tutti_group_rank(g);
    int64_t count = 300000;
    size_t bytes = (size_t)count * sizeof(float);
    float *heap[2];
    float *private[2] = {malloc(bytes), malloc(bytes)};
    EXPECT(private[0] && private[1]);
    EXPECT_OK(tutti_alloc(g, bytes, (void **)&heap[0], &err));
    EXPECT_OK(tutti_alloc(g, bytes, (void **)&heap[1], &err));
    for (unsigned pattern = 0; pattern < 16; pattern++) {
        float *in = (pattern >> rank % 2 & 1 ? heap : private)[0];
        float *out = (pattern >> (2 + rank % 2) & 1 ? heap : private)[1];
        for (int64_t i = 0; i < count; i++) {
            in[i] = (float)(i % 1000 + rank);
        }
        check_sum_of(g, in, out, count);
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tutti_free(g, heap[i], &err));
        free(private[i]);
    }
}

/* Pairs of neighbours that overlap, and the world: each group uses the memory that every other group has allocated. (A
 * group of one rank runs on another backend, so in a job of two ranks the second group shares nothing.) */
static void sub_groups(tutti_group *g)
{
    int32_t rank = tutti_group_rank(g);
    int32_t size = tutti_group_size(g);
    tutti_group *low = NULL;  /* ranks 0 and 1 */
    tutti_group *high = NULL; /* ranks 1 and 2, 1 in 2 ranks */
    size_t count = 50000;
    void *from_low = NULL;
    void *from_high = NULL;
    if (size < 2) {
        return;
    }
    if (rank <= 1) {
        EXPECT_OK(tutti_group_create(g, (const int32_t[]){0, 1}, 2, NULL, &low, &err));
        EXPECT_OK(tutti_alloc(low, count * sizeof(float), &from_low, &err));
        check_sum(low, from_low, count);
    }
    if (rank == 1 || rank == 2) {
        EXPECT_OK(tutti_group_create(g, (const int32_t[]){1, 2}, size > 2 ? 2 : 1, NULL, &high, &err));
        EXPECT_OK(tutti_alloc(high, count * sizeof(float), &from_high, &err));
        check_sum(high, from_high, count);
        if (from_low) { /* works whether or not all ranks of `high` have mapped it */
            check_sum(high, from_low, count);
        } else {
            float *private = malloc(count * sizeof(float));
            EXPECT(private != NULL);
            check_sum(high, private, count);
            free(private);
        }
    }
    float *other = from_low || from_high ? NULL : malloc(count * sizeof(float));
    EXPECT(from_low || from_high || other);
    check_sum(g, from_low ? from_low : from_high ? from_high : other, count);
    void *of_all = NULL;
    EXPECT_OK(tutti_alloc(g, count * sizeof(float), &of_all, &err));
    if (low) {
        check_sum(low, of_all, count);
    }
    check_sum(g, from_high ? from_high : of_all, count); /* now mapped by all */
    EXPECT_OK(tutti_free(g, of_all, &err));
    if (low) { /* what was allocated through one group is freed through another */
        EXPECT_OK(tutti_free(size > 2 && high ? high : low, from_low, &err));
        EXPECT_OK(tutti_group_destroy(low, &err));
    }
    if (high) { /* a group of one has a heap of its own */
        EXPECT_OK(tutti_free(size > 2 ? g : high, from_high, &err));
        EXPECT_OK(tutti_group_destroy(high, &err));
    }
    free(other);
}

/* The parent is destroyed first; its allocations stay with its children. */
static void parent_first(void)
{
    tutti_group *world = NULL;
    tutti_group *all = NULL;
    void *memory = NULL;
    size_t count = 1 << 20;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS), &world, &err));
    EXPECT_OK(tutti_alloc(world, count * sizeof(float), &memory, &err));
    EXPECT_OK(tutti_group_split(world, 0, -tutti_group_rank(world), NULL, &all, &err));
    memset(memory, 0x11, count);
    EXPECT_OK(tutti_group_destroy(world, &err));
    EXPECT(((unsigned char *)memory)[count - 1] == 0x11);
    check_sum(all, memory, count);
    EXPECT_ERROR(TUTTI_BAD_STATE, "", tutti_alloc(world, 1, &memory, &err));
    EXPECT_OK(tutti_free(all, memory, &err));
    EXPECT_OK(tutti_alloc(all, count, &memory, &err)); /* freed by the group */
    EXPECT_OK(tutti_group_destroy(all, &err));
}

static void refused(tutti_group *g)
{
    int32_t rank = tutti_group_rank(g);
    int32_t size = tutti_group_size(g);
    char name[24];
    void *memory = &memory;
    snprintf(name, sizeof(name), "rank %d", size - 1);
    EXPECT_ERROR(TUTTI_NO_MEMORY, name, tutti_alloc(g, rank == size - 1 ? (size_t)1 << 60 : 1000, &memory, &err));
    EXPECT(memory == &memory && err.suspect == size - 1 && err.operation == TUTTI_OP_ALLOC && err.rank == rank);
    EXPECT_ERROR(TUTTI_NO_MEMORY, "rank 0", tutti_alloc(g, SIZE_MAX, &memory, &err));
    EXPECT_ERROR(TUTTI_NO_MEMORY, "rank", tutti_alloc(g, SIZE_MAX / (size_t)(size + 1), &memory, &err));
    EXPECT(memory == &memory);
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "NULL", tutti_alloc(g, 100, NULL, &err));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "NULL", tutti_alloc(NULL, 100, &memory, &err));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "not memory", tutti_free(g, &memory, &err));
    EXPECT_OK(tutti_alloc(g, 8000, &memory, &err));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "not memory", tutti_free(g, (char *)memory + 64, &err));
    EXPECT_OK(tutti_free(g, memory, &err));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "not memory", tutti_free(g, memory, &err));
}

static void small_capacity(void)
{
    tutti_group *g = NULL;
    void *memory = NULL;
    void *more = NULL;
    const char *const settings[] = {"engine.heap_capacity=4M", NULL};
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS, .backend = "shm", .settings = settings), &g, &err));
    EXPECT(tutti_group_capabilities(g) & TUTTI_CAP_HEAP);
    EXPECT_OK(tutti_alloc(g, 4 << 20, &memory, &err));
    EXPECT_ERROR(TUTTI_NO_MEMORY, "engine.heap_capacity", tutti_alloc(g, 1, &more, &err));
    EXPECT_OK(tutti_free(g, memory, &err));
    EXPECT_OK(tutti_alloc(g, 1, &more, &err));
    EXPECT_OK(tutti_group_destroy(g, &err));
}

static void switched_off(void)
{
    tutti_group *g = NULL;
    void *memory = NULL;
    const char *const settings[] = {"engine.heap=off", NULL};
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS, .settings = settings), &g, &err));
    EXPECT(!(tutti_group_capabilities(g) & TUTTI_CAP_HEAP));
    EXPECT_OK(tutti_alloc(g, 3 << 20, &memory, &err));
    EXPECT((uintptr_t)memory % (2 << 20) == 0);
    check_sum(g, memory, (3 << 20) / sizeof(float));
    EXPECT_ERROR(TUTTI_NO_MEMORY, "rank 0",
                 tutti_alloc(g, tutti_group_rank(g) == 0 ? SIZE_MAX / 2 : 10, &memory, &err));
    EXPECT_OK(tutti_register(g, memory, 3 << 20, &err));
    EXPECT_OK(tutti_unregister(g, memory, &err));
    EXPECT_OK(tutti_free(g, memory, &err));
    EXPECT_OK(tutti_group_destroy(g, &err));
}

/* One rank makes another call, and one rank does not call. */
static void out_of_step(tutti_group *world)
{
    int32_t rank = tutti_group_rank(world);
    int32_t size = tutti_group_size(world);
    void *memory = NULL;
    if (size < 2) {
        return;
    }
    tutti_group *g = NULL;
    EXPECT_OK(tutti_group_split(world, 0, rank, NULL, &g, &err));
    if (rank == size - 1) {
        EXPECT(tutti_barrier(g, NULL) == TUTTI_MISMATCH);
    } else {
        EXPECT_ERROR(TUTTI_MISMATCH, "", tutti_alloc(g, 1000, &memory, &err));
    }
    EXPECT_OK(tutti_alloc(g, 1000, &memory, &err)); /* a mismatch leaves the group usable */
    EXPECT_OK(tutti_group_destroy(g, &err));
    EXPECT_OK(tutti_group_split(world, 0, rank, TUTTI_CONFIG(.timeout_ms = 10000), &g, &err));
    if (rank != size - 1) {
        char name[24];
        snprintf(name, sizeof(name), "%d", size - 1);
        EXPECT_ERROR(TUTTI_TIMEOUT, name, tutti_alloc(g, 1000, &memory, &err));
        EXPECT(err.suspect == size - 1);
    }
    EXPECT_OK(tutti_barrier(world, NULL));
    EXPECT_OK(tutti_group_destroy(g, &err));
}

/* The child's memory is a copy: neither sees what the other writes afterwards. */
static void forked(tutti_group *g)
{
    size_t bytes = 3 << 20;
    unsigned char *memory = NULL;
    EXPECT_OK(tutti_alloc(g, bytes, (void **)&memory, &err));
    memset(memory, 1, bytes);
    pid_t pid = fork();
    if (pid == 0) {
        int wrong = memory[0] != 1 || memory[bytes - 1] != 1;
        memset(memory, 2, bytes);
        wrong |= memory[bytes / 2] != 2;
        wrong |= tutti_free(g, memory, &err) != TUTTI_FORKED;
        pid_t grandchild = fork();
        if (grandchild == 0) { /* inherits the child's content */
            end_child(memory[0] != 2 || memory[bytes - 1] != 2);
        }
        int status = -1;
        waitpid(grandchild, &status, 0);
        end_child(wrong || status != 0);
    }
    int status = -1;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT(memory[0] == 1 && memory[bytes / 2] == 1 && memory[bytes - 1] == 1);
    check_sum(g, memory, bytes / sizeof(float));
    EXPECT_OK(tutti_free(g, memory, &err));
}

int main(void)
{
    tutti_group *world = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS), &world, &err));
    if (failures == 0) {
        forked(world);
        many_sizes(world);
        own_sizes(world);
        mixed(world);
        sub_groups(world);
        parent_first();
        refused(world);
        small_capacity();
        switched_off();
        out_of_step(world);
        many_sizes(world);
    }
    EXPECT_OK(tutti_finalize(&err));
    return failures != 0;
}
