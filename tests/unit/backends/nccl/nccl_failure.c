/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How groups of the backend nccl fail: errors of a call and of the network, ranks that do not call, kernels that never
 * end, aborts that never return, and peers that never close. Every call must return with an error that says what
 * happened. The ranks' watchdog detects a call that does not return.
 *
 * tutti-test: seconds=50 timeout=180
 */
#include "nccl_support.h"

#define TEARDOWN_MS 2000 /* TTI_NCCL_TEARDOWN_NS */

enum { COUNT = 1000, SHORT_MS = 700 };

static tutti_op sum_of(void *memory, int64_t timeout_ms)
{
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, TUTTI_F32, TUTTI_SUM);
    op.src = op.dst = memory;
    op.count = COUNT;
    op.timeout_ms = timeout_ms;
    return op;
}

static tutti_status run_sum(const struct rank *r, void *memory, int64_t timeout_ms, tutti_error *error)
{
    tutti_op op = sum_of(memory, timeout_ms);
    tti_error_clear(error);
    return r->backend->ops->run(r->state, &op, error);
}

/* Returns memory for COUNT elements. */
static void *open_group(struct rank *r)
{
    tutti_error error;
    tti_error_clear(&error);
    CHECK_OK(rank_open(r, &error));
    return device_alloc(r, COUNT * sizeof(float));
}

/* Complete on all ranks: else one rank may fail while another still ends this call. */
static void run_first_call(const struct rank *r, void *memory)
{
    tutti_error error;
    CHECK_OK(run_sum(r, memory, 10000, &error));
    pass_all(r, 1);
}

/* The group stays failed, and returns the cause. */
static void check_revoked(const struct rank *r, void *memory, tutti_status cause, const char *words)
{
    tutti_error error;
    CHECK(run_sum(r, memory, SHORT_MS, &error) == TUTTI_REVOKED);
    CHECK(error.scope == TUTTI_SCOPE_GROUP);
    CHECK(strstr(error.message, words) != NULL);
    CHECK(r->backend->ops->failure(r->state, &error) == cause && error.status == cause);
    CHECK(strstr(error.message, words) != NULL);
}

/* ---- in a call --------------------------------------------------------------------------------------------------- */

/* The library refuses the last rank's call; the other ranks time out. */
static void refused_call(struct rank *r)
{
    tutti_error error;
    void *memory = open_group(r);
    run_first_call(r, memory);
    const tutti_status status = run_sum(r, memory, SHORT_MS, &error);
    CHECK(error.scope == TUTTI_SCOPE_GROUP);
    if (r->rank == r->size - 1) {
        CHECK(status == TUTTI_BACKEND && error.vendor_code == 4);
        CHECK(strstr(error.message, "all_reduce: ncclAllReduce of call 2") != NULL);
        CHECK(strstr(error.message, "invalid argument") != NULL); /* the library's text */
        check_revoked(r, memory, TUTTI_BACKEND, "ncclAllReduce");
    } else {
        CHECK(status == TUTTI_TIMEOUT || status == TUTTI_BACKEND);
        check_revoked(r, memory, status, "call 2 on lane 0");
    }
    rank_close(r);
    device_free(r, memory);
}

/* The network breaks for the last rank. The library may or may not report that on the other ranks. */
static void asynchronous_error(struct rank *r)
{
    tutti_error error;
    void *memory = open_group(r);
    run_first_call(r, memory);
    const tutti_status status = run_sum(r, memory, 2 * SHORT_MS, &error);
    CHECK(status == TUTTI_BACKEND || (r->rank != r->size - 1 && status == TUTTI_TIMEOUT));
    if (status == TUTTI_BACKEND) {
        CHECK(error.vendor_code == 6 && strstr(error.message, "(6)"));
    }
    check_revoked(r, memory, status, "call 2 on lane 0");
    rank_close(r);
    device_free(r, memory);
}

/* A kernel that never ends. */
static void kernel_hangs(struct rank *r)
{
    tutti_error error;
    void *memory = open_group(r);
    run_first_call(r, memory);
    CHECK(run_sum(r, memory, SHORT_MS, &error) == TUTTI_TIMEOUT);
    CHECK(error.elapsed_ms >= SHORT_MS && error.suspect == -1);
    CHECK(strstr(error.message, "all_reduce: call 2 on lane 0") != NULL);
    /* unless the thread that aborts was late */
    CHECK(error.elapsed_ms >= SHORT_MS + TEARDOWN_MS ||
          (strstr(error.message, "ncclCommAbort") == NULL && strstr(error.message, "may still use") == NULL));
    check_revoked(r, memory, TUTTI_TIMEOUT, "call 2 on lane 0");
    rank_close(r);
    device_free(r, memory);
}

/* ... and an abort that never returns: the error warns that the device may still use the memory. */
static void abort_hangs(struct rank *r)
{
    tutti_error error;
    char text[1024];
    void *memory = open_group(r);
    CHECK(run_sum(r, memory, SHORT_MS, &error) == TUTTI_TIMEOUT);
    CHECK(strstr(error.message, "ncclCommAbort has not returned") != NULL);
    CHECK(strstr(error.message, "may still use the tensors") != NULL);
    r->backend->ops->describe(r->state, text, sizeof(text));
    CHECK(strstr(text, "left in ncclCommAbort") != NULL);
    check_revoked(r, memory, TUTTI_TIMEOUT, "call 1 on lane 0");
    rank_close(r);
    _exit(0); /* threads and memory stay behind, as expected */
}

/* The last rank does not call, and closes its group instead. */
static void rank_stays_away(struct rank *r)
{
    tutti_error error;
    void *memory = open_group(r);
    CHECK_OK(run_sum(r, memory, 10000, &error));
    if (r->rank != r->size - 1) {
        const tutti_status status = run_sum(r, memory, SHORT_MS, &error);
        CHECK(status == TUTTI_TIMEOUT || status == TUTTI_BACKEND);
        check_revoked(r, memory, status, "call 2 on lane 0");
    }
    rank_close(r);
    device_free(r, memory);
}

/* ---- from outside ------------------------------------------------------------------------------------------------ */

static void *abort_soon(void *argument)
{
    const struct rank *r = argument;
    tutti_error cause;
    usleep(100000);
    tti_error_set(&cause, TUTTI_PEER_DEAD, "rank 9 has died in a test");
    r->backend->ops->abort(r->state, 1, &cause);
    return NULL;
}

/* Rank 0 waits on lane 0 until another thread aborts; the other rank never calls. */
static void aborted(struct rank *r)
{
    pthread_t thread;
    tutti_error error;
    void *memory = open_group(r);
    if (r->rank == 0) {
        CHECK(pthread_create(&thread, NULL, abort_soon, r) == 0);
        CHECK(run_sum(r, memory, -1, &error) == TUTTI_REVOKED);
        CHECK(strstr(error.message, "rank 9 has died in a test") != NULL);
        CHECK(pthread_join(thread, NULL) == 0);
        check_revoked(r, memory, TUTTI_PEER_DEAD, "rank 9 has died in a test");
    }
    pass_all(r, 1);
    rank_close(r);
    device_free(r, memory);
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static void never_connected(struct rank *r)
{
    tutti_error error;
    atomic_store(&r->table->is_patient, true);
    CHECK(rank_open(r, &error) == TUTTI_TIMEOUT);
    CHECK(strstr(error.message, "ncclCommInitRank") != NULL && strstr(error.message, "lane 0") != NULL);
    CHECK(r->state == NULL);
    if (*(const int *)r->scenario) {
        _exit(0); /* a thread stays in ncclCommInitRank */
    }
}

/* The last rank does not exist. */
static void never_met(struct rank *r)
{
    tutti_error error;
    if (r->rank != r->size - 1) {
        CHECK(rank_open(r, &error) == TUTTI_TIMEOUT);
    }
}

/* Closing is local: it returns while the other rank still has its group. */
static void closed_alone(struct rank *r)
{
    tutti_error error;
    tti_error_clear(&error);
    CHECK_OK(rank_open(r, &error));
    if (r->rank == 0) {
        rank_close(r);
    }
    pass_all(r, 1);
    if (r->rank != 0) {
        rank_close(r);
    }
}

static const int blocking = 1;
static const int in_background = 0;

static void run_all(const struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct job job = jobs[i];
        job.backend = &tti_backend_nccl;
        job.size = 2;
        run_job(&job);
    }
}

static void calls(void **cmocka_state)
{
    static const struct job jobs[] = {
        {.words_of_one = "fail=AllReduce:2=4", .run = refused_call},
        {.words_of_one = "fail=AllReduce:2=4", .library = "nccl_middle", .run = refused_call},
        {.words_of_one = "fail=AllReduce:2=4", .library = "nccl_old", .run = refused_call},
        {.words_of_one = "async_error=2:6", .run = asynchronous_error},
        {.words_of_one = "async_error=2:6", .library = "nccl_old", .run = asynchronous_error},
    };
    (void)cmocka_state;
    run_all(jobs, sizeof(jobs) / sizeof(jobs[0]));
}

static void deadlines(void **cmocka_state)
{
    static const struct job jobs[] = {
        {.words = "hang=2", .run = kernel_hangs},
        {.words = "hang=2", .library = "nccl_middle", .run = kernel_hangs},
        {.words = "hang=2", .library = "nccl_old", .run = kernel_hangs},
        {.words = "hang=1 abort_hang", .run = abort_hangs},
        {.run = rank_stays_away},
        {.library = "nccl_old", .run = rank_stays_away},
    };
    (void)cmocka_state;
    run_all(jobs, sizeof(jobs) / sizeof(jobs[0]));
}

static void aborts(void **cmocka_state)
{
    static const struct job jobs[] = {{.lanes = 2, .run = aborted},
                                      {.lanes = 2, .library = "nccl_old", .run = aborted}};
    (void)cmocka_state;
    run_all(jobs, sizeof(jobs) / sizeof(jobs[0]));
}

static void beginnings(void **cmocka_state)
{
    static const struct job jobs[] = {
        {.words = "init_hang", .timeout_ms = SHORT_MS, .scenario = &in_background, .run = never_connected},
        {.words = "init_hang",
         .timeout_ms = SHORT_MS,
         .library = "nccl_old",
         .scenario = &blocking,
         .run = never_connected},
        {.timeout_ms = SHORT_MS, .run = never_met},
    };
    (void)cmocka_state;
    run_all(jobs, sizeof(jobs) / sizeof(jobs[0]));
}

static void ends(void **cmocka_state)
{
    static const struct job jobs[] = {{.run = closed_alone}, {.library = "nccl_middle", .run = closed_alone}};
    (void)cmocka_state;
    run_all(jobs, sizeof(jobs) / sizeof(jobs[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls),      cmocka_unit_test(deadlines), cmocka_unit_test(aborts),
        cmocka_unit_test(beginnings), cmocka_unit_test(ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
