/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two-shot all_reduce and reduce, pipelined above one window: a reduce-scatter, then an all-gather or a gather to the
 * root (Rabenseifner, 2004), over the stages, with the movement-avoiding fold of Peng et al. (SC'23). The vector is cut
 * into windows, a window into one slice per rank.
 *   1. stage the window, all but the own slice                             publish I(k)
 *   2. when all have, fold the own slice from all ranks' stages            publish R(k)
 *   3. when all have, copy the other ranks' slices of the result out       in a reduce, the root only
 * Bytes a rank: 5n - 2n/P, the least that copying in and out allows: the fold reads the own slice in place. In a reduce
 * 5n - 3n/P at the root, whatever P is, and 3n - n/P at a leaf. Two epochs a window. No rank waits for them while all
 * run at the same speed: step 2 of a window follows step 1 of the next one, and step 3 follows step 2 of the next one.
 *
 * Phases of window k: I(k) = 2k + 1, R(k) = 2k + 4, published in the order I0 (the arrival) I1 R0 I2 R1 ... A span
 * holds the window and behind it the own slice of the result. All have read it when they publish I(k + 3).
 *
 * With op->wire the stages and the fold are in its format, and the copies convert: into the stage, where the own slice
 * goes, too, since it is rounded like all others; and out of it. Bytes a rank, n of f32 that are sent as m: 2n + 3m +
 * m/P, of which m/n as many come from the caches of other ranks.
 *
 * Windows and slices count elements; the stage has as many bytes as the format gives them.
 *
 * A rank that exposes its tensors stages window 0 only when it knows that others do not expose theirs.
 */
#include "engine/collectives/two_shot.h"
#include "engine/arrival/arrival.h"
#include "engine/arrival/attributes.h"
#include "engine/collectives/zero_copy.h"
#include "engine/memory/copy.h"
#include "engine/memory/expose.h"
#include "engine/memory/fold.h"
#include "engine/memory/parts.h"
#include "engine/memory/stage.h"
#include "kernels/wire_format.h"

struct plan {
    const struct tti_wire_format *wire; /* NULL: elements are sent as they are */
    size_t element;                     /* bytes, in the tensors */
    size_t grain;                       /* slices begin at multiples of so many elements */
    size_t count;
    size_t window;
    size_t windows;
    bool to_root;    /* a reduce: only the root copies slices out */
    bool has_output; /* a leaf of a reduce has none */
};

struct slice {
    size_t from; /* in the window */
    size_t count;
};

static size_t window_count(const struct plan *p, size_t k)
{
    return tti_chunk_bytes(p->count, p->window, k);
}

static size_t slice_count(const struct plan *p, size_t count, int size)
{
    const size_t each = (count + (size_t)size - 1) / (size_t)size;
    return (each + p->grain - 1) / p->grain * p->grain;
}

static struct slice slice_of(const struct plan *p, size_t k, int size, int rank)
{
    size_t count = window_count(p, k);
    size_t each = slice_count(p, count, size);
    size_t from = each * (size_t)rank;
    from = from < count ? from : count;
    size_t left = count - from;
    return (struct slice){.from = from, .count = each < left ? each : left};
}

/* Bytes of the stage. */
static size_t staged(const struct plan *p, size_t count)
{
    return p->wire ? tti_wire_bytes(p->wire, count) : count * p->element;
}

/* Elements that are converted and then copied past the caches in one go: whole blocks, of at most two bytes each. */
enum { TILE = 2048 };

static void pack_to_stage(struct tti_lane *lane, const struct plan *p, unsigned char *span, const float *src,
                          size_t count)
{
    const tutti_op *op = lane->op;
    unsigned char tile[2 * TILE];
    for (size_t n; count > 0; count -= n) {
        n = tti_chunk_bytes(count, TILE, 0);
        const size_t bytes = tti_wire_bytes(p->wire, n);
        tti_wire_pack(p->wire, tti_stage_is_far(lane) ? tile : span, src, n, op->redop, op->scale);
        if (tti_stage_is_far(lane)) {
            tti_copy_stream(span, tile, bytes);
        }
        lane->bytes_copied += n * sizeof(float) + bytes;
        span += bytes;
        src += n;
    }
}

static void unpack_to_output(struct tti_lane *lane, const struct plan *p, float *dst, const unsigned char *span,
                             size_t count)
{
    float tile[TILE];
    for (size_t n; count > 0; count -= n) {
        n = tti_chunk_bytes(count, TILE, 0);
        const size_t bytes = tti_wire_bytes(p->wire, n);
        tti_wire_unpack(p->wire, lane->streams ? tile : dst, span, n);
        if (lane->streams) {
            tti_copy_stream(dst, tile, n * sizeof(*tile));
        }
        lane->bytes_copied += n * sizeof(float) + bytes;
        span += bytes;
        dst += n;
    }
}

static void copy_in(struct tti_lane *lane, const struct plan *p, unsigned char *span, const unsigned char *src,
                    size_t count)
{
    if (p->wire) {
        pack_to_stage(lane, p, span, (const float *)src, count);
    } else {
        tti_copy_to_stage(lane, span, src, count * p->element);
    }
}

static void copy_back(struct tti_lane *lane, const struct plan *p, unsigned char *dst, const unsigned char *span,
                      size_t count)
{
    if (p->wire) {
        unpack_to_output(lane, p, (float *)dst, span, count);
    } else {
        tti_copy_to_output(lane, dst, span, count * p->element);
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
    return tti_whole_lines(staged(p, p->window));
}

static tutti_status stage(struct tti_lane *lane, const tutti_op *op, const struct plan *p, size_t k)
{
    unsigned char *span;
    tutti_status status = tti_stage_acquire(lane, k, &span);
    if (status != TUTTI_OK) {
        return status;
    }
    const unsigned char *src = (const unsigned char *)op->src + k * p->window * p->element;
    struct slice own = slice_of(p, k, lane->engine->size, lane->engine->rank);
    const size_t count = window_count(p, k);
    const size_t before = p->wire ? count : own.from;
    const size_t behind = p->wire ? count : own.from + own.count;
    copy_in(lane, p, span, src, before);
    copy_in(lane, p, span + staged(p, behind), src + behind * p->element, count - behind);
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

/* The result goes to the output as the other ranks unpack it. */
static void fold_packed(struct tti_lane *lane, const struct plan *p, unsigned char *result, unsigned char *shown,
                        size_t count)
{
    const tutti_op *op = lane->op;
    const size_t size = (size_t)lane->engine->size;
    tti_wire_fold(p->wire, shown, lane->sources, size, count, op->redop,
                  op->redop == TUTTI_PREMUL_SUM ? lane->scales : NULL);
    lane->bytes_copied += (size + 1) * staged(p, count);
    copy_back(lane, p, result, shown, count);
}

static tutti_status fold_own(struct tti_lane *lane, const tutti_op *op, const struct plan *p, size_t k)
{
    struct tti_engine *e = lane->engine;
    struct slice own = slice_of(p, k, e->size, e->rank);
    const size_t at = (k * p->window + own.from) * p->element;
    const size_t bytes = own.count * p->element;
    unsigned char *span = tti_stage_own(lane, k);
    unsigned char *shown = span + result_at(p); /* for the peers */
    /* a leaf of a reduce has no output, but the place of its own slice in the span is free */
    unsigned char *result = p->has_output ? (unsigned char *)op->dst + at : span + staged(p, own.from);
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank) {
            tutti_status status = tti_await_span(lane, r, k, staged_phase(k));
            if (status != TUTTI_OK) {
                return status;
            }
        }
        lane->sources[r] = tti_stage_peer(lane, r, k) + staged(p, own.from);
    }
    if (!p->wire) {
        lane->sources[e->rank] = (const unsigned char *)op->src + at;
    }
    if (p->wire) {
        fold_packed(lane, p, result, shown, own.count);
    } else if (tti_stage_is_far(lane)) {
        fold_far(lane, result, shown, bytes);
    } else if (p->to_root && p->has_output) {
        tti_reduce_out(lane, result, bytes);
    } else if (p->to_root) {
        tti_reduce(lane, shown, bytes);
    } else if (lane->streams) { /* the copy that peers read next stays in the caches */
        tti_reduce(lane, shown, bytes);
        tti_copy_to_output(lane, result, shown, bytes);
    } else {
        lane->targets[0] = result;
        lane->targets[1] = shown;
        tti_reduce_push(lane, 2, bytes);
    }
    tti_advance(lane, reduced_phase(k));
    return TUTTI_OK;
}

static tutti_status copy_out(struct tti_lane *lane, const tutti_op *op, const struct plan *p, size_t k)
{
    struct tti_engine *e = lane->engine;
    unsigned char *dst = (unsigned char *)op->dst + k * p->window * p->element;
    for (int i = 1; i < e->size; i++) {
        int peer = (e->rank + i) % e->size; /* every rank starts at another peer */
        tutti_status status = tti_wait_phase(lane, peer, reduced_phase(k));
        if (status != TUTTI_OK) {
            return status;
        }
        struct slice s = slice_of(p, k, e->size, peer);
        copy_back(lane, p, dst + s.from * p->element, tti_stage_peer(lane, peer, k) + result_at(p), s.count);
    }
    return TUTTI_OK;
}

static tutti_status sliced(struct tti_lane *lane, const tutti_op *op, const struct plan *p)
{
    tutti_status resource_error;
    const size_t stride = result_at(p) + staged(p, slice_count(p, p->window, lane->engine->size));
    const bool small = p->windows == 1 && stride <= TTI_SMALL_EXCHANGE;
    tutti_status status = tti_stage_begin(lane, stride, reduced_phase(p->windows), small, &resource_error);
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
        if (k >= 2 && p->has_output && (status = copy_out(lane, op, p, k - 2)) != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

/* Cache lines, so that two ranks never write one line of the result; in packed values a whole number of blocks. */
static size_t grain_of(const struct tti_wire_format *wire, size_t element)
{
    const size_t line = 64 / element;
    return wire && wire->block > line ? wire->block : line;
}

tutti_status tti_two_shot(struct tti_lane *lane, const tutti_op *op)
{
    const struct tti_wire_format *wire = tti_wire_format(op->wire);
    const size_t most = lane->engine->tuning.window;
    struct plan p = {.wire = wire, .element = tti_dtype_size(op->dtype), .count = op->count};
    p.to_root = op->kind == TUTTI_OP_REDUCE; /* without a wire */
    p.has_output = !p.to_root || lane->engine->rank == op->root;
    p.grain = grain_of(wire, wire && wire->dtype ? tti_dtype_size(wire->dtype) : p.element);
    /* an even number of blocks: the larger slice of two ranks is no longer than half a window, see TTI_STAGE_SPANS */
    const size_t window = wire ? most / (2 * wire->block_bytes) * 2 * wire->block : most / p.element;
    p.window = p.count < window ? p.count : window / p.grain * p.grain;
    p.windows = (p.count + p.window - 1) / p.window;
    return sliced(lane, op, &p);
}
