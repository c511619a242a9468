/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works that the application completes, under stress. Two threads try to complete each work, while others wait for it,
 * cancel it, poll it and release its handle, in random order. Exactly one completion succeeds, exactly one callback
 * comes, and every wait returns the status of that completion.
 *
 * tutti-test: timeout=300
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "api/check.h"

enum { THREADS = 6, ROUNDS = 3000 };

struct round {
    _Atomic(tutti_work *) work;
    _Atomic int completed; /* how often that was OK */
    _Atomic int called;
    _Atomic int status; /* with which it was completed, and one more */
    _Atomic int recorded;
};

struct stress {
    tutti_group *group;
    tutti_queue *queue;
    struct round rounds[ROUNDS];
};

struct worker {
    struct stress *stress;
    int index;
    uint32_t chance;
};

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static void record(tutti_status status, const tutti_error *error, void *user)
{
    struct round *r = user;
    EXPECT(error->status == status);
    atomic_store(&r->recorded, status + 1);
    atomic_fetch_add(&r->called, 1);
}

static void complete(struct round *r, tutti_work *work, tutti_status status)
{
    const tutti_status result = tutti_work_complete(work, status, NULL, NULL);
    EXPECT(result == TUTTI_OK || result == TUTTI_BAD_STATE);
    if (result == TUTTI_OK) {
        atomic_store(&r->status, status + 1);
        atomic_fetch_add(&r->completed, 1);
    }
}

static void look(struct worker *w, tutti_work *work)
{
    int32_t flag;
    int fd;
    tutti_status status;
    switch (draw(&w->chance) % 4) {
    case 0:
        status = tutti_work_test(work, &flag);
        EXPECT(status == TUTTI_OK || status == TUTTI_BAD_STATE);
        break;
    case 1:
        status = tutti_work_eventfd(work, &fd, NULL);
        EXPECT(status == TUTTI_OK || status == TUTTI_BAD_STATE || status == TUTTI_NO_RESOURCE);
        break;
    case 2:
        status = tutti_work_cancelled(work, &flag);
        EXPECT(status == TUTTI_OK || status == TUTTI_BAD_STATE);
        break;
    default:
        status = tutti_work_cancel(work, NULL);
        EXPECT(status == TUTTI_OK || status == TUTTI_TOO_LATE || status == TUTTI_BAD_STATE);
        break;
    }
}

static void take_part(struct worker *w, struct round *r, int number)
{
    tutti_work *work;
    while (!(work = atomic_load(&r->work))) {
        sched_yield();
    }
    for (uint32_t pause = draw(&w->chance) % 4; pause > 0; pause--) {
        look(w, work);
    }
    switch ((w->index + number) % THREADS) {
    case 0:
    case 1:
        complete(r, work, draw(&w->chance) % 2 == 0 ? TUTTI_OK : TUTTI_CANCELLED);
        break;
    case 2:
        tutti_work_release(work); /* or it is in the queue by now, and released with that */
        break;
    case 3:
        tutti_queue_enqueue(w->stress->queue, work, NULL);
        break;
    default: {
        const tutti_status status = tutti_work_wait(work, draw(&w->chance) % 2 == 0 ? TUTTI_FOREVER : 1);
        const int recorded = atomic_load(&r->recorded);
        EXPECT(status == TUTTI_BAD_STATE || status == TUTTI_BUSY || recorded == status + 1);
        break;
    }
    }
}

static void *work_on(void *user)
{
    struct worker *w = user;
    struct stress *s = w->stress;
    for (int i = 0; i < ROUNDS; i++) {
        struct round *r = &s->rounds[i];
        if (i % THREADS == w->index) {
            tutti_work *work = NULL;
            EXPECT_OK(tutti_work_create(s->group, NULL, TUTTI_CALL(.callback = record, .user = r), &work));
            atomic_store(&r->work, work);
        }
        take_part(w, r, i);
        if (w->index == 0 && i % 50 == 0) {
            tutti_queue_clear_completed(s->queue, NULL);
        }
    }
    return NULL;
}

static tutti_status rank(tutti_group *g, void *user)
{
    struct stress *s = calloc(1, sizeof(*s));
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    (void)user;
    s->group = g;
    EXPECT_OK(tutti_queue_create(&s->queue, NULL));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.stress = s, .index = i, .chance = (uint32_t)i + 1};
        EXPECT(pthread_create(&threads[i], NULL, work_on, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    tutti_queue_wait_all(s->queue, TUTTI_FOREVER, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        struct round *r = &s->rounds[i];
        EXPECT(atomic_load(&r->completed) == 1 && atomic_load(&r->called) == 1);
        EXPECT(atomic_load(&r->status) == atomic_load(&r->recorded));
    }
    EXPECT_OK(tutti_queue_destroy(s->queue, NULL));
    free(s);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(1, rank);
    return test_result();
}
