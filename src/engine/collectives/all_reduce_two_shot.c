/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two-shot all_reduce, pipelined above one window: a reduce-scatter and an all-gather (Rabenseifner, 2004) over the
 * stages, with the movement-avoiding fold of Peng et al. (SC'23). The vector is cut into windows, a window into one
 * slice per rank.
 *   1. stage the window, all but the own slice                             publish I(k)
 *   2. when all have, fold the own slice from all ranks' stages            publish R(k)
 *   3. when all have, copy the other ranks' slices of the result out
 * Bytes a rank: 5n - 2n/P, the least that copying in and out allows: the fold reads the own slice in place. Two epochs
 * a window. No rank waits for them while all run at the same speed: step 2 of a window follows step 1 of the next one,
 * and step 3 follows step 2 of the next one.
 *
 * Phases of window k: I(k) = 2k + 1, R(k) = 2k + 4, published in the order I0 (the arrival) I1 R0 I2 R1 ... A span
 * holds the window and behind it the own slice of the result. All have read it when they publish I(k + 3).
 *
 * With op->wire the stages and the fold are of bf16, and the copies convert: into the stage, where the own slice goes,
 * too, since it is rounded like all others; and out of it. All places below count bytes of the stage. Bytes a rank, n
 * of f32: 3.5n + n/2P, of which half as many come from the caches of other ranks.
 *
 * A rank that exposes its tensors stages window 0 only when it knows that others do not expose theirs.
 */
#include "engine/arrival/arrival.h"
#include "engine/arrival/attributes.h"
#include "engine/collectives/all_reduce_algorithms.h"
#include "engine/collectives/zero_copy.h"
#include "engine/memory/copy.h"
#include "engine/memory/expose.h"
#include "engine/memory/fold.h"
#include "engine/memory/parts.h"
#include "engine/memory/stage.h"

struct plan {
    bool narrows; /* f32 travels as bf16 */
    size_t element;
    size_t bytes;
    size_t window;
    size_t windows;
};

struct slice {
    size_t from; /* bytes in the window */
    size_t bytes;
};

static size_t window_bytes(const struct plan *p, size_t k)
{
    return tti_chunk_bytes(p->bytes, p->window, k);
}

/* A multiple of a cache line, so that two ranks never write one line of the result. */
static size_t slice_bytes(const struct plan *p, size_t bytes, int size)
{
    size_t each = (bytes / p->element + (size_t)size - 1) / (size_t)size * p->element;
    return (each + 63) / 64 * 64;
}

static struct slice slice_of(const struct plan *p, size_t k, int size, int rank)
{
    size_t bytes = window_bytes(p, k);
    size_t each = slice_bytes(p, bytes, size);
    size_t from = each * (size_t)rank;
    from = from < bytes ? from : bytes;
    size_t left = bytes - from;
    return (struct slice){.from = from, .bytes = each < left ? each : left};
}

/* Elements that are converted and then copied past the caches in one go. */
enum { TILE = 2048 };

static void narrow_to_stage(struct tti_lane *lane, void *span, const float *src, size_t count)
{
    uint16_t tile[TILE];
    for (size_t n; count > 0; count -= n) {
        n = tti_chunk_bytes(count, TILE, 0);
        tti_narrow_bf16(tti_stage_is_far(lane) ? tile : span, src, n);
        if (tti_stage_is_far(lane)) {
            tti_copy_stream(span, tile, n * sizeof(*tile));
        }
        lane->bytes_copied += n * (sizeof(float) + sizeof(*tile));
        span = (uint16_t *)span + n;
        src += n;
    }
}

static void widen_to_output(struct tti_lane *lane, float *dst, const void *span, size_t count)
{
    float tile[TILE];
    for (size_t n; count > 0; count -= n) {
        n = tti_chunk_bytes(count, TILE, 0);
        tti_widen_bf16(lane->streams ? tile : dst, span, n);
        if (lane->streams) {
            tti_copy_stream(dst, tile, n * sizeof(*tile));
        }
        lane->bytes_copied += n * (sizeof(float) + sizeof(uint16_t));
        span = (const uint16_t *)span + n;
        dst += n;
    }
}

/* The place in a tensor of byte `at` of the stage's vector. */
static size_t tensor_place(const struct plan *p, size_t at)
{
    return p->narrows ? 2 * at : at;
}

static void copy_in(struct tti_lane *lane, const struct plan *p, unsigned char *span, const unsigned char *src,
                    size_t bytes)
{
    if (p->narrows) {
        narrow_to_stage(lane, span, (const float *)src, bytes / p->element);
    } else {
        tti_copy_to_stage(lane, span, src, bytes);
    }
}

static void copy_back(struct tti_lane *lane, const struct plan *p, unsigned char *dst, const unsigned char *span,
                      size_t bytes)
{
    if (p->narrows) {
        widen_to_output(lane, (float *)dst, span, bytes / p->element);
    } else {
        tti_copy_to_output(lane, dst, span, bytes);
    }
}

static uint64_t staged_phase(size_t k)
{
    return 2 * k + 1;
}

static uint64_t reduced_phase(size_t k)
{
    return 2 * k + 4;
}

static size_t result_at(const struct plan *p)
{
    return (p->window + 63) / 64 * 64;
}

static tutti_status stage(struct tti_lane *lane, const tutti_op *op, const struct plan *p, size_t k)
{
    unsigned char *span;
    tutti_status status = tti_stage_acquire(lane, k, &span);
    if (status != TUTTI_OK) {
        return status;
    }
    const unsigned char *src = (const unsigned char *)op->src + tensor_place(p, k * p->window);
    struct slice own = slice_of(p, k, lane->engine->size, lane->engine->rank);
    size_t before = p->narrows ? window_bytes(p, k) : own.from;
    size_t behind = p->narrows ? before : own.from + own.bytes;
    copy_in(lane, p, span, src, before);
    copy_in(lane, p, span + behind, src + tensor_place(p, behind), window_bytes(p, k) - behind);
    tti_stage_stamp(lane, k + 3 < p->windows ? staged_phase(k + 3) : TTI_PHASE_NEXT, -1);
    return TUTTI_OK;
}

/* For readers far away: folds into the output, and copies each chunk to the stage while the first-level cache has
 * it. */
static void fold_far(struct tti_lane *lane, unsigned char *result, unsigned char *shown, size_t bytes)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        n = tti_chunk_bytes(bytes - at, TTI_TWICE_BYTES, 0);
        tti_reduce(lane, result + at, n);
        tti_copy_to_stage(lane, shown + at, result + at, n);
        lane->bytes_copied -= n; /* not loaded again */
        for (int r = 0; r < lane->engine->size; r++) {
            lane->sources[r] = (const unsigned char *)lane->sources[r] + n;
        }
    }
}

static tutti_status fold_own(struct tti_lane *lane, const tutti_op *op, const struct plan *p, size_t k)
{
    struct tti_engine *e = lane->engine;
    struct slice own = slice_of(p, k, e->size, e->rank);
    size_t at = k * p->window + own.from;
    unsigned char *result = (unsigned char *)op->dst + tensor_place(p, at);
    unsigned char *shown = tti_stage_own(lane, k) + result_at(p); /* for the peers */
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank) {
            tutti_status status = tti_await_span(lane, r, k, staged_phase(k));
            if (status != TUTTI_OK) {
                return status;
            }
        }
        lane->sources[r] = tti_stage_peer(lane, r, k) + own.from;
    }
    if (!p->narrows) {
        lane->sources[e->rank] = (const unsigned char *)op->src + at;
    }
    if (p->narrows) {
        tti_reduce(lane, shown, own.bytes);
        copy_back(lane, p, result, shown, own.bytes);
    } else if (tti_stage_is_far(lane)) {
        fold_far(lane, result, shown, own.bytes);
    } else if (lane->streams) { /* the copy that peers read next stays in the caches */
        tti_reduce(lane, shown, own.bytes);
        tti_copy_to_output(lane, result, shown, own.bytes);
    } else {
        lane->targets[0] = result;
        lane->targets[1] = shown;
        tti_reduce_push(lane, 2, own.bytes);
    }
    tti_advance(lane, reduced_phase(k));
    return TUTTI_OK;
}

static tutti_status copy_out(struct tti_lane *lane, const tutti_op *op, const struct plan *p, size_t k)
{
    struct tti_engine *e = lane->engine;
    unsigned char *dst = (unsigned char *)op->dst + tensor_place(p, k * p->window);
    for (int i = 1; i < e->size; i++) {
        int peer = (e->rank + i) % e->size; /* every rank starts at another peer */
        tutti_status status = tti_wait_phase(lane, peer, reduced_phase(k));
        if (status != TUTTI_OK) {
            return status;
        }
        struct slice s = slice_of(p, k, e->size, peer);
        copy_back(lane, p, dst + tensor_place(p, s.from), tti_stage_peer(lane, peer, k) + result_at(p), s.bytes);
    }
    return TUTTI_OK;
}

static tutti_status sliced(struct tti_lane *lane, const tutti_op *op, const struct plan *p)
{
    tutti_status resource_error;
    tutti_status status =
        tti_stage_begin(lane, result_at(p) + slice_bytes(p, p->window, lane->engine->size), &resource_error);
    if (status == TUTTI_OK && resource_error == TUTTI_OK && !lane->exposed) {
        status = stage(lane, op, p, 0);
    }
    if (status != TUTTI_OK || (status = tti_arrive_staged(lane, (uint32_t)resource_error)) != TUTTI_OK ||
        (status = tti_await_all(lane)) != TUTTI_OK || (status = tti_attributes_all(lane)) != TUTTI_OK) {
        return status;
    }
    if (tti_all_expose(lane)) {
        return tti_run_zero_copy(lane, op);
    }
    lane->algorithm = p->windows > 1 ? TTI_ALGORITHM_PIPELINED : TTI_ALGORITHM_TWO_SHOT;
    for (size_t k = lane->exposed ? 0 : 1; k < p->windows + 2; k++) {
        if (k < p->windows) {
            if ((status = stage(lane, op, p, k)) != TUTTI_OK) {
                return status;
            }
            tti_advance(lane, staged_phase(k));
        }
        if (k >= 1 && k - 1 < p->windows && (status = fold_own(lane, op, p, k - 1)) != TUTTI_OK) {
            return status;
        }
        if (k >= 2 && (status = copy_out(lane, op, p, k - 2)) != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

tutti_status tti_all_reduce_two_shot(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    const size_t most = lane->engine->tuning.window;
    const size_t window = bytes < most ? bytes : most;
    const bool narrows = op->wire != TUTTI_WIRE_FULL;
    const struct plan p = {.narrows = narrows,
                           .element = tti_dtype_size(narrows ? TUTTI_BF16 : op->dtype),
                           .bytes = bytes,
                           .window = window,
                           .windows = (bytes + window - 1) / window};
    return sliced(lane, op, &p);
}
