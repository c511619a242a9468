/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of each thread, and the filling of its entries. The table is allocated when a thread has a call to keep for
 * the first time, and freed when the thread ends.
 */
#include "core/call/cache/entry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/call/task.h"
#include "core/group/group_table.h"
#include "tensor/dtype.h"

static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_failed;

static void free_entries(void *memory)
{
    struct tti_cached_call *entries = memory;
    for (unsigned i = 0; i < TTI_CACHED_CALLS; i++) {
        tti_flight_tally_give(entries[i].tally);
    }
    tti_thread.cached_calls = NULL;
    free(entries);
}

/* In the child of a fork: the cached groups are not the child's, and a cached call does not check the epoch of a
 * handle. */
static void invalidate(void)
{
    struct tti_cached_call *entries = tti_thread.cached_calls;
    for (unsigned i = 0; entries && i < TTI_CACHED_CALLS; i++) {
        entries[i].group = NULL;
        entries[i].tally = &entries[i].no_tally; /* the parent's */
    }
}

static void make_key(void)
{
    key_failed = pthread_key_create(&at_thread_end, free_entries) | pthread_atfork(NULL, NULL, invalidate);
}

static struct tti_cached_call *make_entries(void)
{
    pthread_once(&once, make_key);
    struct tti_cached_call *entries = key_failed == 0 ? aligned_alloc(64, TTI_CACHED_CALLS * sizeof(*entries)) : NULL;
    if (entries && pthread_setspecific(at_thread_end, entries) != 0) {
        free(entries);
        return NULL;
    }
    return entries ? memset(entries, 0, TTI_CACHED_CALLS * sizeof(*entries)) : NULL;
}

bool tti_cached_call_set_tensor(struct tti_cached_call *entry, int side, const DLTensor *t, const void *used)
{
    struct tti_cached_tensor *cached = side == 0 ? &entry->output : &entry->input;
    *cached = (struct tti_cached_tensor){0};
    if (!used) {
        return true;
    }
    if (t->ndim > TTI_CACHED_DIMS || t->device.device_type != kDLCPU) {
        return false;
    }
    const size_t element = tti_dtype_size(tti_dtype_of(t->dtype));
    int64_t count = 1;
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
        entry->dims[d][side] = (struct tti_cached_dim){.shape = t->shape[d], .stride = count};
        count *= t->shape[d];
    }
    cached->type = tti_cached_type(t);
    cached->bytes = (uintptr_t)count * element;
    cached->forbidden_bits = (element - 1) | (UINTPTR_MAX / 2 + 1);
    return true;
}

bool tti_cached_call_set_tally(struct tti_cached_call *entry, struct tti_group *g)
{
    tti_flight_tally_give(entry->tally);
    struct tti_flight_tally *tally = tti_task_take_tally(g, &entry->op);
    entry->tally = tally ? tally : &entry->no_tally;
    return tally || !g->flight;
}

/* A collision fills an entry one call too early and does no other harm. */
static uint64_t call_hash(const struct tti_group *g, const struct tti_signature *signature, const tutti_op *op)
{
    const uint64_t h = ((uintptr_t)g->handle ^ signature->what) * UINT64_C(0x9e3779b97f4a7c15);
    return (h ^ signature->where ^ (uint64_t)op->count << 8 ^ (uint64_t)op->dtype) | 1;
}

struct tti_cached_call *tti_cached_call_to_fill(const struct tti_group *g, const struct tti_signature *signature,
                                                const tutti_op *op)
{
    if (!tti_thread.cached_calls && !(tti_thread.cached_calls = make_entries())) {
        return NULL;
    }
    struct tti_cached_call *entry = tti_cached_call_at(tti_thread.cached_calls, g->handle, signature->what);
    const uint64_t seen = call_hash(g, signature, op);
    if (entry->seen != seen) { /* a call that is made once is not worth an entry */
        entry->seen = seen;
        return NULL;
    }
    entry->group = NULL;
    return entry;
}

void tti_cached_call_fill(struct tti_cached_call *entry, const struct tti_group *g,
                          const struct tti_signature *signature)
{
    static _Atomic uint64_t fills;
    entry->fill = atomic_fetch_add_explicit(&fills, 1, memory_order_relaxed) + 1; /* relaxed: a number */
    entry->group = g->handle;
    entry->cached_handle = tti_handles_cache(&tti_groups, entry->group);
    entry->timeout_ms = g->timeout_ms;
    entry->rank = g->rank;
    memset(entry->backend, 0, sizeof(entry->backend));
    snprintf(entry->backend, sizeof(entry->backend), "%s", g->backend->name);
    entry->what = signature->what;
    entry->where = signature->where;
}
