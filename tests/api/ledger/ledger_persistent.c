/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi,nccl,rccl,fault */
/*
 * Persistent collectives: a list of two with new data in each run, by run and by start and wait; cancelling; the
 * release of one that runs. What has to be under way, rank 1 joins only after rank 0 has released it.
 */
#include "ledger_support.h"

enum { RUNS = 4 };

/* What rank 1 waits for. */
enum { CANCELLED, RELEASED };

static const int64_t one = 1;

static tutti_persistent *make_sum(tutti_group *g, int32_t *value)
{
    DLTensor t = ledger_tensor(value, &one, TUTTI_I32);
    const tutti_persistent_op o = {.kind = TUTTI_OP_ALL_REDUCE, .op = TUTTI_SUM, .input = &t, .output = &t};
    tutti_persistent *p = NULL;
    EXPECT(tutti_persistent_init(g, &o, 1, TUTTI_CALL(.flags = ledger_cancellable(g)), &p) == TUTTI_OK && p);
    return p;
}

static void runs(tutti_group *g, int32_t rank)
{
    static const int64_t two = 2;
    int32_t sum = 0;
    int32_t all[2] = {0, 0};
    DLTensor s = ledger_tensor(&sum, &one, TUTTI_I32);
    DLTensor a = ledger_tensor(all, &two, TUTTI_I32);
    const tutti_persistent_op list[] = {{.kind = TUTTI_OP_ALL_REDUCE, .op = TUTTI_SUM, .input = &s, .output = &s},
                                        {.kind = TUTTI_OP_ALL_GATHER, .dim = 0, .input = &s, .output = &a}};
    tutti_error e;
    tutti_persistent *p = NULL;
    EXPECT(tutti_persistent_init(g, list, 0, NULL, &p) == TUTTI_INVALID_ARGUMENT && !p);
    EXPECT(tutti_persistent_init(g, list, 2, NULL, &p) == TUTTI_OK);
    EXPECT(tutti_persistent_wait(p, 0, &e) == TUTTI_BAD_STATE);
    for (int32_t run = 0; run < RUNS; run++) {
        sum = run + rank;
        all[0] = all[1] = -1;
        if (run % 2 == 0) {
            EXPECT(tutti_persistent_run(p, &e) == TUTTI_OK);
        } else {
            EXPECT(tutti_persistent_start(p, &e) == TUTTI_OK);
            EXPECT(tutti_persistent_start(p, &e) == TUTTI_BAD_STATE);
            EXPECT(tutti_persistent_wait(p, TUTTI_FOREVER, &e) == TUTTI_OK);
        }
        EXPECT(sum == 2 * run + 1 && all[0] == sum && all[1] == sum);
    }
    EXPECT(tutti_persistent_release(p, &e) == TUTTI_OK);
    EXPECT(tutti_persistent_run(p, &e) == TUTTI_BAD_STATE);
}

/* Behind an operation that ends when rank 1 joins it. */
static void cancelling(tutti_group *g, int32_t rank)
{
    int32_t value = rank + 1;
    tutti_error e;
    tutti_work *held = NULL;
    tutti_persistent *p = make_sum(g, &value);
    if (rank == 1) {
        EXPECT(await_count(ledger_flag(CANCELLED), 1));
    }
    EXPECT(ledger_start_held(g, &held) == TUTTI_OK);
    EXPECT(tutti_persistent_start(p, &e) == TUTTI_OK);
    if (rank == 0) {
        EXPECT(tutti_persistent_wait(p, 1, &e) == TUTTI_BUSY);
        EXPECT(tutti_persistent_cancel(p, &e) == TUTTI_OK);
        atomic_store(ledger_flag(CANCELLED), 1);
    }
    EXPECT(ledger_end(&held) == TUTTI_OK);
    EXPECT(tutti_persistent_wait(p, TUTTI_FOREVER, &e) == TUTTI_CANCELLED && e.status == TUTTI_CANCELLED);
    EXPECT(tutti_persistent_cancel(p, &e) == TUTTI_TOO_LATE);
    value = rank + 1;
    EXPECT(tutti_persistent_run(p, &e) == TUTTI_OK && value == 3);
    EXPECT(tutti_persistent_release(p, &e) == TUTTI_OK);
}

/* It goes on to its end. */
static void release(tutti_group *g, int32_t rank)
{
    int32_t value = rank + 1;
    tutti_error e;
    tutti_persistent *p = make_sum(g, &value);
    if (rank == 1) {
        EXPECT(await_count(ledger_flag(RELEASED), 1));
    }
    EXPECT(tutti_persistent_start(p, &e) == TUTTI_OK);
    EXPECT(tutti_persistent_release(p, &e) == TUTTI_OK);
    EXPECT(tutti_persistent_release(p, &e) == TUTTI_BAD_STATE);
    if (rank == 0) {
        atomic_store(ledger_flag(RELEASED), 1);
    }
    EXPECT(tutti_barrier(g, NULL) == TUTTI_OK); /* behind it in its lane */
    EXPECT(value == 3);
}

static tutti_status two_ranks(tutti_group *g, void *user)
{
    (void)user;
    runs(g, tutti_group_rank(g));
    cancelling(g, tutti_group_rank(g));
    release(g, tutti_group_rank(g));
    return TUTTI_OK;
}

int main(void)
{
    ledger_on_ranks(2, two_ranks, NULL);
    return ledger_result();
}
