/* SPDX-License-Identifier: BSD-3-Clause */
/* Races between linking, unlinking, firing, destroying and limits: each link is notified once at most. */
#include "token_support.h"

#include <pthread.h>

#define THREADS 4
#define ROUNDS  4000

/* Each thread has links of its own on tokens that all of them fire, destroy and make again. */
struct field {
    pthread_mutex_t lock; /* the handles */
    tutti_cancel_token *root;
    tutti_cancel_token *tokens[3]; /* below the root, below that one, apart */
    atomic_int links;
    atomic_int notified;
    atomic_int wrong;
};

static struct field field = {.lock = PTHREAD_MUTEX_INITIALIZER};

static tutti_cancel_token *pick(unsigned which)
{
    pthread_mutex_lock(&field.lock);
    tutti_cancel_token *token = which % 4 < 3 ? field.tokens[which % 4] : field.root;
    pthread_mutex_unlock(&field.lock);
    return token;
}

/* Replaces a token by a fresh one. BUSY while another thread is in a call on it: then it stays. */
static void renew(unsigned which)
{
    pthread_mutex_lock(&field.lock);
    tutti_cancel_token **place = which % 4 < 3 ? &field.tokens[which % 4] : &field.root;
    tutti_status status = tutti_cancel_token_destroy(*place, NULL);
    if (status == TUTTI_OK) {
        tutti_cancel_token *parent = which % 4 == 0 ? field.root : which % 4 == 1 ? field.tokens[0] : NULL;
        status = tutti_cancel_token_create(parent, which % 5 == 0 ? 1 : -1, place, NULL);
    }
    if (status != TUTTI_OK && status != TUTTI_BUSY) {
        atomic_fetch_add(&field.wrong, 1);
    }
    pthread_mutex_unlock(&field.lock);
}

static void expect_at_most_once(struct listener *l)
{
    tti_token_unlink(&l->link);
    if (l->notified > 1) {
        atomic_fetch_add(&field.wrong, 1);
    }
    atomic_fetch_add(&field.notified, l->notified);
    l->notified = 0; /* a race, if it is being notified */
}

static void *trample(void *seed)
{
    unsigned random = (unsigned)(uintptr_t)seed;
    struct listener own[4] = {listener(true), listener(true), listener(false), listener(false)};
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1664525u + 1013904223u;
        struct listener *l = &own[(random >> 8) % 4];
        unsigned which = random >> 12;
        int64_t began;
        switch ((random >> 24) % 16) {
        case 0:
            renew(which);
            break;
        case 1:
            tutti_cancel_token_cancel(pick(which), &began, NULL);
            break;
        case 2:
        case 3:
            sched_yield();
            break;
        default:
            expect_at_most_once(l);
            if (tti_token_link(pick(which), &l->link) == TUTTI_OK) {
                atomic_fetch_add(&field.links, 1);
            }
        }
    }
    for (int i = 0; i < 4; i++) {
        expect_at_most_once(&own[i]);
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    field.root = make(NULL, -1);
    field.tokens[0] = make(field.root, -1);
    field.tokens[1] = make(field.tokens[0], -1);
    field.tokens[2] = make(NULL, -1);
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, trample, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&field.wrong), 0);
    assert_true(atomic_load(&field.notified) > 0 && atomic_load(&field.notified) <= atomic_load(&field.links));
    for (int i = 0; i < 3; i++) {
        destroy(field.tokens[i]);
    }
    destroy(field.root);
}

/* All threads fire the same token at once: together they notify each link once, and all get the same count. */
struct volley {
    tutti_cancel_token *token;
    atomic_int ready;
    atomic_int wrong;
};

static void *shoot(void *argument)
{
    struct volley *v = argument;
    int64_t began = -1;
    atomic_fetch_add(&v->ready, 1);
    while (atomic_load(&v->ready) < THREADS) {
        sched_yield();
    }
    if (tutti_cancel_token_cancel(v->token, &began, NULL) != TUTTI_OK || began != 5) {
        atomic_fetch_add(&v->wrong, 1);
    }
    return NULL;
}

static void fired_by_many(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct listener l[10];
        pthread_t threads[THREADS];
        tutti_cancel_token *child;
        struct volley v = {.token = make(NULL, -1)};
        child = make(v.token, -1);
        for (int i = 0; i < 10; i++) {
            l[i] = listener(i % 2);
            assert_int_equal(tti_token_link(i < 5 ? v.token : child, &l[i].link), TUTTI_OK);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, shoot, &v), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
        assert_int_equal(atomic_load(&v.wrong), 0);
        for (int i = 0; i < 10; i++) {
            tti_token_unlink(&l[i].link);
            assert_int_equal(l[i].notified, 1);
        }
        destroy(child);
        destroy(v.token);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads),
        cmocka_unit_test(fired_by_many),
    };
    return cmocka_run_group_tests(tests, NULL, stop_timer);
}
