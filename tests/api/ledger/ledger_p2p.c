/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi,nccl,rccl,fault */
/* Messages between two ranks: tags, known and unknown shapes, probing, both directions at once, batches. */
#include "ledger_support.h"
#include "time_limits.h"

#include <sched.h>
#include <time.h>

/* Rank 0 sends tag 5 and then tag 4; rank 1 takes them in the other order. */
static void tags(tutti_group *group, int32_t rank)
{
    const int64_t three = 3;
    int32_t values[3] = {10, 20, 30};
    DLTensor tensor = ledger_tensor(values, &three, TUTTI_I32);
    if (rank == 0) {
        EXPECT(tutti_batch_begin(group, NULL) == TUTTI_OK);
        int32_t others[3] = {1, 2, 3};
        DLTensor second = ledger_tensor(others, &three, TUTTI_I32);
        EXPECT(tutti_send(group, &tensor, 1, 5, NULL) == TUTTI_OK);
        EXPECT(tutti_send(group, &second, 1, 4, NULL) == TUTTI_OK);
        EXPECT(tutti_batch_end(group, TUTTI_CALL(.timeout_ms = LONG_MS)) == TUTTI_OK);
    } else {
        tutti_message message = TUTTI_MESSAGE_INIT;
        memset(values, 0, sizeof(values));
        EXPECT(tutti_recv(group, &tensor, 0, 4, TUTTI_CALL(.timeout_ms = LONG_MS), &message) == TUTTI_OK);
        EXPECT(values[0] == 1 && values[1] == 2 && values[2] == 3);
        EXPECT(message.source == 0 && message.tag == 4 && message.count == 3 && message.dtype == TUTTI_I32);
        EXPECT(tutti_recv(group, &tensor, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, TUTTI_CALL(.timeout_ms = LONG_MS),
                          &message) == TUTTI_OK);
        EXPECT(values[0] == 10 && values[1] == 20 && values[2] == 30 && message.tag == 5);
    }
    EXPECT(tutti_barrier(group, NULL) == TUTTI_OK);
}

/* The receiver learns count and type by probing, then receives into memory that Tutti allocates in the sender's
 * shape. */
static void unknown_shape(tutti_group *group, int32_t rank)
{
    if (rank == 0) {
        const int64_t shape[2] = {2, 3};
        float values[6] = {0, 1, 2, 3, 4, 5};
        DLTensor tensor = ledger_tensor(values, shape, TUTTI_F32);
        tensor.ndim = 2;
        EXPECT(tutti_send(group, &tensor, 1, 9, TUTTI_CALL(.timeout_ms = LONG_MS)) == TUTTI_OK);
    } else {
        int32_t found = 0;
        tutti_message message = TUTTI_MESSAGE_INIT;
        time_t give_up = time(NULL) + LONG_MS / 1000;
        while (!found && time(NULL) < give_up && tutti_probe(group, 0, 9, &found, &message, NULL) == TUTTI_OK) {
            sched_yield();
        }
        EXPECT(found == 1 && message.count == 6 && message.bytes == 24 && message.dtype == TUTTI_F32);
        tutti_work *work = NULL;
        for (int i = 0; i < 2; i++) {
            const tutti_call *call = TUTTI_CALL(.timeout_ms = LONG_MS);
            message = (tutti_message)TUTTI_MESSAGE_INIT;
            EXPECT((i == 0 ? tutti_probe_wait(group, TUTTI_ANY_SOURCE, 9, call, &message)
                           : tutti_probe_async(group, 0, TUTTI_ANY_TAG, call, &message, &work)) == TUTTI_OK);
            EXPECT(i == 0 || ledger_end(&work) == TUTTI_OK);
            EXPECT(message.count == 6 && message.source == 0 && message.tag == 9);
        }
        tutti_error e = {.scope = TUTTI_SCOPE_GROUP};
        EXPECT(tutti_probe_wait(group, 0, 8, TUTTI_CALL(.timeout_ms = 1, .error = &e), NULL) == TUTTI_TIMEOUT);
        EXPECT(e.scope == TUTTI_SCOPE_CALL);
        DLManagedTensorVersioned *managed = NULL;
        EXPECT(tutti_recv_alloc(group, 0, 9, TUTTI_CALL(.timeout_ms = LONG_MS), &managed, &message) == TUTTI_OK);
        EXPECT(managed != NULL);
        if (managed) {
            const DLTensor *t = &managed->dl_tensor;
            EXPECT(t->ndim == 2 && t->shape[0] == 2 && t->shape[1] == 3 && t->dtype.bits == 32);
            EXPECT(((const float *)t->data)[5] == 5);
            managed->deleter(managed);
        }
    }
    EXPECT(tutti_barrier(group, NULL) == TUTTI_OK);
}

/* Both ranks send and receive; a batch of both must not deadlock whatever is posted first. */
static void both_ways(tutti_group *group, int32_t rank)
{
    const int64_t one = 1;
    int64_t mine = rank + 100;
    int64_t theirs = -1;
    DLTensor out = ledger_tensor(&mine, &one, TUTTI_I64);
    DLTensor in = ledger_tensor(&theirs, &one, TUTTI_I64);
    int32_t peer = 1 - rank;
    EXPECT(tutti_sendrecv(group, &out, peer, 1, &in, peer, 1, TUTTI_CALL(.timeout_ms = LONG_MS), NULL) == TUTTI_OK);
    EXPECT(theirs == peer + 100);

    DLManagedTensorVersioned *made = NULL;
    EXPECT(tutti_tensor_empty(group, TUTTI_I64, 1, &one, &made, NULL) == TUTTI_OK && made);
    if (made) {
        EXPECT(tutti_sendrecv(group, &out, peer, 1, &made->dl_tensor, peer, 1, TUTTI_CALL(.timeout_ms = LONG_MS),
                              NULL) == TUTTI_OK);
        EXPECT(*(const int64_t *)made->dl_tensor.data == peer + 100);
        made->deleter(made);
    }

    theirs = -1;
    EXPECT(tutti_batch_begin(group, NULL) == TUTTI_OK);
    EXPECT(tutti_batch_begin(group, NULL) == TUTTI_BAD_STATE);
    EXPECT(tutti_recv(group, &in, peer, 2, NULL, NULL) == TUTTI_OK);
    EXPECT(tutti_send(group, &out, peer, 2, NULL) == TUTTI_OK);
    EXPECT(tutti_batch_end(group, TUTTI_CALL(.timeout_ms = LONG_MS)) == TUTTI_OK);
    EXPECT(theirs == peer + 100);
    EXPECT(tutti_batch_end(group, NULL) == TUTTI_BAD_STATE);
    EXPECT(tutti_barrier(group, NULL) == TUTTI_OK);
}

static tutti_status two_ranks(tutti_group *group, void *user)
{
    (void)user;
    int32_t rank = tutti_group_rank(group);
    tags(group, rank);
    unknown_shape(group, rank);
    both_ways(group, rank);
    return TUTTI_OK;
}

int main(void)
{
    ledger_on_ranks(2, two_ranks, NULL);
    return ledger_result();
}
