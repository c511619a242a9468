/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: creates, places and destroys it, and describes it. run.c runs the operations.
 */
#include "engine/engine.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/host/cgroup.h"
#include "base/host/cpu.h"
#include "base/process/proc.h"
#include "engine/failure/corrupt.h"
#include "engine/failure/fault.h"
#include "engine/failure/liveness_monitor.h"
#include "engine/memory/expose.h"
#include "engine/memory/single_copy.h"
#include "engine/memory/stage.h"
#include "engine/p2p/p2p.h"
#include "engine/wait/policy.h"
#include "engine/wait/publish.h"
#include "engine/wait/wait.h"

#define SLEEP_NS 5000000 /* what a hint that a corrupt peer has lost may cost */

void tti_engine_segment_init(unsigned char *segment, const struct tti_layout *layout, int rank, uint64_t nonce)
{
    struct tti_segment_header *h = (struct tti_segment_header *)segment;
    h->magic = TTI_LAYOUT_MAGIC;
    h->abi = TTI_LAYOUT_ABI;
    h->bytes = layout->segment_bytes;
    h->nonce = nonce;
    h->rank = (uint32_t)rank;
    h->size = (uint32_t)layout->size;
    h->lanes = (uint32_t)layout->lanes;
    struct tti_proc_id id;
    tti_proc_self(&id);
    h->pid = id.pid;
    h->started = id.started;
    h->space = id.space;
    h->instance = id.instance;
    h->stage = layout->stage;
    h->stage_far = layout->stage_far;
    h->stage_small = layout->stage_small;
    const struct tti_cgroup_cpus granted = tti_cgroup_cpus("");
    h->cpu_limit = granted.thousandths;
    h->cpu_group = granted.group;
    h->barriers = tti_membarrier_register();
    tti_single_copy_offer(h);
    tti_cpu_mask(h->cpus);
}

tutti_status tti_engine_segment_check(const unsigned char *segment, const struct tti_layout *layout, int rank,
                                      uint64_t nonce, tutti_error *error)
{
    const struct tti_segment_header *h = (const struct tti_segment_header *)segment;
    if (h->magic != TTI_LAYOUT_MAGIC) {
        return tti_error_set(error, TUTTI_PROTOCOL, "the memory that rank %d offers is not a segment of Tutti", rank);
    }
    if (h->abi != TTI_LAYOUT_ABI) {
        return tti_error_set(error, TUTTI_VERSION,
                             "rank %d uses segment layout %u, this rank %u: run the same Tutti on all ranks", rank,
                             h->abi, TTI_LAYOUT_ABI);
    }
    if (h->nonce != nonce || h->rank != (uint32_t)rank || h->size != (uint32_t)layout->size ||
        h->lanes != (uint32_t)layout->lanes || h->stage != layout->stage || h->stage_far != layout->stage_far ||
        h->stage_small != layout->stage_small || h->bytes != layout->segment_bytes) {
        return tti_error_set(error, TUTTI_PROTOCOL, "the segment of rank %d belongs to another group", rank);
    }
    return TUTTI_OK;
}

static size_t rounded(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* The next array in a block; NULL while the block's size is being found. */
static void *take(unsigned char *block, size_t *used, size_t count, size_t item)
{
    void *array = block ? block + *used : NULL;
    *used += rounded(count * item, 16);
    return array;
}

/* Places the arrays of a lane, which have an entry for each rank. Returns their bytes, in whole cache lines: lanes run
 * on several threads. */
static size_t place_arrays(struct tti_lane *lane, unsigned char *block, size_t size)
{
    size_t used = 0;
    lane->controls = take(block, &used, size, sizeof(*lane->controls));
    lane->targets = take(block, &used, size, sizeof(*lane->targets));
    lane->sources = take(block, &used, size, sizeof(*lane->sources));
    lane->scales = take(block, &used, size, sizeof(*lane->scales));
    lane->starts = take(block, &used, size, sizeof(*lane->starts));
    lane->populated = take(block, &used, size, sizeof(*lane->populated));
    lane->inputs = take(block, &used, size, sizeof(*lane->inputs));
    lane->outputs = take(block, &used, size, sizeof(*lane->outputs));
    lane->slots = take(block, &used, 2 * size, sizeof(*lane->slots));
    lane->remote = take(block, &used, size, sizeof(*lane->remote));
    lane->spins = take(block, &used, size, sizeof(*lane->spins));
    lane->reported_delta = take(block, &used, size, sizeof(*lane->reported_delta));
    lane->mismatch_reported = take(block, &used, size, sizeof(*lane->mismatch_reported));
    lane->mismatched = take(block, &used, size, sizeof(*lane->mismatched));
    return rounded(used, 64);
}

static tutti_status lanes_create(struct tti_engine *e, tutti_error *error)
{
    const size_t lanes = (size_t)e->layout.lanes;
    const size_t size = (size_t)e->size;
    const size_t unpacked = size * TTI_INLINE_MOST;
    const bool packets = e->tuning.packets > TTI_PAYLOAD || e->tuning.packets_root > TTI_PAYLOAD;
    const size_t arrays = place_arrays(&(struct tti_lane){0}, NULL, size);
    e->lanes = aligned_alloc(_Alignof(struct tti_lane), lanes * sizeof(*e->lanes));
    e->arrays = aligned_alloc(64, lanes * arrays);
    e->stamps = aligned_alloc(64, lanes * TTI_STAGE_RINGS * TTI_STAMPS * sizeof(*e->stamps));
    e->unpacked = packets ? malloc(lanes * unpacked) : NULL;
    if (!e->lanes || !e->arrays || !e->stamps || (packets && !e->unpacked)) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for %zu lanes of a group of %d ranks", lanes, e->size);
    }
    memset(e->lanes, 0, lanes * sizeof(*e->lanes));
    memset(e->arrays, 0, lanes * arrays);
    for (size_t i = 0; i < lanes; i++) {
        struct tti_lane *lane = &e->lanes[i];
        lane->engine = e;
        lane->index = (int)i;
        lane->unpacked = packets ? e->unpacked + i * unpacked : NULL;
        place_arrays(lane, e->arrays + i * arrays, size);
        for (size_t ring = 0; ring < TTI_STAGE_RINGS; ring++) {
            lane->rings[ring].stamps = e->stamps + (i * TTI_STAGE_RINGS + ring) * TTI_STAMPS;
        }
    }
    return TUTTI_OK;
}

static void locate_lanes(struct tti_engine *e)
{
    for (int i = 0; i < e->layout.lanes; i++) {
        tti_stage_prepare(&e->lanes[i]);
        for (int r = 0; r < e->size; r++) {
            e->lanes[i].controls[r] = e->segments[r] + e->layout.lane + (size_t)i * sizeof(struct tti_lane_control);
        }
        e->lanes[i].sleepers = tti_sleepers(e, e->rank, i);
        e->lanes[i].background = -1; /* no call has waited yet */
    }
}

static void engine_free(struct tti_engine *e)
{
    tti_p2p_destroy(e);
    free(e->arrays);
    free(e->stamps);
    free(e->unpacked);
    free(e->lanes);
    if (e->homes != e->segments) {
        free(e->homes);
    }
    free(e->segments);
    pthread_mutex_destroy(&e->failure_lock);
    pthread_mutex_destroy(&e->sleep_lock);
    free(e);
}

/* wait/ is below failure/, so it gets these functions here. */
static const struct tti_wait_upcalls wait_upcalls = {.check = tti_fault_check,
                                                     .check_peer = tti_fault_check_peer,
                                                     .check_awaited = tti_fault_check_awaited,
                                                     .timeout = tti_fault_timeout};

/* What the covering engine has found out about the processes and the machine. */
static void take_homes(struct tti_engine *e, const struct tti_engine_options *options)
{
    const struct tti_engine *covering = options->covering;
    for (int r = 0; r < e->size; r++) {
        e->homes[r] = covering->homes[options->covered_ranks[r]];
    }
    e->pause_ns = covering->pause_ns;
    e->ticks_per_ns = covering->ticks_per_ns;
    for (int r = 0; r < e->size; r++) {
        const struct tti_spin *learnt = &covering->lanes[0].spins[options->covered_ranks[r]];
        for (int i = 0; i < e->layout.lanes; i++) {
            tti_spin_copy(&e->lanes[i].spins[r], learnt);
        }
    }
}

tutti_status tti_engine_create(const struct tti_engine_options *options, struct tti_engine **engine, tutti_error *error)
{
    struct tti_engine *e = calloc(1, sizeof(*e));
    if (!e) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for an engine");
    }
    e->rank = options->rank;
    e->size = options->layout.size;
    e->layout = options->layout;
    e->tuning = options->tuning;
    e->doorbell = options->doorbell;
    e->heap = options->heap;
    e->futex_private = options->threads ? FUTEX_PRIVATE_FLAG : 0;
    e->direct = options->threads && options->direct;
    e->commit = options->commit;
    e->populate = options->populate;
    e->commit_user = options->commit_user;
    e->upcalls = &wait_upcalls;
    e->sleep_ns = options->sleep_ns > 0 ? options->sleep_ns : SLEEP_NS;
    pthread_mutex_init(&e->failure_lock, NULL);
    pthread_mutex_init(&e->sleep_lock, NULL);
    const size_t bases = (size_t)e->size * sizeof(*e->segments);
    e->segments = calloc(1, bases);
    e->homes = options->covering ? calloc(1, bases) : e->segments;
    tutti_status status = e->segments && e->homes
                              ? lanes_create(e, error)
                              : tti_error_set(error, TUTTI_NO_MEMORY, "no memory for %d segments", e->size);
    status = status == TUTTI_OK ? tti_p2p_create(e, error) : status;
    if (status != TUTTI_OK) {
        engine_free(e);
        return status;
    }
    if (options->covering) {
        take_homes(e, options);
    } else {
        memcpy(e->segments, options->segments, bases);
        locate_lanes(e);
        tti_single_copy_detect(e);
    }
    tti_membarrier_detect(e);
    tti_wait_policy(e, options->spin_ns, options->yield_ns);
    if (!options->covering && !options->threads && e->size > 1) {
        tti_liveness_watch(e, NULL);
    }
    *engine = e;
    return TUTTI_OK;
}

void tti_engine_place(struct tti_engine *e, unsigned char *const *segments, unsigned char *doorbell,
                      struct tti_engine *covering)
{
    memcpy(e->segments, segments, (size_t)e->size * sizeof(*e->segments));
    e->doorbell = doorbell;
    locate_lanes(e);
    if (e->size > 1) {
        tti_liveness_watch(e, covering);
    }
}

void tti_engine_leave(struct tti_engine *e)
{
    tti_fault_leave(e);
}

void tti_engine_destroy(struct tti_engine *e)
{
    if (e->doorbell) {
        tti_engine_leave(e);
    }
    tti_liveness_unwatch(e);
    engine_free(e);
}

void tti_engine_abort(struct tti_engine *e, int32_t lane, const tutti_error *cause)
{
    tti_fault_abort(e, lane, cause);
}

tutti_status tti_engine_failure(struct tti_engine *e, tutti_error *error)
{
    return tti_fault_first(e, error);
}

bool tti_engine_heap_quiescent(const struct tti_engine *e, uint64_t withdrawal)
{
    return tti_heap_is_quiescent(e, withdrawal);
}

const char *tti_engine_algorithm(const struct tti_engine *e, int32_t lane)
{
    static const char *const algorithm_names[] = {
        [TTI_ALGORITHM_UNDECIDED] = NULL,           [TTI_ALGORITHM_ONE_SHOT] = "one_shot",
        [TTI_ALGORITHM_TWO_SHOT] = "two_shot",      [TTI_ALGORITHM_STAGED] = "staged",
        [TTI_ALGORITHM_PIPELINED] = "pipelined",    [TTI_ALGORITHM_ZERO_COPY] = "zero_copy",
        [TTI_ALGORITHM_SINGLE_COPY] = "single_copy"};
    const struct tti_lane *l = &e->lanes[lane];
    if (l->call == 0) {
        return NULL;
    }
    if (e->size == 1) {
        return "solo";
    }
    return l->class == TTI_CLASS_LARGE     ? algorithm_names[l->algorithm]
           : l->class == TTI_CLASS_PACKETS ? "packets"
                                           : "inline";
}

size_t tti_engine_describe(struct tti_engine *e, char *text, size_t capacity)
{
    const struct tti_tuning *t = &e->tuning;
    char packets[48] = "";
    char large[128];
    if (t->packets > TTI_PAYLOAD) {
        snprintf(packets, sizeof(packets), "packets up to %llu, ", (unsigned long long)t->packets);
    }
    if (e->direct) {
        snprintf(large, sizeof(large), "zero-copy above");
    } else {
        snprintf(large, sizeof(large), "one-shot up to %llu, two-shot up to %llu, pipelined above",
                 (unsigned long long)t->one_shot, (unsigned long long)t->window);
    }
    int n = snprintf(text, capacity,
                     "  engine: shared memory, %s; %.2f ranks per CPU, %u polls then %lld us of yielding before sleep\n"
                     "  classes: inline up to %u bytes, %s%s; rank-ordered folds\n",
                     e->futex_private ? "threads" : "processes", e->ranks_per_cpu, e->spin_polls,
                     (long long)(e->yield_ns / 1000), TTI_PAYLOAD, packets, large);
    return n > 0 ? (size_t)n : 0;
}
