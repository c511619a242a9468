/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches: messages that start together, among them messages of a rank to itself. */
#include <stdbool.h>
#include <stdlib.h>

#include "api/check.h"
#include "time_limits.h"

#define RANKS 3
#define MANY  200

/* Both ranks post the receive first; without a batch that would never end. */
static void receive_first(tutti_group *g, int64_t n)
{
    int32_t me = tutti_group_rank(g);
    int32_t *in = malloc((size_t)n * sizeof(*in));
    int32_t *out = malloc((size_t)n * sizeof(*out));
    if (!in || !out) {
        abort();
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = me * 10000000 + (int32_t)i;
        in[i] = -1;
    }
    int32_t next = (me + 1) % RANKS;
    int32_t previous = (me + RANKS - 1) % RANKS;
    DLTensor recv = tutti_tensor_1d(in, &n, TUTTI_I32);
    DLTensor send = tutti_tensor_1d(out, &n, TUTTI_I32);
    tutti_message m = TUTTI_MESSAGE_INIT;
    EXPECT_OK(tutti_batch_begin(g, NULL));
    EXPECT_OK(tutti_recv(g, &recv, previous, 4, NULL, &m));
    EXPECT(in[0] == -1 && m.count == 0); /* recorded, not run */
    EXPECT_OK(tutti_send(g, &send, next, 4, NULL));
    EXPECT_OK(tutti_batch_end(g, NULL));
    bool right = m.source == previous && m.tag == 4 && m.count == n;
    for (int64_t i = 0; i < n; i++) {
        right = right && in[i] == previous * 10000000 + i;
    }
    EXPECT(right);
    free(in);
    free(out);
}

/* Every rank sends many messages to every rank, itself included; shapes go out of scope before the end. */
static void all_to_all_messages(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    static int32_t in[RANKS][RANKS][MANY];
    int32_t out[MANY];
    tutti_message messages[RANKS][MANY];
    EXPECT_OK(tutti_batch_begin(g, NULL));
    for (int32_t i = 0; i < MANY; i++) {
        int64_t one = 1;
        out[i] = me * 1000 + i;
        for (int32_t peer = 0; peer < RANKS; peer++) {
            in[me][peer][i] = -1;
            messages[peer][i] = (tutti_message)TUTTI_MESSAGE_INIT;
            DLTensor recv = tutti_tensor_1d(&in[me][peer][i], &one, TUTTI_I32);
            DLTensor send = tutti_tensor_1d(&out[i], &one, TUTTI_I32);
            EXPECT_OK(tutti_recv(g, &recv, peer, i % 7, NULL, &messages[peer][i]));
            EXPECT_OK(tutti_send(g, &send, peer, i % 7, NULL));
        }
    }
    EXPECT_OK(tutti_batch_end(g, TUTTI_CALL(.timeout_ms = LONG_MS)));
    bool right = true;
    for (int32_t peer = 0; peer < RANKS; peer++) {
        for (int32_t i = 0; i < MANY; i++) {
            right = right && in[me][peer][i] == peer * 1000 + i && messages[peer][i].source == peer &&
                    messages[peer][i].tag == i % 7;
        }
    }
    EXPECT(right);
}

/* What a rank sends to itself goes to the first receive that fits, in order, with any source and any tag too. */
static void oneself(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    int64_t one = 1;
    int64_t four = 4;
    int32_t out[3] = {10, 20, 30};
    int32_t in[2] = {0};
    int32_t wide[8];
    int64_t every_second = 2;
    tutti_message m = TUTTI_MESSAGE_INIT;
    DLManagedTensorVersioned *managed = NULL;
    DLTensor sends[3];
    for (int i = 0; i < 3; i++) {
        sends[i] = tutti_tensor_1d(&out[i], &one, TUTTI_I32);
    }
    for (int i = 0; i < 8; i++) {
        wide[i] = -1;
    }
    DLTensor first = tutti_tensor_1d(&in[0], &one, TUTTI_I32);
    DLTensor strided = tutti_tensor_1d(wide, &four, TUTTI_I32);
    strided.strides = &every_second;
    EXPECT_OK(tutti_batch_begin(g, NULL));
    EXPECT_OK(tutti_send(g, &sends[0], me, 1, NULL));
    EXPECT_OK(tutti_send(g, &sends[1], me, 2, NULL));
    EXPECT_OK(tutti_send(g, &sends[2], me, 1, NULL));
    EXPECT_OK(tutti_recv(g, &first, me, 2, NULL, NULL));
    EXPECT_OK(tutti_recv(g, &strided, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, NULL, &m));
    EXPECT_OK(tutti_recv_alloc(g, me, 1, NULL, &managed, NULL));
    EXPECT_OK(tutti_batch_end(g, NULL));
    EXPECT(in[0] == 20);
    EXPECT(wide[0] == 10 && wide[1] == -1 && wide[2] == -1 && m.source == me && m.tag == 1 && m.count == 1);
    EXPECT(managed && managed->dl_tensor.ndim == 1 && *(int32_t *)managed->dl_tensor.data == 30);
    if (managed) {
        managed->deleter(managed);
    }
}

/* All members are tried; the first failure in order is returned, and what went well is delivered. */
static void one_fails(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    int64_t one = 1;
    int64_t two = 2;
    int32_t data[4] = {1, 2, 3, 4};
    int32_t in[4] = {0};
    tutti_error e;
    DLTensor pair = tutti_tensor_1d(data, &two, TUTTI_I32);
    DLTensor single = tutti_tensor_1d(in, &one, TUTTI_I32);
    DLTensor good = tutti_tensor_1d(in + 2, &two, TUTTI_I32);
    if (me == 0) {
        EXPECT_OK(tutti_send(g, &pair, 1, 0, NULL));
        EXPECT_OK(tutti_send(g, &pair, 1, 1, NULL));
    } else if (me == 1) {
        EXPECT_OK(tutti_batch_begin(g, NULL));
        EXPECT_OK(tutti_recv(g, &single, 0, 0, NULL, NULL));
        EXPECT_OK(tutti_recv(g, &good, 0, 1, NULL, NULL));
        EXPECT_ERROR(&e, TUTTI_MISMATCH, "2", tutti_batch_end(g, TUTTI_CALL(.error = &e)));
        EXPECT(in[0] == 0 && in[2] == 1 && in[3] == 2);
        EXPECT_OK(tutti_recv(g, &good, 0, 0, NULL, NULL)); /* the message has stayed */
        /* the same with a message to this rank itself: its error comes first because it was posted first */
        EXPECT_OK(tutti_batch_begin(g, NULL));
        EXPECT_OK(tutti_send(g, &pair, 1, 5, NULL));
        EXPECT_OK(tutti_recv(g, &single, 1, 5, NULL, NULL));
        EXPECT_ERROR(&e, TUTTI_MISMATCH, "itself 2", tutti_batch_end(g, TUTTI_CALL(.error = &e)));
    }
    EXPECT_USABLE(g);
}

struct counter {
    int calls;
};

static void count_call(tutti_status status, const tutti_error *error, void *user)
{
    (void)status;
    (void)error;
    ((struct counter *)user)->calls++;
}

/* Options of members do not count; the end has the one callback. */
static void callbacks(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    int64_t one = 1;
    int32_t out = me;
    int32_t in = -1;
    DLTensor send = tutti_tensor_1d(&out, &one, TUTTI_I32);
    DLTensor recv = tutti_tensor_1d(&in, &one, TUTTI_I32);
    struct counter member = {0};
    struct counter whole = {0};
    EXPECT_OK(tutti_batch_begin(g, NULL));
    EXPECT_OK(tutti_sendrecv(g, &send, (me + 1) % RANKS, 0, &recv, (me + RANKS - 1) % RANKS, 0,
                             TUTTI_CALL(.callback = count_call, .user = &member), NULL));
    EXPECT_OK(tutti_batch_end(g, TUTTI_CALL(.callback = count_call, .user = &whole)));
    EXPECT(member.calls == 0 && whole.calls == 1);
    EXPECT(in == (me + RANKS - 1) % RANKS);
    /* a refused batch has not started */
    EXPECT_OK(tutti_batch_begin(g, NULL));
    EXPECT_OK(tutti_send(g, &send, me, 0, NULL));
    EXPECT(tutti_batch_end(g, TUTTI_CALL(.callback = count_call, .user = &whole)) == TUTTI_INVALID_ARGUMENT);
    EXPECT(whole.calls == 1);
}

/* Messages on another group run at once, and so do those of this group once the batch's group is gone. */
static void two_groups(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    const int32_t members[RANKS] = {0, 1, 2};
    tutti_group *other = NULL;
    tutti_error e;
    EXPECT_OK(tutti_group_create(g, members, RANKS, NULL, &other, &e));
    if (!other) {
        return;
    }
    int64_t one = 1;
    int32_t out = 50 + me;
    int32_t in = -1;
    DLTensor send = tutti_tensor_1d(&out, &one, TUTTI_I32);
    DLTensor recv = tutti_tensor_1d(&in, &one, TUTTI_I32);
    EXPECT_OK(tutti_batch_begin(other, NULL));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "another", tutti_batch_begin(g, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "no batch open", tutti_batch_end(g, TUTTI_CALL(.error = &e)));
    EXPECT_OK(tutti_sendrecv(g, &send, (me + 1) % RANKS, 0, &recv, (me + RANKS - 1) % RANKS, 0, NULL, NULL));
    EXPECT(in == 50 + (me + RANKS - 1) % RANKS);
    EXPECT_USABLE(g); /* a collective on a group without a batch */
    int64_t two = 2;
    int64_t stride = 3;
    int32_t data[6] = {0};
    DLTensor strided = tutti_tensor_1d(data, &two, TUTTI_I32);
    strided.strides = &stride;
    EXPECT_OK(tutti_send(other, &strided, (me + 1) % RANKS, 0, NULL)); /* owns scratch */
    EXPECT_OK(tutti_group_destroy(other, NULL));
    EXPECT(tutti_batch_end(other, NULL) == TUTTI_BAD_STATE);
    EXPECT_OK(tutti_batch_begin(g, NULL));
    EXPECT_OK(tutti_batch_end(g, NULL));
    /* the same without the end: begin notices that the group of the old batch is gone */
    EXPECT_OK(tutti_group_create(g, members, RANKS, NULL, &other, &e));
    EXPECT_OK(tutti_batch_begin(other, NULL));
    EXPECT_OK(tutti_send(other, &strided, (me + 1) % RANKS, 0, NULL));
    EXPECT_OK(tutti_group_destroy(other, NULL));
    EXPECT_OK(tutti_batch_begin(g, NULL));
    EXPECT_OK(tutti_batch_end(g, NULL));
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    receive_first(g, 1);
    receive_first(g, 500000);
    all_to_all_messages(g);
    oneself(g);
    one_fails(g);
    callbacks(g);
    two_groups(g);
    /* left open on purpose: the end of the thread drops it (a leak checker sees it otherwise) */
    int64_t two = 2;
    int64_t stride = 2;
    int32_t data[4] = {0};
    DLTensor strided = tutti_tensor_1d(data, &two, TUTTI_I32);
    strided.strides = &stride;
    EXPECT_OK(tutti_batch_begin(g, NULL));
    EXPECT_OK(tutti_send(g, &strided, (tutti_group_rank(g) + 1) % RANKS, 0, NULL));
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
