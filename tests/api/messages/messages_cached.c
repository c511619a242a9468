/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call cache serves a message that resembles an earlier one of the same thread. Its result must be that of the slow
 * path. Every message here follows two similar ones, and differs from them in one property.
 */
#include <stdbool.h>
#include <stdint.h>

#include "api/check.h"

#define RANKS 3
#define COUNT 4

static const int64_t count = COUNT;

static DLTensor tensor_of(const int32_t *values)
{
    return tutti_tensor_1d((void *)values, &count, TUTTI_I32);
}

static bool holds(const int32_t *values, int32_t first, int32_t n)
{
    bool right = true;
    for (int32_t i = 0; i < n; i++) {
        right = right && values[i] == first + i;
    }
    return right;
}

/* Rank 0 sends {first, first + 1, ...} to rank `to`. */
static void send_from(tutti_group *g, int32_t first, int32_t to, int32_t tag)
{
    const int32_t values[COUNT] = {first, first + 1, first + 2, first + 3};
    DLTensor t = tensor_of(values);
    tutti_error e = {.status = TUTTI_TIMEOUT, .suspect = 7};
    EXPECT_OK(tutti_send(g, &t, to, tag, TUTTI_CALL(.error = &e)));
    EXPECT(e.status == TUTTI_OK && e.operation == TUTTI_OP_SEND && e.suspect == -1 && e.sequence > 0);
}

static void expect_from(tutti_group *g, int32_t first, int32_t tag)
{
    int32_t values[COUNT] = {0};
    DLTensor t = tensor_of(values);
    tutti_message m = TUTTI_MESSAGE_INIT;
    EXPECT_OK(tutti_recv(g, &t, 0, tag, NULL, &m));
    EXPECT(holds(values, first, COUNT) && m.source == 0 && m.tag == tag && m.count == COUNT && m.dtype == TUTTI_I32);
}

/* The messages that the others resemble: the cache holds them after the second one. */
static void three_times(tutti_group *g)
{
    for (int32_t i = 0; i < 3; i++) {
        if (tutti_group_rank(g) == 0) {
            send_from(g, i, 1, 5);
        } else if (tutti_group_rank(g) == 1) {
            expect_from(g, i, 5);
        }
    }
}

static void other_peers_and_tags(tutti_group *g)
{
    const int32_t me = tutti_group_rank(g);
    for (int32_t i = 0; i < 40; i++) {
        const int32_t to = 1 + i % 2;
        const int32_t tag = i % 5;
        if (me == 0) {
            send_from(g, i, to, tag);
        } else if (me == to) {
            expect_from(g, i, tag);
        }
    }
}

/* A shorter message, one of two dimensions, and one that does not fit, which stays. */
static void other_shapes(tutti_group *g)
{
    const int32_t me = tutti_group_rank(g);
    const int64_t two = 2;
    const int64_t square[] = {2, 2};
    int32_t values[2 * COUNT] = {10, 11, 12, 13};
    tutti_message m = TUTTI_MESSAGE_INIT;
    tutti_error e;
    DLTensor t = tensor_of(values);
    DLTensor flat = {.data = values, .ndim = 2, .dtype = t.dtype, .shape = (int64_t *)square, .device = t.device};
    if (me == 0) {
        DLTensor shorter = tutti_tensor_1d(values, &two, TUTTI_I32);
        EXPECT_OK(tutti_send(g, &shorter, 1, 5, NULL));
        EXPECT_OK(tutti_send(g, &flat, 1, 5, NULL));
        EXPECT_OK(tutti_send(g, &t, 1, 5, NULL));
    } else if (me == 1) {
        int32_t in[COUNT] = {0, 0, 7, 8};
        DLTensor to = tensor_of(in);
        EXPECT_OK(tutti_recv(g, &to, 0, 5, NULL, &m));
        EXPECT(m.count == 2 && holds(in, 10, 2) && in[2] == 7 && in[3] == 8);
        DLManagedTensorVersioned *made = NULL;
        EXPECT_OK(tutti_recv_alloc(g, 0, 5, NULL, &made, &m));
        EXPECT(made && made->dl_tensor.ndim == 2 && holds(made->dl_tensor.data, 10, COUNT));
        if (made) {
            made->deleter(made);
        }
        DLTensor small = tutti_tensor_1d(in, &two, TUTTI_I32);
        for (int i = 0; i < 3; i++) {
            EXPECT_ERROR(&e, TUTTI_MISMATCH, "stays receivable",
                         tutti_recv(g, &small, 0, 5, TUTTI_CALL(.error = &e), NULL));
        }
        EXPECT_OK(tutti_recv(g, &to, 0, 5, NULL, NULL));
        EXPECT(holds(in, 10, COUNT));
    }
    EXPECT_OK(tutti_barrier(g, NULL));
    for (int32_t i = 0; i < 4; i++) { /* two dimensions are in the cache, too */
        if (me == 0) {
            EXPECT_OK(tutti_send(g, &flat, 2, 5, NULL));
        } else if (me == 2) {
            DLManagedTensorVersioned *made = NULL;
            EXPECT_OK(tutti_recv_alloc(g, 0, 5, NULL, &made, NULL));
            EXPECT(made && made->dl_tensor.ndim == 2 && made->dl_tensor.shape[0] == 2);
            if (made) {
                made->deleter(made);
            }
        }
    }
}

static void bad_arguments(tutti_group *g)
{
    int32_t values[COUNT + 1] = {0};
    tutti_error e;
    tutti_message wrong = {.size = 3};
    DLTensor t = tensor_of(values);
    DLTensor odd = t;
    odd.byte_offset = 2;
    DLTensor none = t;
    none.data = NULL;
    const int32_t me = tutti_group_rank(g);
    if (me > 1) {
        return;
    }
#define TRY(status, word, call) EXPECT_ERROR(&e, status, word, call)
    const tutti_call *call = TUTTI_CALL(.error = &e);
    if (me == 0) {
        TRY(TUTTI_INVALID_ARGUMENT, "tensor", tutti_send(g, &odd, 1, 5, call));
        TRY(TUTTI_INVALID_ARGUMENT, "tensor", tutti_send(g, &none, 1, 5, call));
        TRY(TUTTI_INVALID_ARGUMENT, "tensor", tutti_send(g, NULL, 1, 5, call));
        TRY(TUTTI_INVALID_ARGUMENT, "peer", tutti_send(g, &t, RANKS, 5, call));
        TRY(TUTTI_INVALID_ARGUMENT, "peer", tutti_send(g, &t, -1, 5, call));
        TRY(TUTTI_INVALID_ARGUMENT, "tag", tutti_send(g, &t, 1, -1, call));
        TRY(TUTTI_INVALID_ARGUMENT, "lane", tutti_send(g, &t, 1, 5, TUTTI_CALL(.error = &e, .lane = 9)));
        TRY(TUTTI_INVALID_ARGUMENT, "operation_id",
            tutti_send(g, &t, 1, 5, TUTTI_CALL(.error = &e, .operation_id = 9)));
        TRY(TUTTI_INVALID_ARGUMENT, "group", tutti_send(NULL, &t, 1, 5, call));
    } else {
        TRY(TUTTI_INVALID_ARGUMENT, "tensor", tutti_recv(g, &odd, 0, 5, call, NULL));
        TRY(TUTTI_INVALID_ARGUMENT, "size", tutti_recv(g, &t, 0, 5, call, &wrong));
    }
#undef TRY
    three_times(g);
}

/* Numbers that are no ranks, chosen so that the cache finds an entry of a barrier for them. */
static void peers_that_look_like_kinds(tutti_group *g)
{
    int32_t values[COUNT] = {0};
    tutti_error e;
    DLTensor t = tensor_of(values);
    for (int round = 0; round < 3; round++) {
        EXPECT_OK(tutti_barrier(g, NULL));
    }
    uint32_t inverse = 1; /* of 151, modulo 2^32: each step doubles the number of right bits */
    for (int step = 0; step < 5; step++) {
        inverse *= 2 - 151 * inverse;
    }
    const int32_t to = (int32_t)(inverse * (uint32_t)(TUTTI_OP_BARRIER - TUTTI_OP_SEND));
    const int32_t from = (int32_t)(inverse * (uint32_t)(TUTTI_OP_BARRIER - TUTTI_OP_RECV));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "peer", tutti_send(g, &t, to, 0, TUTTI_CALL(.error = &e)));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "peer", tutti_recv(g, &t, from, 0, TUTTI_CALL(.error = &e), NULL));
    EXPECT_OK(tutti_batch_begin(g, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "peer", tutti_send(g, &t, to, 0, TUTTI_CALL(.error = &e)));
    EXPECT_OK(tutti_batch_end(g, NULL));
}

/* A group's handle is stale after it was destroyed, and so it is for the cache. */
static void destroyed_group(tutti_group *world)
{
    tutti_group *g;
    tutti_error e;
    EXPECT_OK(tutti_group_split(world, 0, tutti_group_rank(world), NULL, &g, NULL));
    three_times(g);
    EXPECT_OK(tutti_group_destroy(g, NULL));
    int32_t values[COUNT] = {0};
    DLTensor t = tensor_of(values);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed", tutti_send(g, &t, 1, 5, TUTTI_CALL(.error = &e)));
}

/* What differs in a batch from one whose messages all come from the cache. */
enum odd { NOTHING, LONGER, TO_ITSELF, LARGE, SENT_TWICE, ODDS };

#define MESSAGES 200 /* more than a batch has room for at first */

/* Ranks 0 and 1 exchange messages with numbers in one batch; the odd one is in the middle. */
static void exchange(tutti_group *g, enum odd odd, bool async)
{
    static int32_t memory[2][2][MESSAGES + 2][COUNT];
    static int32_t large[2][2][20000];
    const int32_t me = tutti_group_rank(g);
    int32_t(*out)[COUNT] = memory[me][0];
    int32_t(*in)[COUNT] = memory[me][1];
    tutti_message got[MESSAGES];
    tutti_error e;
    const int64_t many = 20000;
    const int64_t one = 1;
    DLTensor whole[] = {tutti_tensor_1d(large[me][0], &many, TUTTI_I32),
                        tutti_tensor_1d(large[me][1], &many, TUTTI_I32)};
    EXPECT_OK(tutti_batch_begin(g, NULL));
    for (int32_t i = 0; i < MESSAGES; i++) {
        for (int32_t k = 0; k < COUNT; k++) {
            out[i][k] = 1000 * me + i + k;
            in[i][k] = -1;
        }
        DLTensor from = tensor_of(out[i]);
        DLTensor to = tensor_of(in[i]);
        got[i] = (tutti_message)TUTTI_MESSAGE_INIT;
        e = (tutti_error){.status = TUTTI_TIMEOUT};
        EXPECT_OK(tutti_recv(g, &to, 1 - me, 5, TUTTI_CALL(.error = &e), i % 2 ? &got[i] : NULL));
        EXPECT(e.status == TUTTI_OK && e.operation == TUTTI_OP_RECV);
        EXPECT_OK(tutti_send(g, &from, 1 - me, 5, NULL));
        if (i == MESSAGES / 2 && odd == LONGER) {
            DLTensor t = tutti_tensor_1d(out[MESSAGES], &one, TUTTI_I32);
            DLTensor u = tutti_tensor_1d(in[MESSAGES], &one, TUTTI_I32);
            EXPECT_OK(tutti_send(g, &t, 1 - me, 6, NULL));
            EXPECT_OK(tutti_recv(g, &u, 1 - me, 6, NULL, NULL));
        } else if (i == MESSAGES / 2 && odd == TO_ITSELF) {
            EXPECT_OK(tutti_send(g, &from, me, 5, NULL));
            DLTensor u = tensor_of(in[MESSAGES]);
            EXPECT_OK(tutti_recv(g, &u, me, 5, NULL, NULL));
        } else if (i == MESSAGES / 2 && odd == LARGE) {
            EXPECT_OK(tutti_send(g, &whole[0], 1 - me, 6, NULL));
            EXPECT_OK(tutti_recv(g, &whole[1], 1 - me, 6, NULL, NULL));
        } else if (i == MESSAGES / 2 && odd == SENT_TWICE) {
            EXPECT_OK(tutti_sendrecv(g, &from, 1 - me, 7, &to, 1 - me, 7, NULL, NULL));
        }
    }
    if (async) {
        tutti_work *work = NULL;
        EXPECT_OK(tutti_batch_end_async(g, NULL, &work));
        EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
        EXPECT_OK(tutti_work_release(work));
    } else {
        EXPECT_OK(tutti_batch_end(g, TUTTI_CALL(.error = &e)));
        EXPECT(e.status == TUTTI_OK && e.operation == TUTTI_OP_BATCH);
    }
    for (int32_t i = 0; i < MESSAGES; i++) {
        EXPECT(holds(in[i], 1000 * (1 - me) + i, COUNT));
        EXPECT(i % 2 == 0 || (got[i].count == COUNT && got[i].source == 1 - me && got[i].tag == 5));
    }
    EXPECT(odd != TO_ITSELF || holds(in[MESSAGES], 1000 * me + MESSAGES / 2, COUNT));
}

/* In a batch with cached messages one finds a shorter one than its tensor, and one does not fit. */
static void exchange_misfits(tutti_group *g)
{
    const int32_t me = tutti_group_rank(g);
    const int64_t two = 2;
    const int64_t six = 6;
    int32_t out[6] = {30, 31, 32, 33, 34, 35};
    int32_t in[2][COUNT] = {{0}, {0}};
    tutti_error e;
    tutti_message m[2] = {TUTTI_MESSAGE_INIT, TUTTI_MESSAGE_INIT};
    DLTensor to[] = {tensor_of(in[0]), tensor_of(in[1])};
    if (me == 0) {
        DLTensor shorter = tutti_tensor_1d(out, &two, TUTTI_I32);
        DLTensor longer = tutti_tensor_1d(out, &six, TUTTI_I32);
        EXPECT_OK(tutti_send(g, &shorter, 1, 5, NULL));
        EXPECT_OK(tutti_send(g, &longer, 1, 5, NULL));
        return;
    }
    EXPECT_OK(tutti_batch_begin(g, NULL));
    EXPECT_OK(tutti_recv(g, &to[0], 0, 5, NULL, &m[0]));
    EXPECT_OK(tutti_recv(g, &to[1], 0, 5, NULL, &m[1]));
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "stays receivable", tutti_batch_end(g, TUTTI_CALL(.error = &e)));
    EXPECT(m[0].count == 2 && holds(in[0], 30, 2) && m[1].count == 0);
    DLTensor longer = tutti_tensor_1d(out, &six, TUTTI_I32);
    memset(out, 0, sizeof(out));
    EXPECT_OK(tutti_recv(g, &longer, 0, 5, NULL, NULL));
    EXPECT(holds(out, 30, 6));
}

static void in_a_batch(tutti_group *g)
{
    if (tutti_group_rank(g) > 1) {
        return;
    }
    for (int odd = NOTHING; odd < ODDS; odd++) {
        exchange(g, NOTHING, false);
        exchange(g, odd, false);
        exchange(g, odd, true);
    }
    exchange_misfits(g);
    exchange(g, NOTHING, false);
}

/* The place of a batch at which a message with one tag stood before gets one with another tag or length, or one that
 * goes the other way, or one whose description the caller does not want. Each batch is made five times in a row. */
static void other_messages_in_the_same_places(tutti_group *g)
{
    enum { PLACES = 6, BATCHES = 12, TIMES = 5 };
    const int32_t me = tutti_group_rank(g);
    if (me > 1) {
        return;
    }
    for (int32_t batch = 0; batch < TIMES * BATCHES; batch++) {
        int32_t out[PLACES][COUNT];
        int32_t in[PLACES][COUNT] = {{0}};
        tutti_message got[PLACES];
        const int32_t kind = batch / TIMES;
        const int64_t length = kind % 4 == 3 ? 2 : COUNT;
        EXPECT_OK(tutti_batch_begin(g, NULL));
        for (int32_t i = 0; i < PLACES; i++) {
            const int32_t tag = 5 + (i + kind) % 3;
            const bool wanted = (i + batch) % 2 == 0;
            DLTensor from = tutti_tensor_1d(out[i], &length, TUTTI_I32);
            DLTensor to = tutti_tensor_1d(in[i], &length, TUTTI_I32);
            got[i] = (tutti_message)TUTTI_MESSAGE_INIT;
            got[i].count = -7;
            for (int32_t k = 0; k < COUNT; k++) {
                out[i][k] = 1000 * batch + 100 * me + 10 * i + k;
            }
            for (int32_t step = 0; step < 2; step++) {
                if ((step + i + kind) % 2 == 0) {
                    EXPECT_OK(tutti_send(g, &from, 1 - me, tag, NULL));
                } else {
                    EXPECT_OK(tutti_recv(g, &to, 1 - me, tag, NULL, wanted ? &got[i] : NULL));
                }
            }
        }
        EXPECT_OK(tutti_batch_end(g, NULL));
        for (int32_t i = 0; i < PLACES; i++) {
            const bool wanted = (i + batch) % 2 == 0;
            EXPECT(holds(in[i], 1000 * batch + 100 * (1 - me) + 10 * i, (int32_t)length));
            EXPECT(length == COUNT || in[i][2] == 0);
            EXPECT(wanted ? got[i].count == length && got[i].tag == 5 + (i + kind) % 3 : got[i].count == -7);
        }
    }
}

/* A batch that is left open belongs to a group that is destroyed; the next one starts empty. */
static void left_open(tutti_group *world)
{
    tutti_group *g;
    EXPECT_OK(tutti_group_split(world, 0, tutti_group_rank(world), NULL, &g, NULL));
    three_times(g);
    EXPECT_OK(tutti_batch_begin(g, NULL));
    int32_t values[COUNT] = {0};
    DLTensor t = tensor_of(values);
    if (tutti_group_rank(g) == 0) {
        EXPECT_OK(tutti_send(g, &t, 1, 5, NULL));
    } else if (tutti_group_rank(g) == 1) {
        EXPECT_OK(tutti_recv(g, &t, 0, 5, NULL, NULL));
    }
    EXPECT_OK(tutti_group_destroy(g, NULL));
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed", tutti_send(g, &t, 1, 5, TUTTI_CALL(.error = &e)));
    EXPECT_OK(tutti_batch_begin(world, NULL));
    EXPECT_OK(tutti_batch_end(world, NULL));
}

static void sendrecvs(tutti_group *g)
{
    const int32_t me = tutti_group_rank(g);
    const int32_t next = (me + 1) % RANKS;
    const int32_t before = (me + RANKS - 1) % RANKS;
    int32_t values[2 * COUNT];
    tutti_error e;
    for (int32_t i = 0; i < 5; i++) {
        for (int32_t k = 0; k < COUNT; k++) {
            values[k] = 100 * me + i + k;
            values[COUNT + k] = -1;
        }
        DLTensor from = tensor_of(values);
        DLTensor to = tensor_of(values + COUNT);
        tutti_message m = TUTTI_MESSAGE_INIT;
        e = (tutti_error){.status = TUTTI_TIMEOUT};
        EXPECT_OK(tutti_sendrecv(g, &from, next, 3, &to, before, 3, TUTTI_CALL(.error = &e), &m));
        EXPECT(holds(values + COUNT, 100 * before + i, COUNT) && m.source == before && m.count == COUNT);
        EXPECT(e.status == TUTTI_OK && e.operation == TUTTI_OP_BATCH && e.rank == me);
        if (i > 2) { /* both tensors are in the cache, and now they overlap */
            DLTensor half = tensor_of(values + COUNT / 2);
            EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "overlaps",
                         tutti_sendrecv(g, &from, next, 3, &half, before, 3, TUTTI_CALL(.error = &e), NULL));
            EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "overlaps",
                         tutti_sendrecv(g, &from, next, 3, &from, before, 3, TUTTI_CALL(.error = &e), NULL));
        }
    }
}

/* The deadline holds, and the error says what has failed. */
static void late(tutti_group *world)
{
    tutti_group *g;
    tutti_error e;
    EXPECT_OK(tutti_group_split(world, 0, tutti_group_rank(world), NULL, &g, NULL));
    three_times(g);
    EXPECT_OK(tutti_barrier(g, NULL));
    if (tutti_group_rank(g) == 1) {
        int32_t values[COUNT] = {0};
        DLTensor t = tensor_of(values);
        tutti_message m = TUTTI_MESSAGE_INIT;
        EXPECT_ERROR(&e, TUTTI_TIMEOUT, "recv from rank 0, tag 5",
                     tutti_recv(g, &t, 0, 5, TUTTI_CALL(.error = &e, .timeout_ms = 20), &m));
        EXPECT(e.operation == TUTTI_OP_RECV && e.deadline_ms == 20 && e.rank == 1 && m.bytes == 0);
    }
    EXPECT_OK(tutti_barrier(world, NULL));
    EXPECT_OK(tutti_group_destroy(g, NULL));
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    static void (*const parts[])(tutti_group *) = {three_times,
                                                   other_peers_and_tags,
                                                   other_shapes,
                                                   bad_arguments,
                                                   peers_that_look_like_kinds,
                                                   destroyed_group,
                                                   in_a_batch,
                                                   other_messages_in_the_same_places,
                                                   left_open,
                                                   sendrecvs,
                                                   late};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        three_times(g);
        parts[i](g);
        EXPECT_OK(tutti_barrier(g, NULL));
    }
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
