/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: Tutti matches them itself; MPI_Improbe and MPI_Mrecv take each one, so no other thread can take it in
 * between. */
#include <sched.h>

#include "support.h"

enum { FEW = 6, MANY = 5000 /* elements: more than an envelope holds */ };

static float element(int i)
{
    return (float)(3 * i + 1);
}

static void fill(float *values, int count)
{
    for (int i = 0; i < count; i++) {
        values[i] = element(i);
    }
}

static bool is_filled(const float *values, int count)
{
    bool good = true;
    for (int i = 0; i < count; i++) {
        good = good && values[i] == element(i);
    }
    return good;
}

/* Rank 0 sends, rank 1 receives into a tensor: few elements are sent in the envelope, many behind it. Ends with a
 * barrier, since a receive takes in all envelopes that have arrived. */
static void known_shape(tutti_group *group, int elements)
{
    static float values[MANY];
    const int64_t count = elements;
    tutti_error error = {0};
    tutti_message message = TUTTI_MESSAGE_INIT;
    const tutti_call *call = TUTTI_CALL(.error = &error, .timeout_ms = ledger_limit_ms());
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_F32);
    memset(values, 0, sizeof(values));
    if (tutti_group_rank(group) == 0) {
        fill(values, elements);
        call_counter_take(COUNTED_ISEND);
        EXPECT_OK(tutti_send(group, &t, 1, 70000, call));
        const struct call_counter w = call_counter_take(COUNTED_ISEND);
        EXPECT(w.calls == (elements == MANY ? 2 : 1) && w.type == MPI_BYTE);
    } else {
        call_counter_take(COUNTED_IMPROBE);
        call_counter_take(COUNTED_MRECV);
        call_counter_take(COUNTED_IRECV);
        EXPECT_OK(tutti_recv(group, &t, 0, 70000, call, &message));
        const struct call_counter letter = call_counter_take(COUNTED_MRECV);
        const struct call_counter data = call_counter_take(COUNTED_IRECV);
        EXPECT(call_counter_take(COUNTED_IMPROBE).calls > 0 && letter.calls == 1 && letter.type == MPI_BYTE);
        EXPECT(elements == MANY ? data.calls == 1 && data.type == MPI_BYTE : data.calls == 0);
        EXPECT(message.source == 0 && message.tag == 70000 && message.count == elements && message.dtype == TUTTI_F32);
        EXPECT(message.bytes == 4 * elements && is_filled(values, elements));
    }
    EXPECT_OK(tutti_barrier(group, TUTTI_CALL(.error = &error)));
}

/* The receiver probes for the message without waiting; then memory is allocated in the sender's shape. */
static void unknown_shape(tutti_group *group)
{
    const int64_t shape[2] = {2, FEW / 2};
    float values[FEW];
    int32_t found = 0;
    tutti_error error = {0};
    tutti_message message = TUTTI_MESSAGE_INIT;
    DLManagedTensorVersioned *managed = NULL;
    const tutti_call *call = TUTTI_CALL(.error = &error, .timeout_ms = ledger_limit_ms());
    DLTensor t = tutti_tensor_nd(values, 2, shape, TUTTI_F32);
    fill(values, FEW);
    if (tutti_group_rank(group) == 0) {
        EXPECT_OK(tutti_probe(group, 1, 9, &found, &message, &error));
        EXPECT(found == 0);
        EXPECT_OK(tutti_send(group, &t, 1, 9, call));
        return;
    }
    while (!found) {
        EXPECT_OK(tutti_probe(group, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, &found, &message, &error));
        sched_yield();
    }
    EXPECT(message.source == 0 && message.tag == 9 && message.count == FEW && message.dtype == TUTTI_F32);
    EXPECT_OK(tutti_recv_alloc(group, 0, 9, call, &managed, &message));
    EXPECT(managed && managed->dl_tensor.ndim == 2 && managed->dl_tensor.shape[1] == FEW / 2);
    EXPECT(is_filled(managed->dl_tensor.data, FEW) && message.count == FEW);
    managed->deleter(managed);
}

/* Both ranks at once, and in any order of tags. */
static void both_ways(tutti_group *group)
{
    static float out[MANY];
    static float in[MANY];
    const int64_t count = MANY;
    const int64_t few = FEW;
    const int peer = 1 - tutti_group_rank(group);
    tutti_error error = {0};
    tutti_message message = TUTTI_MESSAGE_INIT;
    tutti_work *works[3] = {NULL, NULL, NULL};
    const int64_t limit = ledger_limit_ms();
    const tutti_call *call = TUTTI_CALL(.error = &error, .timeout_ms = limit);
    float first[FEW] = {0};
    float second[FEW] = {0};
    DLTensor sent = tutti_tensor_1d(out, &count, TUTTI_F32);
    DLTensor part = tutti_tensor_1d(out, &few, TUTTI_F32);
    DLTensor received = tutti_tensor_1d(in, &count, TUTTI_F32);
    DLTensor a = tutti_tensor_1d(first, &few, TUTTI_F32);
    DLTensor b = tutti_tensor_1d(second, &few, TUTTI_F32);
    fill(out, MANY);
    EXPECT_OK(tutti_sendrecv(group, &sent, peer, 3, &received, peer, 3, call, &message));
    EXPECT(is_filled(in, MANY) && message.source == peer);
    EXPECT_OK(tutti_recv_async(group, &a, peer, 5, call, &message, &works[0]));
    EXPECT_OK(tutti_recv_async(group, &b, peer, 4, call, &message, &works[1]));
    EXPECT_OK(tutti_send_async(group, &part, peer, 4, call, &works[2]));
    EXPECT_OK(tutti_send(group, &part, peer, 5, call));
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(tutti_work_wait(works[i], TUTTI_FOREVER));
        EXPECT(tutti_work_release(works[i]) == TUTTI_OK);
    }
    EXPECT(is_filled(first, FEW) && is_filled(second, FEW));
}

static void unknown_shape_asynchronous(tutti_group *group)
{
    const int64_t count = MANY;
    static float values[MANY];
    tutti_error error = {0};
    tutti_work *work = NULL;
    tutti_message message = TUTTI_MESSAGE_INIT;
    DLManagedTensorVersioned *managed = NULL;
    const tutti_call *call = TUTTI_CALL(.error = &error, .timeout_ms = ledger_limit_ms());
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_F32);
    fill(values, MANY);
    if (tutti_group_rank(group) == 1) {
        EXPECT_OK(tutti_send(group, &t, 0, 0, call));
        return;
    }
    EXPECT_OK(tutti_recv_alloc_async(group, 1, 0, call, &managed, &message, &work));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT(tutti_work_release(work) == TUTTI_OK);
    EXPECT(managed && managed->dl_tensor.shape[0] == MANY && is_filled(managed->dl_tensor.data, MANY));
    managed->deleter(managed);
}

int main(void)
{
    tutti_error error = {0};
    tutti_group *group = ledger_group(NULL);
    known_shape(group, FEW);
    known_shape(group, MANY);
    unknown_shape(group);
    both_ways(group);
    unknown_shape_asynchronous(group);
    EXPECT_OK(tutti_barrier(group, TUTTI_CALL(.error = &error)));
    EXPECT_OK(tutti_group_destroy(group, &error));
    return 0;
}
