/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the backend fault wraps: which backends it refuses and why. If one rank is refused, all ranks get the error. An
 * inner backend with the minimal interface gets its operations unchanged.
 */
#include "api/check.h"

#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <tutti/backend.h>

#define RANKS 3

/* ---- an inner backend with the required functions only ----------------------------------------------------------- */

static tutti_op seen;
static int runs;
static atomic_int closed;
static atomic_bool gated;
static sem_t entered;
static sem_t gate;
static const char *reason = "for a test";

static int32_t bare_available(char *why, size_t capacity)
{
    snprintf(why, capacity, "%s", reason);
    return strcmp(reason, "for a test") == 0;
}

static tutti_status bare_init(tutti_error *error)
{
    (void)error;
    EXPECT(!"init of a backend that is not to be opened");
    return TUTTI_OK;
}

static tutti_status bare_open(const tutti_open_info *info, void **state, tutti_error *error)
{
    (void)error;
    EXPECT(info->size == sizeof(*info) && strcmp(info->setting(info->settings, "fault.backend"), "Bare") == 0);
    *state = &seen;
    return TUTTI_OK;
}

static void bare_close(void *state)
{
    EXPECT(state == &seen);
    atomic_fetch_add(&closed, 1);
}

static const char *bare_supports(void *state, const tutti_op *op)
{
    EXPECT(state == &seen);
    return op->kind == TUTTI_OP_BARRIER ? NULL : "barely";
}

static tutti_status bare_run(void *state, tutti_op *op, tutti_error *error)
{
    (void)error;
    EXPECT(state == &seen);
    seen = *op;
    op->sequence = ++runs;
    if (atomic_load(&gated)) {
        sem_post(&entered);
        sem_wait(&gate);
    }
    return TUTTI_OK;
}

#define BARE_OPS                                                                                                       \
    .size = sizeof(tutti_backend_ops), .available = bare_available, .open = bare_open, .close = bare_close,            \
    .supports = bare_supports, .run = bare_run

static const tutti_backend_ops bare_ops = {BARE_OPS};
static const tutti_backend_ops init_ops = {BARE_OPS, .init = bare_init};
static const tutti_backend bare = {.abi = TUTTI_BACKEND_ABI,
                                   .size = sizeof(tutti_backend),
                                   .name = "bare",
                                   .priority = -1,
                                   .capabilities = TUTTI_CAP_SAME_BITS,
                                   .ops = &bare_ops};
static const tutti_backend with_init = {
    .abi = TUTTI_BACKEND_ABI, .size = sizeof(tutti_backend), .name = "with_init", .priority = -1, .ops = &init_ops};

static tutti_status open_alone(const char *backend, const char *rules, tutti_group **g, tutti_error *e)
{
    char inner[80];
    char text[320];
    snprintf(inner, sizeof(inner), "fault.backend=%s", backend);
    snprintf(text, sizeof(text), "fault.rules=%s", rules);
    const char *const settings[] = {inner, text, NULL};
    return tutti_init(TUTTI_CONFIG(.world_size = 1, .backend = "fault", .settings = settings), g, e);
}

static void refusals(void)
{
    static const struct {
        const char *backend;
        tutti_status status;
        const char *word;
    } rows[] = {
        {"auto", TUTTI_INVALID_ARGUMENT, "must name"},   {"AUTO", TUTTI_INVALID_ARGUMENT, "must name"},
        {"", TUTTI_NOT_FOUND, "no such backend"},        {"nothing", TUTTI_NOT_FOUND, "\"nothing\""},
        {"cpu:shm", TUTTI_NOT_FOUND, "no such backend"}, {"fault", TUTTI_INVALID_ARGUMENT, "itself"},
        {"Fault", TUTTI_INVALID_ARGUMENT, "itself"},     {"local", TUTTI_UNSUPPORTED, "use shm"},
        {"mock", TUTTI_UNSUPPORTED, "use shm"},          {"with_init", TUTTI_UNSUPPORTED, "initialised"},
    };
    tutti_error e;
    tutti_group *g = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT_ERROR(&e, rows[i].status, rows[i].word, open_alone(rows[i].backend, "", &g, &e));
        EXPECT(open_alone(rows[i].backend, "", &g, NULL) == rows[i].status);
    }
    reason = "the moon is in the wrong phase";
    EXPECT_ERROR(&e, TUTTI_NOT_AVAILABLE, "wrong phase", open_alone("bare", "", &g, &e));
    reason = "for a test";
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "fault.rules, character 3", open_alone("bare", "*:dorp", &g, &e));
    EXPECT(!g);
}

static void bare_inner(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    int32_t value = 1;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT_OK(open_alone("Bare", "*:delay=1us;all_reduce:error=NO_MEMORY@2,error=BACKEND@4", &g, &e));
    EXPECT((tutti_group_capabilities(g) & ~(uint32_t)(TUTTI_CAP_CANCEL | TUTTI_CAP_CANCEL_FLAGGED)) ==
           TUTTI_CAP_SAME_BITS); /* the core cancels in any group of one rank */
    char text[4096];
    EXPECT_OK(tutti_group_describe(g, text, sizeof(text), NULL, &e));
    EXPECT(strstr(text, "all_reduce: barely") && strstr(text, "barrier: unsupported") && strstr(text, "over bare"));
    EXPECT(tutti_barrier(g, NULL) == TUTTI_UNSUPPORTED);

    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_PREMUL_SUM, TUTTI_CALL(.tag = 77, .scale = 3, .timeout_ms = 1234)));
    EXPECT(runs == 1 && seen.kind == TUTTI_OP_ALL_REDUCE && seen.redop == TUTTI_PREMUL_SUM && seen.scale == 3 &&
           seen.user_tag == 77 && seen.timeout_ms == 1234 && seen.dst == &value && seen.src == &value &&
           seen.count == 1 && seen.failed == TUTTI_OK && seen.begun_ns > 0);
    /* this inner backend cannot notify the other ranks, so the failed operation does not reach it */
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, "rule 2", tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)));
    EXPECT(runs == 1 && e.scope == TUTTI_SCOPE_CALL);
    EXPECT_OK(tutti_group_error(g, &e));
    EXPECT(e.status == TUTTI_OK);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, NULL));
    /* this inner backend cannot be revoked, but the group has failed all the same */
    EXPECT_ERROR(&e, TUTTI_BACKEND, "rule 2", tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)));
    EXPECT_ERROR(&e, TUTTI_REVOKED, "BACKEND", tutti_broadcast(g, &t, 0, TUTTI_CALL(.error = &e)));
    EXPECT(runs == 2 && e.scope == TUTTI_SCOPE_GROUP && e.suspect == 0 && e.vendor_code == TUTTI_BACKEND);
    EXPECT_OK(tutti_group_error(g, &e));
    EXPECT(e.status == TUTTI_BACKEND);
    EXPECT_OK(tutti_group_destroy(g, NULL));
    EXPECT(atomic_load(&closed) == 1);
}

/* If a lane stays occupied past the deadline, the core fails the group; that holds for this inner backend, too. */
static void bare_inner_is_late(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    tutti_work *work = NULL;
    int32_t value = 1;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    EXPECT_OK(open_alone("Bare", "all_reduce:error=BACKEND@3", &g, &e));
    atomic_store(&gated, true);
    EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = -1), &work));
    sem_wait(&entered);
    EXPECT(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = 50, .error = &e)) == TUTTI_TIMEOUT);
    EXPECT(tutti_group_error(g, &e) == TUTTI_OK && e.status == TUTTI_TIMEOUT);
    atomic_store(&gated, false);
    sem_post(&gate);
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_release(work));
    for (int i = 0; i < 3; i++) { /* the rule matches, but a group that has failed does not fail again */
        EXPECT(tutti_all_reduce(g, &t, &t, TUTTI_SUM, NULL) == TUTTI_REVOKED);
    }
    EXPECT_OK(tutti_group_destroy(g, NULL));
    sem_destroy(&entered);
    sem_destroy(&gate);
}

/* An inner backend with messages that keeps no failures. */
static void null_inner(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    int32_t found = 1;
    EXPECT_OK(open_alone("null", "barrier:error=PEER_LEFT@2", &g, &e));
    EXPECT_OK(tutti_barrier(g, NULL));
    EXPECT_OK(tutti_probe(g, 0, 0, &found, NULL, &e));
    EXPECT(found == 0);
    EXPECT(tutti_barrier(g, NULL) == TUTTI_PEER_LEFT);
    EXPECT_ERROR(&e, TUTTI_REVOKED, "PEER_LEFT", tutti_probe(g, 0, 0, &found, NULL, &e));
    EXPECT_OK(tutti_group_destroy(g, NULL));
}

/* ---- several ranks ----------------------------------------------------------------------------------------------- */

static const int32_t all[RANKS] = {0, 1, 2};

static tutti_status open_on(tutti_group *world, const char *backend, const char *rules, tutti_group **g, tutti_error *e)
{
    char inner[80];
    char text[320];
    snprintf(inner, sizeof(inner), "fault.backend=%s", backend);
    snprintf(text, sizeof(text), "fault.rules=%s", rules);
    const char *const settings[] = {inner, text, NULL};
    return tutti_group_create(world, all, RANKS, TUTTI_CONFIG(.backend = "fault", .settings = settings), g, e);
}

/* One rank cannot continue: no rank waits for it inside the inner backend (the deadline is 5 minutes). */
static tutti_status one_refuses(tutti_group *world, void *user)
{
    (void)user;
    const int32_t rank = tutti_group_rank(world);
    tutti_error e;
    tutti_group *g = NULL;
    tutti_status status = open_on(world, "shm", rank == 1 ? "*:drop@0" : "", &g, &e);
    test_status(__FILE__, __LINE__, "bad rules", status, TUTTI_INVALID_ARGUMENT, &e, "fault.rules, character 8");
    EXPECT(rank == 1 || (e.suspect == 1 && strstr(e.message, "rank 1")));
    EXPECT_OK(tutti_barrier(world, NULL));

    status = open_on(world, rank == 1 ? "null" : "shm", "", &g, &e);
    test_status(__FILE__, __LINE__, "different backends", status, TUTTI_MISMATCH, &e, "fault.backend");
    EXPECT(strstr(e.message, "null") && strstr(e.message, "shm"));
    EXPECT_OK(tutti_barrier(world, NULL));

    EXPECT(!g);
    int32_t value = 1;
    int32_t found = 0;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    tutti_work *work = NULL;
    EXPECT_OK(open_on(world, "Bare", "", &g, &e));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "bare", tutti_send(g, &t, (rank + 1) % RANKS, 0, TUTTI_CALL(.error = &e)));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "bare",
                 tutti_send_async(g, &t, (rank + 1) % RANKS, 0, TUTTI_CALL(.error = &e), &work));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "bare", tutti_probe(g, (rank + 1) % RANKS, 0, &found, NULL, &e));
    EXPECT_OK(tutti_group_destroy(g, NULL));
    g = NULL;

    /* the ranks may have different rules */
    EXPECT_OK(open_on(world, "SHM", rank == 1 ? "*:delay=1us" : "", &g, &e));
    EXPECT_USABLE(g);

    /* a group made from it is one of its kind */
    tutti_group *child = NULL;
    EXPECT_OK(tutti_group_split(g, 0, -rank, NULL, &child, &e));
    EXPECT(strcmp(tutti_group_backend(child), "fault") == 0);
    EXPECT_USABLE(child);
    EXPECT_OK(tutti_barrier(world, NULL));
    EXPECT_OK(tutti_group_destroy(child, NULL));
    EXPECT_OK(tutti_group_destroy(g, NULL));
    return TUTTI_OK;
}

int main(void)
{
    unsetenv("TUTTI_FAULT_BACKEND");
    unsetenv("TUTTI_FAULT_RULES");
    const tutti_backend *fault = tutti_backend_find("fault");
    EXPECT(fault && fault->priority < 0 && fault->capabilities == 0 && tutti_backend_available(fault, NULL, 0) == 1);
    EXPECT_OK(tutti_backend_register(&bare, NULL));
    EXPECT_OK(tutti_backend_register(&with_init, NULL));
    refusals();
    bare_inner();
    bare_inner_is_late();
    null_inner();
    test_ranks(RANKS, one_refuses);

    setenv("TUTTI_FAULT_RULES", "*:what", 1);
    tutti_group *g = NULL;
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "character 3",
                 tutti_init(TUTTI_CONFIG(.world_size = 1, .backend = "fault"), &g, &e));
    setenv("TUTTI_FAULT_RULES", "*:delay=1us", 1);
    setenv("TUTTI_FAULT_BACKEND", "null", 1);
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.world_size = 1, .backend = "fault"), &g, &e));
    EXPECT_OK(tutti_finalize(NULL));
    return test_result();
}
