/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads add, remove and destroy entries while others notify: an entry that was removed is not running, and may be
 * freed. */
#include "events_support.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"

#define WAIT_MS 50 /* waits for an event that a correct library never causes; a defect may pass unnoticed */

/* Whether the flag was set within `ms`; -1 = no limit. */
static bool wait_flag(const _Atomic int *flag, int64_t ms)
{
    int64_t deadline = tti_deadline_ns(tti_now_ns(), ms);
    while (atomic_load(flag) == 0) {
        if (tti_now_ns() >= deadline) {
            return false;
        }
        sched_yield();
    }
    return true;
}

/* ---- waiting for one handler ------------------------------------------------------------------------------------- */

struct scene {
    struct tti_group *group;
    tutti_events *events;
    int64_t listener;
    int64_t operation_id;
    tutti_status removed; /* what the removal returned */
    bool destroy;         /* the whole object, instead of the listener */
    bool early;           /* the removal returned while the handler was running */
    _Atomic int inside;   /* the handler is running */
    _Atomic int returned; /* the removal has returned */
    _Atomic int finished; /* the handler has nearly returned */
};

static void hold_on(const tutti_event *event, void *user)
{
    (void)event;
    struct scene *s = user;
    atomic_store(&s->inside, 1);
    s->early = wait_flag(&s->returned, WAIT_MS);
    atomic_store(&s->finished, 1);
}

static void *take_away(void *user)
{
    struct scene *s = user;
    wait_flag(&s->inside, -1);
    s->removed = s->destroy ? tutti_events_destroy(s->events, NULL) : tutti_events_remove(s->events, s->listener, NULL);
    if (atomic_load(&s->finished) == 0) {
        s->early = true;
    }
    atomic_store(&s->returned, 1);
    return NULL;
}

static void play(struct scene *s, tutti_status expected)
{
    tutti_error error;
    pthread_t thread;
    s->group = group_make();
    assert_int_equal(tutti_events_create(s->group->handle, &s->events, &error), TUTTI_OK);
    tutti_status status = s->operation_id != 0
                              ? tutti_events_on_operation(s->events, s->operation_id, hold_on, s, &s->listener, &error)
                              : tutti_events_on_complete(s->events, hold_on, s, &s->listener, &error);
    assert_int_equal(status, TUTTI_OK);
    assert_int_equal(pthread_create(&thread, NULL, take_away, s), 0);
    notify_end(s->group, s->operation_id, TUTTI_OK);
    pthread_join(thread, NULL);
    assert_false(s->early);
    assert_int_equal(s->removed, expected);
    assert_int_equal(tutti_events_destroy(s->events, &error), s->destroy ? TUTTI_BAD_STATE : TUTTI_OK);
    assert_int_equal(group_free(s->group), TUTTI_OK);
}

static void removal_waits(void **state)
{
    (void)state;
    struct scene listener = {0};
    play(&listener, TUTTI_OK);
    struct scene handler = {.operation_id = 3};
    play(&handler, TUTTI_NOT_FOUND); /* removed when it was called; and now it has returned */
    struct scene listeners_object = {.destroy = true};
    play(&listeners_object, TUTTI_OK);
    struct scene handlers_object = {.operation_id = 3, .destroy = true};
    play(&handlers_object, TUTTI_OK);
}

static void nothing(const tutti_event *event, void *user)
{
    (void)event;
    (void)user;
}

/* Everything but the running listener can be changed while it runs. */
static void *change_others(void *user)
{
    struct scene *s = user;
    int64_t other = 0;
    tutti_events *object;
    wait_flag(&s->inside, -1);
    s->removed = tutti_events_on_complete(s->events, nothing, NULL, &other, NULL);
    s->removed += tutti_events_remove(s->events, other, NULL);
    s->removed += tutti_events_create(s->group->handle, &object, NULL);
    s->removed += tutti_events_on_operation(object, 1, nothing, NULL, NULL, NULL);
    s->removed += tutti_events_destroy(object, NULL);
    atomic_store(&s->returned, 1);
    return NULL;
}

static void wait_for_changes(const tutti_event *event, void *user)
{
    (void)event;
    struct scene *s = user;
    atomic_store(&s->inside, 1);
    wait_flag(&s->returned, -1);
}

static void others_change_without_waiting(void **state)
{
    (void)state;
    struct scene s = {0};
    tutti_error error;
    pthread_t thread;
    s.group = group_make();
    assert_int_equal(tutti_events_create(s.group->handle, &s.events, &error), TUTTI_OK);
    assert_int_equal(tutti_events_on_complete(s.events, wait_for_changes, &s, NULL, &error), TUTTI_OK);
    assert_int_equal(pthread_create(&thread, NULL, change_others, &s), 0);
    notify_end(s.group, 0, TUTTI_OK);
    pthread_join(thread, NULL);
    assert_int_equal(s.removed, TUTTI_OK);
    assert_int_equal(tutti_events_destroy(s.events, &error), TUTTI_OK);
    assert_int_equal(group_free(s.group), TUTTI_OK);
}

/* ---- handlers that wait for one another -------------------------------------------------------------------------- */

#define CORNERS 3

/* Each of them, running, destroys the next one's object. */
struct corner {
    struct tti_group *group;
    tutti_events *events;
    struct corner *next;
    _Atomic int *inside; /* how many are running */
    int together;        /* threads that must be inside before one destroys */
    tutti_status status;
};

static void destroy_next(const tutti_event *event, void *user)
{
    (void)event;
    struct corner *c = user;
    atomic_fetch_add(c->inside, 1);
    while (atomic_load(c->inside) < c->together) {
        sched_yield();
    }
    c->status = c->next ? tutti_events_destroy(c->next->events, NULL) : TUTTI_OK;
}

static void *end_operation(void *user)
{
    notify_end(((struct corner *)user)->group, 0, TUTTI_OK);
    return NULL;
}

/* How many were refused. */
static int play_round(int corners, bool closed)
{
    struct corner c[CORNERS] = {0};
    pthread_t threads[CORNERS];
    _Atomic int inside = 0;
    int refused = 0;
    for (int i = 0; i < corners; i++) {
        c[i].group = group_make();
        c[i].next = closed || i + 1 < corners ? &c[(i + 1) % corners] : NULL;
        c[i].inside = &inside;
        c[i].together = corners;
        assert_int_equal(tutti_events_create(c[i].group->handle, &c[i].events, NULL), TUTTI_OK);
        assert_int_equal(tutti_events_on_complete(c[i].events, destroy_next, &c[i], NULL, NULL), TUTTI_OK);
    }
    for (int i = 0; i < corners; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, end_operation, &c[i]), 0);
    }
    for (int i = 0; i < corners; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < corners; i++) {
        if (c[i].status == TUTTI_WOULD_DEADLOCK) {
            refused++;
            assert_int_equal(tutti_events_destroy(c[i].next->events, NULL), TUTTI_OK);
        } else {
            assert_int_equal(c[i].status, TUTTI_OK);
        }
    }
    if (!closed) {
        assert_int_equal(tutti_events_destroy(c[0].events, NULL), TUTTI_OK);
    }
    for (int i = 0; i < corners; i++) {
        assert_int_equal(group_free(c[i].group), TUTTI_OK);
    }
    return refused;
}

static void circles_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(play_round(2, true), 1);
        assert_int_equal(play_round(3, true), 1);
        assert_int_equal(play_round(3, false), 0);
    }
}

/* ---- all at once ------------------------------------------------------------------------------------------------- */

#define WORKERS 3
#define TELLERS 2
#define ROUNDS  200

struct storm {
    struct tti_group *group;
    tutti_events *events;            /* shared by all workers */
    _Atomic int64_t latest[WORKERS]; /* each worker's latest number */
    _Atomic int working;
    _Atomic int faults;
};

/* What a handler touches: freed as soon as the handler has been removed. */
struct record {
    struct storm *storm;
    tutti_events *events;
    int64_t once; /* the only number it may be called for; 0 = any */
    int calls;
    bool running;
};

static void expect(struct storm *s, bool condition)
{
    if (!condition) {
        atomic_fetch_add(&s->faults, 1);
    }
}

static void count(const tutti_event *event, void *user)
{
    struct record *r = user;
    expect(r->storm, !r->running && (r->once == 0 || (r->once == event->operation_id && r->calls == 0)));
    r->running = true;
    r->calls++;
    int64_t other = 0; /* a handler may change the list too */
    expect(r->storm, tutti_events_on_operation(r->storm->events, -1, nothing, NULL, &other, NULL) == TUTTI_OK);
    expect(r->storm, tutti_events_remove(r->storm->events, other, NULL) == TUTTI_OK);
    r->running = false;
}

static struct record *record_make(struct storm *s, tutti_events *events, int64_t once)
{
    struct record *r = calloc(1, sizeof(*r));
    if (!r) {
        abort();
    }
    *r = (struct record){.storm = s, .events = events, .once = once};
    return r;
}

static void *notify_until_stopped(void *user)
{
    struct storm *s = user;
    for (int i = 0; atomic_load(&s->working) > 0; i = (i + 1) % WORKERS) {
        notify_end(s->group, atomic_load(&s->latest[i]), TUTTI_OK);
        sched_yield(); /* the callback lock is not fair */
    }
    return NULL;
}

/* A handler for a fresh number is called while it is being removed. */
static void one_handler(struct storm *s, int64_t number, _Atomic int64_t *latest)
{
    struct record *r = record_make(s, s->events, number);
    int64_t id = 0;
    expect(s, tutti_events_on_operation(s->events, number, count, r, &id, NULL) == TUTTI_OK);
    atomic_store(latest, number);
    if (number % 3 == 0) {
        notify_end(s->group, number, TUTTI_OK);
    } else if (number % 3 == 1) {
        sched_yield();
    }
    tutti_status status = tutti_events_remove(s->events, id, NULL);
    expect(s, !r->running && r->calls == (status == TUTTI_OK ? 0 : 1));
    expect(s, status == TUTTI_OK || status == TUTTI_NOT_FOUND);
    expect(s, number % 3 != 0 || r->calls == 1);
    free(r);
}

/* A listener in an object of its own, and the object's end. */
static void one_object(struct storm *s, bool remove)
{
    tutti_events *object = NULL;
    int64_t id = 0;
    expect(s, tutti_events_create(s->group->handle, &object, NULL) == TUTTI_OK);
    struct record *r = record_make(s, object, 0);
    expect(s, tutti_events_on_complete(object, count, r, &id, NULL) == TUTTI_OK);
    notify_end(s->group, 0, TUTTI_OK);
    expect(s, !remove || tutti_events_remove(object, id, NULL) == TUTTI_OK);
    expect(s, tutti_events_destroy(object, NULL) == TUTTI_OK);
    expect(s, !r->running && r->calls > 0);
    free(r);
}

struct worker {
    struct storm *storm;
    int index;
};

static void *work_on(void *user)
{
    struct worker *w = user;
    for (int64_t i = 1; i <= ROUNDS; i++) {
        one_handler(w->storm, i * WORKERS + w->index, &w->storm->latest[w->index]);
        if (i % 5 == 0) {
            one_object(w->storm, i % 2 == 0);
        }
    }
    atomic_fetch_sub(&w->storm->working, 1);
    return NULL;
}

static void changes_while_notifying(void **state)
{
    (void)state;
    struct storm s = {.group = group_make()};
    atomic_store(&s.working, WORKERS);
    assert_int_equal(tutti_events_create(s.group->handle, &s.events, NULL), TUTTI_OK);
    struct record *always = record_make(&s, s.events, 0);
    assert_int_equal(tutti_events_on_complete(s.events, count, always, NULL, NULL), TUTTI_OK);
    pthread_t threads[WORKERS + TELLERS];
    struct worker workers[WORKERS];
    for (int i = 0; i < WORKERS + TELLERS; i++) {
        if (i < WORKERS) {
            workers[i] = (struct worker){.storm = &s, .index = i};
            assert_int_equal(pthread_create(&threads[i], NULL, work_on, &workers[i]), 0);
        } else {
            assert_int_equal(pthread_create(&threads[i], NULL, notify_until_stopped, &s), 0);
        }
    }
    for (int i = 0; i < WORKERS + TELLERS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(tutti_events_destroy(s.events, NULL), TUTTI_OK);
    assert_int_equal(atomic_load(&s.faults), 0);
    assert_true(always->calls >= WORKERS * ROUNDS / 3);
    free(always);
    assert_int_equal(group_free(s.group), TUTTI_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(removal_waits),
        cmocka_unit_test(others_change_without_waiting),
        cmocka_unit_test(circles_are_refused),
        cmocka_unit_test(changes_while_notifying),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
