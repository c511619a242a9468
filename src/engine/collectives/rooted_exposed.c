/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather, broadcast and scatter of exposed tensors. One copy moves each byte; the ranks that would wait meanwhile copy,
 * too.
 *
 *   gather      all expose their tensors: the leaves push their parts. The root copies its own, or, in place and with a
 *               CPU of its own, some of each. The leaves begin when the root says so (TTI_PHASE_PUSH, TTI_PHASE_SHARE),
 *               since only the root compares all calls: if it returns MISMATCH, no peer may write its output
 *   broadcast   of two ranks with a CPU each: the root pushes a half, and the leaf pulls the other
 *   scatter     each leaf pulls its part
 *
 * Cost: gather one hop more than a root that pulls, and P - 1 copies at the same time instead of one after the other;
 * broadcast half of the copy. docs/decisions/0050 has figures.
 */
#include "engine/collectives/rooted_exposed.h"

#include "engine/arrival/arrival.h"
#include "engine/arrival/attributes.h"
#include "engine/failure/corrupt.h"
#include "engine/memory/caches.h"
#include "engine/memory/expose.h"
#include "engine/memory/stage.h"

/* Where both sides copy a writer's data, the reader pulls so much, and the writer pushes the rest. */
static size_t pulled(const struct tti_lane *lane, const struct tti_stream *s)
{
    return s->bytes / (size_t)lane->engine->size / TTI_PAGE * TTI_PAGE;
}

tutti_status tti_exposed_leaf(struct tti_lane *lane, const struct tti_stream *s, int root)
{
    tutti_status status = tti_await_one(lane, root);
    if (status != TUTTI_OK || (status = tti_wait_phase(lane, root, TTI_PHASE_PUSH)) != TUTTI_OK) {
        return status;
    }
    /* relaxed: after the acquire of the wait. A root that lets the leaves push goes on when this rank has. */
    const uint64_t position = atomic_load_explicit(tti_position_of(lane, root), memory_order_relaxed);
    const bool shares = position == tti_position_at(lane, TTI_PHASE_SHARE);
    if (!shares && position != tti_position_at(lane, TTI_PHASE_PUSH)) {
        return TUTTI_OK; /* the root has pulled, or does not run this call, and may be in a later one */
    }
    if ((status = tti_attributes_names(lane, root)) != TUTTI_OK) {
        return status;
    }
    if (!tti_exposes(lane, root)) {
        return tti_fault_corrupt(lane, root, "its leave to write an output that it does not share,", position);
    }
    lane->algorithm = TTI_ALGORITHM_ZERO_COPY;
    if ((status = s->push(lane, s, root, shares ? pulled(lane, s) : 0)) != TUTTI_OK || !shares) {
        return status;
    }
    tti_advance(lane, TTI_PHASE_PUSHED);
    return tti_wait_phase(lane, root, TTI_PHASE_FINAL); /* until then the root reads this rank's tensor */
}

tutti_status tti_exposed_pull_leaves(struct tti_lane *lane, const struct tti_stream *s, size_t n)
{
    struct tti_engine *e = lane->engine;
    tutti_status status = TUTTI_OK;
    for (int i = 1; i < e->size && status == TUTTI_OK; i++) {
        const int peer = (e->rank + i) % e->size;
        if (tti_exposes(lane, peer)) {
            status = s->pull(lane, s, peer, n);
        }
    }
    return status;
}

tutti_status tti_exposed_gather(struct tti_lane *lane, const struct tti_stream *s)
{
    const bool shares = !s->own && lane->engine->ranks_per_cpu <= 1 && pulled(lane, s) > 0;
    lane->algorithm = TTI_ALGORITHM_ZERO_COPY;
    tti_choose_stores(lane, s->op, false);
    tti_advance(lane, shares ? TTI_PHASE_SHARE : TTI_PHASE_PUSH);
    tti_stream_copy_own(lane, s, 1, s->steps);
    const tutti_status status = shares ? tti_exposed_pull_leaves(lane, s, pulled(lane, s)) : TUTTI_OK;
    return status == TUTTI_OK ? tti_wait_phase_all(lane, TTI_PHASE_PUSHED) : status;
}

tutti_status tti_exposed_help_leaf(struct tti_lane *lane, const struct tti_stream *s)
{
    const int leaf = 1 - lane->engine->rank;
    tutti_status status = tti_attributes_names(lane, leaf);
    if (status == TUTTI_OK && tti_exposes(lane, leaf) &&
        (status = s->push(lane, s, leaf, pulled(lane, s))) == TUTTI_OK) {
        tti_advance(lane, TTI_PHASE_PUSHED);
    }
    return status;
}

tutti_status tti_exposed_read_root(struct tti_lane *lane, const struct tti_stream *s, int root)
{
    if (!s->push || lane->output == 0) {
        return s->pull(lane, s, root, s->bytes);
    }
    const tutti_status status = s->pull(lane, s, root, pulled(lane, s));
    return status == TUTTI_OK ? tti_wait_phase(lane, root, TTI_PHASE_PUSHED) : status;
}
