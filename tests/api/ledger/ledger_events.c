/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi,nccl,rccl,fault */
/* Notification of ends: listeners for success and failure, handlers by number, on the lane's thread, once each. */
#include "ledger_support.h"

#include <pthread.h>
#include <stdlib.h>

static const int64_t one = 1;

/* The notifications of one handler, written before the wait for the operation returns. */
struct recorded {
    int calls;
    tutti_event event;
    pthread_t thread;
};

static void record(const tutti_event *event, void *user)
{
    struct recorded *h = user;
    h->calls++;
    h->event = *event;
    h->thread = pthread_self();
    EXPECT(event->error && event->error->status == event->status);
}

static tutti_status start_sum(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    DLTensor t = ledger_tensor(user, &one, TUTTI_I32);
    return tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, call, work);
}

static tutti_status start_nothing(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    (void)call;
    (void)user;
    (void)work;
    return TUTTI_NO_RESOURCE;
}

static void completions(tutti_group *g, tutti_events *events, struct recorded *complete, int64_t listener)
{
    int32_t value = 1;
    tutti_error e;
    struct recorded first = {.calls = 0};
    struct recorded second = {.calls = 0};
    tutti_work *work = NULL;
    EXPECT(tutti_events_on_operation(events, 42, record, &first, NULL, &e) == TUTTI_OK);
    EXPECT(tutti_events_start(events, 42, start_sum, &value, NULL, record, &second, &work, &e) == TUTTI_OK);
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_OK && value == 2);
    EXPECT(first.calls == 1 && second.calls == 1 && complete->calls == 1);
    EXPECT(second.event.operation_id == 42 && second.event.operation == TUTTI_OP_ALL_REDUCE);
    EXPECT(second.event.work == work && complete->event.work == work && complete->event.status == TUTTI_OK);
    EXPECT(second.calls == 1 && !pthread_equal(second.thread, pthread_self()));
    EXPECT(ledger_end(&work) == TUTTI_OK);
    EXPECT(tutti_events_start(events, 43, start_nothing, NULL, NULL, record, &second, &work, &e) == TUTTI_NO_RESOURCE);
    EXPECT(tutti_barrier_async(g, TUTTI_CALL(.operation_id = 43), &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && second.calls == 1 && complete->calls == 2);
    /* a removed listener is not called again */
    EXPECT(tutti_events_remove(events, listener, &e) == TUTTI_OK);
    EXPECT(tutti_events_remove(events, listener, &e) == TUTTI_NOT_FOUND);
    EXPECT(tutti_barrier_async(g, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && complete->calls == 2);
}

static tutti_status two_ranks(tutti_group *g, void *user)
{
    (void)user;
    int32_t value = 0;
    int64_t listener = -1;
    tutti_error e;
    struct recorded complete = {.calls = 0};
    struct recorded failed = {.calls = 0};
    tutti_events *events = NULL;
    tutti_work *work = NULL;
    DLTensor t = ledger_tensor(&value, &one, tutti_group_rank(g) == 0 ? TUTTI_I32 : TUTTI_F32);
    EXPECT(tutti_events_create(NULL, &events, &e) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_events_create(g, &events, &e) == TUTTI_OK);
    EXPECT(tutti_events_on_complete(events, record, &complete, &listener, &e) == TUTTI_OK);
    EXPECT(tutti_events_on_error(events, record, &failed, NULL, &e) == TUTTI_OK);
    completions(g, events, &complete, listener);
    EXPECT(failed.calls == 0);
    EXPECT(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_MISMATCH);
    EXPECT(failed.calls == 1 && failed.event.status == TUTTI_MISMATCH && complete.calls == 2);
    /* handlers for success only; without the flag they are called for the failure, too */
    struct recorded handler = {.calls = 0};
    for (int on_ok = 1; on_ok >= 0; on_ok--) {
        const tutti_call *call = TUTTI_CALL(.operation_id = 44, .flags = on_ok ? (uint32_t)TUTTI_HANDLERS_ON_OK : 0u);
        EXPECT(tutti_events_on_operation(events, 44, record, &handler, NULL, &e) == TUTTI_OK);
        EXPECT(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, call, &work) == TUTTI_OK);
        EXPECT(ledger_end(&work) == TUTTI_MISMATCH && handler.calls == 1 - on_ok);
        EXPECT(tutti_barrier_async(g, call, &work) == TUTTI_OK); /* there is none any more */
        EXPECT(ledger_end(&work) == TUTTI_OK && handler.calls == 1 - on_ok);
    }
    /* forgotten, and only once */
    EXPECT(tutti_events_destroy(events, &e) == TUTTI_OK);
    EXPECT(tutti_events_destroy(events, &e) == TUTTI_BAD_STATE);
    EXPECT(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_MISMATCH && failed.calls == 3);
    return TUTTI_OK;
}

int main(void)
{
    ledger_on_ranks(2, two_ranks, NULL);
    return ledger_result();
}
