/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi,nccl,rccl,fault */
/* Asynchronous messages between two ranks: tags, unknown shapes, both directions at once, batches, cancelling one. */
#include "ledger_support.h"

#include <stdlib.h>

static const int64_t one = 1;

/* Rank 0 sends tag 5 and then tag 4; rank 1 receives tag 4 first. No rank waits before both messages are posted. */
static void tags(tutti_group *g, int32_t rank)
{
    int32_t values[2] = {0, 0};
    tutti_message messages[2] = {TUTTI_MESSAGE_INIT, TUTTI_MESSAGE_INIT};
    tutti_work *works[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        DLTensor t = ledger_tensor(&values[i], &one, TUTTI_I32);
        if (rank == 0) {
            values[i] = 100 + 5 - i;
            EXPECT(tutti_send_async(g, &t, 1, 5 - i, NULL, &works[i]) == TUTTI_OK);
        } else {
            EXPECT(tutti_recv_async(g, &t, 0, 4 + i, NULL, &messages[i], &works[i]) == TUTTI_OK);
        }
    }
    for (int i = 0; i < 2; i++) {
        EXPECT(ledger_end(&works[i]) == TUTTI_OK);
        EXPECT(values[i] == (rank == 0 ? 105 - i : 104 + i));
        EXPECT(rank == 0 || (messages[i].source == 0 && messages[i].tag == 4 + i && messages[i].count == 1));
    }
}

/* The receive is posted before the message, and gets the shape from the message. */
static void unknown_shape(tutti_group *g, int32_t rank)
{
    const int64_t shape[2] = {2, 3};
    float values[6] = {0, 1, 2, 3, 4, 5};
    DLTensor t = ledger_tensor(values, shape, TUTTI_F32);
    DLManagedTensorVersioned *managed = NULL;
    tutti_message message = TUTTI_MESSAGE_INIT;
    tutti_work *work = NULL;
    t.ndim = 2;
    if (rank == 1) {
        EXPECT(tutti_recv_alloc_async(g, 0, 9, NULL, &managed, &message, &work) == TUTTI_OK);
    }
    EXPECT(tutti_barrier(g, NULL) == TUTTI_OK);
    if (rank == 0) {
        EXPECT(managed == NULL && tutti_send_async(g, &t, 1, 9, NULL, &work) == TUTTI_OK);
    }
    EXPECT(ledger_end(&work) == TUTTI_OK);
    EXPECT((managed != NULL) == (rank == 1));
    if (managed) {
        const DLTensor *got = &managed->dl_tensor;
        EXPECT(got->ndim == 2 && got->shape[0] == 2 && got->shape[1] == 3 && message.bytes == 24);
        EXPECT(memcmp(got->data, values, sizeof(values)) == 0);
        managed->deleter(managed);
    }
}

static void both_ways(tutti_group *g, int32_t rank)
{
    int32_t peer = 1 - rank;
    int32_t mine = rank + 100;
    int32_t theirs = -1;
    DLTensor out = ledger_tensor(&mine, &one, TUTTI_I32);
    DLTensor in = ledger_tensor(&theirs, &one, TUTTI_I32);
    tutti_work *work = NULL;
    EXPECT(tutti_sendrecv_async(g, &out, peer, 1, &in, peer, 1, NULL, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && theirs == peer + 100);

    theirs = -1;
    EXPECT(tutti_batch_begin(g, NULL) == TUTTI_OK);
    EXPECT(tutti_recv(g, &in, peer, 2, NULL, NULL) == TUTTI_OK);
    EXPECT(tutti_send(g, &out, peer, 2, NULL) == TUTTI_OK);
    EXPECT(tutti_batch_end_async(g, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && theirs == peer + 100);
    EXPECT(tutti_batch_end_async(g, NULL, &work) == TUTTI_BAD_STATE);
}

/* A receive that is cancelled ends at once, on this rank alone, and takes no message. */
static void withdrawn(tutti_group *g, int32_t rank)
{
    int32_t value = 7;
    int32_t cancelled = -1;
    tutti_error e;
    DLTensor t = ledger_tensor(&value, &one, TUTTI_I32);
    tutti_work *work = NULL;
    if (rank == 1) {
        EXPECT(tutti_recv_async(g, &t, TUTTI_ANY_SOURCE, 3, NULL, NULL, &work) == TUTTI_OK);
        EXPECT(tutti_work_cancel(work, &e) == TUTTI_OK);
        EXPECT(tutti_work_cancelled(work, &cancelled) == TUTTI_OK && cancelled == 1);
        EXPECT(ledger_end(&work) == TUTTI_CANCELLED && value == 7);
    }
    EXPECT(tutti_barrier(g, NULL) == TUTTI_OK);
    if (rank == 0) {
        value = 8;
        EXPECT(tutti_send_async(g, &t, 1, 3, NULL, &work) == TUTTI_OK);
    } else {
        EXPECT(tutti_recv_async(g, &t, 0, 3, NULL, NULL, &work) == TUTTI_OK);
    }
    EXPECT(ledger_end(&work) == TUTTI_OK && value == 8);
}

static tutti_status two_ranks(tutti_group *g, void *user)
{
    (void)user;
    int32_t rank = tutti_group_rank(g);
    tags(g, rank);
    unknown_shape(g, rank);
    both_ways(g, rank);
    withdrawn(g, rank);
    return TUTTI_OK;
}

int main(void)
{
    ledger_on_ranks(2, two_ranks, NULL);
    return ledger_result();
}
