/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,gloo,mpi */
/*
 * The error of ranks whose calls differ has the same words on every engine. It names both calls, and if a rank cannot
 * take part in its own, why. The backend fault over the engine makes rank 1 fail.
 */
#include "api/ledger/ledger_support.h"

enum { RANKS = 3 };
enum { CANCELLED, CANCELLED_OVER_ENGINE }; /* flags */

static const int32_t members[RANKS] = {0, 1, 2};

static void expect_words(int line, tutti_status status, const tutti_error *e, const char *words)
{
    ledger_expect(status == TUTTI_MISMATCH, tutti_status_name(status), __FILE__, line);
    if (status == TUTTI_MISMATCH) {
        const bool good = strncmp(e->message, words, strlen(words)) == 0 && e->suspect == 1;
        ledger_expect(good, e->message, __FILE__, line);
    }
}

static tutti_status sum(tutti_group *g, int64_t count, tutti_error *e)
{
    int32_t values[3] = {0};
    DLTensor t = ledger_tensor(values, &count, TUTTI_I32);
    return tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = LONG_MS, .error = e));
}

static tutti_group *over_engine(tutti_group *world, const char *rules)
{
    char engine[40];
    char faults[120];
    tutti_error e;
    tutti_group *g = NULL;
    snprintf(engine, sizeof(engine), "fault.backend=%s", ledger_is_job() ? ledger_on_backend() : "shm");
    snprintf(faults, sizeof(faults), "fault.rules=%s", rules);
    const char *const settings[] = {engine, faults, "mpi.blocking=never", "check_calls=off", NULL};
    ledger_say("group_create",
               tutti_group_create(world, members, RANKS,
                                  TUTTI_CONFIG(.backend = "fault", .settings = settings, .timeout_ms = LONG_MS), &g,
                                  &e),
               &e);
    return g;
}

/* First with the others' call, then with another one. */
static void cannot_take_part(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    tutti_group *g = over_engine(world, "all_reduce:error=NO_RESOURCE@1,error=UNSUPPORTED@2,rank=1");
    char words[300];
    tutti_error e;
    for (int64_t other = 2; other <= 3; other++) {
        const tutti_status why = other == 2 ? TUTTI_NO_RESOURCE : TUTTI_UNSUPPORTED;
        const tutti_status status = sum(g, rank == 1 ? other : 2, &e);
        snprintf(words, sizeof(words),
                 "rank 1 called all_reduce(i32 sum, count %d) and cannot take part: %s, but rank %d called "
                 "all_reduce(i32 sum, count 2) (call ",
                 (int)other, tutti_status_string(why), rank);
        if (rank == 1) {
            EXPECT(status == why || (other == 3 && status == TUTTI_MISMATCH));
        } else {
            expect_words(__LINE__, status, &e, words);
        }
    }
    EXPECT(sum(g, 2, &e) == TUTTI_OK);
    EXPECT(tutti_group_destroy(g, &e) == TUTTI_OK);
}

/* Rank 1 cancels a call that differs from the others', which begin later. It waits behind a barrier. */
static void cancelled(tutti_group *g, atomic_int *flag)
{
    const int32_t rank = tutti_group_rank(g);
    const int64_t count = rank == 1 ? 3 : 2;
    int32_t values[3] = {0};
    char words[300];
    tutti_error e;
    DLTensor t = ledger_tensor(values, &count, TUTTI_I32);
    tutti_work *first = NULL;
    tutti_work *second = NULL;
    while (rank != 1 && atomic_load(flag) == 0) {
        sched_yield();
    }
    EXPECT(tutti_barrier_async(g, TUTTI_CALL(.timeout_ms = LONG_MS), &first) == TUTTI_OK);
    EXPECT(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM,
                                  TUTTI_CALL(.timeout_ms = LONG_MS, .flags = ledger_cancellable(g)),
                                  &second) == TUTTI_OK);
    if (rank == 1) {
        EXPECT(tutti_work_cancel(second, &e) == TUTTI_OK);
        atomic_store(flag, 1);
    }
    EXPECT(ledger_end(&first) == TUTTI_OK);
    const tutti_status status = tutti_work_wait(second, TUTTI_FOREVER);
    EXPECT(tutti_work_error(second, &e) == TUTTI_OK);
    snprintf(words, sizeof(words),
             "rank 1 called all_reduce(i32 sum, count 3) and cannot take part: %s, but rank %d called all_reduce(i32 "
             "sum, count 2) (call ",
             tutti_status_string(TUTTI_CANCELLED), rank);
    if (rank == 1) {
        EXPECT(status == TUTTI_MISMATCH || status == TUTTI_CANCELLED);
    } else {
        expect_words(__LINE__, status, &e, words);
    }
    EXPECT(tutti_work_release(second) == TUTTI_OK);
    EXPECT(sum(g, 2, &e) == TUTTI_OK);
}

/* Rank 1 sends rank 2 more than it expects. All ranks name both numbers. */
static void parts_differ(tutti_group *g)
{
    const int64_t expected[RANKS] = {1, 1, 1};
    const int64_t more[RANKS] = {1, 1, 2};
    const bool differs = tutti_group_rank(g) == 1;
    const int64_t in_count = differs ? 4 : 3;
    const int64_t out_count = 3;
    int32_t in[4] = {0};
    int32_t out[3] = {0};
    tutti_error e;
    const DLTensor input = ledger_tensor(in, &in_count, TUTTI_I32);
    DLTensor output = ledger_tensor(out, &out_count, TUTTI_I32);
    const tutti_status status = tutti_all_to_all_v(g, &input, &output, 0, differs ? more : expected, NULL, expected,
                                                   NULL, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e));
    expect_words(__LINE__, status, &e, "all_to_all_v: rank 1 sends 8 bytes to rank 2, which expects 4 (call ");
    EXPECT(sum(g, 2, &e) == TUTTI_OK);
}

static tutti_status rank_main(tutti_group *g, void *user)
{
    tutti_error e;
    (void)user;
    cannot_take_part(g);
    cancelled(g, ledger_flag(CANCELLED)); /* in a job the core may compare: on_backend sets check_calls */
    parts_differ(g);
    tutti_group *plain = over_engine(g, "");
    parts_differ(plain);
    if (ledger_promises(plain, TUTTI_CAP_CANCEL_FLAGGED)) {
        cancelled(plain, ledger_flag(CANCELLED_OVER_ENGINE));
    }
    EXPECT(tutti_group_destroy(plain, &e) == TUTTI_OK);
    return TUTTI_OK;
}

int main(void)
{
    ledger_on_ranks(RANKS, rank_main, NULL);
    return ledger_result();
}
