/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No memory on one rank. For the packed copy of a strided tensor: NO_MEMORY there, a clear error on the other ranks,
 * and no value written; that rank has no data to send, and with memory again the group works. For the engine's scratch
 * memory: a sentence that is not about the tensor, and with memory again the same call works. At any allocation while
 * messages are posted: no rank waits in vain, and nothing uses the messages after the call. At any allocation of any
 * thread during a large all_reduce, Gloo's thread included: NO_MEMORY there, and every rank suspects that rank.
 */
#include "api/group/init_processes.h"

#include <limits.h>
#include <stdbool.h>
#include <tutti/recovery.h>

#define RANKS     3
#define COUNT     200
#define LARGE     100000
#define BLOCKS    64
#define SCRATCHES 6
#define ROUNDS    60

static _Thread_local int fails_in;      /* so many allocations of this thread; 0: none */
static _Atomic long allowed = LONG_MAX; /* so many allocations of all threads, before one fails */
static _Atomic bool fails_on;           /* all later ones fail, too */

static bool allocation_fails(void)
{
    const long left = atomic_fetch_sub(&allowed, 1);
    if (left == 0 || (left < 0 && atomic_load(&fails_on))) {
        return true;
    }
    const bool now = fails_in == 1; /* the next one succeeds */
    fails_in -= fails_in > 0;
    return now;
}

#include "allocator.h"
#include "time_limits.h"

static char store[64];

static tutti_group *join(const char *backend, const char *at, int32_t rank)
{
    tutti_group *g = NULL;
    tutti_error e;
    const tutti_status status = tutti_init(
        TUTTI_CONFIG(.backend = backend, .store = at, .rank = rank, .world_size = RANKS, .timeout_ms = LONG_MS), &g,
        &e);
    test_status(__FILE__, __LINE__, "init", status, TUTTI_OK, &e, "");
    return g;
}

/* Overwrites what has been freed. */
static void reuse(size_t bytes)
{
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(bytes);
        memset(blocks[i], 0xff, bytes);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

/* Rank 0 posts a receive and a send at once, and its n-th allocation there fails, while the worker makes progress for
 * another receive. True if it has made fewer allocations: all messages have arrived. */
static bool interrupt(tutti_group *world, int32_t rank, int n)
{
    static float large[LARGE];
    static float small[2];
    const int64_t count = LARGE;
    const int64_t one = 1;
    tutti_group *g = NULL;
    tutti_work *pending = NULL;
    tutti_error e;
    int32_t enough = 1;
    DLTensor big = tutti_tensor_1d(large, &count, TUTTI_F32);
    DLTensor few = tutti_tensor_1d(&small[0], &one, TUTTI_F32);
    DLTensor other = tutti_tensor_1d(&small[1], &one, TUTTI_F32);
    DLTensor flag = tutti_tensor_1d(&enough, &one, TUTTI_I32);
    EXPECT_OK(tutti_group_split(world, 0, rank, NULL, &g, &e));
    if (rank == 0) {
        EXPECT_OK(tutti_recv_async(g, &other, 1, 9, NULL, NULL, &pending));
        EXPECT_OK(tutti_batch_begin(g, &e));
        EXPECT_OK(tutti_send(g, &big, 1, 1, NULL));
        EXPECT_OK(tutti_recv(g, &few, 1, 2, NULL, NULL));
        fails_in = n;
        const tutti_status status = tutti_batch_end(g, TUTTI_CALL(.error = &e));
        enough = fails_in > 0;
        fails_in = 0;
        EXPECT(status == TUTTI_OK || (!enough && status != TUTTI_TIMEOUT));
        if (status != TUTTI_OK) {
            EXPECT_OK(tutti_group_abort(g, &e)); /* the first allocations come before the engine's */
        }
        for (size_t bytes = 64; bytes <= 4096; bytes += 64) {
            reuse(bytes);
        }
    } else if (rank == 1) {
        tutti_recv(g, &big, 0, 1, NULL, NULL);
        tutti_send(g, &few, 0, 2, NULL);
        tutti_send(g, &other, 0, 9, NULL);
    }
    if (pending) {
        tutti_work_wait(pending, TUTTI_FOREVER);
        EXPECT_OK(tutti_work_release(pending));
    }
    EXPECT_OK(tutti_group_destroy(g, NULL));
    EXPECT_OK(tutti_broadcast(world, &flag, 0, NULL));
    return enough;
}

/* The engine has no memory for a compact tensor: its sentence does not speak of a strided one. */
static void lack_scratch(tutti_group *world, int32_t rank, int n)
{
    static float values[LARGE * RANKS];
    const int64_t count = LARGE * RANKS;
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_F32);
    tutti_group *g = NULL;
    tutti_error e;
    EXPECT_OK(tutti_group_split(world, 0, rank, NULL, &g, &e));
    fails_in = rank == 1 ? n : 0;
    tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e));
    fails_in = 0;
    EXPECT(rank != 1 || strstr(e.message, "strided") == NULL);
    EXPECT_OK(tutti_barrier(world, NULL));
    EXPECT_OK(tutti_group_destroy(g, NULL));
}

static tutti_status sum(tutti_group *g, float *values, tutti_error *e)
{
    const int64_t count = LARGE * RANKS;
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_F32);
    for (int64_t i = 0; i < count; i++) {
        values[i] = 1;
    }
    return tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = e));
}

/* A call from the call cache has no scratch memory once. A larger call before it has freed that of the lane. */
static void lack_scratch_once(tutti_group *g, int32_t rank)
{
    enum { ROWS = 8 };
    static float values[LARGE * RANKS];
    static float part[ROWS * LARGE];
    static float joined[ROWS * LARGE * RANKS];
    const int64_t part_shape[2] = {ROWS, LARGE};
    const int64_t joined_shape[2] = {ROWS, (int64_t)LARGE * RANKS};
    const DLTensor in = tutti_tensor_nd(part, 2, part_shape, TUTTI_F32);
    DLTensor out = tutti_tensor_nd(joined, 2, joined_shape, TUTTI_F32);
    const tutti_status lacks = rank == 1 ? TUTTI_NO_MEMORY : TUTTI_MISMATCH;
    const char *why = rank == 1 ? "scratch memory" : "rank 1";
    tutti_error e;
    for (int i = 0; i < 4; i++) {
        EXPECT_ERROR(&e, TUTTI_OK, "", sum(g, values, &e));
    }
    fails_from = rank == 1 ? 65536 : SIZE_MAX;
    EXPECT_ERROR(&e, lacks, why, tutti_all_gather(g, &in, &out, 1, TUTTI_CALL(.error = &e)));
    EXPECT_ERROR(&e, lacks, why, sum(g, values, &e));
    fails_from = SIZE_MAX;
    for (int i = 0; i < 2; i++) {
        EXPECT_ERROR(&e, TUTTI_OK, "", sum(g, values, &e));
        EXPECT(values[0] == RANKS && values[LARGE * RANKS - 1] == RANKS);
    }
}

static void run(int32_t rank, void *user)
{
    int64_t count = COUNT;
    int64_t stride = 2;
    float x[2 * COUNT];
    DLTensor t = tutti_tensor_1d(x, &count, TUTTI_F32);
    tutti_error e;
    (void)user;
    t.strides = &stride;
    for (int i = 0; i < 2 * COUNT; i++) {
        x[i] = 1;
    }
    tutti_group *g = join("gloo", store, rank);
    fails_in = rank == 1;
    const tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e));
    EXPECT(fails_in == 0 && status == (rank == 1 ? TUTTI_NO_MEMORY : TUTTI_MISMATCH));
    EXPECT(strstr(e.message, rank == 1 ? "no memory to pack" : "rank 1") != NULL);
    EXPECT(x[0] == 1 && x[2 * COUNT - 2] == 1);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)));
    EXPECT(x[0] == RANKS && x[1] == 1 && x[2 * COUNT - 2] == RANKS);
    lack_scratch_once(g, rank);
    for (int n = 1; n <= SCRATCHES; n++) {
        lack_scratch(g, rank, n);
    }
    for (int n = 1; !interrupt(g, rank, n); n++) {
    }
    EXPECT_OK(tutti_group_destroy(g, NULL));
}

/* Rank 1 has memory for so many allocations during a large all_reduce. The other ranks learn it over their connections
 * with that rank, which ends them if it cannot send a notification. `world` is over another backend: no thread of Gloo
 * serves it in rank 1. */
static void starve(tutti_group *world, int32_t rank, int n, bool for_long)
{
    static float values[LARGE * RANKS];
    const int64_t count = LARGE * RANKS;
    char at[96];
    tutti_error e;
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_F32);
    snprintf(at, sizeof(at), "%s-%d-%d", store, n, for_long);
    tutti_group *g = join("gloo", at, rank);
    EXPECT_OK(tutti_barrier(world, NULL));
    if (rank == 1) {
        atomic_store(&fails_on, for_long);
        atomic_store(&allowed, n);
    }
    const tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e));
    atomic_store(&allowed, LONG_MAX);
    if (rank == 1) {
        EXPECT(status == TUTTI_OK || (status == TUTTI_NO_MEMORY && (e.suspect == -1 || e.suspect == 1)));
    } else {
        EXPECT(status == TUTTI_OK || status == TUTTI_MISMATCH || status == TUTTI_REVOKED || status == TUTTI_PEER_DEAD);
        EXPECT(status == TUTTI_OK || e.suspect == 1);
    }
    EXPECT_OK(tutti_barrier(world, NULL));
    EXPECT_OK(tutti_group_destroy(g, NULL));
}

static void run_starved(int32_t rank, void *user)
{
    char at[96];
    (void)user;
    snprintf(at, sizeof(at), "%s-world", store);
    tutti_group *world = join("shm", at, rank);
    for (int n = 0; n < ROUNDS; n++) {
        starve(world, rank, n, false);
        starve(world, rank, n, true);
    }
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

int main(void)
{
    test_stand_alone();
    snprintf(store, sizeof(store), "unix:gloo-no-memory-%ld", (long)getpid());
    test_processes("no memory", RANKS, run, NULL);
    test_processes("starved", RANKS, run_starved, NULL);
    return test_result();
}
