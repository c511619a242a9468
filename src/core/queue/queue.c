/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue is an array of members in the order of their serial numbers. No lock is held while a work is waited for,
 * pushed or cancelled: a thread pins the next open member, unlocks, does that, and goes on after its serial number,
 * wherever the members are by then. Each member has a struct of its own with an embedded watch, so its address stays
 * when the array grows. Structs are used again: a queue that has reached its size allocates nothing.
 */
#include "core/queue/queue.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "core/async/work/pool.h"
#include "core/async/work/stage.h"
#include "core/async/work/work.h"
#include "core/group/handles.h"
#include "core/queue/queue_state.h"

static struct tti_handle_table queues = {.kind = TTI_KIND_QUEUE, .name = "queues"};

/* ---- life ------------------------------------------------------------------------------------------------------- */

struct tti_queue *tti_queue_acquire(tutti_queue *handle, tutti_status *why)
{
    return tti_handles_acquire(&queues, handle, why);
}

void tti_queue_release(struct tti_queue *queue)
{
    tti_handles_release(&queues, queue->handle);
}

tutti_status tti_queue_create(tutti_queue **handle, tutti_error *error)
{
    struct tti_queue *q = calloc(1, sizeof(*q));
    if (!q) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "queue_create: no memory for a queue");
    }
    pthread_mutex_init(&q->lock, NULL);
    void *made;
    tutti_status status = tti_handles_insert(&queues, q, &made, error);
    if (status != TUTTI_OK) {
        pthread_mutex_destroy(&q->lock);
        free(q);
        return status;
    }
    q->handle = made; /* before another thread has the handle */
    *handle = made;
    return TUTTI_OK;
}

static void free_members(struct tti_queue_member *list)
{
    while (list) {
        struct tti_queue_member *next = list->next;
        free(list);
        list = next;
    }
}

tutti_status tti_queue_destroy(struct tti_queue *q)
{
    tutti_status status = tti_handles_retire(&queues, q->handle);
    if (status != TUTTI_OK) {
        tti_queue_release(q);
        return status;
    }
    for (size_t i = 0; i < q->count; i++) {
        struct tti_queue_member *m = q->members[i];
        tti_work_push(m->work); /* no thread waits for it any more */
        tti_work_unwatch(m->work, &m->watch);
        tti_work_retire(m->work);
        tti_work_drop(m->work);
        free(m);
    }
    free_members(q->spare);
    free(q->members);
    pthread_mutex_destroy(&q->lock);
    free(q);
    return TUTTI_OK;
}

/* ---- members ---------------------------------------------------------------------------------------------------- */

struct tti_queue_member *tti_queue_next_open(const struct tti_queue *q, int64_t serial)
{
    size_t low = 0;
    size_t high = q->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (q->members[middle]->serial < serial) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (low < q->count && tti_work_ended(q->members[low]->work)) {
        low++;
    }
    return low < q->count ? q->members[low] : NULL;
}

/* tti_queue_next_open, pinned, with the lock taken here. */
static struct tti_queue_member *pin_open(struct tti_queue *q, int64_t serial)
{
    pthread_mutex_lock(&q->lock);
    struct tti_queue_member *m = tti_queue_next_open(q, serial);
    if (m) {
        tti_queue_pin(m);
    }
    pthread_mutex_unlock(&q->lock);
    return m;
}

int64_t tti_queue_unpin(struct tti_queue *q, struct tti_queue_member *m)
{
    int64_t next = m->serial + 1;
    struct tti_work *last_use = NULL;
    pthread_mutex_lock(&q->lock);
    if (--m->users == 0) {
        last_use = m->work;
        m->next = q->spare;
        q->spare = m;
    }
    pthread_mutex_unlock(&q->lock);
    if (last_use) {
        tti_work_drop(last_use);
    }
    return next;
}

static void note_change(struct tti_queue *q)
{
    /* seq_cst: see the protocol in queue_wait.c */
    atomic_fetch_add_explicit(&q->changes, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&q->sleepers, memory_order_seq_cst) != 0) {
        syscall(SYS_futex, &q->changes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

static void member_ended(struct tti_watch *watch)
{
    note_change(((struct tti_queue_member *)((char *)watch - offsetof(struct tti_queue_member, watch)))->queue);
}

/* A place in the array and a struct for one more member; NULL if there is no memory. With the lock. */
static struct tti_queue_member *reserve(struct tti_queue *q)
{
    if (q->count == q->capacity) {
        size_t capacity = q->capacity ? 2 * q->capacity : 16;
        struct tti_queue_member **larger = realloc(q->members, capacity * sizeof(struct tti_queue_member *));
        if (!larger) {
            return NULL;
        }
        q->members = larger;
        q->capacity = capacity;
    }
    struct tti_queue_member *m = q->spare;
    if (m) {
        q->spare = m->next;
        return m;
    }
    return malloc(sizeof(*m));
}

/* With the lock, and the caller counted as a user of the work: if this returns OK, the member takes that over. */
static tutti_status add(struct tti_queue *q, struct tti_work *w, tutti_error *error)
{
    struct tti_queue_member *m = reserve(q);
    if (!m) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "queue_enqueue: no memory for member %zu of the queue", q->count);
    }
    if (!tti_work_claim_for_queue(w)) {
        m->next = q->spare;
        q->spare = m;
        return tti_error_set(error, TUTTI_BAD_STATE,
                             "queue_enqueue: the work is in a queue already, or belongs to a persistent operation");
    }
    *m = (struct tti_queue_member){
        .watch = {.ended = member_ended}, .queue = q, .work = w, .serial = q->next_serial++, .users = 1};
    q->members[q->count++] = m;
    tti_work_watch(w, &m->watch);
    return TUTTI_OK;
}

tutti_status tti_queue_enqueue(struct tti_queue *q, tutti_work *work, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_work *w = tti_work_acquire(work, &status);
    if (!w) {
        return tti_handle_error(error, status, "queue_enqueue", "work", TTI_KIND_WORK);
    }
    pthread_mutex_lock(&q->lock);
    status = add(q, w, error);
    pthread_mutex_unlock(&q->lock);
    if (status != TUTTI_OK) {
        tti_work_drop(w);
        return status;
    }
    note_change(q); /* tti_queue_wait_any waits for this work as well */
    return tti_error_clear(error);
}

/* Takes the members that have ended out of the array, in a list. With the lock. */
static struct tti_queue_member *take_ended(struct tti_queue *q)
{
    struct tti_queue_member *ended = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < q->count; i++) {
        struct tti_queue_member *m = q->members[i];
        if (tti_work_ended(m->work)) {
            m->next = ended;
            ended = m;
        } else {
            q->members[kept++] = m;
        }
    }
    q->count = kept;
    return ended;
}

int64_t tti_queue_clear_completed(struct tti_queue *q)
{
    pthread_mutex_lock(&q->lock);
    struct tti_queue_member *ended = take_ended(q);
    pthread_mutex_unlock(&q->lock);
    int64_t cleared = 0;
    while (ended) {
        struct tti_queue_member *m = ended;
        ended = m->next;
        tti_work_unwatch(m->work, &m->watch); /* the end is visible before watches are notified */
        tti_work_retire(m->work);
        tti_queue_unpin(q, m);
        cleared++;
    }
    if (cleared > 0) {
        note_change(q); /* without its watch no end wakes tti_queue_wait_any, which may have waited for one of these */
    }
    return cleared;
}

int64_t tti_queue_count(struct tti_queue *q)
{
    pthread_mutex_lock(&q->lock);
    int64_t count = (int64_t)q->count;
    pthread_mutex_unlock(&q->lock);
    return count;
}

int64_t tti_queue_poll(struct tti_queue *q)
{
    int64_t open = 0;
    struct tti_queue_member *m;
    for (int64_t next = 0; (m = pin_open(q, next)); next = tti_queue_unpin(q, m)) {
        open += !tti_work_poll(m->work);
    }
    return open;
}

int64_t tti_queue_cancel_all(struct tti_queue *q)
{
    int64_t too_late = 0;
    struct tti_queue_member *m;
    for (int64_t next = 0; (m = pin_open(q, next)); next = tti_queue_unpin(q, m)) {
        too_late += tti_work_cancel(m->work, NULL) != TUTTI_OK;
    }
    return too_late;
}

/* ---- one member ------------------------------------------------------------------------------------------------- */

/* The member at an index, pinned, which has ended; or NULL and why. */
static struct tti_queue_member *pin_ended(struct tti_queue *q, int64_t index, const char *function,
                                          tutti_status *status, tutti_error *error)
{
    pthread_mutex_lock(&q->lock);
    size_t count = q->count;
    struct tti_queue_member *m = index >= 0 && (uint64_t)index < count ? q->members[index] : NULL;
    if (m) {
        tti_queue_pin(m);
    }
    pthread_mutex_unlock(&q->lock);
    if (!m) {
        *status = tti_error_set(error, TUTTI_NOT_FOUND, "%s: there is no member %lld in this queue of %zu", function,
                                (long long)index, count);
        return NULL;
    }
    if (!tti_work_poll(m->work)) {
        tti_queue_unpin(q, m);
        *status = tti_error_set(error, TUTTI_BAD_STATE, "%s: member %lld has not ended; wait for it first", function,
                                (long long)index);
        return NULL;
    }
    return m;
}

tutti_status tti_queue_status(struct tti_queue *q, int64_t index, tutti_error *details)
{
    tutti_status status = TUTTI_OK;
    struct tti_queue_member *m = pin_ended(q, index, "queue_status", &status, details);
    if (m) {
        *details = *tti_work_details(m->work);
        tti_queue_unpin(q, m);
    }
    return status;
}

tutti_status tti_queue_result(struct tti_queue *q, int64_t index, DLTensor *tensor, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_queue_member *m = pin_ended(q, index, "queue_result", &status, error);
    if (m) {
        status = tti_work_view(m->work, tensor, error);
        tti_queue_unpin(q, m);
    }
    return status;
}
