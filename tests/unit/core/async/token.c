/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cancellation tokens, by their public functions and by the links of operations: which links are notified, how often,
 * and what a forked child has.
 */
#include "token_support.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEPTH 3000

static void wait_until_fired(tutti_cancel_token *token)
{
    int64_t until = tti_now_ns() + WAIT_LIMIT;
    while (!fired(token) && tti_now_ns() < until) {
        sched_yield();
    }
    assert_true(fired(token));
}

static void notifies_each_link_once(void **state)
{
    (void)state;
    struct listener l[4] = {listener(false), listener(true), listener(true), listener(false)};
    tutti_cancel_token *token = make(NULL, -1);
    assert_false(fired(token));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tti_token_link(token, &l[i].link), TUTTI_OK);
    }
    tti_token_unlink(&l[2].link);
    assert_int_equal(cancel(token), 1);
    assert_true(fired(token));
    assert_int_equal(cancel(token), 1); /* a second call changes nothing */
    assert_int_equal(tutti_cancel_token_cancel(token, NULL, NULL), TUTTI_OK);
    assert_true(fired(token));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(l[i].notified, i != 2);
        tti_token_unlink(&l[i].link);
        tti_token_unlink(&l[i].link);
    }
    assert_int_equal(tti_token_link(token, &l[0].link), TUTTI_CANCELLED);
    assert_int_equal(l[0].notified, 1);
    tti_token_unlink(&l[0].link);
    destroy(token);
}

static void unlinks_in_any_order(void **state)
{
    (void)state;
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}};
    for (int order = 0; order < 4; order++) {
        struct listener l[3] = {listener(true), listener(true), listener(true)};
        tutti_cancel_token *token = make(NULL, -1);
        for (int round = 0; round < 2; round++) { /* a link can be used again */
            for (int i = 0; i < 3; i++) {
                assert_int_equal(tti_token_link(token, &l[i].link), TUTTI_OK);
            }
            tti_token_unlink(&l[orders[order][0]].link);
            tti_token_unlink(&l[orders[order][1]].link);
            if (round == 0) {
                tti_token_unlink(&l[orders[order][2]].link);
            }
        }
        assert_int_equal(cancel(token), 1);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(l[orders[order][i]].notified, i == 2);
            tti_token_unlink(&l[i].link);
        }
        destroy(token);
    }
}

static void bad_arguments(void **state)
{
    (void)state;
    tutti_error e;
    struct listener l = listener(false);
    int64_t began = 77;
    int32_t answer = 77;
    tutti_cancel_token *token = NULL;
    tutti_cancel_token *gone = make(NULL, -1);
    destroy(gone);
    assert_int_equal(tutti_cancel_token_create(NULL, -1, NULL, &e), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(e.message, "token is NULL"));
    assert_int_equal(tutti_cancel_token_create(NULL, -2, &token, &e), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(e.message, "-2"));
    assert_int_equal(tutti_cancel_token_create(gone, -1, &token, &e), TUTTI_BAD_STATE);
    assert_non_null(strstr(e.message, "parent"));
    assert_int_equal(tutti_cancel_token_cancel(NULL, &began, &e), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(e.message, "NULL"));
    assert_int_equal(tutti_cancel_token_cancel(gone, &began, &e), TUTTI_BAD_STATE);
    assert_non_null(strstr(e.message, "destroyed"));
    assert_int_equal(tutti_cancel_token_fired(NULL, &answer), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tutti_cancel_token_fired(gone, &answer), TUTTI_BAD_STATE);
    assert_int_equal(tutti_cancel_token_fired(gone, NULL), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tutti_cancel_token_destroy(NULL, &e), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tutti_cancel_token_destroy(gone, &e), TUTTI_BAD_STATE);
    assert_non_null(strstr(e.message, "destroyed"));
    assert_int_equal(tutti_cancel_token_destroy((tutti_cancel_token *)(uintptr_t)0x123, NULL), TUTTI_BAD_STATE);
    assert_int_equal(tti_token_link(NULL, &l.link), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_token_link(gone, &l.link), TUTTI_BAD_STATE);
    tti_token_unlink(&l.link);
    assert_true(began == 77 && answer == 77 && !token);
}

static void families(void **state)
{
    (void)state;
    struct listener at_top = listener(true);
    struct listener at_left = listener(true);
    struct listener at_right = listener(true);
    struct listener below = listener(true);
    tutti_cancel_token *top = make(NULL, -1);
    tutti_cancel_token *left = make(top, -1);
    tutti_cancel_token *right = make(top, -1);
    tutti_cancel_token *child = make(left, -1);
    assert_int_equal(tti_token_link(top, &at_top.link), TUTTI_OK);
    assert_int_equal(tti_token_link(left, &at_left.link), TUTTI_OK);
    assert_int_equal(tti_token_link(right, &at_right.link), TUTTI_OK);
    assert_int_equal(tti_token_link(child, &below.link), TUTTI_OK);
    /* downward, not upward, not sideways */
    assert_int_equal(cancel(left), 2);
    assert_true(!fired(top) && fired(left) && !fired(right) && fired(child));
    assert_true(at_top.notified == 0 && at_left.notified == 1 && at_right.notified == 0 && below.notified == 1);
    assert_int_equal(cancel(child), 1); /* its own, as it was when it fired */
    /* a link that has fired is not notified again, and not counted again */
    assert_int_equal(cancel(top), 2);
    assert_true(fired(top) && fired(right));
    assert_true(at_top.notified == 1 && at_left.notified == 1 && at_right.notified == 1 && below.notified == 1);
    /* a child of a fired parent begins fired */
    tutti_cancel_token *late = make(child, HOUR_MS);
    assert_true(fired(late));
    assert_int_equal(cancel(late), 0);
    tti_token_unlink(&at_top.link);
    tti_token_unlink(&at_left.link);
    tti_token_unlink(&at_right.link);
    tti_token_unlink(&below.link);
    destroy(left);
    destroy(top);
    destroy(late);
    destroy(right);
    destroy(child);
}

static void destroyed_parents(void **state)
{
    (void)state;
    struct listener orphan = listener(true);
    struct listener lost = listener(true);
    tutti_cancel_token *top = make(NULL, -1);
    tutti_cancel_token *middle = make(top, -1);
    tutti_cancel_token *bottom = make(middle, -1);
    tutti_cancel_token *brother = make(middle, -1);
    assert_int_equal(tti_token_link(bottom, &orphan.link), TUTTI_OK);
    assert_int_equal(tti_token_link(middle, &lost.link), TUTTI_OK);
    destroy(middle);
    assert_int_equal(cancel(top), 0); /* has lost them all */
    assert_true(!fired(bottom) && !fired(brother) && lost.notified == 0 && orphan.notified == 0);
    tti_token_unlink(&lost.link); /* its token is gone */
    destroy(brother);
    assert_int_equal(cancel(bottom), 1);
    assert_int_equal(orphan.notified, 1);
    tti_token_unlink(&orphan.link);
    destroy(bottom);
    destroy(top);
    /* a link that outlives its token can be used again */
    tutti_cancel_token *other = make(NULL, -1);
    assert_int_equal(tti_token_link(other, &lost.link), TUTTI_OK);
    assert_int_equal(cancel(other), 1);
    tti_token_unlink(&lost.link);
    destroy(other);
}

static void limits(void **state)
{
    (void)state;
    struct listener l = listener(true);
    tutti_cancel_token *at_once = make(NULL, 0);
    assert_true(fired(at_once));
    assert_int_equal(tti_token_link(at_once, &l.link), TUTTI_CANCELLED);
    destroy(at_once);
    int64_t before = tti_now_ns();
    tutti_cancel_token *soon = make(NULL, 30);
    tutti_cancel_token *child = make(soon, -1);
    if (tti_token_link(child, &l.link) == TUTTI_OK) { /* a slow machine may be late for that */
        wait_until_fired(child);
        assert_true(tti_now_ns() - before >= 30000000);
        assert_int_equal(cancel(soon), 1);
        tti_token_unlink(&l.link);
        assert_int_equal(l.notified, 1);
    }
    destroy(child);
    destroy(soon);
    tutti_cancel_token *beyond = make(NULL, INT64_MAX);
    tutti_cancel_token *far = make(NULL, HOUR_MS);
    assert_true(!fired(beyond) && !fired(far));
    assert_int_equal(cancel(far), 0);
    destroy(beyond);
    destroy(far);
    for (int i = 0; i < 200; i++) { /* destroyed while it fires, or just before */
        destroy(make(NULL, 1));
        if (i % 4 == 0) {
            tutti_cancel_token *token = make(NULL, 1);
            wait_until_fired(token);
            destroy(token);
        }
    }
}

static void busy(void **state)
{
    (void)state;
    tutti_error e;
    tutti_status why;
    tutti_cancel_token *token = make(NULL, -1);
    struct tti_token *user = tti_token_acquire(token, &why); /* as a thread inside a call is */
    assert_non_null(user);
    assert_int_equal(tutti_cancel_token_destroy(token, &e), TUTTI_BUSY);
    assert_non_null(strstr(e.message, "another thread"));
    assert_int_equal(cancel(token), 0);
    tti_token_release(user);
    destroy(token);
}

/* A long chain fires, and is destroyed from its middle. */
static void deep(void **state)
{
    (void)state;
    static tutti_cancel_token *chain[DEPTH];
    struct listener last = listener(true);
    for (int i = 0; i < DEPTH; i++) {
        chain[i] = make(i > 0 ? chain[i - 1] : NULL, -1);
    }
    assert_int_equal(tti_token_link(chain[DEPTH - 1], &last.link), TUTTI_OK);
    assert_int_equal(cancel(chain[1]), 1);
    assert_true(!fired(chain[0]) && last.notified == 1);
    tti_token_unlink(&last.link);
    for (int i = 0; i < DEPTH; i++) {
        int at = (i + DEPTH / 2) % DEPTH;
        assert_true(fired(chain[at]) || at == 0);
        destroy(chain[at]);
    }
}

static void too_many(void **state)
{
    (void)state;
    static tutti_cancel_token *all[TTI_HANDLES];
    tutti_error e;
    tutti_cancel_token *one_more = NULL;
    tutti_cancel_token *parent = make(NULL, -1);
    for (uint32_t i = 0; i < TTI_HANDLES - 1; i++) {
        all[i] = make(i % 2 ? parent : NULL, i % 3 ? HOUR_MS : -1);
    }
    assert_int_equal(tutti_cancel_token_create(parent, HOUR_MS, &one_more, &e), TUTTI_NO_RESOURCE);
    assert_non_null(strstr(e.message, "cancellation tokens"));
    assert_null(one_more);
    cancel(parent); /* the token that was not made is not among its children */
    for (uint32_t i = 0; i < TTI_HANDLES - 1; i++) {
        destroy(all[i]);
    }
    destroy(parent);
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

static int in_child(int (*function)(tutti_cancel_token *), tutti_cancel_token *token)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(100);
        _exit(function(token));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int expect_forked(tutti_cancel_token *token)
{
    tutti_error e;
    int32_t answer = 77;
    tutti_cancel_token *child = NULL;
    struct listener l = listener(true);
    if (tutti_cancel_token_fired(token, &answer) != TUTTI_FORKED || answer != 77 ||
        tutti_cancel_token_cancel(token, NULL, &e) != TUTTI_FORKED || !strstr(e.message, "fork") ||
        tutti_cancel_token_create(token, -1, &child, &e) != TUTTI_FORKED || child ||
        tti_token_link(token, &l.link) != TUTTI_FORKED || tutti_cancel_token_destroy(token, &e) != TUTTI_FORKED) {
        return 1;
    }
    for (int i = 0; i < 200; i++) { /* more tokens than locks: no lock is held by a thread that the child lacks */
        tutti_cancel_token *own = NULL;
        int64_t began = 0;
        if (tutti_cancel_token_create(NULL, -1, &own, &e) != TUTTI_OK || tti_token_link(own, &l.link) != TUTTI_OK ||
            tutti_cancel_token_cancel(own, &began, &e) != TUTTI_OK || began != 1) {
            return 2;
        }
        tti_token_unlink(&l.link);
        if (tutti_cancel_token_destroy(own, &e) != TUTTI_OK) {
            return 3;
        }
    }
    return l.notified == 200 ? 0 : 4;
}

/* Fires while its process forks: the lock of its token is held, and no thread of the child releases it. */
struct held {
    struct tti_token_link link;
    atomic_int inside;
    atomic_int go_on;
};

static bool hold(struct tti_token_link *link)
{
    struct held *h = (struct held *)link;
    atomic_store(&h->inside, 1);
    int64_t until = tti_now_ns() + WAIT_LIMIT;
    while (!atomic_load(&h->go_on) && tti_now_ns() < until) {
        sched_yield();
    }
    return false;
}

static void *fire(void *token)
{
    tutti_cancel_token_cancel(token, NULL, NULL);
    return NULL;
}

static void forked(void **state)
{
    (void)state;
    pthread_t thread;
    struct held h = {.link = {.fired = hold}};
    tutti_cancel_token *idle = make(NULL, HOUR_MS);
    tutti_cancel_token *firing = make(NULL, -1);
    assert_int_equal(in_child(expect_forked, idle), 0);
    assert_int_equal(tti_token_link(firing, &h.link), TUTTI_OK);
    assert_int_equal(pthread_create(&thread, NULL, fire, firing), 0);
    while (!atomic_load(&h.inside)) {
        sched_yield();
    }
    assert_int_equal(in_child(expect_forked, idle), 0);
    atomic_store(&h.go_on, 1);
    pthread_join(thread, NULL);
    tti_token_unlink(&h.link);
    assert_int_equal(cancel(idle), 0);
    destroy(idle);
    destroy(firing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notifies_each_link_once),
        cmocka_unit_test(unlinks_in_any_order),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(families),
        cmocka_unit_test(destroyed_parents),
        cmocka_unit_test(limits),
        cmocka_unit_test(busy),
        cmocka_unit_test(deep),
        cmocka_unit_test(too_many),
        cmocka_unit_test(forked),
    };
    return cmocka_run_group_tests(tests, NULL, stop_timer);
}
