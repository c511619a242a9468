/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,3 timeout=120 trees=release,debug,address,undefined */
/*
 * Messages between processes whose tensors lie in the heap, in registered memory or in private memory on either side:
 * the algorithm differs each time, the result does not. Then a rank aborts a message and uses its memory again. All
 * this also while the kernel copies private memory, and after it may not any more.
 */
#include <stdlib.h>
#include <sys/prctl.h>

#include "heap_support.h"
#include "time_limits.h"

#define MOST   ((size_t)3 << 20) /* bytes */
#define SINGLE "65536"

enum place { HEAP, REGISTERED, PRIVATE, PLACES };

struct memory {
    unsigned char *blocks[PLACES][2];
};

static void memory_open(tutti_group *g, struct memory *m)
{
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tutti_alloc(g, MOST, (void **)&m->blocks[HEAP][i], &err));
        m->blocks[REGISTERED][i] = aligned_alloc(65536, MOST);
        m->blocks[PRIVATE][i] = malloc(MOST);
        if (!m->blocks[REGISTERED][i] || !m->blocks[PRIVATE][i]) {
            abort();
        }
        EXPECT_OK(tutti_register(g, m->blocks[REGISTERED][i], MOST, &err));
    }
}

static void memory_close(tutti_group *g, struct memory *m)
{
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tutti_unregister(g, m->blocks[REGISTERED][i], &err));
        EXPECT_OK(tutti_free(g, m->blocks[HEAP][i], &err));
        free(m->blocks[REGISTERED][i]);
        free(m->blocks[PRIVATE][i]);
    }
}

static int32_t value(int32_t rank, int round, int64_t k)
{
    return (int32_t)((uint32_t)rank * 1000003u + (uint32_t)round * 7919u + (uint32_t)k);
}

static void expect_values(const int32_t *in, int64_t count, int32_t from, int round)
{
    int64_t wrong = 0;
    for (int64_t k = 0; k < count; k++) {
        wrong += in[k] != value(from, round, k);
    }
    EXPECT(wrong == 0);
}

/* To the next, from the one before: as one call, as two works, or one after the other. */
static void around(tutti_group *g, const struct memory *m, int round, int64_t count)
{
    int32_t rank = tutti_group_rank(g);
    int32_t size = tutti_group_size(g);
    int32_t next = (rank + 1) % size;
    int32_t before = (rank + size - 1) % size;
    int32_t *out = (int32_t *)m->blocks[(round + rank) % PLACES][0];
    int32_t *in = (int32_t *)m->blocks[round / PLACES % PLACES][1];
    for (int64_t k = 0; k < count; k++) {
        out[k] = value(rank, round, k);
    }
    memset(in, 0xff, (size_t)count * sizeof(*in));
    DLTensor sent = tutti_tensor_1d(out, &count, TUTTI_I32);
    DLTensor received = tutti_tensor_1d(in, &count, TUTTI_I32);
    const tutti_call *call = TUTTI_CALL(.error = &err);
    tutti_work *works[2];
    switch (round % 4) {
    case 0:
        EXPECT_OK(tutti_sendrecv(g, &sent, next, round, &received, before, round, call, NULL));
        break;
    case 1:
        EXPECT_OK(tutti_send_async(g, &sent, next, round, call, &works[0]));
        EXPECT_OK(tutti_recv_async(g, &received, TUTTI_ANY_SOURCE, round, call, NULL, &works[1]));
        for (int i = 0; i < 2; i++) {
            EXPECT_OK(tutti_work_wait(works[i], TUTTI_FOREVER));
            tutti_work_release(works[i]);
        }
        break;
    case 2:
        EXPECT_OK(tutti_batch_begin(g, &err));
        EXPECT_OK(tutti_recv(g, &received, before, TUTTI_ANY_TAG, call, NULL));
        EXPECT_OK(tutti_send(g, &sent, next, round, call));
        EXPECT_OK(tutti_batch_end(g, call));
        break;
    default:
        for (int32_t r = 0; r < size; r++) {
            if (r == rank) {
                EXPECT_OK(tutti_send(g, &sent, next, round, call));
            } else if (r == before) {
                EXPECT_OK(tutti_recv(g, &received, before, round, call, NULL));
            }
        }
        break;
    }
    expect_values(in, count, before, round);
}

static void all_ways(tutti_group *world)
{
    static const int64_t counts[] = {8191, 8192, 8193, 16383, 16384, 50001, (int64_t)(MOST / sizeof(int32_t))};
    struct memory m;
    memory_open(world, &m);
    for (int round = 0; round < 4 * PLACES * PLACES; round++) {
        around(world, &m, round, counts[round % (int)(sizeof(counts) / sizeof(counts[0]))]);
    }
    memory_close(world, &m);
}

/* Rank 0 offers with a short deadline; rank 1 comes late, or in the middle. A failed receive may hold anything. A
 * successful one holds the data that were sent, not what rank 0 has written since. */
static void sender_gives_up(tutti_group *world, enum place place, int round)
{
    const int64_t count = (int64_t)8 << 20;
    int32_t rank = tutti_group_rank(world);
    tutti_group *g = NULL;
    int32_t *block = NULL;
    static const char *const settings[] = {"engine.single_copy_bytes=" SINGLE, NULL};
    EXPECT_OK(tutti_group_split(world, rank < 2 ? 0 : -1, rank,
                                TUTTI_CONFIG(.timeout_ms = LONG_MS, .settings = settings), &g, &err));
    if (!g) {
        return;
    }
    if (place == HEAP) {
        EXPECT_OK(tutti_alloc(g, (size_t)count * sizeof(*block), (void **)&block, &err));
    } else if (!(block = malloc((size_t)count * sizeof(*block)))) {
        abort();
    }
    for (int64_t k = 0; k < count; k++) {
        block[k] = rank == 0 ? value(0, round, k) : -1;
    }
    DLTensor t = tutti_tensor_1d(block, &count, TUTTI_I32);
    EXPECT_OK(tutti_barrier(g, NULL));
    if (rank == 0) {
        tutti_status status = tutti_send(g, &t, 1, 0, TUTTI_CALL(.timeout_ms = 1 + round, .error = &err));
        EXPECT(status == TUTTI_OK || status == TUTTI_TIMEOUT);
        memset(block, 0, (size_t)count * sizeof(*block));
    } else {
        tutti_status status = tutti_recv(g, &t, 0, 0, TUTTI_CALL(.error = &err), NULL);
        EXPECT(status == TUTTI_OK || status == TUTTI_REVOKED);
        if (status == TUTTI_OK) {
            expect_values(block, count, 0, round);
        }
    }
    if (place == HEAP) {
        EXPECT_OK(tutti_free(g, block, &err));
    } else {
        free(block);
    }
    tutti_group_destroy(g, &err);
}

static void the_kernel_copies(void)
{
    static const char *const settings[] = {"engine.single_copy_bytes=" SINGLE, NULL};
    tutti_group *g = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS, .backend = "shm", .settings = settings), &g, &err));
    if (!g) {
        return;
    }
    all_ways(g);
    if (tutti_group_rank(g) == 0) { /* from here on only the privileged may read it */
        EXPECT(prctl(PR_SET_DUMPABLE, 0) == 0);
    }
    all_ways(g);
    prctl(PR_SET_DUMPABLE, 1); /* leak sanitizer needs it at the end */
    EXPECT_OK(tutti_group_destroy(g, &err));
}

int main(void)
{
    tutti_group *world = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS, .backend = "shm"), &world, &err));
    if (!world) {
        return 1;
    }
    all_ways(world);
    for (int round = 0; round < 16; round++) {
        sender_gives_up(world, round % 2 ? PRIVATE : HEAP, round);
    }
    the_kernel_copies();
    EXPECT_OK(tutti_group_destroy(world, &err));
    return failures != 0;
}
