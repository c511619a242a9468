/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch is a list of copied transfers in a thread-local variable. A thread key frees the batch of a thread that ends
 * without tutti_batch_end.
 */
#include "core/messages/batch.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "core/group/group_table.h"

struct tti_batch {
    tutti_group *group;
    struct tti_transfer *first;
    struct tti_transfer **end; /* where the next one is linked in */
};

static _Thread_local struct tti_batch *open_batch;

/* Only for its destructor, which drops the batch of a thread that ends without tutti_batch_end. */
static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_failed;

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
    free(b);
}

static void drop_at_thread_end(void *batch)
{
    open_batch = NULL;
    tti_thread.open_scopes--;
    tti_batch_free(batch);
}

static void make_key(void)
{
    key_failed = pthread_key_create(&at_thread_end, drop_at_thread_end);
}

struct tti_batch *tti_batch_take(tutti_group *group)
{
    struct tti_batch *b = open_batch;
    if (!b || b->group != group) {
        return NULL;
    }
    open_batch = NULL;
    tti_thread.open_scopes--;
    pthread_setspecific(at_thread_end, NULL);
    return b;
}

struct tti_transfer *tti_batch_first(struct tti_batch *batch)
{
    return batch->first;
}

bool tti_batch_is_open(const tutti_group *group)
{
    return open_batch && open_batch->group == group;
}

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

bool tti_batch_note(const struct tti_transfer *first)
{
    struct tti_transfer *copies = NULL;
    struct tti_transfer **end = &copies;
    for (const struct tti_transfer *t = first; t; t = t->next) {
        *end = copy_of(t);
        if (!*end) {
            while (copies) { /* the originals still own the memory of these */
                struct tti_transfer *copy = copies;
                copies = copy->next;
                free(copy);
            }
            return false;
        }
        (*end)->next = NULL;
        end = &(*end)->next;
    }
    *open_batch->end = copies;
    open_batch->end = end;
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
    if (open_batch && is_gone(open_batch->group)) {
        tti_batch_free(tti_batch_take(open_batch->group)); /* its group is gone, so it cannot be ended */
    }
    if (open_batch) {
        return tti_error_set(
            c->error, TUTTI_BAD_STATE,
            "batch_begin: this thread has a batch open on %s group already; call tutti_batch_end first",
            open_batch->group == group ? "this" : "another");
    }
    pthread_once(&once, make_key);
    struct tti_batch *b = key_failed == 0 ? malloc(sizeof(*b)) : NULL;
    if (!b || pthread_setspecific(at_thread_end, b) != 0) {
        free(b);
        return tti_error_set(c->error, TUTTI_NO_MEMORY, "batch_begin: no memory for a batch");
    }
    *b = (struct tti_batch){.group = group};
    b->end = &b->first;
    open_batch = b;
    tti_thread.open_scopes++;
    return TUTTI_OK;
}
