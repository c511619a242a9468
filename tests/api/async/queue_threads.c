/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue in several threads: members are enqueued, ended, cleared or destroyed while other threads wait in it. Rank 0
 * owns the queue and decides when its receives end: rank 1 sends on request.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "api/check.h"
#include "time_limits.h"

#define COMMAND    1000 /* tag of the messages that rank 1 obeys */
#define STOP       -1
#define JOIN       -2 /* take part in a barrier on lane 1 */
#define LANES      3
#define EACH       300 /* operations of each producer */
#define ROUNDS     40
#define HANDOFFS   4000
#define HANDOFFS_S 10 /* seconds, then no more of them: each needs both threads, which a busy machine runs in turn */

static const int64_t one = 1;

static void obey(tutti_group *g)
{
    for (;;) {
        int32_t tag = STOP;
        DLTensor t = tutti_tensor_1d(&tag, &one, TUTTI_I32);
        EXPECT_OK(tutti_recv(g, &t, 0, COMMAND, TUTTI_CALL(.timeout_ms = TUTTI_FOREVER), NULL));
        if (tag == STOP) {
            return;
        }
        if (tag == JOIN) {
            EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.lane = 1)));
        } else {
            DLTensor answer = tutti_tensor_1d(&tag, &one, TUTTI_I32);
            EXPECT_OK(tutti_send(g, &answer, 0, tag, TUTTI_CALL(.timeout_ms = LONG_MS)));
        }
    }
}

static void command(tutti_group *g, int32_t what)
{
    DLTensor t = tutti_tensor_1d(&what, &one, TUTTI_I32);
    EXPECT_OK(tutti_send(g, &t, 1, COMMAND, TUTTI_CALL(.timeout_ms = LONG_MS)));
}

/* Enqueues a receive that ends after `command(g, tag)`. */
static void post(tutti_group *g, tutti_queue *queue, int32_t tag)
{
    static int32_t buffers[8];
    tutti_work *work = NULL;
    DLTensor t = tutti_tensor_1d(&buffers[tag], &one, TUTTI_I32);
    EXPECT_OK(tutti_recv_async(g, &t, 1, tag, TUTTI_CALL(.timeout_ms = 2 * LONG_MS), NULL, &work));
    EXPECT_OK(tutti_queue_enqueue(queue, work, NULL));
}

static int64_t pending(tutti_queue *queue)
{
    int64_t n = -1;
    EXPECT_OK(tutti_queue_pending(queue, &n));
    return n;
}

/* ---- a waiting thread -------------------------------------------------------------------------------------------- */

struct waiter {
    pthread_t thread;
    tutti_queue *queue;
    bool for_all;
    int64_t limit_ms;
    _Atomic int id; /* of the thread, once it is about to wait */
    _Atomic int returned;
    tutti_status status;
    int64_t index;   /* for any */
    int64_t pending; /* after the wait */
};

static void *wait_in_queue(void *argument)
{
    struct waiter *w = argument;
    atomic_store(&w->id, (int)gettid());
    w->status = w->for_all ? tutti_queue_wait_all(w->queue, w->limit_ms, NULL)
                           : tutti_queue_wait_any(w->queue, w->limit_ms, &w->index, NULL);
    w->pending = pending(w->queue);
    atomic_store(&w->returned, 1);
    return NULL;
}

/* The letter of its state in the kernel. */
static char state_of(int thread)
{
    char path[64];
    char line[256] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    if (file) {
        if (!fgets(line, sizeof(line), file)) {
            line[0] = '\0';
        }
        fclose(file);
    }
    const char *name_end = strrchr(line, ')');
    return name_end && name_end[1] ? name_end[2] : '?';
}

/* Returns when it sleeps inside its call, or has returned. */
static void until_asleep(struct waiter *w)
{
    time_t until = time(NULL) + LIMIT_S;
    while (time(NULL) < until && !atomic_load(&w->returned) &&
           (atomic_load(&w->id) == 0 || state_of(atomic_load(&w->id)) != 'S')) {
        sched_yield();
    }
}

static void start(struct waiter *w, tutti_queue *queue, bool for_all, int64_t limit_ms)
{
    *w = (struct waiter){.queue = queue, .for_all = for_all, .limit_ms = limit_ms, .index = -7};
    if (pthread_create(&w->thread, NULL, wait_in_queue, w) != 0) {
        abort();
    }
    until_asleep(w);
    EXPECT(!atomic_load(&w->returned));
}

static void join(struct waiter *w)
{
    pthread_join(w->thread, NULL);
    EXPECT_OK(w->status);
}

static void added_while_waiting_for_all(tutti_group *g, tutti_queue *queue)
{
    struct waiter w;
    for (int64_t limit_ms = TUTTI_FOREVER; limit_ms <= LONG_MS; limit_ms += LONG_MS - TUTTI_FOREVER) {
        post(g, queue, 0);
        start(&w, queue, true, limit_ms);
        post(g, queue, 1);
        command(g, 0);
        while (pending(queue) > 1) {
            sched_yield();
        }
        until_asleep(&w);
        EXPECT(!atomic_load(&w.returned));
        command(g, 1);
        join(&w);
        EXPECT(w.pending == 0);
        EXPECT_OK(tutti_queue_clear_completed(queue, NULL));
    }
}

static void added_while_waiting_for_any(tutti_group *g, tutti_queue *queue)
{
    struct waiter w;
    int64_t index = -7;
    post(g, queue, 0);
    start(&w, queue, false, TUTTI_FOREVER);
    post(g, queue, 1); /* open when it is enqueued */
    until_asleep(&w);
    EXPECT(!atomic_load(&w.returned));
    command(g, 1);
    join(&w);
    EXPECT(w.index == 1);
    EXPECT_OK(tutti_queue_clear_completed(queue, NULL));
    start(&w, queue, false, LONG_MS);
    int32_t got = -1;
    tutti_work *ended = NULL;
    DLTensor t = tutti_tensor_1d(&got, &one, TUTTI_I32);
    EXPECT_OK(tutti_recv_async(g, &t, 1, 2, NULL, NULL, &ended));
    command(g, 2);
    EXPECT_OK(tutti_work_wait(ended, TUTTI_FOREVER));
    EXPECT_OK(tutti_queue_enqueue(queue, ended, NULL)); /* ended before it is enqueued */
    join(&w);
    EXPECT(w.index == 1);
    command(g, 0);
    EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL));
    EXPECT_OK(tutti_queue_wait_any(queue, TUTTI_FOREVER, &index, NULL));
    EXPECT(index == 0);
    EXPECT_OK(tutti_queue_clear_completed(queue, NULL));
}

static void clear_queue(tutti_status status, const tutti_error *error, void *queue)
{
    (void)status;
    (void)error;
    EXPECT_OK(tutti_queue_clear_completed(queue, NULL));
}

/* Another thread clears the work that has ended before its end wakes the waiting one. Here that is certain: the work's
 * own callback does it. */
static void cleared_while_waiting_for_any(tutti_group *g, tutti_queue *queue)
{
    struct waiter w;
    tutti_work *work = NULL;
    EXPECT_OK(tutti_work_create(g, NULL, TUTTI_CALL(.callback = clear_queue, .user = queue), &work));
    EXPECT_OK(tutti_queue_enqueue(queue, work, NULL));
    start(&w, queue, false, TUTTI_FOREVER);
    EXPECT_OK(tutti_work_complete(work, TUTTI_OK, NULL, NULL));
    join(&w);
    EXPECT(w.index == -1);
}

/* An operation that has arrived and would end at the first poll: a thread that waits for any has it run all the
 * same. */
static void pushed_while_waiting_for_any(tutti_group *g, tutti_queue *queue)
{
    struct waiter w;
    tutti_work *barrier = NULL;
    post(g, queue, 0);
    start(&w, queue, false, TUTTI_FOREVER);
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.lane = 1), &barrier));
    EXPECT_OK(tutti_queue_enqueue(queue, barrier, NULL));
    until_asleep(&w);
    command(g, JOIN);
    join(&w);
    EXPECT(w.index == 1);
    command(g, 0);
    EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL));
    EXPECT_OK(tutti_queue_clear_completed(queue, NULL));
}

/* Members come one at a time, at the moment when the waiter is about to sleep: it must see each. */
struct handoff {
    tutti_queue *queue;
    _Atomic int last; /* number of the last member */
    _Atomic int taken;
};

static void *take(void *argument)
{
    struct handoff *h = argument;
    for (int i = 0; i <= atomic_load(&h->last); i++) {
        int64_t index = -7;
        int64_t n = 0;
        EXPECT_OK(tutti_queue_wait_any(h->queue, TUTTI_FOREVER, &index, NULL));
        EXPECT_OK(tutti_queue_clear_completed(h->queue, &n));
        if (index != 1 || n != 1) {
            EXPECT(index == 1 && n == 1);
            atomic_store(&h->last, i);
        }
        atomic_store(&h->taken, i + 1);
    }
    return NULL;
}

static void hand_over(tutti_group *g, tutti_queue *queue)
{
    struct handoff h = {.queue = queue, .last = HANDOFFS - 1};
    tutti_group *alone = NULL; /* its operations end at once */
    pthread_t thread;
    EXPECT_OK(tutti_group_create(g, &(const int32_t){0}, 1, NULL, &alone, NULL));
    post(g, queue, 0);
    if (pthread_create(&thread, NULL, take, &h) != 0) {
        abort();
    }
    const time_t until = time(NULL) + HANDOFFS_S;
    for (int i = 0; i <= atomic_load(&h.last); i++) {
        tutti_work *work = NULL;
        EXPECT_OK(tutti_barrier_async(alone, NULL, &work));
        while (atomic_load(&h.taken) < i) {
            sched_yield();
        }
        if (time(NULL) > until) {
            atomic_store(&h.last, i);
        }
        EXPECT_OK(tutti_queue_enqueue(queue, work, NULL));
    }
    pthread_join(thread, NULL);
    command(g, 0);
    EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL));
    EXPECT_OK(tutti_queue_clear_completed(queue, NULL));
    EXPECT_OK(tutti_group_destroy(alone, NULL));
}

/* Many threads wait, in both ways, while the members are cleared; no thread may destroy the queue meanwhile. */
static void many_waiters(tutti_group *g)
{
    tutti_error e;
    tutti_queue *queue = NULL;
    struct waiter w[6];
    EXPECT_OK(tutti_queue_create(&queue, &e));
    post(g, queue, 0);
    post(g, queue, 1);
    for (int i = 0; i < 6; i++) {
        start(&w[i], queue, i < 3, i % 3 == 0 ? LONG_MS : TUTTI_FOREVER);
    }
    EXPECT_ERROR(&e, TUTTI_BUSY, "inside a call", tutti_queue_destroy(queue, &e));
    EXPECT(pending(queue) == 2);
    command(g, 1);
    for (int i = 3; i < 6; i++) {
        join(&w[i]);
        EXPECT(w[i].index == 1);
    }
    EXPECT_ERROR(&e, TUTTI_BUSY, "inside a call", tutti_queue_destroy(queue, &e));
    EXPECT_OK(tutti_queue_clear_completed(queue, NULL));
    command(g, 0);
    time_t until = time(NULL) + LIMIT_S;
    int64_t n = 1;
    while (n > 0 && time(NULL) < until && tutti_queue_count(queue, &n) == TUTTI_OK) {
        EXPECT_OK(tutti_queue_clear_completed(queue, NULL)); /* while they still use it */
    }
    EXPECT(n == 0);
    for (int i = 0; i < 3; i++) {
        join(&w[i]);
    }
    EXPECT_OK(tutti_queue_destroy(queue, &e));
}

/* Cancelled from another thread: the waiting thread gets the end. */
static void cancelled_while_waiting(tutti_group *g, tutti_queue *queue)
{
    struct waiter w[2];
    int64_t began = -1;
    post(g, queue, 0);
    start(&w[0], queue, true, TUTTI_FOREVER);
    start(&w[1], queue, false, TUTTI_FOREVER);
    EXPECT_OK(tutti_queue_cancel_all(queue, &began));
    EXPECT(began == 0);
    pthread_join(w[0].thread, NULL);
    join(&w[1]);
    EXPECT(w[0].status == TUTTI_CANCELLED && w[1].index == 0);
    EXPECT_OK(tutti_queue_clear_completed(queue, NULL));
}

/* ---- producers and consumers ------------------------------------------------------------------------------------ */

/* The producers of a rank have a lane each, and one queue for all of them. */
struct mill {
    tutti_group *group;
    tutti_queue *queue;
    _Atomic int producing;
    int64_t cleared;
    int64_t values[LANES][EACH];
};

struct producer {
    struct mill *mill;
    int32_t lane;
};

static void *produce(void *argument)
{
    struct producer *p = argument;
    struct mill *m = p->mill;
    for (int64_t i = 0; i < EACH; i++) {
        tutti_work *work = NULL;
        DLTensor t = tutti_tensor_1d(&m->values[p->lane][i], &one, TUTTI_I64);
        m->values[p->lane][i] = i * LANES + p->lane;
        EXPECT_OK(tutti_all_reduce_async(m->group, &t, &t, TUTTI_SUM, TUTTI_CALL(.lane = p->lane), &work));
        EXPECT_OK(tutti_queue_enqueue(m->queue, work, NULL));
        if (i % 32 == 0) {
            sched_yield();
        }
    }
    atomic_fetch_sub(&m->producing, 1);
    return NULL;
}

static void *wait_for_all(void *argument)
{
    struct mill *m = argument;
    int64_t n = 0;
    for (int64_t round = 0; atomic_load(&m->producing) > 0; round++) {
        tutti_status status = tutti_queue_wait_all(m->queue, round % 3 == 0 ? TUTTI_FOREVER : round % 3, NULL);
        EXPECT(status == TUTTI_OK || (status == TUTTI_BUSY && round % 3 != 0));
        EXPECT_OK(tutti_queue_pending(m->queue, &n));
        EXPECT(n >= 0 && n <= LANES * EACH);
    }
    return NULL;
}

/* Takes the members that have ended, until all have been taken. */
static void consume(struct mill *m)
{
    bool more = true;
    while (more) {
        int64_t n = 0;
        int64_t index = -7;
        more = atomic_load(&m->producing) > 0;
        EXPECT_OK(tutti_queue_wait_any(m->queue, TUTTI_FOREVER, &index, NULL));
        EXPECT_OK(tutti_queue_clear_completed(m->queue, &n));
        EXPECT(index < 0 || n > 0); /* there is no other consumer */
        m->cleared += n;
        EXPECT_OK(tutti_queue_count(m->queue, &n));
        more = more || n > 0;
    }
}

static void grind(tutti_group *g)
{
    struct mill *m = calloc(1, sizeof(*m));
    struct producer producers[LANES];
    pthread_t threads[LANES];
    pthread_t waiter;
    if (!m) {
        abort();
    }
    m->group = g;
    EXPECT_OK(tutti_queue_create(&m->queue, NULL));
    atomic_store(&m->producing, LANES);
    for (int32_t i = 0; i < LANES; i++) {
        producers[i] = (struct producer){.mill = m, .lane = i};
        if (pthread_create(&threads[i], NULL, produce, &producers[i]) != 0) {
            abort();
        }
    }
    if (pthread_create(&waiter, NULL, wait_for_all, m) != 0) {
        abort();
    }
    consume(m);
    for (int32_t i = 0; i < LANES; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_join(waiter, NULL);
    EXPECT(m->cleared == LANES * EACH);
    bool right = true;
    for (int32_t lane = 0; lane < LANES; lane++) {
        for (int64_t i = 0; i < EACH; i++) {
            right = right && m->values[lane][i] == 2 * (i * LANES + lane);
        }
    }
    EXPECT(right);
    EXPECT_OK(tutti_queue_destroy(m->queue, NULL));
    free(m);
}

/* Queues are made and destroyed under threads that fill them and poll them. */
struct shared {
    tutti_group *group;
    tutti_queue *queue;
    tutti_cancel_token *token; /* cancels the receives that a destroyed queue has left posted */
};

static void *fill(void *argument)
{
    struct shared *s = argument;
    for (int i = 0; i < 8; i++) {
        static int32_t nothing[8];
        tutti_work *work = NULL;
        DLTensor t = tutti_tensor_1d(&nothing[i], &one, TUTTI_I32);
        if (tutti_recv_async(s->group, &t, 1, 50 + i, TUTTI_CALL(.token = s->token), NULL, &work) == TUTTI_OK &&
            tutti_queue_enqueue(s->queue, work, NULL) != TUTTI_OK) { /* the queue is gone already */
            EXPECT_OK(tutti_work_cancel(work, NULL));
            EXPECT_OK(tutti_work_release(work));
        }
    }
    return NULL;
}

static void *look(void *argument)
{
    struct shared *s = argument;
    tutti_status status = TUTTI_OK;
    int64_t n;
    while (status == TUTTI_OK) { /* until it is destroyed */
        status = tutti_queue_cancel_all(s->queue, NULL);
        if (status == TUTTI_OK) {
            status = tutti_queue_clear_completed(s->queue, &n);
        }
        sched_yield();
    }
    EXPECT(status == TUTTI_BAD_STATE);
    return NULL;
}

static void come_and_go(tutti_group *g)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct shared s = {.group = g};
        pthread_t threads[2];
        EXPECT_OK(tutti_queue_create(&s.queue, NULL));
        EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &s.token, NULL));
        if (pthread_create(&threads[0], NULL, fill, &s) != 0 || pthread_create(&threads[1], NULL, look, &s) != 0) {
            abort();
        }
        tutti_status status;
        do {
            sched_yield();
            status = tutti_queue_destroy(s.queue, NULL);
        } while (status == TUTTI_BUSY);
        EXPECT_OK(status);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        EXPECT_OK(tutti_cancel_token_cancel(s.token, NULL, NULL));
        EXPECT_OK(tutti_cancel_token_destroy(s.token, NULL));
    }
}

static tutti_status rank(tutti_group *world, void *user)
{
    (void)user;
    const int32_t ranks[2] = {0, 1};
    tutti_group *g = NULL;
    EXPECT_OK(tutti_group_create(world, ranks, 2, TUTTI_CONFIG(.lanes = LANES), &g, NULL));
    if (tutti_group_rank(g) == 0) {
        tutti_queue *queue = NULL;
        EXPECT_OK(tutti_queue_create(&queue, NULL));
        added_while_waiting_for_all(g, queue);
        added_while_waiting_for_any(g, queue);
        cleared_while_waiting_for_any(g, queue);
        pushed_while_waiting_for_any(g, queue);
        hand_over(g, queue);
        cancelled_while_waiting(g, queue);
        EXPECT_OK(tutti_queue_destroy(queue, NULL));
        many_waiters(g);
        come_and_go(g);
        command(g, STOP);
    } else {
        obey(g);
    }
    grind(g);
    EXPECT_USABLE(g);
    tutti_status status;
    while ((status = tutti_group_destroy(g, NULL)) == TUTTI_BUSY) { /* the worker ends what come_and_go has cancelled */
        sched_yield();
    }
    EXPECT_OK(status);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(2, rank);
    return test_result();
}
