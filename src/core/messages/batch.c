/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch is a list of copied transfers in a thread-local variable. A thread key frees the batch of a thread that ends
 * without tutti_batch_end.
 *
 * As long as all its messages come from the call cache, it is an array of their descriptors instead, which go to the
 * backend as they are. The thread keeps the array for its next batch, as it is: a program makes the same batch again
 * and again, so most descriptors are the right ones already, but for the addresses. With whole copies, 64 small
 * messages each way took 1.05 to 1.13 times as long, since 128 descriptors fill a first-level cache. The first other
 * message makes transfers of them.
 */
#include "core/messages/batch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/call/cache/message_cache.h"
#include "core/call/task.h"
#include "core/group/backend/engines.h"
#include "core/group/group_table.h"
#include "tensor/dtype.h"

#define NOTED_LEAST 64u   /* messages for which an array has room */
#define NOTED_KEPT  1024u /* a larger one is not kept */

/* A message of the call cache. */
struct noted {
    _Alignas(64) tutti_op op;
    uint64_t fill; /* of the descriptor that `op` is a copy of; 0: of none */
    tutti_message *message_out;
    int64_t shape;
    tutti_message message;
};

struct notes {
    struct noted *each;
    tutti_op **ops; /* of `each` */
    size_t count;
    size_t room;
};

struct tti_batch {
    tutti_group *group;
    struct notes notes; /* empty if there are transfers */
    struct tti_transfer *first;
    struct tti_transfer **end; /* where the next one is linked in */
};

/* Of one thread. */
struct batches {
    struct tti_batch *open;
    struct tti_batch *spare; /* an earlier one, for the memory of its notes; NULL: there is none */
};
static _Thread_local struct batches *own;

/* Only for its destructor, which drops the batch of a thread that ends without tutti_batch_end. */
static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_failed;

static void free_memory(struct tti_batch *b)
{
    if (b) {
        free(b->notes.each);
        free(b->notes.ops);
        free(b);
    }
}

void tti_batch_free(struct tti_batch *b)
{
    if (!b) {
        return;
    }
    while (b->first) {
        struct tti_transfer *t = b->first;
        b->first = t->next;
        tti_transfer_drop(t);
        free(t);
    }
    if (own && !own->spare && b->notes.room <= NOTED_KEPT) {
        own->spare = b;
    } else {
        free_memory(b);
    }
}

static void drop_at_thread_end(void *batches)
{
    struct batches *b = batches;
    own = NULL;
    if (b->open) {
        tti_thread.open_scopes--;
        tti_batch_free(b->open);
    }
    free_memory(b->spare);
    free(b);
}

static void make_key(void)
{
    key_failed = pthread_key_create(&at_thread_end, drop_at_thread_end);
}

/* The calling thread's; NULL: there is no memory. */
static struct batches *batches_of_thread(void)
{
    pthread_once(&once, make_key);
    if (!own && key_failed == 0) {
        own = calloc(1, sizeof(*own));
        if (own && pthread_setspecific(at_thread_end, own) != 0) {
            free(own);
            own = NULL;
        }
    }
    return own;
}

static struct tti_batch *open_batch(void)
{
    return own ? own->open : NULL;
}

struct tti_batch *tti_batch_take(tutti_group *group)
{
    struct tti_batch *b = open_batch();
    if (!b || b->group != group) {
        return NULL;
    }
    own->open = NULL;
    tti_thread.open_scopes--;
    return b;
}

bool tti_batch_is_open(const tutti_group *group)
{
    return open_batch() && open_batch()->group == group;
}

/* ---- messages of the call cache ---------------------------------------------------------------------------------- */

static bool make_room(struct notes *n)
{
    const size_t room = n->room == 0 ? NOTED_LEAST : 2 * n->room;
    struct noted *each = aligned_alloc(_Alignof(struct noted), room * sizeof(*each));
    tutti_op **ops = realloc(n->ops, room * sizeof(*ops));
    n->ops = ops ? ops : n->ops;
    if (!each || !ops) {
        free(each);
        return false;
    }
    memset(each, 0, room * sizeof(*each));
    for (size_t i = 0; i < room; i++) {
        ops[i] = &each[i].op;
    }
    for (size_t i = 0; i < n->count; i++) {
        each[i] = n->each[i];
        each[i].op.shape = &each[i].shape;
        each[i].op.message = each[i].message_out ? &each[i].message : NULL;
    }
    free(n->each);
    n->each = each;
    n->room = room;
    return true;
}

static void note(struct noted *to, const tutti_op *from, uint64_t fill, tutti_message *message)
{
    if (to->fill != fill) {
        to->op = *from;
        to->op.shape = &to->shape;
        to->shape = (int64_t)from->count;
        to->fill = fill;
        to->op.message = NULL; /* that of the cache is of an earlier call */
        to->message_out = NULL;
    }
    to->op.src = from->src;
    to->op.dst = from->dst;
    if (message || to->message_out) {
        to->op.message = message ? &to->message : NULL;
        to->message_out = message;
    }
}

bool tti_batch_note_cached(const tutti_group *group, const struct tti_signature *s, const tutti_call *options,
                           tutti_message *message)
{
    struct tti_batch *b = open_batch();
    if (!b || b->group != group || b->first || tti_thread.open_scopes != 1) {
        return false;
    }
    uint64_t fill = 0;
    const tutti_op *op = tti_message_cache_find(group, s, options, &fill);
    struct notes *n = &b->notes;
    if (!op || (n->count == n->room && !make_room(n))) {
        return false;
    }
    note(&n->each[n->count++], op, fill, message);
    return true;
}

static size_t bytes_of(const tutti_op *op)
{
    return op->count << tti_dtype_shift(op->dtype);
}

/* The time now for a message that is timed, read once for all; else 0. */
static inline int64_t time_of(const tutti_op *op, size_t timed_from, int64_t *now)
{
    if (bytes_of(op) < timed_from) {
        return 0;
    }
    *now = *now == 0 ? tti_now_ns() : *now;
    return *now;
}

/* An earlier batch may have left its outcome here. */
static void reset(tutti_op *op)
{
    op->begun_ns = 0;
    op->sequence = 0;
    op->status = TTI_NOT_RUN;
    op->in_use = 0;
    op->waits_since = NULL;
}

/* Prepares and records each message. Returns the number of the first one's entry; 0: none is recorded. */
static uint64_t begin_messages(const struct tti_call *c, struct notes *n)
{
    const struct tti_flight_group *flight = c->group->flight;
    const uint64_t first = tti_flight_reserve(flight, n->count);
    const size_t timed_from = tti_flight_timed_from();
    int64_t now = 0;
    for (size_t i = 0; i < n->count; i++) {
        struct noted *m = &n->each[i];
        tutti_op *op = &m->op;
        reset(op);
        if (first != 0) {
            op->waits_since = tti_flight_put(flight, first + i, op, bytes_of(op), time_of(op, timed_from, &now));
        }
        if (m->message_out) {
            m->message = (tutti_message)TUTTI_MESSAGE_INIT;
        }
    }
    return first;
}

/* Records each outcome, and hands over what was received. */
static void end_messages(const struct notes *n, uint64_t first, tutti_status status)
{
    uint64_t calls[2] = {0};
    uint64_t bytes[2] = {0};
    uint64_t failures[2] = {0};
    const size_t timed_from = tti_flight_timed_from();
    int64_t now = 0;
    for (size_t i = 0; i < n->count; i++) {
        const struct noted *m = &n->each[i];
        const tutti_status own_status = m->op.status == TTI_NOT_RUN ? status : m->op.status;
        const int kind = m->op.kind == TUTTI_OP_RECV;
        if (m->message_out && own_status == TUTTI_OK) {
            *m->message_out = m->message;
        }
        if (first != 0) {
            tti_flight_settle(first + i, m->op.sequence, own_status, time_of(&m->op, timed_from, &now));
            calls[kind]++;
            bytes[kind] += bytes_of(&m->op);
            failures[kind] += own_status != TUTTI_OK;
        }
    }
    tti_flight_count(TUTTI_OP_SEND, calls[0], bytes[0], failures[0]);
    tti_flight_count(TUTTI_OP_RECV, calls[1], bytes[1], failures[1]);
}

static tutti_status run_notes(struct tti_call *c, struct notes *n)
{
    const uint64_t first = begin_messages(c, n);
    const tutti_status status = tti_call_run_p2p(c, n->ops, n->count);
    end_messages(n, first, status);
    return status;
}

tutti_status tti_batch_run(struct tti_call *c, struct tti_batch *b)
{
    if (b->notes.count > 0) {
        return run_notes(c, &b->notes);
    }
    return b->first ? tti_transfers_run(c, b->first) : TUTTI_OK;
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

static struct tti_transfer *copy_of(const struct tti_transfer *transfer)
{
    struct tti_transfer *t = malloc(sizeof(*t));
    if (t) {
        *t = *transfer;
        /* pointers into the original become pointers into the copy */
        t->op.shape = t->shape;
        t->op.allocate_user = t;
        t->op.message = transfer->op.message ? &t->message : NULL;
        t->tensor.shape = t->shape;
        t->tensor.strides = t->strides;
    }
    return t;
}

/* Not what they own: that belongs to the originals. */
static void free_transfers(struct tti_transfer *first)
{
    while (first) {
        struct tti_transfer *t = first;
        first = t->next;
        free(t);
    }
}

static struct tti_transfer *transfer_of(const struct noted *m, tutti_group *handle, struct tti_group *group)
{
    struct tti_transfer *t = calloc(1, sizeof(*t));
    if (t) {
        const bool receives = m->op.kind == TUTTI_OP_RECV;
        t->op = m->op;
        reset(&t->op);
        t->shape[0] = m->shape;
        t->op.shape = t->shape;
        t->function = receives ? "recv" : "send";
        t->group = group;
        t->handle = handle;
        t->device = group->device;
        t->message = (tutti_message)TUTTI_MESSAGE_INIT;
        t->op.message = receives ? &t->message : NULL;
        t->message_out = m->message_out;
    }
    return t;
}

bool tti_batch_transfers(struct tti_batch *b, struct tti_group *group, struct tti_transfer **first)
{
    struct tti_transfer **end = &b->first;
    for (size_t i = 0; i < b->notes.count; i++) {
        *end = transfer_of(&b->notes.each[i], b->group, group);
        if (!*end) {
            free_transfers(b->first);
            b->first = NULL;
            return false;
        }
        end = &(*end)->next;
    }
    if (b->notes.count > 0) {
        b->notes.count = 0;
        b->end = end;
    }
    *first = b->first;
    return true;
}

bool tti_batch_note(const struct tti_transfer *first)
{
    struct tti_batch *b = open_batch();
    struct tti_transfer *before;
    struct tti_transfer *copies = NULL;
    struct tti_transfer **end = &copies;
    if (!tti_batch_transfers(b, first->group, &before)) {
        return false;
    }
    for (const struct tti_transfer *t = first; t; t = t->next) {
        *end = copy_of(t);
        if (!*end) {
            free_transfers(copies);
            return false;
        }
        (*end)->next = NULL;
        end = &(*end)->next;
    }
    *b->end = copies;
    b->end = end;
    return true;
}

static bool is_gone(tutti_group *handle)
{
    tutti_status why;
    struct tti_group *group = tti_group_acquire(handle, &why);
    if (group) {
        tti_group_release(group);
    }
    return group == NULL;
}

tutti_status tti_batch_begin(struct tti_call *c, tutti_group *group)
{
    struct batches *mine = batches_of_thread();
    if (mine && mine->open && is_gone(mine->open->group)) {
        tti_batch_free(tti_batch_take(mine->open->group)); /* its group is gone, so it cannot be ended */
    }
    if (mine && mine->open) {
        return tti_error_set(
            c->error, TUTTI_BAD_STATE,
            "batch_begin: this thread has a batch open on %s group already; call tutti_batch_end first",
            mine->open->group == group ? "this" : "another");
    }
    struct tti_batch *b = mine && !mine->spare ? calloc(1, sizeof(*b)) : mine ? mine->spare : NULL;
    if (!b) {
        return tti_error_set(c->error, TUTTI_NO_MEMORY, "batch_begin: no memory for a batch");
    }
    b->group = group;
    b->notes.count = 0;
    b->first = NULL;
    b->end = &b->first;
    mine->spare = NULL;
    mine->open = b;
    tti_thread.open_scopes++;
    return TUTTI_OK;
}
