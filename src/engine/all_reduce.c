/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_reduce.
 *
 * Inline (up to 100 bytes): everybody reads every line and folds everything. One epoch.
 *
 * Two-shot (up to a window) and pipelined (above): the vector is cut into windows, a window into one slice per rank.
 *   1. copy the window into staging, all but the own slice              publish I(k)
 *   2. when all have, fold the own slice from everybody's staging        publish R(k)
 *   3. when all have, copy the others' slices of the result out
 * The copy-in of window k+1 comes before step 2 of window k, so that the others find it ready. Bytes loaded and stored a
 * rank: 5n - 2n/P, the least that copying in and out allows (the own slice is read where it lies); two epochs a window.
 * The fold takes all P sources at once and in rank order, so every rank gets the same bits, whatever the class.
 * Movement-avoiding reductions: Peng et al., SC'23; the slices: Rabenseifner 2004.
 *
 * Phases of window k: I(k) = 2k, R(k) = 2k + 3, published in the order I0 (the arrival) I1 R0 I2 R1 ... FINAL. Window
 * numbers: in(0) = 0, in(k) = 2k - 1, out(k) = 2k + 2. in(k) has been read by all at R(k), out(k) at I(k + 2).
 */
#include "engine/internal.h"
#include "kernels/kernels.h"

struct plan {
    size_t element;
    size_t bytes;
    size_t window;
    size_t windows;
};

struct slice {
    size_t from; /* bytes in the window */
    size_t bytes;
};

static struct slice slice_of(const struct plan *p, size_t window_bytes, int size, int rank)
{
    /* multiples of a cache line, so that two ranks never write one line of the result */
    size_t each = (window_bytes / p->element + (size_t)size - 1) / (size_t)size * p->element;
    each = (each + 63) / 64 * 64;
    size_t from = each * (size_t)rank;
    from = from < window_bytes ? from : window_bytes;
    size_t left = window_bytes - from;
    return (struct slice){.from = from, .bytes = each < left ? each : left};
}

static size_t window_bytes(const struct plan *p, size_t k)
{
    size_t left = p->bytes - k * p->window;
    return left < p->window ? left : p->window;
}

static uint32_t in_window(size_t k)
{
    return (uint32_t)(k == 0 ? 0 : 2 * k - 1);
}

static uint32_t out_window(size_t k)
{
    return (uint32_t)(2 * k + 2);
}

static uint64_t read_by_all(const struct plan *p, size_t k)
{
    return k + 2 < p->windows ? 2 * (k + 2) : TTI_PHASE_FINAL;
}

static tutti_status copy_in(struct tti_lane *lane, const tutti_op *op, const struct plan *p, size_t k)
{
    unsigned char *window;
    tutti_status status = tti_stage_acquire(lane, in_window(k), &window);
    if (status != TUTTI_OK) {
        return status;
    }
    const unsigned char *src = (const unsigned char *)op->src + k * p->window;
    size_t bytes = window_bytes(p, k);
    struct slice own = slice_of(p, bytes, lane->engine->size, lane->engine->rank);
    tti_copy(window, src, own.from);
    size_t behind = own.from + own.bytes;
    tti_copy(window + behind, src + behind, bytes - behind);
    tti_stage_stamp(lane, in_window(k), 2 * k + 3, -1);
    return TUTTI_OK;
}

static tutti_status reduce_own(struct tti_lane *lane, const tutti_op *op, const struct plan *p, size_t k)
{
    struct tti_engine *e = lane->engine;
    unsigned char *window;
    tutti_status status = tti_stage_acquire(lane, out_window(k), &window);
    if (status != TUTTI_OK) {
        return status;
    }
    struct slice own = slice_of(p, window_bytes(p, k), e->size, e->rank);
    if (own.bytes > 0) {
        size_t at = k * p->window + own.from;
        for (int r = 0; r < e->size; r++) {
            lane->sources[r] = tti_stage_peer(lane, r, in_window(k)) + own.from;
        }
        lane->sources[e->rank] = (const unsigned char *)op->src + at;
        struct tti_fold fold = {
            .dtype = op->dtype, .op = op->redop, .scales = op->redop == TUTTI_PREMUL_SUM ? lane->scales : NULL};
        unsigned char *result = (unsigned char *)op->dst + at;
        tti_fold(result, lane->sources, (size_t)e->size, own.bytes / p->element, &fold);
        tti_copy(window + own.from, result, own.bytes);
    }
    tti_stage_stamp(lane, out_window(k), read_by_all(p, k), -1);
    return TUTTI_OK;
}

static tutti_status copy_out(struct tti_lane *lane, const tutti_op *op, const struct plan *p, size_t k)
{
    struct tti_engine *e = lane->engine;
    unsigned char *dst = (unsigned char *)op->dst + k * p->window;
    for (int i = 1; i < e->size; i++) {
        int peer = (e->rank + i) % e->size; /* everybody starts elsewhere */
        tutti_status status = tti_wait_phase(lane, peer, 2 * k + 3);
        if (status != TUTTI_OK) {
            return status;
        }
        struct slice s = slice_of(p, window_bytes(p, k), e->size, peer);
        tti_copy(dst + s.from, tti_stage_peer(lane, peer, out_window(k)) + s.from, s.bytes);
    }
    return TUTTI_OK;
}

static tutti_status pipelined(struct tti_lane *lane, const tutti_op *op, const struct plan *p)
{
    tutti_status ready = tti_stage_commit(lane);
    tutti_status status = ready == TUTTI_OK ? copy_in(lane, op, p, 0) : TUTTI_OK;
    if (status != TUTTI_OK || (status = tti_arrive_staged(lane, (uint32_t)ready)) != TUTTI_OK ||
        (status = tti_await_all(lane)) != TUTTI_OK || (status = tti_attributes_all(lane)) != TUTTI_OK) {
        return status;
    }
    for (size_t k = 0; k < p->windows; k++) {
        if (k + 1 < p->windows) {
            if ((status = copy_in(lane, op, p, k + 1)) != TUTTI_OK) {
                return status;
            }
            tti_advance(lane, 2 * (k + 1));
        }
        if (k > 0 && (status = tti_wait_phase_all(lane, 2 * k)) != TUTTI_OK) {
            return status;
        }
        if ((status = reduce_own(lane, op, p, k)) != TUTTI_OK) {
            return status;
        }
        tti_advance(lane, 2 * k + 3);
        if ((status = copy_out(lane, op, p, k)) != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

tutti_status tti_run_all_reduce(struct tti_lane *lane, const tutti_op *op)
{
    struct plan p = {.element = tutti_dtype_size(op->dtype), .window = lane->engine->layout.window};
    p.bytes = op->count * p.element;
    p.windows = (p.bytes + p.window - 1) / p.window;
    if (!tti_is_inline(lane, op)) {
        return pipelined(lane, op, &p);
    }
    tutti_status status = tti_inline_arrive(lane, op->src, p.bytes);
    if (status == TUTTI_OK && (status = tti_await_all(lane)) == TUTTI_OK) {
        tti_inline_fold(lane, op->dst, 0, op->count);
    }
    return status;
}
