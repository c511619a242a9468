/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi,nccl,rccl,fault */
/*
 * The queue: waiting for all and for any, limits, results, cancelling, ending, and several threads that fill it. Where
 * an operation must be under way, rank 1 joins it only after rank 0 has released it.
 */
#include "ledger_support.h"
#include "time_limits.h"

#include <pthread.h>
#include <stdlib.h>

enum { MANY = 20, LANES = 2 };

/* What rank 1 waits for. */
enum { MEMBERS, DISPOSAL };

static const int64_t one = 1;

static tutti_status start_sum(tutti_group *g, int32_t lane, int32_t *value, tutti_work **work)
{
    DLTensor t = ledger_tensor(value, &one, TUTTI_I32);
    return tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.lane = lane, .flags = ledger_cancellable(g)), work);
}

/* Lane 0: a barrier and a sum behind it, which is cancelled; lane 1: a sum that ends at once. */
static void join(tutti_group *g)
{
    int32_t values[2] = {2, 0};
    tutti_work *works[2] = {NULL, NULL};
    EXPECT(start_sum(g, 1, &values[0], &works[0]) == TUTTI_OK);
    EXPECT(ledger_end(&works[0]) == TUTTI_OK && values[0] == 3);
    EXPECT(await_count(ledger_flag(MEMBERS), 1));
    EXPECT(ledger_start_held(g, &works[0]) == TUTTI_OK);
    EXPECT(start_sum(g, 0, &values[1], &works[1]) == TUTTI_OK);
    EXPECT(ledger_end(&works[0]) == TUTTI_OK);
    EXPECT(ledger_end(&works[1]) == TUTTI_CANCELLED);
}

static void members(tutti_group *g)
{
    int32_t values[2] = {1, 0};
    int32_t ended = -1;
    int64_t number = -2;
    tutti_error e;
    DLTensor view = {.data = NULL};
    tutti_queue *queue = NULL;
    tutti_work *works[3] = {NULL, NULL, NULL};
    EXPECT(tutti_queue_create(&queue, &e) == TUTTI_OK);
    EXPECT(tutti_queue_wait_any(queue, 0, &number, &e) == TUTTI_OK && number == -1);
    EXPECT(ledger_start_held(g, &works[0]) == TUTTI_OK);
    EXPECT(start_sum(g, 1, &values[0], &works[1]) == TUTTI_OK);
    EXPECT(start_sum(g, 0, &values[1], &works[2]) == TUTTI_OK);
    for (int i = 0; i < 3; i++) {
        EXPECT(tutti_queue_enqueue(queue, works[i], &e) == TUTTI_OK);
    }
    EXPECT(tutti_queue_enqueue(queue, NULL, &e) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_queue_enqueue(queue, works[0], &e) == TUTTI_BAD_STATE);
    EXPECT(tutti_queue_count(queue, &number) == TUTTI_OK && number == 3);
    EXPECT(tutti_queue_wait_any(queue, LONG_MS, &number, &e) == TUTTI_OK && number == 1);
    EXPECT(tutti_queue_pending(queue, &number) == TUTTI_OK && number == 2);
    memset(&e, 0x55, sizeof(e));
    EXPECT(tutti_queue_status(queue, 1, &e) == TUTTI_OK && e.status == TUTTI_OK && e.size == sizeof(e));
    EXPECT(tutti_queue_status(queue, 0, &e) == TUTTI_BAD_STATE);
    EXPECT(tutti_queue_status(queue, 3, &e) == TUTTI_NOT_FOUND);
    EXPECT(tutti_queue_result(queue, 1, &view, &e) == TUTTI_OK && view.data == &values[0] && values[0] == 3);
    EXPECT(tutti_queue_wait_all(queue, 1, &e) == TUTTI_BUSY);
    EXPECT(tutti_queue_clear_completed(queue, &number) == TUTTI_OK && number == 1);
    EXPECT(tutti_queue_wait_any(queue, 1, &number, &e) == TUTTI_OK && number == -1);
    EXPECT(tutti_queue_cancel_all(queue, &number) == TUTTI_OK && number == 1);
    atomic_store(ledger_flag(MEMBERS), 1);
    EXPECT(tutti_queue_wait_all(queue, TUTTI_FOREVER, &e) == TUTTI_CANCELLED && e.status == TUTTI_CANCELLED);
    EXPECT(tutti_queue_pending(queue, &number) == TUTTI_OK && number == 0);
    EXPECT(tutti_queue_destroy(queue, &e) == TUTTI_OK);
    EXPECT(tutti_queue_destroy(queue, &e) == TUTTI_BAD_STATE);
    EXPECT(tutti_work_test(works[0], &ended) == TUTTI_BAD_STATE); /* released with the queue */
}

/* Destroying the queue releases the handles; the operations continue, whether they had begun or not. */
static void disposal(tutti_group *g, int32_t rank)
{
    int32_t value = 1;
    tutti_error e;
    tutti_queue *queue = NULL;
    tutti_work *works[2] = {NULL, NULL};
    if (rank == 1) {
        EXPECT(await_count(ledger_flag(DISPOSAL), 1));
    }
    EXPECT(ledger_start_held(g, &works[0]) == TUTTI_OK);
    EXPECT(start_sum(g, 0, &value, &works[1]) == TUTTI_OK);
    if (rank == 1) {
        EXPECT(ledger_end(&works[0]) == TUTTI_OK);
        EXPECT(ledger_end(&works[1]) == TUTTI_OK && value == 2);
    } else {
        EXPECT(tutti_queue_create(&queue, &e) == TUTTI_OK);
        EXPECT(tutti_queue_enqueue(queue, works[0], &e) == TUTTI_OK);
        EXPECT(tutti_queue_enqueue(queue, works[1], &e) == TUTTI_OK);
        EXPECT(tutti_queue_destroy(queue, &e) == TUTTI_OK);
        atomic_store(ledger_flag(DISPOSAL), 1);
    }
    EXPECT(tutti_barrier(g, NULL) == TUTTI_OK); /* behind them in the lane: `value` is free again */
    EXPECT(value == 2);
}

/* Two threads fill one queue, each from a lane of its own. */
struct filler {
    tutti_group *group;
    tutti_queue *queue;
    int32_t lane;
    int32_t values[MANY];
};

static void *fill(void *argument)
{
    struct filler *f = argument;
    for (int32_t i = 0; i < MANY; i++) {
        tutti_work *work = NULL;
        f->values[i] = i;
        EXPECT(start_sum(f->group, f->lane, &f->values[i], &work) == TUTTI_OK);
        EXPECT(tutti_queue_enqueue(f->queue, work, NULL) == TUTTI_OK);
    }
    return NULL;
}

static void threads(tutti_group *g)
{
    pthread_t thread[LANES];
    struct filler fillers[LANES];
    int64_t number = -1;
    tutti_error e;
    tutti_queue *queue = NULL;
    EXPECT(tutti_queue_create(&queue, &e) == TUTTI_OK);
    for (int32_t i = 0; i < LANES; i++) {
        fillers[i] = (struct filler){.group = g, .queue = queue, .lane = i};
        EXPECT(pthread_create(&thread[i], NULL, fill, &fillers[i]) == 0);
    }
    EXPECT(tutti_queue_wait_all(queue, TUTTI_FOREVER, &e) == TUTTI_OK); /* what there is by now */
    for (int i = 0; i < LANES; i++) {
        pthread_join(thread[i], NULL);
    }
    EXPECT(tutti_queue_wait_all(queue, TUTTI_FOREVER, &e) == TUTTI_OK);
    EXPECT(tutti_queue_count(queue, &number) == TUTTI_OK && number == LANES * MANY);
    for (int64_t i = 0; i < LANES * MANY; i++) {
        DLTensor view = {.data = NULL};
        EXPECT(tutti_queue_result(queue, i, &view, &e) == TUTTI_OK && view.data != NULL);
    }
    for (int32_t i = 0; i < MANY; i++) {
        EXPECT(fillers[0].values[i] == 2 * i && fillers[1].values[i] == 2 * i);
    }
    EXPECT(tutti_queue_clear_completed(queue, &number) == TUTTI_OK && number == LANES * MANY);
    EXPECT(tutti_queue_destroy(queue, &e) == TUTTI_OK);
}

static tutti_status two_ranks(tutti_group *g, void *user)
{
    (void)user;
    if (tutti_group_rank(g) == 0) {
        members(g);
    } else {
        join(g);
    }
    disposal(g, tutti_group_rank(g));
    threads(g);
    return TUTTI_OK;
}

int main(void)
{
    setenv("TUTTI_LANES", "2", 1);
    ledger_on_ranks(2, two_ranks, NULL);
    return ledger_result();
}
