/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad arguments of messages, one case each: the status, and a message that names the argument. The group still
 * works. */
#include <stdbool.h>

#include "api/bad_inputs.h"
#include "api/collectives/bad_tensors.h"

#define RANKS 2

static tutti_status send_tensor(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    return tutti_send(g, bad, 1 - tutti_group_rank(g), 0, call);
}

static tutti_status recv_tensor(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    return tutti_recv(g, (DLTensor *)bad, 1 - tutti_group_rank(g), 0, call, NULL);
}

static DLTensor spare(void)
{
    static float data[4];
    static int64_t four = 4;
    return tutti_tensor_1d(data, &four, TUTTI_F32);
}

static tutti_status sendrecv_sent(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor other = spare();
    int32_t peer = 1 - tutti_group_rank(g);
    return tutti_sendrecv(g, bad, peer, 0, &other, peer, 0, call, NULL);
}

static tutti_status sendrecv_received(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor other = spare();
    int32_t peer = 1 - tutti_group_rank(g);
    return tutti_sendrecv(g, &other, peer, 0, (DLTensor *)bad, peer, 0, call, NULL);
}

static void tensors(tutti_group *g)
{
    float data[4] = {0};
    int64_t four = 4;
    DLTensor good = tutti_tensor_1d(data, &four, TUTTI_F32);
    try_bad_tensors(g, "send", "tensor", &good, send_tensor, READ);
    try_bad_tensors(g, "recv", "tensor", &good, recv_tensor, WRITTEN);
    try_bad_tensors(g, "sendrecv", "send_tensor", &good, sendrecv_sent, READ);
    try_bad_tensors(g, "sendrecv", "recv_tensor", &good, sendrecv_received, WRITTEN);
}

static void peers_and_tags(tutti_group *g)
{
    tutti_error e;
    float a[4] = {0};
    float b[4] = {0};
    int64_t four = 4;
    DLTensor t = tutti_tensor_1d(a, &four, TUTTI_F32);
    DLTensor u = tutti_tensor_1d(b, &four, TUTTI_F32);
    DLManagedTensorVersioned *managed = NULL;
    int32_t peer = 1 - tutti_group_rank(g);
    int32_t found = 5;
    EXPECT(tutti_send(NULL, &t, peer, 0, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_recv(NULL, &t, peer, 0, NULL, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_probe(NULL, peer, 0, &found, NULL, NULL) == TUTTI_INVALID_ARGUMENT);
    BAD("peer is 2", tutti_send(g, &t, RANKS, 0, OPTIONS));
    BAD("peer is -1", tutti_send(g, &t, TUTTI_ANY_SOURCE, 0, OPTIONS));
    BAD("peer is 2", tutti_recv(g, &t, RANKS, 0, OPTIONS, NULL));
    BAD("peer is -2", tutti_recv(g, &t, -2, 0, OPTIONS, NULL));
    BAD("peer is 2", tutti_recv_alloc(g, RANKS, 0, OPTIONS, &managed, NULL));
    BAD("destination is 2", tutti_sendrecv(g, &t, RANKS, 0, &u, peer, 0, OPTIONS, NULL));
    BAD("source is 9", tutti_sendrecv(g, &t, peer, 0, &u, 9, 0, OPTIONS, NULL));
    BAD("peer is 2", tutti_probe(g, RANKS, 0, &found, NULL, &e));
    BAD("tag is -1", tutti_send(g, &t, peer, TUTTI_ANY_TAG, OPTIONS));
    BAD("tag is -2", tutti_recv(g, &t, peer, -2, OPTIONS, NULL));
    BAD("tag is -2", tutti_recv_alloc(g, peer, -2, OPTIONS, &managed, NULL));
    BAD("send_tag is -1", tutti_sendrecv(g, &t, peer, -1, &u, peer, 0, OPTIONS, NULL));
    BAD("recv_tag is -3", tutti_sendrecv(g, &t, peer, 0, &u, peer, -3, OPTIONS, NULL));
    BAD("tag is -7", tutti_probe(g, peer, -7, &found, NULL, &e));
    BAD("peer is 2", tutti_probe_wait(g, RANKS, 0, OPTIONS, NULL));
    BAD("tag is -7", tutti_probe_wait(g, peer, -7, OPTIONS, NULL));
    BAD("work is NULL", tutti_probe_async(g, peer, 0, OPTIONS, NULL, NULL));
    BAD("lane", tutti_send(g, &t, peer, 0, TUTTI_CALL(.error = &e, .lane = 3)));
    BAD("timeout_ms", tutti_send(g, &t, peer, 0, TUTTI_CALL(.error = &e, .timeout_ms = -5)));
    EXPECT(managed == NULL && found == 5);
}

static void results(tutti_group *g)
{
    tutti_error e;
    float a[4] = {0};
    int64_t four = 4;
    DLTensor t = tutti_tensor_1d(a, &four, TUTTI_F32);
    int32_t peer = 1 - tutti_group_rank(g);
    int32_t found = 5;
    DLManagedTensorVersioned *managed = NULL;
    tutti_message unset = {0};
    tutti_message larger = {.size = 40};
    BAD("message->size is 0", tutti_recv(g, &t, peer, 0, OPTIONS, &unset));
    BAD("message->size is 40", tutti_recv(g, &t, peer, 0, OPTIONS, &larger));
    BAD("message->size is 0", tutti_recv_alloc(g, peer, 0, OPTIONS, &managed, &unset));
    BAD("message->size is 0", tutti_probe(g, peer, 0, &found, &unset, &e));
    BAD("found is NULL", tutti_probe(g, peer, 0, NULL, NULL, &e));
    BAD("message->size is 0", tutti_probe_wait(g, peer, 0, OPTIONS, &unset));
    BAD("wait for itself", tutti_probe_wait(g, 1 - peer, 0, OPTIONS, NULL));
    BAD("tensor is NULL", tutti_recv_alloc(g, peer, 0, OPTIONS, NULL, NULL));
    EXPECT(managed == NULL && found == 5);
}

static void oneself(tutti_group *g)
{
    tutti_error e;
    float a[8] = {0};
    int64_t four = 4;
    DLTensor t = tutti_tensor_1d(a, &four, TUTTI_F32);
    DLTensor u = tutti_tensor_1d(a + 4, &four, TUTTI_F32);
    DLTensor crossing = tutti_tensor_1d(a + 2, &four, TUTTI_F32);
    DLManagedTensorVersioned *managed = NULL;
    int32_t me = tutti_group_rank(g);
    BAD("the own rank, and no receive", tutti_send(g, &t, me, 0, OPTIONS));
    BAD("the own rank, and no send", tutti_recv(g, &t, me, 0, OPTIONS, NULL));
    BAD("the own rank", tutti_recv_alloc(g, me, 0, OPTIONS, &managed, NULL));
    BAD("the own rank", tutti_sendrecv(g, &t, me, 1, &u, me, 2, OPTIONS, NULL));
    BAD("the own rank", tutti_sendrecv(g, &t, me, 1, &u, 1 - me, 1, OPTIONS, NULL));
    BAD("the own rank", tutti_sendrecv(g, &t, 1 - me, 1, &u, me, 1, OPTIONS, NULL));
    BAD("overlaps", tutti_sendrecv(g, &t, 1 - me, 1, &crossing, 1 - me, 1, OPTIONS, NULL));
    BAD("overlaps", tutti_sendrecv(g, &t, me, 1, &t, me, 1, OPTIONS, NULL));
    /* what would not fit into the own tensor */
    int64_t three = 3;
    DLTensor shorter = tutti_tensor_1d(a + 4, &three, TUTTI_F32);
    DLTensor other = tutti_tensor_1d(a + 4, &four, TUTTI_I32);
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "holds 3", tutti_sendrecv(g, &t, me, 1, &shorter, me, 1, OPTIONS, NULL));
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "i32", tutti_sendrecv(g, &t, me, 1, &other, me, 1, OPTIONS, NULL));
    EXPECT_USABLE(g);
    EXPECT(managed == NULL);
}

static void batches(tutti_group *g)
{
    tutti_error e;
    float a[8] = {0};
    int64_t four = 4;
    DLTensor t = tutti_tensor_1d(a, &four, TUTTI_F32);
    DLTensor u = tutti_tensor_1d(a + 4, &four, TUTTI_F32);
    int32_t me = tutti_group_rank(g);
    EXPECT(tutti_batch_begin(NULL, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "no batch open", tutti_batch_end(g, OPTIONS));
    EXPECT_OK(tutti_batch_begin(g, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "batch open", tutti_batch_begin(g, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "all_reduce: a batch", tutti_all_reduce(g, &t, &t, TUTTI_SUM, OPTIONS));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "barrier: a batch", tutti_barrier(g, OPTIONS));
    /* a member that is refused is not in the batch */
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "peer is 7", tutti_send(g, &t, 7, 0, OPTIONS));
    EXPECT_OK(tutti_batch_end(g, OPTIONS));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "no batch open", tutti_batch_end(g, OPTIONS));
    EXPECT_USABLE(g);
    /* no message runs if one to this rank itself has no partner: the peer gets no other one either */
    EXPECT_OK(tutti_batch_begin(g, &e));
    EXPECT_OK(tutti_send(g, &t, 1 - me, 3, NULL));
    EXPECT_OK(tutti_send(g, &t, me, 4, NULL));
    EXPECT_OK(tutti_recv(g, &u, me, 5, NULL, NULL));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "the own rank", tutti_batch_end(g, OPTIONS));
    EXPECT_USABLE(g);
    int32_t found = 1;
    EXPECT_OK(tutti_probe(g, 1 - me, 3, &found, NULL, &e));
    EXPECT(found == 0);
    EXPECT_OK(tutti_batch_begin(g, &e));
    EXPECT_OK(tutti_recv(g, &u, me, 5, NULL, NULL));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "wait for itself", tutti_batch_end(g, OPTIONS));
    EXPECT_USABLE(g);
    /* bad options of the end close the batch too */
    EXPECT_OK(tutti_batch_begin(g, &e));
    EXPECT_OK(tutti_send(g, &t, 1 - me, 3, NULL));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "lane", tutti_batch_end(g, TUTTI_CALL(.error = &e, .lane = 99)));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "no batch open", tutti_batch_end(g, OPTIONS));
    EXPECT_USABLE(g);
}

/* Too small or of another dtype: MISMATCH with both sizes; the message stays and can be received properly. */
static void mismatches(tutti_group *g, int64_t length)
{
    static int32_t sent[100000];
    static int32_t received[100000];
    tutti_error e;
    if (tutti_group_rank(g) == 0) {
        DLTensor t = tutti_tensor_1d(sent, &length, TUTTI_I32);
        EXPECT_OK(tutti_send(g, &t, 1, 8, NULL));
    } else {
        char count[32];
        int64_t less = length - 1;
        tutti_message message = TUTTI_MESSAGE_INIT;
        DLTensor small = tutti_tensor_1d(received, &less, TUTTI_I32);
        DLTensor other = tutti_tensor_1d(received, &length, TUTTI_F32);
        DLTensor good = tutti_tensor_1d(received, &length, TUTTI_I32);
        snprintf(count, sizeof(count), "%lld", (long long)length);
        EXPECT_ERROR(&e, TUTTI_MISMATCH, count, tutti_recv(g, &small, 0, 8, OPTIONS, NULL));
        EXPECT_ERROR(&e, TUTTI_MISMATCH, "f32", tutti_recv(g, &other, 0, 8, OPTIONS, &message));
        EXPECT(message.count == 0); /* written on success only */
        int32_t found = 0;
        EXPECT_OK(tutti_probe(g, 0, 8, &found, &message, &e));
        EXPECT(found == 1 && message.count == length && message.dtype == TUTTI_I32 && message.tag == 8);
        EXPECT_OK(tutti_recv(g, &good, 0, 8, OPTIONS, &message));
        EXPECT(message.count == length && message.bytes == 4 * length && message.source == 0);
    }
    EXPECT_USABLE(g);
}

static tutti_status alone(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    int64_t one = 1;
    float value = 0;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_F32);
    BAD("any source", tutti_recv(g, &t, TUTTI_ANY_SOURCE, 0, OPTIONS, NULL));
    return TUTTI_OK;
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    tensors(g);
    peers_and_tags(g);
    results(g);
    oneself(g);
    batches(g);
    mismatches(g, 2);
    mismatches(g, 100000);
    return TUTTI_OK;
}

int main(void)
{
    for (int i = 0; i <= TUTTI_MAX_NDIM; i++) {
        bad_numbers[i] = 1;
    }
    test_ranks(RANKS, rank);
    test_ranks(1, alone);
    return test_result();
}
