/* SPDX-License-Identifier: BSD-3-Clause */
/* The private side of a group: its heap, its engine, and the functions that these call. */
#include "backends/shm/group.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/p2p/memory_use.h"

static bool populate(void *user, int rank, size_t offset, size_t bytes, bool only_reader)
{
    const struct tti_shm_group *s = user;
    const bool writable = only_reader && tti_memory_make_writable(s->bases[rank] + offset, bytes);
    tti_memory_prefault(s->bases[rank] + offset, bytes);
    return writable;
}

static bool use_memory(void *user, const void *memory, size_t bytes)
{
    return tti_p2p_uses(user, memory, bytes);
}

static bool quiesced(void *user, uint64_t withdrawal)
{
    tti_p2p_quiesce(user);
    return tti_engine_heap_quiescent(user, withdrawal);
}

static tutti_status failure(void *user, tutti_error *error)
{
    return tti_engine_failure(user, error);
}

#define FEW_RANKS 8

/* Mapping the others' rings at once saves page faults in the first calls. With many ranks, more than CPUs, those faults
 * cost little beside the waits for a CPU, and the rings of 64 ranks are 4 GiB, most of them never used. In groups of
 * few ranks they cost more: on 2 CPUs the first 30 calls of an all_reduce of 64 KiB took 8 ranks 130 us each, and then
 * 45. */
static bool maps_ahead(int ranks)
{
    static _Atomic long cpus; /* relaxed: threads that race find the same */
    long count = atomic_load_explicit(&cpus, memory_order_relaxed);
    if (count == 0) {
        count = sysconf(_SC_NPROCESSORS_ONLN);
        atomic_store_explicit(&cpus, count, memory_order_relaxed);
    }
    return ranks <= FEW_RANKS || ranks <= count;
}

struct tti_shm_group *tti_shm_group_create(int size, int rank)
{
    struct tti_shm_group *s = calloc(1, sizeof(*s));
    if (!s || !(s->bases = calloc((size_t)size, sizeof(*s->bases)))) {
        free(s);
        return NULL;
    }
    s->size = size;
    s->rank = rank;
    return s;
}

void tti_shm_group_free(struct tti_shm_group *s)
{
    if (s) {
        tti_heap_view_close(s->heap);
        if (s->root) {
            tti_root_release(s->root);
        }
        free(s->root_ranks);
        free(s->bases);
        free(s);
    }
}

tutti_status tti_shm_heap_open(const tutti_open_info *info, struct tti_shm_group *s, tutti_error *error)
{
    const struct tti_shm_group *parent = info->parent_state;
    const char *wanted = info->setting(info->settings, "engine.heap");
    if (!wanted || strcmp(wanted, "1") != 0) {
        return TUTTI_OK;
    }
    return tti_heap_view_open(info, parent ? parent->heap : NULL, &s->heap, error);
}

tutti_status tti_shm_engine_create(struct tti_engine_options *options, struct tti_shm_group *s, tutti_error *error)
{
    options->populate = maps_ahead(s->size) ? populate : NULL;
    options->commit_user = s;
    options->heap = s->heap ? tti_heap_view_table(s->heap) : NULL;
    const tutti_status status = tti_engine_create(options, &s->common.engine, error);
    if (status == TUTTI_OK && s->heap) {
        tti_heap_view_attach(
            s->heap, &(struct tti_heap_group_ops){
                         .user = s->common.engine, .use = use_memory, .quiesced = quiesced, .failure = failure});
    }
    return status;
}
