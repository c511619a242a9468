/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti/memory.h where it is ordinary memory (threads, a group of one, backend null), where threads share a heap as
 * processes do (backend shm), and through backend fault. Also what every function refuses.
 */
#include "api/check.h"
#include "clock.h"
#include "time_limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <tutti/backend.h>

#define RANKS 3

static const char *backend; /* of the groups that a case makes */

static void check_memory(tutti_group *g, size_t bytes)
{
    tutti_error e;
    void *memory = NULL;
    size_t alignment = bytes >= (2 << 20) ? 2 << 20 : bytes >= 4096 ? 4096 : 64;
    EXPECT_OK(tutti_alloc(g, bytes, &memory, &e));
    EXPECT(memory && (uintptr_t)memory % alignment == 0);
    if (!memory) {
        return;
    }
    int64_t count = (int64_t)(bytes / sizeof(float));
    float *data = memory;
    const int32_t rank = tutti_group_rank(g);
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)(i % 100 + rank);
    }
    DLTensor t = tutti_tensor_1d(data, &count, TUTTI_F32);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)));
    int64_t n = tutti_group_size(g);
    for (int64_t i = 0; i < count; i++) {
        if (data[i] != (float)(i % 100 * n + n * (n - 1) / 2)) {
            EXPECT(!"the sum is right");
            break;
        }
    }
    EXPECT_OK(tutti_free(g, memory, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "not memory", tutti_free(g, memory, &e));
    EXPECT(e.operation == TUTTI_OP_FREE && e.rank == rank);
}

static void use(tutti_group *g)
{
    tutti_error e;
    void *memory = &e;
    static const size_t sizes[] = {4, 1000, 4096, 100000, 3 << 20};
    for (size_t i = 0; i < 5; i++) {
        check_memory(g, sizes[i]);
    }
    EXPECT_OK(tutti_alloc(g, 0, &memory, &e));
    EXPECT(memory == NULL && e.status == TUTTI_OK && e.operation == TUTTI_OP_ALLOC);
    EXPECT_OK(tutti_free(g, NULL, &e));
    /* one rank has none: the last one */
    int32_t last = tutti_group_size(g) - 1;
    char name[24];
    snprintf(name, sizeof(name), "rank %d", last);
    memory = &e;
    size_t bytes = tutti_group_rank(g) == last ? SIZE_MAX / 4 : 100;
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, name, tutti_alloc(g, bytes, &memory, &e));
    EXPECT(memory == &e && e.suspect == last);
    check_memory(g, 5000);
    /* registering */
    unsigned char *plain = malloc(50000);
    memset(plain, 1 + tutti_group_rank(g), 50000);
    EXPECT_OK(tutti_register(g, plain, 50000, &e));
    EXPECT(plain[0] == 1 + tutti_group_rank(g) && plain[49999] == plain[0]);
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_unregister(g, plain, &e));
    EXPECT(plain[0] == 1 + tutti_group_rank(g) && plain[25000] == plain[0] && plain[49999] == plain[0]);
    free(plain);
}

static void bad_inputs(tutti_group *g)
{
    tutti_error e;
    void *memory = &e;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_alloc(g, 10, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_alloc(NULL, 10, &memory, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_free(NULL, &e, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_register(NULL, &e, 1, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_unregister(NULL, &e, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_register(g, NULL, 1, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "beyond", tutti_register(g, &e, SIZE_MAX, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "not memory", tutti_free(g, &e, &e));
    EXPECT(memory == &e);
    EXPECT_OK(tutti_free(g, NULL, NULL));
    EXPECT(tutti_free(g, &e, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT_USABLE(g);
}

/* A group's memory outlives it in the groups that were made from it, and a stale handle is refused. */
static void lives_on(tutti_group *g)
{
    tutti_error e;
    tutti_group *parent = NULL;
    tutti_group *child = NULL;
    unsigned char *memory = NULL;
    EXPECT_OK(tutti_group_split(g, 0, 0, NULL, &parent, &e));
    EXPECT_OK(tutti_alloc(parent, 10000, (void **)&memory, &e));
    EXPECT_OK(tutti_group_split(parent, 0, 0, NULL, &child, &e));
    EXPECT_OK(tutti_group_destroy(parent, &e));
    memset(memory, 3, 10000);
    EXPECT(memory[9999] == 3);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "", tutti_free(parent, memory, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "", tutti_alloc(parent, 1, (void **)&memory, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "", tutti_register(parent, memory, 1, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "", tutti_unregister(parent, memory, &e));
    EXPECT_OK(tutti_free(child, memory, &e));
    EXPECT_OK(tutti_alloc(child, 10000, (void **)&memory, &e)); /* goes with the group */
    EXPECT_OK(tutti_group_destroy(child, &e));
}

/* Not inside a batch: the ranks have to exchange something. */
static void in_batch(tutti_group *g)
{
    tutti_error e;
    void *memory = NULL;
    EXPECT_OK(tutti_batch_begin(g, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "", tutti_alloc(g, 1000, &memory, &e));
    EXPECT_OK(tutti_batch_end(g, NULL));
    check_memory(g, 1000);
}

#define DEADLINE_MS 10000
#define LATE_MS     8000

/* The deadline is that of the whole call: rank 1 is late in the first step, and misses the second one. */
static void one_deadline(tutti_group *g)
{
    tutti_group *own = NULL;
    tutti_error e;
    void *memory = NULL;
    const char *const settings[] = {"fault.backend=shm",
                                    "fault.rules=all_gather:delay=8s@1,rank=1;all_gather:drop@2,rank=1", NULL};
    const tutti_config *config = TUTTI_CONFIG(.backend = "fault", .settings = settings, .timeout_ms = DEADLINE_MS);
    EXPECT_OK(tutti_group_split(g, 0, tutti_group_rank(g), config, &own, &e));
    if (!own) {
        return;
    }
    const int64_t begun_ms = now_ms();
    EXPECT_ERROR(&e, TUTTI_TIMEOUT, "", tutti_alloc(own, 1000, &memory, &e));
    /* A rank that has waited for its own deadline reports the time of the call. That of the second step alone would
     * lack the first one, however long all of it takes. */
    EXPECT(e.elapsed_ms < DEADLINE_MS || now_ms() - begun_ms - e.elapsed_ms < LATE_MS);
    EXPECT(e.deadline_ms == DEADLINE_MS && memory == NULL);
    EXPECT_OK(tutti_group_destroy(own, NULL));
}

static tutti_status rank_function(tutti_group *g, void *user)
{
    (void)user;
    tutti_group *own = NULL;
    tutti_error e;
    if (strcmp(backend, "fault") == 0) {
        one_deadline(g);
    }
    const char *const over_shm[] = {"fault.backend=shm", NULL};
    const tutti_config *config = TUTTI_CONFIG(.backend = backend, .settings = over_shm, .timeout_ms = LONG_MS);
    EXPECT_OK(tutti_group_split(g, 0, tutti_group_rank(g), config, &own, &e));
    if (own) {
        bool shared = strcmp(backend, "local") != 0;
        EXPECT(((tutti_group_capabilities(own) & TUTTI_CAP_HEAP) != 0) == shared);
        use(own);
        bad_inputs(own);
        lives_on(own);
        in_batch(own);
        use(own);
        EXPECT_OK(tutti_group_destroy(own, &e));
    }
    return TUTTI_OK;
}

static void alone(const char *name, int32_t size)
{
    tutti_group *g = NULL;
    tutti_error e;
    void *memory = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = name, .world_size = size), &g, &e));
    EXPECT_OK(tutti_alloc(g, 3 << 20, &memory, &e));
    memset(memory, 1, 3 << 20);
    EXPECT_OK(tutti_register(g, memory, 0, &e));
    EXPECT_OK(tutti_unregister(g, memory, &e));
    EXPECT_OK(tutti_free(g, memory, &e));
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, "rank 0", tutti_alloc(g, SIZE_MAX / 4, &memory, &e));
    if (size == 1) {
        use(g);
        bad_inputs(g);
    }
    EXPECT_OK(tutti_alloc(g, 100, &memory, &e));
    EXPECT_OK(tutti_group_destroy(g, &e));
}

int main(void)
{
    static const char *const backends[] = {"local", "shm", "fault"};
    for (size_t i = 0; i < 3; i++) {
        backend = backends[i];
        test_ranks(RANKS, rank_function);
    }
    alone("local", 1);
    alone("shm", 1);
    alone("null", 1000);
    return test_result();
}
