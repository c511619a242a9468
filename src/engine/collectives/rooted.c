/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams between a root and the other ranks: a flat tree with pipelining. The writer stages span after span; the
 * readers read each span when it appears. Cost: one epoch a span, and the copies of both sides overlap. A writer waits
 * for readers only before it uses a span again. So small calls follow one another without a round trip, as many as
 * stage and arrival ring hold.
 *
 * In broadcast and scatter the root writes. In reduce and gather every leaf writes.
 *
 * Where ranks share CPUs, the root of a large broadcast or scatter yields to its readers before it returns. If it went
 * on computing, those of its CPU would wait for the rest of its slice. That takes milliseconds (docs/decisions/0049).
 *
 * The root copies its own part, chunk by chunk, where it would wait otherwise: before each span that it waits for, or
 * that may not be free yet; the rest at the end. Outputs of a failed call are undefined, so this does not wait until
 * all ranks agree on the call.
 *
 * A writer that exposes its tensor stages nothing. The readers pull the data, and the writer waits until they have. If
 * all expose their tensors, ranks that would wait copy, too: in a reduction all share the work, for gather and
 * broadcast see rooted_exposed.c.
 *
 * Phases: a writer publishes k + 1 when span k is there; the arrival covers span 0 (tti_await_span). A reader publishes
 * k + 1 when it has read span k, but only as often as the writer needs it. All end with TTI_PHASE_FINAL.
 */
#include "engine/collectives/rooted.h"

#include "base/clock.h"
#include "base/wait/yielding.h"
#include "engine/arrival/arrival.h"
#include "engine/arrival/attributes.h"
#include "engine/collectives/rooted_exposed.h"
#include "engine/collectives/zero_copy.h"
#include "engine/memory/caches.h"
#include "engine/memory/expose.h"
#include "engine/memory/prefetch.h"
#include "engine/memory/stage.h"

#define LEAST_CHUNK ((size_t)8192)
#define MOST_CHUNK  ((size_t)65536)
#define CHUNKS      8
#define YIELDS_FROM ((size_t)262144) /* staged bytes; with fewer, a yield costs more than it gains */

/* Chunks so small that the readers soon begin, and so large that publishing them costs little. */
static size_t chunk_for(size_t bytes)
{
    const size_t part = bytes / CHUNKS;
    return part < LEAST_CHUNK ? LEAST_CHUNK : part > MOST_CHUNK ? MOST_CHUNK : part;
}

static uint64_t small_for(const struct tti_tuning *t, tutti_operation kind)
{
    return kind == TUTTI_OP_REDUCE ? t->small_reduce : kind == TUTTI_OP_GATHER ? t->small_gather : t->small_from_root;
}

void tti_stream_cut(const struct tti_lane *lane, struct tti_stream *s, size_t bytes, size_t slots)
{
    const size_t window = (size_t)lane->engine->tuning.window / slots;
    size_t chunk = chunk_for(bytes);
    chunk = (chunk < window ? chunk : window) / 64 * 64;
    s->bytes = bytes;
    s->chunk = bytes < chunk ? bytes : chunk;
    s->stride = tti_whole_lines(s->chunk) * slots;
    s->steps = bytes == s->chunk ? 1 : (bytes + s->chunk - 1) / s->chunk;
    s->small = s->stride * s->steps <= small_for(&lane->engine->tuning, s->op->kind);
    s->room = 1;
    s->report = 1;
    if (s->steps > 1) {
        const size_t spans = tti_stage_spans(lane, s->stride, s->small);
        s->room = spans / 2;
        s->report = spans / 4;
    }
}

static bool have_read(const struct tti_lane *lane)
{
    for (int r = 0; r < lane->engine->size; r++) {
        /* relaxed: a hint */
        if (r != lane->engine->rank && atomic_load_explicit(tti_position_of(lane, r), memory_order_relaxed) <
                                           tti_position_at(lane, TTI_PHASE_FINAL)) {
            return false;
        }
    }
    return true;
}

/* The root has written all, and its readers have still to read the last spans. */
static void yield_to_readers(const struct tti_lane *lane, size_t staged)
{
    const bool shared = lane->engine->ranks_per_cpu > 1 && lane->yield_ns > 0 && lane->background == 0;
    if (shared && staged >= YIELDS_FROM && !have_read(lane) && tti_yield_pays()) {
        struct tti_yields once = {.now_ns = tti_now_ns()};
        (void)tti_yield(&once);
    }
}

static tutti_status write_spans(struct tti_lane *lane, const struct tti_stream *s, int reader)
{
    tutti_status status = TUTTI_OK;
    const size_t staged = s->steps * s->stride;
    const bool prefetches = tti_prefetch_pays(lane, staged);
    lane->algorithm = tti_algorithm_of_steps(s->steps);
    if (prefetches) {
        tti_prefetch_note_pause(lane);
    }
    for (size_t k = 0; k < s->steps; k++) {
        unsigned char *span;
        if (k >= s->room) {
            tti_stream_copy_own(lane, s, k - s->room, k - s->room + 1);
        }
        if (k == s->room) { /* from here on this call waits for readers, so they must run the same call */
            status = reader >= 0 ? tti_await_one(lane, reader) : tti_await_readers(lane);
        }
        if (status != TUTTI_OK || (status = tti_stage_acquire(lane, k, &span)) != TUTTI_OK) {
            return status;
        }
        s->pack(lane, s, k, span);
        tti_stage_stamp(lane, k + 1, reader);
        if (k > 0 || lane->exposed) {
            tti_advance(lane, k + 1);
        } else if ((status = tti_arrive_staged(lane, TUTTI_OK)) != TUTTI_OK) {
            return status;
        }
    }
    tti_stream_copy_own(lane, s, s->steps > s->room ? s->steps - s->room : 0, s->steps);
    if (prefetches) {
        tti_prefetch_request(lane, staged);
    }
    if (reader < 0) {
        yield_to_readers(lane, staged);
    }
    return TUTTI_OK;
}

/* The writer exposes its tensor: waits until the readers have pulled it, or, in a reduction, all have done their
 * shares. */
static tutti_status write_nothing(struct tti_lane *lane, const struct tti_stream *s, int reader)
{
    tutti_status status = tti_arrive_staged(lane, TUTTI_OK);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!s->pull) {
        if ((status = tti_await_all(lane)) != TUTTI_OK || (status = tti_attributes_all(lane)) != TUTTI_OK) {
            return status;
        }
        return tti_all_expose(lane) ? tti_run_zero_copy(lane, s->op) : write_spans(lane, s, reader);
    }
    lane->algorithm = tti_algorithm_in_place(lane);
    if (reader >= 0) {
        return tti_exposed_leaf(lane, s, reader);
    }
    tti_stream_copy_own(lane, s, 0, s->steps);
    status = tti_await_readers(lane);
    if (status == TUTTI_OK && s->push && lane->engine->size == 2) {
        status = tti_exposed_help_leaf(lane, s);
    }
    return status == TUTTI_OK ? tti_wait_phase_all(lane, TTI_PHASE_FINAL) : status;
}

tutti_status tti_stream_write(struct tti_lane *lane, const struct tti_stream *s, int reader)
{
    tutti_status resource_error;
    tutti_status status = tti_stage_begin(lane, s->stride, s->steps, s->small, &resource_error);
    if (status == TUTTI_OK && resource_error != TUTTI_OK) {
        status = tti_arrive_staged(lane, (uint32_t)resource_error);
        return status != TUTTI_OK ? status : tti_attributes_one(lane, lane->engine->rank);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    return lane->exposed ? write_nothing(lane, s, reader) : write_spans(lane, s, reader);
}

/* The caches hold no far stage, only tensors: as when those are copied directly. A cold output stays one. */
static void reconsider_stores(struct tti_lane *lane, const struct tti_stream *s, int writer)
{
    if (lane->streams && !lane->cold && tti_stage_peer_is_far(lane, writer)) {
        tti_choose_stores(lane, s->op, false);
    }
}

static void report(struct tti_lane *lane, const struct tti_stream *s, size_t k)
{
    if (k + 1 < s->steps && (k + 1) % s->report == 0) {
        tti_advance(lane, k + 1);
    }
}

tutti_status tti_stream_read_root(struct tti_lane *lane, const struct tti_stream *s)
{
    int root = s->op->root;
    tti_stage_shape(lane, s->stride);
    tutti_status status = tti_arrive_staged(lane, TUTTI_OK);
    if (status != TUTTI_OK || (status = tti_await_one(lane, root)) != TUTTI_OK ||
        (status = tti_attributes_one(lane, root)) != TUTTI_OK) {
        return status;
    }
    lane->algorithm = tti_exposes(lane, root) ? TTI_ALGORITHM_ZERO_COPY : tti_algorithm_of_steps(s->steps);
    if (lane->algorithm == TTI_ALGORITHM_ZERO_COPY) {
        return tti_exposed_read_root(lane, s, root);
    }
    reconsider_stores(lane, s, root);
    for (size_t k = 0; k < s->steps; k++) {
        if ((status = tti_await_span(lane, root, k, k + 1)) != TUTTI_OK) {
            return status;
        }
        s->take(lane, s, k, root);
        report(lane, s, k);
    }
    return TUTTI_OK;
}

/* Reads step k of all leaves that stage. */
static tutti_status read_step(struct tti_lane *lane, const struct tti_stream *s, size_t k)
{
    struct tti_engine *e = lane->engine;
    for (int i = 1; i < e->size; i++) {
        int peer = (e->rank + i) % e->size;
        if (s->pull && tti_exposes(lane, peer)) {
            continue;
        }
        tutti_status status = tti_await_span(lane, peer, k, k + 1);
        if (status != TUTTI_OK) {
            return status;
        }
        if (s->take) {
            s->take(lane, s, k, peer);
        }
    }
    if (s->take_all) {
        s->take_all(lane, s, k);
    }
    return TUTTI_OK;
}

/* Zero copy, if the root can pull from every leaf. */
static enum tti_algorithm algorithm_of_root(const struct tti_lane *lane, const struct tti_stream *s)
{
    for (int r = 0; r < lane->engine->size; r++) {
        if (r != lane->engine->rank && (!s->pull || !tti_exposes(lane, r))) {
            return tti_algorithm_of_steps(s->steps);
        }
    }
    return TTI_ALGORITHM_ZERO_COPY;
}

tutti_status tti_stream_read_leaves(struct tti_lane *lane, const struct tti_stream *s)
{
    tti_stage_shape(lane, s->stride);
    /* which leaves expose their tensors is not known yet: those that do may wait all the same, and end with this
     * rank */
    bool leaves_wait = lane->exposed || s->steps > s->room;
    tutti_status status = tti_arrive_staged(lane, TUTTI_OK);
    if (status != TUTTI_OK) {
        return status;
    }
    tti_stream_copy_own(lane, s, 0, 1);
    if ((status = tti_await_all(lane)) != TUTTI_OK ||
        (status = tti_attributes_as_root(lane, leaves_wait)) != TUTTI_OK) {
        return status;
    }
    if (!s->pull && tti_all_expose(lane)) {
        return tti_run_zero_copy(lane, s->op);
    }
    if (s->push && s->bytes >= TTI_PUSHED_FROM && tti_all_expose(lane)) {
        return tti_exposed_gather(lane, s);
    }
    lane->algorithm = algorithm_of_root(lane, s);
    reconsider_stores(lane, s, lane->engine->rank == 0 ? 1 : 0); /* one leaf stands for all */
    for (size_t k = 0; k < s->steps && status == TUTTI_OK; k++) {
        if ((status = read_step(lane, s, k)) == TUTTI_OK) {
            report(lane, s, k);
            tti_stream_copy_own(lane, s, k + 1, k + 2);
        }
    }
    return status == TUTTI_OK && s->pull ? tti_exposed_pull_leaves(lane, s, s->bytes) : status;
}
