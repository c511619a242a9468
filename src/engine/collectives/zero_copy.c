/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zero copy: every rank does its share of the work on the exposed tensors of all ranks (memory/expose.c). When all have
 * arrived, each begins; when all have published TTI_PHASE_FINAL, the tensors are their owners' again. Two epochs a
 * call, whatever its size; a gather whose leaves push takes one more.
 *
 * Bytes loaded and stored a rank: all_reduce 2n, reduce_scatter n + m, all_gather and all_to_all 2n, gather and scatter
 * 2m, broadcast 2n at each leaf and none at the root, or n at each of two ranks. all_reduce is a reduce-scatter and an
 * all-gather in one pass (Rabenseifner, 2004): each rank folds its slice of all inputs and pushes it to all outputs. In
 * place is safe, because only rank j touches slice j.
 */
#include "engine/collectives/zero_copy.h"

#include "engine/arrival/digest.h"
#include "engine/memory/caches.h"
#include "engine/memory/copy.h"
#include "engine/memory/fold.h"
#include "engine/memory/intent.h"
#include "engine/memory/parts.h"
#include "engine/memory/single_copy.h"
#include "engine/memory/stage.h"
#include "tensor/parts.h"

#define CHUNK 4096u /* of a result, on its way from the fold to all outputs: stays in the first-level cache */

/* Folds bytes [from, from + n) of all inputs into those of lane->targets. */
static void push(struct tti_lane *lane, size_t outputs, size_t from, size_t n)
{
    struct tti_engine *e = lane->engine;
    for (int r = 0; r < e->size; r++) {
        lane->sources[r] = lane->inputs[r] + from;
    }
    if (!lane->streams) {
        tti_reduce_push(lane, outputs, n);
        return;
    }
    const struct tti_fold fold = tti_fold_of(lane);
    unsigned char chunk[CHUNK] __attribute__((aligned(64)));
    for (size_t at = 0; at < n; at += CHUNK) {
        const size_t bytes = tti_chunk_bytes(n - at, CHUNK, 0);
        tti_fold(chunk, lane->sources, (size_t)e->size, bytes >> tti_dtype_shift(fold.dtype), &fold);
        for (size_t i = 0; i < outputs; i++) {
            tti_copy_stream((unsigned char *)lane->targets[i] + at, chunk, bytes);
        }
        for (int r = 0; r < e->size; r++) {
            lane->sources[r] = (const unsigned char *)lane->sources[r] + bytes;
        }
        lane->bytes_copied += ((size_t)e->size + outputs) * bytes;
    }
}

/* Folds the own slice of all inputs into the output of rank `only` (-1: of all ranks). */
static tutti_status reduce_slices(struct tti_lane *lane, const tutti_op *op, int only)
{
    struct tti_engine *e = lane->engine;
    size_t bytes = op->count * tti_dtype_size(op->dtype);
    size_t each = (bytes / (size_t)e->size / 64 + 1) * 64;
    size_t from = each * (size_t)e->rank < bytes ? each * (size_t)e->rank : bytes;
    size_t end = bytes - from < each ? bytes : from + each;
    size_t outputs = only < 0 ? (size_t)e->size : 1;
    for (size_t n; from < end; from += n) {
        n = tti_chunk_bytes(end - from, TTI_INTENT_BYTES, 0);
        tutti_status status = tti_intent_begin(lane);
        if (status != TUTTI_OK) {
            return status;
        }
        for (size_t i = 0; i < outputs; i++) {
            int rank = only < 0 ? (e->rank + (int)i) % e->size : only;
            lane->targets[i] = lane->outputs[rank] + from;
        }
        push(lane, outputs, from, n);
        if ((status = tti_intent_end(lane)) != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

static tutti_status reduce_part(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    size_t bytes = tti_parts_bytes(&op->send_parts, e->rank);
    for (size_t from = 0, n; from < bytes; from += n) {
        tutti_status status = tti_intent_begin(lane);
        if (status != TUTTI_OK) {
            return status;
        }
        n = tti_chunk_bytes(bytes - from, TTI_INTENT_BYTES, 0);
        for (int r = 0; r < e->size; r++) {
            lane->sources[r] = tti_parts_at(&op->send_parts, e->rank, lane->inputs[r], from, &n);
        }
        tti_reduce_out(lane, (unsigned char *)op->dst + from, n);
        if ((status = tti_intent_end(lane)) != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

tutti_status tti_pull(struct tti_lane *lane, int peer, void *dst, const tutti_parts *dst_parts, int dst_rank,
                      const void *src, const tutti_parts *src_parts, int src_rank, size_t bytes)
{
    const bool remote = lane->remote[peer];
    tti_choose_stores(lane, lane->op, false);
    const size_t most = remote ? TTI_SINGLE_COPY_CHUNK : TTI_INTENT_BYTES;
    lane->algorithm =
        remote && lane->algorithm == TTI_ALGORITHM_ZERO_COPY ? TTI_ALGORITHM_SINGLE_COPY : lane->algorithm;
    for (size_t from = 0, n; from < bytes; from += n) {
        tutti_status status = tti_intent_begin(lane);
        if (status != TUTTI_OK) {
            return status;
        }
        n = tti_chunk_bytes(bytes - from, most, 0);
        const unsigned char *in =
            src_parts ? tti_parts_at(src_parts, src_rank, src, from, &n) : (const unsigned char *)src + from;
        if (remote) {
            status = tti_single_copy_read(lane, peer, dst, dst_parts, dst_rank, from, in, n);
        } else if (dst_parts) {
            tti_part_write(lane, dst, dst_parts, dst_rank, from, in, n);
        } else {
            tti_copy_to_output(lane, (unsigned char *)dst + from, in, n);
        }
        if (status != TUTTI_OK) {
            tti_intent_drop(lane);
            return status;
        }
        if ((status = tti_intent_end(lane)) != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

/* The own rank is never remote, so the copy is between two addresses of this process. */
tutti_status tti_push(struct tti_lane *lane, unsigned char *dst, const unsigned char *src, size_t bytes)
{
    return tti_pull(lane, lane->engine->rank, dst, NULL, 0, src, NULL, 0, bytes);
}

static tutti_status share(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    tutti_status status = TUTTI_OK;
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
        return reduce_slices(lane, op, -1);
    case TUTTI_OP_REDUCE:
        return reduce_slices(lane, op, op->root);
    case TUTTI_OP_REDUCE_SCATTER:
        return reduce_part(lane, op);
    default:
        break;
    }
    for (int i = 0; i < e->size && status == TUTTI_OK; i++) {
        int peer = (e->rank + i) % e->size;
        const tutti_parts *from = op->kind == TUTTI_OP_ALL_TO_ALL ? &op->send_parts : NULL;
        status = tti_pull(lane, peer, op->dst, &op->recv_parts, peer, lane->inputs[peer], from, e->rank,
                          tti_parts_bytes(&op->recv_parts, peer));
    }
    return status;
}

enum tti_algorithm tti_algorithm_in_place(const struct tti_lane *lane)
{
    return tti_single_copy_offered(lane) ? TTI_ALGORITHM_SINGLE_COPY : TTI_ALGORITHM_ZERO_COPY;
}

tutti_status tti_run_zero_copy(struct tti_lane *lane, const tutti_op *op)
{
    lane->algorithm = tti_algorithm_in_place(lane);
    tutti_status status = share(lane, op);
    if (status == TUTTI_OK) {
        tti_advance(lane, TTI_PHASE_FINAL);
        if (lane->advances && !lane->late_mismatch) {
            tti_digest_advance(lane);
        }
        lane->announces = lane->late_mismatch; /* otherwise the line above has published the end */
        status = tti_wait_phase_all(lane, TTI_PHASE_FINAL);
    }
    return status;
}
