/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The zero-copy class: every rank can reach every buffer (ranks are threads), so nothing is staged. The arrival line says
 * where a rank's buffers lie; when all have arrived, each rank does its share of the work on all of them; when all have
 * said that they are done, the buffers are their owners' again. Two epochs a call, whatever its size.
 *
 * Bytes loaded and stored a rank: all_reduce 2n (it reduces its own slice from all inputs and pushes it to all outputs; in
 * place is safe because only rank j touches slice j), reduce_scatter n + m, all_gather and all_to_all 2n, broadcast 2n at
 * each leaf and none at the root.
 *
 * Nobody may touch memory whose owner has returned. Before each chunk a rank stores its intent and then reads the alarm,
 * both seq_cst; a rank that gives up rings the alarm and then waits until no intent is left, both seq_cst as well. So
 * either the toucher sees the alarm and stops, or the one that gives up sees the intent and waits for the chunk.
 */
#include <sched.h>

#include "engine/internal.h"
#include "kernels/kernels.h"

#define CHUNK 65536u

bool tti_is_direct(const struct tti_lane *lane, const tutti_op *op)
{
    const struct tti_engine *e = lane->engine;
    size_t bytes = op->count * tutti_dtype_size(op->dtype);
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return e->direct && bytes > tti_inline_limit(op);
    case TUTTI_OP_BROADCAST:
    case TUTTI_OP_GATHER:
        return e->direct && bytes > TTI_PAYLOAD;
    case TUTTI_OP_SCATTER:
        return e->direct && bytes * (size_t)e->size > TTI_PAYLOAD;
    case TUTTI_OP_ALL_GATHER:
        return e->direct && tti_part_bytes_max(&op->recv_parts, e->size) > TTI_PAYLOAD;
    case TUTTI_OP_REDUCE_SCATTER:
        return e->direct && tti_part_bytes_max(&op->send_parts, e->size) > TTI_PAYLOAD;
    case TUTTI_OP_ALL_TO_ALL: /* with different lengths no rank knows where the others' parts lie */
        return e->direct && !op->send_parts.counts && tti_part_bytes(&op->send_parts, 0) > TTI_PAYLOAD;
    default:
        return false;
    }
}

static tutti_status intend(struct tti_lane *lane)
{
    struct tti_engine *e = lane->engine;
    _Atomic uint64_t *intent = &tti_progress_of(lane, e->rank)->intent;
    atomic_store_explicit(intent, 1, memory_order_seq_cst); /* partner: the load in wait_for_intents */
    uint32_t alarm = atomic_load_explicit(tti_alarm(e), memory_order_seq_cst);
    if (__builtin_expect(alarm == lane->alarm_seen, 1)) {
        return TUTTI_OK;
    }
    tutti_status status = tti_fault_check(e, lane, -1, lane->error);
    if (status == TUTTI_OK) {
        lane->alarm_seen = alarm;
        return TUTTI_OK;
    }
    atomic_store_explicit(intent, 0, memory_order_release);
    return status;
}

static void done(struct tti_lane *lane)
{
    /* release: the accesses of the chunk come before; partner: the load in wait_for_intents */
    atomic_store_explicit(&tti_progress_of(lane, lane->engine->rank)->intent, 0, memory_order_release);
}

/* After the alarm has been rung: until nobody is inside a chunk that may touch this rank's buffers. Chunks are short and
 * their ranks are threads of this process, so this ends. */
static void wait_for_intents(struct tti_lane *lane)
{
    for (int r = 0; r < lane->engine->size; r++) {
        while (r != lane->engine->rank &&
               atomic_load_explicit(&tti_progress_of(lane, r)->intent, memory_order_seq_cst) != 0) {
            sched_yield();
        }
    }
}

static size_t chunk_at(size_t from, size_t end)
{
    return end - from < CHUNK ? end - from : CHUNK;
}

/* Folds the same range of all inputs; `push` says which outputs get it (-1: all). */
static tutti_status reduce_slices(struct tti_lane *lane, const tutti_op *op, int push)
{
    struct tti_engine *e = lane->engine;
    size_t element = tutti_dtype_size(op->dtype);
    size_t bytes = op->count * element;
    size_t each = (bytes / (size_t)e->size / 64 + 1) * 64;
    size_t from = each * (size_t)e->rank < bytes ? each * (size_t)e->rank : bytes;
    size_t end = bytes - from < each ? bytes : from + each;
    struct tti_fold fold = {
        .dtype = op->dtype, .op = op->redop, .scales = op->redop == TUTTI_PREMUL_SUM ? lane->scales : NULL};
    int first = push >= 0 ? push : e->rank;
    for (size_t n; from < end; from += n) {
        n = chunk_at(from, end);
        tutti_status status = intend(lane);
        if (status != TUTTI_OK) {
            return status;
        }
        for (int r = 0; r < e->size; r++) {
            lane->sources[r] = lane->inputs[r] + from;
        }
        tti_fold(lane->outputs[first] + from, lane->sources, (size_t)e->size, n / element, &fold);
        for (int i = 1; push < 0 && i < e->size; i++) {
            int peer = (e->rank + i) % e->size;
            memcpy(lane->outputs[peer] + from, lane->outputs[first] + from, n);
        }
        done(lane);
    }
    return TUTTI_OK;
}

static tutti_status reduce_part(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    size_t element = tutti_dtype_size(op->dtype);
    size_t bytes = tti_part_bytes(&op->send_parts, e->rank);
    struct tti_fold fold = {
        .dtype = op->dtype, .op = op->redop, .scales = op->redop == TUTTI_PREMUL_SUM ? lane->scales : NULL};
    for (size_t from = 0, n; from < bytes; from += n) {
        tutti_status status = intend(lane);
        if (status != TUTTI_OK) {
            return status;
        }
        n = chunk_at(from, bytes);
        for (int r = 0; r < e->size; r++) {
            lane->sources[r] = tti_part_piece(lane->inputs[r], &op->send_parts, e->rank, from, &n);
        }
        tti_fold((unsigned char *)op->dst + from, lane->sources, (size_t)e->size, n / element, &fold);
        done(lane);
    }
    return TUTTI_OK;
}

/* Copies a part between two joined or compact places, chunk by chunk; NULL parts mean compact. */
static tutti_status move_part(struct tti_lane *lane, void *dst, const tutti_parts *dst_parts, int dst_rank,
                              const void *src, const tutti_parts *src_parts, int src_rank, size_t bytes)
{
    for (size_t from = 0, n; from < bytes; from += n) {
        tutti_status status = intend(lane);
        if (status != TUTTI_OK) {
            return status;
        }
        n = chunk_at(from, bytes);
        const unsigned char *in =
            src_parts ? tti_part_piece(src, src_parts, src_rank, from, &n) : (const unsigned char *)src + from;
        if (dst_parts) {
            tti_part_write(dst, dst_parts, dst_rank, from, in, n);
        } else {
            tti_copy((unsigned char *)dst + from, in, n);
        }
        done(lane);
    }
    return TUTTI_OK;
}

static tutti_status share(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    bool root = e->rank == op->root;
    size_t bytes = op->count * tutti_dtype_size(op->dtype);
    tutti_status status = TUTTI_OK;
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
        return reduce_slices(lane, op, -1);
    case TUTTI_OP_REDUCE:
        return reduce_slices(lane, op, op->root);
    case TUTTI_OP_REDUCE_SCATTER:
        return reduce_part(lane, op);
    case TUTTI_OP_BROADCAST:
        return root ? TUTTI_OK : move_part(lane, op->dst, NULL, 0, lane->outputs[op->root], NULL, 0, bytes);
    default:
        break;
    }
    for (int i = 0; i < e->size && status == TUTTI_OK; i++) {
        int peer = (e->rank + i) % e->size;
        if (op->kind == TUTTI_OP_ALL_GATHER || (op->kind == TUTTI_OP_GATHER && root)) {
            status = move_part(lane, op->dst, &op->recv_parts, peer, lane->inputs[peer], NULL, 0,
                               tti_part_bytes(&op->recv_parts, peer));
        } else if (op->kind == TUTTI_OP_SCATTER && root) {
            status = move_part(lane, lane->outputs[peer], NULL, 0, op->src, &op->send_parts, peer, bytes);
        } else if (op->kind == TUTTI_OP_ALL_TO_ALL) {
            status = move_part(lane, op->dst, &op->recv_parts, peer, lane->inputs[peer], &op->send_parts, e->rank,
                               tti_part_bytes(&op->send_parts, e->rank));
        }
    }
    return status;
}

tutti_status tti_run_direct(struct tti_lane *lane, const tutti_op *op)
{
    tutti_status status = tti_arrive_staged(lane, TUTTI_OK);
    if (status != TUTTI_OK) {
        return status; /* nobody knows the buffers yet */
    }
    if ((status = tti_await_all(lane)) == TUTTI_OK && (status = tti_attributes_all(lane)) == TUTTI_OK &&
        (status = share(lane, op)) == TUTTI_OK) {
        tti_advance(lane, TTI_PHASE_FINAL);
        status = tti_wait_phase_all(lane, TTI_PHASE_FINAL);
        lane->staged = false; /* the end is announced already */
    }
    if (status != TUTTI_OK && status != TUTTI_MISMATCH) {
        tti_ring_alarm(lane->engine); /* whoever failed first may not have come to it yet */
        wait_for_intents(lane);
    }
    return status;
}
