/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tokens form trees. All tokens of a tree share one lock, so a tree fires in one step: no thread sees a parent that has
 * fired above a child that has not, and no thread holds two locks. The trees are spread over a fixed set of locks,
 * which are never freed. So a link can be taken out although its token may be gone.
 */
#include "core/async/token.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/async/timer.h"

#define LOCKS 64u

struct tti_token {
    tutti_cancel_token *handle;
    pthread_mutex_t *lock;
    struct tti_timer timer;
    /* under the lock: */
    bool fired;
    int64_t too_late;
    struct tti_token_link *links;
    struct tti_token *parent;
    struct tti_token *children;
    struct tti_token *next; /* of the same parent */
    struct tti_token *previous;
    struct tti_token *next_fired; /* while firing */
};

static struct tti_handle_table tokens = {.kind = TTI_KIND_TOKEN, .name = "cancellation tokens"};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t locks[LOCKS];

static void make_locks(void)
{
    for (unsigned i = 0; i < LOCKS; i++) {
        pthread_mutex_init(&locks[i], NULL);
    }
}

/* The child of a fork has new locks. All tokens are out of reach there, since their handles are FORKED. */
static void prepare(void)
{
    make_locks();
    pthread_atfork(NULL, NULL, make_locks);
}

static pthread_mutex_t *next_lock(void)
{
    static _Atomic uint32_t serial; /* relaxed: only spreads */
    return &locks[atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed) % LOCKS];
}

/* ---- links, under the lock -------------------------------------------------------------------------------------- */

static void put_in(struct tti_token *token, struct tti_token_link *link)
{
    link->token = token;
    link->previous = NULL;
    link->next = token->links;
    if (link->next) {
        link->next->previous = link;
    }
    token->links = link;
}

static void take_out(struct tti_token *token, struct tti_token_link *link)
{
    *(link->previous ? &link->previous->next : &token->links) = link->next;
    if (link->next) {
        link->next->previous = link->previous;
    }
    link->token = NULL;
}

tutti_status tti_token_link(tutti_cancel_token *handle, struct tti_token_link *link)
{
    tutti_status status = TUTTI_OK;
    struct tti_token *token = tti_token_acquire(handle, &status);
    if (!token) {
        return status;
    }
    pthread_mutex_lock(token->lock);
    if (token->fired) {
        status = TUTTI_CANCELLED;
    } else {
        put_in(token, link);
        link->lock = token->lock;
    }
    pthread_mutex_unlock(token->lock);
    tti_token_release(token);
    return status;
}

void tti_token_unlink(struct tti_token_link *link)
{
    if (!link->lock) {
        return;
    }
    pthread_mutex_lock(link->lock);
    if (link->token) {
        take_out(link->token, link);
    }
    pthread_mutex_unlock(link->lock);
    link->lock = NULL;
}

/* ---- firing, under the lock ------------------------------------------------------------------------------------- */

/* The tokens that fire with this one, each ahead of its parent. */
static struct tti_token *mark_tree(struct tti_token *top)
{
    struct tti_token *marked = NULL;
    struct tti_token *to_do = top; /* a token is in one of the lists at a time */
    top->next_fired = NULL;
    while (to_do) {
        struct tti_token *token = to_do;
        to_do = token->next_fired;
        token->fired = true;
        token->next_fired = marked;
        marked = token;
        for (struct tti_token *child = token->children; child; child = child->next) {
            if (!child->fired) {
                child->next_fired = to_do;
                to_do = child;
            }
        }
    }
    return marked;
}

static void fire(struct tti_token *top)
{
    for (struct tti_token *token = mark_tree(top); token; token = token->next_fired) {
        while (token->links) {
            struct tti_token_link *link = token->links;
            take_out(token, link);
            token->too_late += link->fired(link);
        }
        if (token != top) {
            token->parent->too_late += token->too_late;
        }
    }
}

int64_t tti_token_fire(struct tti_token *token)
{
    pthread_mutex_lock(token->lock);
    if (!token->fired) {
        fire(token);
    }
    int64_t too_late = token->too_late;
    pthread_mutex_unlock(token->lock);
    return too_late;
}

static void limit_passed(struct tti_timer *timer)
{
    tti_token_fire((struct tti_token *)((char *)timer - offsetof(struct tti_token, timer)));
}

bool tti_token_fired(struct tti_token *token)
{
    pthread_mutex_lock(token->lock);
    bool fired = token->fired;
    pthread_mutex_unlock(token->lock);
    return fired;
}

bool tti_token_below(tutti_cancel_token *handle, tutti_cancel_token *above)
{
    tutti_status why = TUTTI_OK;
    struct tti_token *top = tti_token_acquire(above, &why);
    struct tti_token *token = top ? tti_token_acquire(handle, &why) : NULL;
    const struct tti_token *at = token;
    if (token) {
        pthread_mutex_lock(token->lock); /* of the whole tree */
        while (at && at != top) {
            at = at->parent;
        }
        pthread_mutex_unlock(token->lock);
        tti_token_release(token);
    }
    if (top) {
        tti_token_release(top);
    }
    return at != NULL;
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

struct tti_token *tti_token_acquire(tutti_cancel_token *handle, tutti_status *why)
{
    return tti_handles_acquire(&tokens, handle, why);
}

void tti_token_release(struct tti_token *token)
{
    tti_handles_release(&tokens, token->handle);
}

static void join(struct tti_token *parent, struct tti_token *child)
{
    pthread_mutex_lock(parent->lock);
    child->fired = child->fired || parent->fired;
    child->parent = parent;
    child->next = parent->children;
    if (child->next) {
        child->next->previous = child;
    }
    parent->children = child;
    pthread_mutex_unlock(parent->lock);
}

/* Takes the token out of its tree and frees it. Its handle is stale already. */
static void end(struct tti_token *token)
{
    tti_timer_stop(&token->timer);
    pthread_mutex_lock(token->lock);
    while (token->links) {
        take_out(token, token->links);
    }
    for (struct tti_token *child = token->children; child; child = child->next) {
        child->parent = NULL;
    }
    if (token->parent) {
        *(token->previous ? &token->previous->next : &token->parent->children) = token->next;
        if (token->next) {
            token->next->previous = token->previous;
        }
    }
    pthread_mutex_unlock(token->lock);
    free(token);
}

tutti_status tti_token_create(struct tti_token *parent, int64_t limit_ms, tutti_cancel_token **handle,
                              tutti_error *error)
{
    pthread_once(&once, prepare);
    struct tti_token *token = calloc(1, sizeof(*token));
    if (!token) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a cancellation token");
    }
    token->lock = parent ? parent->lock : next_lock();
    token->timer.notify = limit_passed;
    token->fired = limit_ms == 0;
    if (parent) {
        join(parent, token);
    }
    tutti_status status = TUTTI_OK;
    if (limit_ms > 0) {
        status = tti_timer_set(&token->timer, tti_deadline_ns(tti_now_ns(), limit_ms), error);
    }
    void *made = NULL;
    if (status == TUTTI_OK) {
        status = tti_handles_insert(&tokens, token, &made, error);
    }
    if (status != TUTTI_OK) {
        end(token);
        return status;
    }
    token->handle = made; /* before another thread has the handle */
    *handle = made;
    return TUTTI_OK;
}

tutti_status tti_token_destroy(struct tti_token *token)
{
    tutti_status status = tti_handles_retire(&tokens, token->handle);
    if (status == TUTTI_OK) {
        end(token);
    } else {
        tti_token_release(token);
    }
    return status;
}
