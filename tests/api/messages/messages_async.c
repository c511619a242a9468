/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous messages: without a waiting thread, late, with handles released early, strided, from any source, and to
 * the own rank.
 *
 * tutti-test: timeout=240
 */
#include "messages_async.h"
#include "time_limits.h"

/* ---- no thread waits --------------------------------------------------------------------------------------------- */

/* Small sends proceed while their rank is in a barrier: the other rank enters it only after it has received them
 * all. */
static void sends_then_barrier(tutti_group *g, int round)
{
    static int32_t values[MANY];
    static _Atomic int posted;
    tutti_work *works[MANY];
    if (tutti_group_rank(g) == 1) {
        EXPECT(reaches(&posted, round + 1));
        for (int32_t i = 0; i < MANY; i++) {
            int32_t value = -1;
            DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
            EXPECT_OK(tutti_recv(g, &t, 0, 0, TUTTI_CALL(.timeout_ms = LONG_MS), NULL));
            EXPECT(value == i);
        }
        EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.timeout_ms = LONG_MS)));
        return;
    }
    for (int32_t i = 0; i < MANY; i++) {
        values[i] = i;
        DLTensor t = tutti_tensor_1d(&values[i], &one, TUTTI_I32);
        EXPECT_OK(tutti_send_async(g, &t, 1, 0, TUTTI_CALL(.timeout_ms = LONG_MS), &works[i]));
    }
    reach(&posted);
    EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.timeout_ms = LONG_MS)));
    for (int i = 0; i < MANY; i++) {
        land(works[i], TUTTI_OK);
    }
}

/* So do small receives, and make room for the synchronous sends of the other rank. */
static void receives_then_barrier(tutti_group *g, int round)
{
    static int32_t values[MANY];
    static _Atomic int posted;
    tutti_work *works[MANY];
    if (tutti_group_rank(g) == 1) {
        EXPECT(reaches(&posted, round + 1));
        for (int32_t i = 0; i < MANY; i++) {
            EXPECT_OK(send_value(g, i, 0, 0));
        }
        EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.timeout_ms = LONG_MS)));
        return;
    }
    for (int i = 0; i < MANY; i++) {
        start_receive(g, &values[i], 0, TUTTI_CALL(.timeout_ms = LONG_MS), &works[i]);
    }
    reach(&posted);
    EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.timeout_ms = LONG_MS)));
    for (int32_t i = 0; i < MANY; i++) {
        land(works[i], TUTTI_OK);
        EXPECT(values[i] == i);
    }
}

/* Several rounds: in the first one a worker thread that has just started may help. */
static tutti_status small_ones(tutti_group *g, void *user)
{
    (void)user;
    for (int round = 0; round < 4; round++) {
        sends_then_barrier(g, round);
        receives_then_barrier(g, round);
    }
    return TUTTI_OK;
}

/* Receives with callbacks end in any order, however many there are: rank 1 sends to the oldest first, and the next
 * message only when the callback for the one before has been called. */
static tutti_status one_callback_after_another(tutti_group *g, void *user)
{
    (void)user;
    enum { RECEIVES = 40 };
    static struct recorded recorded;
    static int32_t values[RECEIVES];
    tutti_work *works[RECEIVES];
    if (tutti_group_rank(g) == 1) {
        EXPECT_OK(tutti_barrier(g, NULL));
        bool in_time = true;
        for (int32_t i = 0; i < RECEIVES; i++) {
            EXPECT_OK(send_value(g, i + 1, 0, i));
            in_time = in_time && reaches(&recorded.calls, i + 1);
        }
        EXPECT(in_time);
        return TUTTI_OK;
    }
    for (int32_t i = 0; i < RECEIVES; i++) {
        start_receive(g, &values[i], i, TUTTI_CALL(.callback = record, .user = &recorded, .timeout_ms = LONG_MS),
                      &works[i]);
    }
    EXPECT_OK(tutti_barrier(g, NULL));
    for (int32_t i = 0; i < RECEIVES; i++) {
        land(works[i], TUTTI_OK);
        EXPECT(values[i] == i + 1);
    }
    EXPECT(atomic_load(&recorded.calls) == RECEIVES);
    return TUTTI_OK;
}

/* ---- late -------------------------------------------------------------------------------------------------------- */

static void no_message_comes(tutti_group *g)
{
    int32_t zero = 0;
    DLTensor t = tutti_tensor_1d(&zero, &one, TUTTI_I32);
    EXPECT(tutti_recv(g, &t, 0, NEVER, TUTTI_CALL(.timeout_ms = 2 * LONG_MS), NULL) == TUTTI_REVOKED);
}

/* A worker for messages that has just been started runs what it finds. Afterwards it sleeps until it is notified. */
static void wake_messages(tutti_group *g)
{
    struct recorded recorded = {.calls = 0};
    int32_t value = 0;
    tutti_work *work;
    if (tutti_group_rank(g) == 0) {
        start_receive(g, &value, 1, TUTTI_CALL(.callback = record, .user = &recorded), &work);
        land(work, TUTTI_OK);
    } else {
        EXPECT_OK(send_value(g, 1, 0, 1));
    }
    EXPECT_USABLE(g);
}

struct blocked {
    tutti_group *group;
    tutti_status status;
};

static void *receive_nothing(void *argument)
{
    struct blocked *b = argument;
    int32_t zero = 0;
    DLTensor t = tutti_tensor_1d(&zero, &one, TUTTI_I32);
    b->status = tutti_recv(b->group, &t, 1, NEVER, TUTTI_CALL(.timeout_ms = LONG_MS), NULL);
    return NULL;
}

/* A receive that is late fails the group; a synchronous one of another thread notices before its own deadline. */
static tutti_status late_beside_synchronous(tutti_group *g, void *user)
{
    (void)user;
    wake_messages(g);
    if (tutti_group_rank(g) == 1) {
        no_message_comes(g);
        return TUTTI_OK;
    }
    int32_t value = 0;
    struct blocked b = {.group = g, .status = TUTTI_INTERNAL};
    pthread_t thread;
    tutti_work *work;
    EXPECT(pthread_create(&thread, NULL, receive_nothing, &b) == 0);
    start_receive(g, &value, NEVER + 1, TUTTI_CALL(.timeout_ms = 100), &work);
    land(work, TUTTI_TIMEOUT);
    pthread_join(thread, NULL);
    EXPECT(b.status == TUTTI_REVOKED);
    return TUTTI_OK;
}

/* The same when no thread waits for the late receive. */
static tutti_status late_before_synchronous(tutti_group *g, void *user)
{
    (void)user;
    wake_messages(g);
    if (tutti_group_rank(g) == 1) {
        no_message_comes(g);
        return TUTTI_OK;
    }
    int32_t value = 0;
    struct blocked b = {.group = g, .status = TUTTI_INTERNAL};
    tutti_work *work;
    start_receive(g, &value, NEVER + 1, TUTTI_CALL(.timeout_ms = 50), &work);
    receive_nothing(&b);
    EXPECT(b.status == TUTTI_REVOKED);
    land(work, TUTTI_TIMEOUT);
    return TUTTI_OK;
}

/* ---- forms of messages ------------------------------------------------------------------------------------------- */

/* recv_alloc proceeds without its handle: a delivered tensor is the caller's, and a cancelled receive leaks nothing. */
static tutti_status released_while_running(tutti_group *g, void *user)
{
    (void)user;
    static _Atomic int released;
    float values[6] = {0, 1, 2, 3, 4, 5};
    int64_t shape[2] = {2, 3};
    DLTensor t = {.data = values, .device = {kDLCPU, 0}, .ndim = 2, .shape = shape};
    t.dtype = tutti_dtype_to_dlpack(TUTTI_F32);
    if (tutti_group_rank(g) == 1) {
        EXPECT(reaches(&released, 1));
        EXPECT_OK(tutti_send(g, &t, 0, 6, TUTTI_CALL(.timeout_ms = LONG_MS)));
        EXPECT_USABLE(g);
        return TUTTI_OK;
    }
    struct recorded recorded[2] = {{.calls = 0}, {.calls = 0}};
    DLManagedTensorVersioned *managed[2] = {NULL, NULL};
    tutti_message message = TUTTI_MESSAGE_INIT;
    tutti_cancel_token *token;
    tutti_work *work;
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, NULL));
    EXPECT_OK(tutti_recv_alloc_async(g, 1, NEVER, TUTTI_CALL(.callback = record, .user = &recorded[0], .token = token),
                                     &managed[0], NULL, &work));
    EXPECT_OK(tutti_work_release(work));
    EXPECT_OK(tutti_recv_alloc_async(g, 1, 6, TUTTI_CALL(.callback = record, .user = &recorded[1]), &managed[1],
                                     &message, &work));
    EXPECT_OK(tutti_work_release(work));
    reach(&released);
    int64_t began = -1;
    EXPECT_OK(tutti_cancel_token_cancel(token, &began, NULL));
    EXPECT(began == 0);
    EXPECT(reaches(&recorded[0].calls, 1) && recorded[0].status == TUTTI_CANCELLED && managed[0] == NULL);
    EXPECT(reaches(&recorded[1].calls, 1) && recorded[1].status == TUTTI_OK && managed[1] != NULL);
    if (managed[1]) {
        const DLTensor *got = &managed[1]->dl_tensor;
        EXPECT(got->ndim == 2 && got->shape[0] == 2 && got->shape[1] == 3 && message.count == 6);
        EXPECT(memcmp(got->data, values, sizeof(values)) == 0);
        managed[1]->deleter(managed[1]);
    }
    EXPECT_OK(tutti_cancel_token_destroy(token, NULL));
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

enum { ROWS = 40, PITCH = 12 }; /* of a matrix of numbers */

static DLTensor matrix(int32_t *data, int64_t *shape_and_strides)
{
    return (DLTensor){.data = data,
                      .device = {kDLCPU, 0},
                      .ndim = 2,
                      .dtype = tutti_dtype_to_dlpack(TUTTI_I32),
                      .shape = shape_and_strides,
                      .strides = shape_and_strides + 2};
}

/* Every second column goes into every third row of the transpose, at the other rank or at the own one. Shapes and
 * strides are copied at the call. */
static void exchange_columns(tutti_group *g, int32_t peer)
{
    int32_t me = tutti_group_rank(g);
    int32_t out[ROWS][PITCH];
    int32_t in[3 * PITCH / 2][ROWS];
    for (int32_t i = 0; i < ROWS * PITCH; i++) {
        out[i / PITCH][i % PITCH] = 1000 * me + i;
    }
    memset(in, 0xff, sizeof(in));
    int64_t columns[4] = {ROWS, PITCH / 2, PITCH, 2};
    int64_t rows[4] = {ROWS, PITCH / 2, 1, 3 * ROWS};
    DLTensor send = matrix(&out[0][0], columns);
    DLTensor recv = matrix(&in[0][0], rows);
    tutti_message message = TUTTI_MESSAGE_INIT;
    tutti_work *work;
    EXPECT_OK(
        tutti_sendrecv_async(g, &send, peer, 7, &recv, peer, 7, TUTTI_CALL(.timeout_ms = LONG_MS), &message, &work));
    memset(columns, 0x5a, sizeof(columns));
    memset(rows, 0x5a, sizeof(rows));
    land(work, TUTTI_OK);
    EXPECT(message.source == peer && message.count == ROWS * (PITCH / 2));
    bool right = true;
    for (int32_t i = 0; i < 3 * PITCH / 2; i++) {
        for (int32_t j = 0; j < ROWS; j++) {
            right = right && in[i][j] == (i % 3 == 0 ? 1000 * peer + j * PITCH + 2 * (i / 3) : -1);
        }
    }
    EXPECT(right);
}

static tutti_status strided(tutti_group *g, void *user)
{
    (void)user;
    exchange_columns(g, 1 - tutti_group_rank(g));
    exchange_columns(g, tutti_group_rank(g));
    return TUTTI_OK;
}

enum { EACH = 240, DEPTH = 6 };

struct taker {
    pthread_t thread;
    tutti_group *group;
    _Atomic int *times; /* that each value came */
};

/* Several receives at a time, waited for from the last one on: what they took from one rank is in its order. */
static void *take_from_anybody(void *argument)
{
    const struct taker *taker = argument;
    int32_t last[3] = {-1, -1, -1};
    for (int taken = 0; taken < EACH; taken += DEPTH) {
        int32_t values[DEPTH];
        tutti_message messages[DEPTH];
        tutti_work *works[DEPTH];
        for (int i = 0; i < DEPTH; i++) {
            DLTensor t = tutti_tensor_1d(&values[i], &one, TUTTI_I32);
            messages[i] = (tutti_message)TUTTI_MESSAGE_INIT;
            EXPECT_OK(tutti_recv_async(taker->group, &t, TUTTI_ANY_SOURCE, 5, TUTTI_CALL(.timeout_ms = LONG_MS),
                                       &messages[i], &works[i]));
        }
        for (int i = DEPTH - 1; i >= 0; i--) {
            land(works[i], TUTTI_OK);
        }
        for (int i = 0; i < DEPTH; i++) {
            int32_t source = messages[i].source;
            bool right = (source == 1 || source == 2) && values[i] / EACH == source && values[i] > last[source];
            EXPECT(right);
            if (right) {
                last[source] = values[i];
                atomic_fetch_add_explicit(&taker->times[values[i]], 1, memory_order_relaxed);
            }
        }
    }
    return NULL;
}

static tutti_status two_takers(tutti_group *g, void *user)
{
    (void)user;
    static _Atomic int times[3 * EACH];
    int32_t me = tutti_group_rank(g);
    struct taker takers[2] = {{.group = g, .times = times}, {.group = g, .times = times}};
    for (int32_t i = 0; me > 0 && i < EACH; i++) {
        EXPECT_OK(send_value(g, me * EACH + i, 0, 5));
    }
    for (int i = 0; me == 0 && i < 2; i++) {
        EXPECT(pthread_create(&takers[i].thread, NULL, take_from_anybody, &takers[i]) == 0);
    }
    for (int i = 0; me == 0 && i < 2; i++) {
        pthread_join(takers[i].thread, NULL);
    }
    for (int i = EACH; me == 0 && i < 3 * EACH; i++) {
        EXPECT(atomic_load(&times[i]) == 1);
    }
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

/* A batch of messages to the rank itself, with a callback. Some are cancelled right after the start, when they may have
 * ended. */
static tutti_status batch_to_oneself(tutti_group *g, void *user)
{
    (void)user;
    int32_t me = tutti_group_rank(g);
    for (int round = 0; round < 400; round++) {
        bool cancels = round % 4 > 1;
        int messages = 3 * (round % 2); /* an empty batch as well */
        struct recorded recorded = {.calls = 0};
        int32_t out[3] = {10, 20, 30};
        int32_t in[3] = {0, 0, 0};
        tutti_work *work;
        EXPECT_OK(tutti_batch_begin(g, NULL));
        for (int i = 0; i < messages; i++) {
            DLTensor send = tutti_tensor_1d(&out[i], &one, TUTTI_I32);
            DLTensor recv = tutti_tensor_1d(&in[i], &one, TUTTI_I32);
            EXPECT_OK(tutti_send(g, &send, me, 3, NULL));
            EXPECT_OK(tutti_recv(g, &recv, me, TUTTI_ANY_TAG, NULL, NULL));
        }
        EXPECT_OK(tutti_batch_end_async(g, TUTTI_CALL(.callback = record, .user = &recorded), &work));
        tutti_status cancel = cancels ? tutti_work_cancel(work, NULL) : TUTTI_TOO_LATE;
        tutti_status status = cancel == TUTTI_OK ? TUTTI_CANCELLED : TUTTI_OK;
        land(work, status);
        EXPECT(cancel == TUTTI_OK || cancel == TUTTI_TOO_LATE);
        EXPECT(atomic_load(&recorded.calls) == 1 && recorded.status == status);
        for (int i = 0; i < messages; i++) {
            EXPECT(in[i] == (status == TUTTI_OK ? out[i] : 0));
        }
    }
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(2, small_ones);
    test_ranks(2, one_callback_after_another);
    test_ranks(2, late_beside_synchronous);
    test_ranks(2, late_before_synchronous);
    test_ranks(2, released_while_running);
    test_ranks(2, strided);
    test_ranks(3, two_takers);
    test_ranks(1, batch_to_oneself);
    test_ranks(2, batch_to_oneself);
    return test_result();
}
