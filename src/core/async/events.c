/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers with a number lie in a hash table of circular lists, listeners in one more such list. An entry that is
 * withdrawn while its function runs is only marked, and freed by the thread that runs it. A thread that removes an
 * entry whose function runs elsewhere waits for it, unless that closes a cycle of waits over several groups: then
 * WOULD_DEADLOCK. Cost of an end: the listeners of the group, and the handlers in one bucket.
 */
#include "core/async/events.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/process/fork.h"
#include "core/group/group_table.h"

#define LISTENERS (TTI_EVENTS_BUCKETS - 1)

/* An entry. The thread that unlinks it frees it; while its function runs, that is the thread that runs it. */
struct tti_listener {
    struct tti_events_link link; /* first: a link that is not the head of a bucket is the entry itself */
    struct tti_subscription subscription;
    tutti_events *owner; /* the handle: differs from those of objects that lay at the same address before */
    int64_t id;          /* ascending in each bucket; the bucket is its remainder by TTI_EVENTS_BUCKETS */
    int64_t object;      /* its owner's number */
    bool removed;
};

/* `destroyed` is under the lock of the group's list; the others never change. */
struct tti_events {
    struct tti_group *group;
    tutti_events *handle;
    int64_t number; /* from 1, in the order in which the group got its objects */
    bool destroyed;
};

static struct tti_handle_table table = {.kind = TTI_KIND_EVENTS, .name = "events objects"};

/* The lists that have this thread in a handler, innermost first. */
struct frame {
    struct tti_events_list *list;
    const struct frame *outer;
};
static _Thread_local const struct frame *frames;

static struct tti_fork_mutex waits_lock = TTI_FORK_MUTEX_INIT; /* every list's `awaits` */

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static struct tti_listener *entry_of(struct tti_events_link *link)
{
    return (struct tti_listener *)link;
}

static int bucket_of(int64_t operation_id)
{
    return operation_id == 0 ? LISTENERS : (int)((uint64_t)operation_id % LISTENERS);
}

static void append(struct tti_events_link *bucket, struct tti_listener *l)
{
    l->link.next = bucket;
    l->link.previous = bucket->previous;
    bucket->previous->next = &l->link;
    bucket->previous = &l->link;
}

static void drop(struct tti_listener *l)
{
    l->link.previous->next = l->link.next;
    l->link.next->previous = l->link.previous;
    free(l);
}

/* The entry will not be called (again). */
static void withdraw(const struct tti_events_list *list, struct tti_listener *l)
{
    l->removed = true;
    if (list->calling != l) {
        drop(l);
    }
}

void tti_events_list_init(struct tti_events_list *list)
{
    atomic_init(&list->objects, 0);
    atomic_init(&list->newest, 0);
    pthread_mutex_init(&list->lock, NULL);
    pthread_cond_init(&list->returned, NULL);
    for (int i = 0; i < TTI_EVENTS_BUCKETS; i++) {
        list->buckets[i].next = &list->buckets[i];
        list->buckets[i].previous = &list->buckets[i];
    }
    list->added = 0;
    list->calling = NULL;
    list->awaits = NULL;
}

void tti_events_list_free(struct tti_events_list *list)
{
    pthread_cond_destroy(&list->returned);
    pthread_mutex_destroy(&list->lock);
}

/* ---- notifying --------------------------------------------------------------------------------------------------- */

static bool matches(const struct tti_subscription *subscription, const tutti_event *event)
{
    return subscription->operation_id != 0 ? subscription->operation_id == event->operation_id
                                           : subscription->failures == (event->status != TUTTI_OK);
}

/* With the lock held, which is given back during the call. */
static void call(struct tti_events_list *list, struct tti_listener *l, const tutti_event *event)
{
    l->removed = l->subscription.operation_id != 0; /* handlers: once */
    list->calling = l;
    pthread_mutex_unlock(&list->lock);
    l->subscription.handler(event, l->subscription.user);
    pthread_mutex_lock(&list->lock);
    list->calling = NULL;
    pthread_cond_broadcast(&list->returned);
}

/* The entries that concern an operation. */
struct range {
    int64_t last;   /* that many were added before it ended */
    int64_t newest; /* object that there was when it started */
};

/* Calls the entries of one bucket. */
static void notify_bucket(struct tti_events_list *list, int bucket, const struct range *range, const tutti_event *event)
{
    struct tti_events_link *end = &list->buckets[bucket];
    struct tti_events_link *next;
    for (struct tti_events_link *at = end->next; at != end; at = next) {
        struct tti_listener *l = entry_of(at);
        if (l->id / TTI_EVENTS_BUCKETS > range->last) {
            break;
        }
        if (l->object <= range->newest && matches(&l->subscription, event)) {
            call(list, l, event);
        }
        next = at->next;
        if (l->removed) {
            drop(l);
        }
    }
}

/* Removes the handlers of this number. */
static void drop_handlers(struct tti_events_list *list, const struct range *range, int64_t operation_id)
{
    struct tti_events_link *end = &list->buckets[bucket_of(operation_id)];
    struct tti_events_link *next;
    for (struct tti_events_link *at = end->next; at != end; at = next) {
        struct tti_listener *l = entry_of(at);
        next = at->next;
        if (l->subscription.operation_id == operation_id && l->id / TTI_EVENTS_BUCKETS <= range->last &&
            l->object <= range->newest) {
            withdraw(list, l);
        }
    }
}

void tti_events_notify(struct tti_group *group, const tutti_event *event, int64_t newest, bool on_ok)
{
    struct tti_events_list *list = &group->events;
    struct frame frame = {.list = list, .outer = frames};
    frames = &frame;
    pthread_mutex_lock(&list->lock);
    const struct range range = {.last = list->added, .newest = newest};
    notify_bucket(list, LISTENERS, &range, event);
    if (event->operation_id != 0 && on_ok && event->status != TUTTI_OK) {
        drop_handlers(list, &range, event->operation_id);
    } else if (event->operation_id != 0) {
        notify_bucket(list, bucket_of(event->operation_id), &range, event);
    }
    pthread_mutex_unlock(&list->lock);
    frames = frame.outer;
}

/* ---- waiting for a handler --------------------------------------------------------------------------------------- */

static bool inside(const struct tti_events_list *list)
{
    for (const struct frame *f = frames; f; f = f->outer) {
        if (f->list == list) {
            return true;
        }
    }
    return false;
}

static void set_awaits(struct tti_events_list *awaited)
{
    for (const struct frame *f = frames; f; f = f->outer) {
        f->list->awaits = awaited;
    }
}

/*
 * A handler of one group may wait for a handler of another one, but not in a cycle. An awaited list lives: the waiting
 * thread is a user of one of its objects.
 */
static bool may_wait(struct tti_events_list *list)
{
    if (!frames) {
        return true; /* no handler waits for this thread */
    }
    tti_fork_mutex_lock(&waits_lock);
    const struct tti_events_list *at = list;
    while (at && !inside(at)) {
        at = at->awaits;
    }
    if (!at) {
        set_awaits(list);
    }
    tti_fork_mutex_unlock(&waits_lock);
    return !at;
}

static void waited(void)
{
    if (frames) {
        tti_fork_mutex_lock(&waits_lock);
        set_awaits(NULL);
        tti_fork_mutex_unlock(&waits_lock);
    }
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

tutti_status tti_events_create(struct tti_group *group, tutti_events **handle, tutti_error *error)
{
    struct tti_events_list *list = &group->events;
    struct tti_events *e = calloc(1, sizeof(*e));
    if (!e) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "events_create: no memory for an events object");
    }
    e->group = group;
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&list->lock);
    uint32_t objects = atomic_load_explicit(&list->objects, memory_order_relaxed); /* under the lock */
    if (objects == TTI_EVENTS_OBJECTS) {
        status =
            tti_error_set(error, TUTTI_NO_RESOURCE,
                          "events_create: the group has %u events objects already; destroy some", TTI_EVENTS_OBJECTS);
    } else if ((status = tti_handles_insert(&table, e, (void **)&e->handle, error)) == TUTTI_OK) {
        *handle = e->handle;
        e->number = atomic_load_explicit(&list->newest, memory_order_relaxed) + 1;
        atomic_store_explicit(&list->newest, e->number, memory_order_relaxed);
        /* release: pairs with the acquire in tti_events_newest */
        atomic_store_explicit(&list->objects, objects + 1, memory_order_release);
    }
    pthread_mutex_unlock(&list->lock);
    if (status != TUTTI_OK) {
        free(e);
    }
    return status;
}

struct tti_events *tti_events_acquire(tutti_events *handle, tutti_status *why)
{
    return tti_handles_acquire(&table, handle, why);
}

void tti_events_release(struct tti_events *e)
{
    struct tti_group *g = e->group;
    /* Under the lock: of all users of a destroyed object, exactly the last one finds that it is alone. */
    pthread_mutex_lock(&g->events.lock);
    bool last = e->destroyed && tti_handles_retire(&table, e->handle) == TUTTI_OK;
    if (!last) {
        tti_handles_release(&table, e->handle);
    }
    pthread_mutex_unlock(&g->events.lock);
    if (last) {
        free(e);
        tti_group_release(g);
    }
}

struct tti_group *tti_events_group(const struct tti_events *e)
{
    return e->group;
}

tutti_status tti_events_add(struct tti_events *e, const struct tti_subscription *subscription, int64_t *listener)
{
    struct tti_events_list *list = &e->group->events;
    struct tti_listener *l = calloc(1, sizeof(*l));
    if (!l) {
        return TUTTI_NO_MEMORY;
    }
    l->subscription = *subscription;
    l->owner = e->handle;
    l->object = e->number;
    int bucket = bucket_of(subscription->operation_id);
    pthread_mutex_lock(&list->lock);
    bool refused = e->destroyed;
    if (!refused) {
        l->id = ++list->added * TTI_EVENTS_BUCKETS + bucket;
        append(&list->buckets[bucket], l);
        if (listener) {
            *listener = l->id; /* under the lock: the function itself may read it */
        }
    }
    pthread_mutex_unlock(&list->lock);
    if (refused) {
        free(l);
        return TUTTI_BAD_STATE;
    }
    return TUTTI_OK;
}

static struct tti_listener *find(struct tti_events *e, int64_t id)
{
    if (id <= 0) {
        return NULL;
    }
    struct tti_events_link *end = &e->group->events.buckets[id % TTI_EVENTS_BUCKETS];
    for (struct tti_events_link *at = end->next; at != end; at = at->next) {
        if (entry_of(at)->id == id && entry_of(at)->owner == e->handle) {
            return entry_of(at);
        }
    }
    return NULL;
}

/* Whether the function of entry `id`, or of any entry of `e` if it is 0, is running on another thread. */
static bool runs_elsewhere(const struct tti_events *e, int64_t id)
{
    const struct tti_events_list *list = &e->group->events;
    const struct tti_listener *l = list->calling;
    return l && l->owner == e->handle && (id == 0 || l->id == id) && !inside(list);
}

/* Waits until the function has returned. It is not called again, since its entry is withdrawn. */
static void wait_for(const struct tti_events *e, int64_t id)
{
    struct tti_events_list *list = &e->group->events;
    while (runs_elsewhere(e, id)) {
        pthread_cond_wait(&list->returned, &list->lock);
    }
    waited();
}

tutti_status tti_events_remove(struct tti_events *e, int64_t listener)
{
    struct tti_events_list *list = &e->group->events;
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&list->lock);
    struct tti_listener *l = find(e, listener);
    bool running = l && runs_elsewhere(e, listener);
    if (running && !may_wait(list)) {
        status = TUTTI_WOULD_DEADLOCK;
    } else {
        if (!l || l->removed) {
            status = e->destroyed ? TUTTI_BAD_STATE : TUTTI_NOT_FOUND;
        } else {
            withdraw(list, l);
        }
        if (running) {
            wait_for(e, listener);
        }
    }
    pthread_mutex_unlock(&list->lock);
    return status;
}

static void withdraw_all(struct tti_events *e)
{
    struct tti_events_list *list = &e->group->events;
    for (int i = 0; i < TTI_EVENTS_BUCKETS; i++) {
        struct tti_events_link *next;
        for (struct tti_events_link *at = list->buckets[i].next; at != &list->buckets[i]; at = next) {
            next = at->next;
            if (entry_of(at)->owner == e->handle) {
                withdraw(list, entry_of(at));
            }
        }
    }
}

tutti_status tti_events_destroy(struct tti_events *e)
{
    struct tti_events_list *list = &e->group->events;
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&list->lock);
    bool running = runs_elsewhere(e, 0);
    if (e->destroyed) {
        status = TUTTI_BAD_STATE;
    } else if (running && !may_wait(list)) {
        status = TUTTI_WOULD_DEADLOCK;
    } else {
        e->destroyed = true;
        withdraw_all(e);
        uint32_t objects = atomic_load_explicit(&list->objects, memory_order_relaxed); /* under the lock */
        /* relaxed: a reader of the old number walks an empty list */
        atomic_store_explicit(&list->objects, objects - 1, memory_order_relaxed);
        if (running) {
            wait_for(e, 0);
        }
    }
    pthread_mutex_unlock(&list->lock);
    return status;
}

static void destroy_one(void *handle, void *user)
{
    (void)user;
    tutti_status why;
    struct tti_events *e = tti_events_acquire(handle, &why);
    if (e) {
        tti_events_destroy(e);
        tti_events_release(e);
    }
}

static void find_users(void *handle, void *user)
{
    *(bool *)user |= tti_handles_users(&table, handle) > 0;
}

bool tti_events_in_use(void)
{
    bool used = false;
    tti_handles_each(&table, find_users, &used);
    return used;
}

void tti_events_destroy_all(void)
{
    tti_handles_each(&table, destroy_one, NULL);
}
