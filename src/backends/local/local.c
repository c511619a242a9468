/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * local: the ranks are threads of one process. Rank 0 makes one mapping with every segment and the doorbell, and
 * publishes its nonce; the other ranks take a reference. The last rank to close frees the mapping, so the segment of a
 * rank that leaves early stays readable.
 *
 * A rank is the thread that opened the group. If that thread ends without closing the group, a destructor of
 * thread-specific data marks the rank as left. The other ranks then get PEER_LEFT at once, before their deadline.
 */
#include "backends/local/local.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "backends/engine_ops.h"
#include "backends/engine_settings.h"
#include "backends/record.h"
#include "base/error.h"
#include "base/process/fork.h"

/* Memory of one group, shared by its ranks. */
struct region {
    struct region *next;
    uint64_t nonce;
    int references;
    unsigned char *memory;
    size_t bytes;
    struct tti_layout layout;
    struct tti_tuning tuning;
};

/* The record that rank 0 publishes. */
struct region_record {
    int64_t pid;
    uint64_t nonce;
};

struct local_state {
    struct tti_engine_state common; /* first: engine_ops.h */
    struct region *region;
    struct local_state *next;
    const void *thread; /* identifies the thread that opened the group */
};

/* All regions of the process. Ranks find one by its nonce, so no pointer can dangle. */
static struct tti_fork_mutex regions_lock = TTI_FORK_MUTEX_INIT;
static struct region *regions;
static struct local_state *states; /* open groups; under regions_lock */

static pthread_key_t thread_key;
static bool thread_key_made;
static _Thread_local char this_thread; /* its address identifies the thread */

static void thread_ended(void *thread)
{
    tti_fork_mutex_lock(&regions_lock);
    for (struct local_state *s = states; s; s = s->next) {
        if (s->thread == thread) {
            tti_engine_leave(s->common.engine);
            s->thread = NULL; /* the next thread may get the same address */
        }
    }
    tti_fork_mutex_unlock(&regions_lock);
}

static void prepare_process(void)
{
    thread_key_made = pthread_key_create(&thread_key, thread_ended) == 0;
}

static void state_insert(struct local_state *s)
{
    if (thread_key_made && pthread_setspecific(thread_key, &this_thread) == 0) {
        s->thread = &this_thread;
    }
    tti_fork_mutex_lock(&regions_lock);
    s->next = states;
    states = s;
    tti_fork_mutex_unlock(&regions_lock);
}

static void state_remove(const struct local_state *s)
{
    tti_fork_mutex_lock(&regions_lock);
    for (struct local_state **link = &states; *link; link = &(*link)->next) {
        if (*link == s) {
            *link = s->next;
            break;
        }
    }
    tti_fork_mutex_unlock(&regions_lock);
}

static int32_t available(char *why, size_t capacity)
{
    snprintf(why, capacity, "%s", "always (ranks are threads of one process)");
    return 1;
}

static unsigned char *segment_of(const struct region *r, int rank)
{
    return r->memory + tti_whole_pages(r->layout.doorbell_bytes) +
           (size_t)rank * tti_whole_pages(r->layout.segment_bytes);
}

static tutti_status region_create(const struct tti_layout *layout, const struct tti_tuning *tuning,
                                  struct region **region, tutti_error *error)
{
    struct region *r = calloc(1, sizeof(*r));
    if (!r) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d threads", layout->size);
    }
    r->layout = *layout;
    r->tuning = *tuning;
    r->references = 1;
    r->bytes = tti_whole_pages(layout->doorbell_bytes) + (size_t)layout->size * tti_whole_pages(layout->segment_bytes);
    if (getrandom(&r->nonce, sizeof(r->nonce), 0) != sizeof(r->nonce)) {
        const tutti_status status = tti_error_system(error, errno, "no random number for the group");
        free(r);
        return status;
    }
    /* NORESERVE: pages take memory at first use, as in the segments of backend shm */
    r->memory = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->memory == MAP_FAILED) {
        tti_error_set(error, TUTTI_NO_MEMORY, "cannot map %zu bytes for a group of %d threads", r->bytes, layout->size);
        free(r);
        return TUTTI_NO_MEMORY;
    }
    for (int rank = 0; rank < layout->size; rank++) {
        tti_engine_segment_init(segment_of(r, rank), layout, rank, r->nonce);
    }
    tti_fork_mutex_lock(&regions_lock);
    r->next = regions;
    regions = r;
    tti_fork_mutex_unlock(&regions_lock);
    *region = r;
    return TUTTI_OK;
}

static struct region *region_find(uint64_t nonce)
{
    tti_fork_mutex_lock(&regions_lock);
    struct region *r = regions;
    while (r && r->nonce != nonce) {
        r = r->next;
    }
    if (r) {
        r->references++;
    }
    tti_fork_mutex_unlock(&regions_lock);
    return r;
}

static void region_release(struct region *r)
{
    tti_fork_mutex_lock(&regions_lock);
    bool last = --r->references == 0;
    for (struct region **link = &regions; last && *link; link = &(*link)->next) {
        if (*link == r) {
            *link = r->next;
            break;
        }
    }
    tti_fork_mutex_unlock(&regions_lock);
    if (last) {
        munmap(r->memory, r->bytes);
        free(r);
    }
}

/* Rank 0 has given the group up and released its region. No rank publishes this record: the wait for it ends with the
 * cause, which rank 0 reports, or another rank has reported to rank 0. */
static tutti_status await_cause(const tutti_open_info *info, tutti_error *error)
{
    char none;
    return tti_record_get(info, 0, "local/cause", &none, sizeof(none), tti_deadline_ns(tti_now_ns(), info->timeout_ms),
                          error);
}

static tutti_status join_region(const tutti_open_info *info, struct region **region, tutti_error *error)
{
    const tutti_rendezvous *rv = info->rendezvous;
    struct region_record a = {.pid = getpid()};
    if (info->rank == 0) {
        struct tti_tuning_basis basis;
        struct tti_tuning tuning;
        tti_tuning_basis_measure(info, true, &basis);
        tti_tuning_from_basis(&basis, info->world_size, &tuning);
        struct tti_layout layout =
            tti_layout_make(info->world_size, info->lanes, tuning.stage, tuning.stage_far, tuning.stage_small);
        tutti_status status = region_create(&layout, &tuning, region, error);
        if (status != TUTTI_OK) {
            return status;
        }
        a.nonce = (*region)->nonce;
        status = rv->set(rv->self, "local", &a, sizeof(a), error);
        if (status != TUTTI_OK) {
            region_release(*region);
        }
        return status;
    }
    const tutti_status status =
        tti_record_get(info, 0, "local", &a, sizeof(a), tti_deadline_ns(tti_now_ns(), info->timeout_ms), error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (a.pid != getpid()) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "backend local joins threads of one process, but rank 0 is process %lld and rank %d is "
                             "process %d; use backend shm",
                             (long long)a.pid, info->rank, (int)getpid());
    }
    *region = region_find(a.nonce);
    return *region ? TUTTI_OK : await_cause(info, error);
}

static tutti_status open_group(const tutti_open_info *info, void **state, tutti_error *error)
{
    if (info->world_size > TTI_MAX_RANKS) {
        return tti_error_set(error, TUTTI_UNSUPPORTED, "backend local takes up to %d ranks, not %d", TTI_MAX_RANKS,
                             info->world_size);
    }
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare_process);
    struct local_state *s = calloc(1, sizeof(*s));
    unsigned char **segments = calloc((size_t)info->world_size, sizeof(*segments));
    tutti_status status = s && segments ? join_region(info, &s->region, error)
                                        : tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group");
    if (status == TUTTI_OK) {
        for (int r = 0; r < info->world_size; r++) {
            segments[r] = segment_of(s->region, r);
        }
        struct tti_engine_options options = {.rank = info->rank,
                                             .layout = s->region->layout,
                                             .tuning = s->region->tuning,
                                             .segments = segments,
                                             .doorbell = s->region->memory,
                                             .threads = true};
        tti_engine_options_from_settings(info, &options);
        status = tti_engine_create(&options, &s->common.engine, error);
        if (status != TUTTI_OK) {
            region_release(s->region);
        }
    }
    free(segments);
    if (status != TUTTI_OK) {
        free(s);
        return status;
    }
    state_insert(s);
    *state = s;
    return TUTTI_OK;
}

static void close_group(void *state)
{
    struct local_state *s = state;
    state_remove(s);
    tti_engine_destroy(s->common.engine);
    region_release(s->region);
    free(s);
}

static const tutti_backend_ops ops = {
    TTI_ENGINE_OPS,
    .available = available,
    .open = open_group,
    .close = close_group,
};

const tutti_backend tti_backend_local = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(tutti_backend),
    .name = "local",
    .priority = 70,
    .capabilities = TTI_ENGINE_CAPABILITIES | TUTTI_CAP_ONE_PROCESS,
    .ops = &ops,
};
