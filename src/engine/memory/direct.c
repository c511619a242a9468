/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The zero-copy class: who runs it reads and writes the tensors of all ranks where they lie. That takes ranks that are
 * threads, or tensors in the heap; which of a rank's tensors can be reached travels with its arrival, so whether a call
 * goes this way is known to all once all have arrived. Who could have been read but is not alone in that stages like the
 * others, one epoch later.
 *
 * When all have arrived, each rank does its share of the work on all tensors; when all have said that they are done, the
 * tensors are their owners' again. Two epochs a call, whatever its size.
 *
 * Bytes loaded and stored a rank: all_reduce 2n (it reduces its own slice from all inputs and pushes it to all outputs; in
 * place is safe because only rank j touches slice j), reduce_scatter n + m, all_gather and all_to_all 2n, broadcast 2n at
 * each leaf and none at the root.
 */
#include "engine/collectives/arrival.h"

#define CHUNK 4096u /* of a result, on its way from the fold to all outputs: stays in the first-level cache */

bool tti_is_direct(const struct tti_lane *lane, const tutti_op *op)
{
    const struct tti_engine *e = lane->engine;
    const bool variable = op->kind == TUTTI_OP_ALL_TO_ALL && op->send_parts.counts;
    if (variable || (!e->direct && !e->heap && e->tuning.single_copy >= TTI_TUNING_NEVER) ||
        lane->class != TTI_CLASS_LARGE) {
        return false; /* with different lengths no rank knows where the others' parts of an all_to_all lie */
    }
    return tti_call_bytes(lane, op) >= e->tuning.zero_copy; /* below, staging is faster: it takes one epoch */
}

/* Whether others touch this rank's input, its output. The tensor of a broadcast is its output. */
static bool shows_input(const tutti_op *op, int rank)
{
    switch (op->kind) {
    case TUTTI_OP_BROADCAST:
        return false;
    case TUTTI_OP_SCATTER:
        return rank == op->root;
    case TUTTI_OP_ALL_GATHER:
        return tti_part_bytes(&op->recv_parts, rank) > 0; /* an empty part has no address */
    default:
        return true;
    }
}

static bool shows_output(const tutti_op *op, int rank)
{
    return op->kind == TUTTI_OP_ALL_REDUCE ||
           ((op->kind == TUTTI_OP_BROADCAST || op->kind == TUTTI_OP_REDUCE) && rank == op->root);
}

/* Bytes from the beginning of a rank's input to its end. Only the root of a scatter knows how its parts are joined. */
static size_t input_extent(const struct tti_lane *lane, const tutti_op *op, int rank)
{
    const size_t bytes = op->count * tti_dtype_size(op->dtype);
    switch (op->kind) {
    case TUTTI_OP_REDUCE_SCATTER:
    case TUTTI_OP_ALL_TO_ALL:
        return op->send_parts.outer * op->send_parts.pitch;
    case TUTTI_OP_ALL_GATHER:
        return tti_part_bytes(&op->recv_parts, rank);
    case TUTTI_OP_SCATTER:
        return (size_t)lane->engine->size * bytes;
    default:
        return bytes;
    }
}

/* Leaves of a scatter find their parts only if these lie one after the other. */
static bool can_be_found(const struct tti_lane *lane, const tutti_op *op)
{
    return op->kind != TUTTI_OP_SCATTER || lane->engine->rank != op->root || op->send_parts.outer <= 1;
}

static size_t output_extent(const tutti_op *op)
{
    return op->count * tti_dtype_size(op->dtype);
}

void tti_expose(struct tti_lane *lane, const tutti_op *op)
{
    const struct tti_engine *e = lane->engine;
    lane->exposed = false;
    lane->named = false;
    lane->input = 0;
    lane->output = 0;
    if (!tti_is_direct(lane, op) || !can_be_found(lane, op)) {
        return;
    }
    if (e->direct) {
        lane->input = (uintptr_t)op->src;
        lane->output = (uintptr_t)op->dst;
        lane->exposed = true;
        return;
    }
    const uint64_t input =
        shows_input(op, e->rank) ? tti_heap_name(e->heap, op->src, input_extent(lane, op, e->rank)) : 0;
    const uint64_t output = shows_output(op, e->rank) ? tti_heap_name(e->heap, op->dst, output_extent(op)) : 0;
    lane->exposed = (input != 0 || !shows_input(op, e->rank)) && (output != 0 || !shows_output(op, e->rank));
    lane->input = lane->exposed ? input : 0;
    lane->output = lane->exposed ? output : 0;
    if (!lane->exposed && tti_single_copy_wanted(lane, op)) {
        lane->input = shows_input(op, e->rank) ? TTI_SINGLE_COPY_NAME | (uintptr_t)op->src : 0;
        lane->output = shows_output(op, e->rank) ? TTI_SINGLE_COPY_NAME | (uintptr_t)op->dst : 0;
        lane->exposed = true;
    }
}

/* What is found in the heap from now on is in use until the call ends. */
static void hold_heap(struct tti_lane *lane)
{
    if (atomic_load_explicit(&lane->holds_heap, memory_order_relaxed) == 0) { /* written by this thread only */
        const uint64_t now = atomic_load_explicit(lane->engine->heap->withdrawals, memory_order_seq_cst);
        /* seq_cst: before the lookup; pairs with tti_engine_heap_quiescent, after the withdrawal */
        atomic_store_explicit(&lane->holds_heap, now, memory_order_seq_cst);
    }
}

void tti_release_heap(struct tti_lane *lane)
{
    if (lane->named) { /* release: pairs with tti_engine_heap_quiescent; the last access comes before */
        atomic_store_explicit(&lane->holds_heap, 0, memory_order_release);
    }
}

bool tti_engine_heap_quiescent(const struct tti_engine *e, uint64_t withdrawal)
{
    for (int32_t i = 0; i < e->layout.lanes; i++) {
        /* seq_cst: see hold_heap; and it pairs with tti_release_heap */
        const uint64_t since = atomic_load_explicit(&e->lanes[i].holds_heap, memory_order_seq_cst);
        if (since != 0 && since < withdrawal) {
            return false;
        }
    }
    return true;
}

/* Where this rank sees a peer's tensor; NULL = it is private. A name that means nothing here is not to be trusted. */
static tutti_status locate(struct tti_lane *lane, int peer, uint64_t name, size_t bytes, unsigned char **address)
{
    struct tti_engine *e = lane->engine;
    if (e->direct) { /* threads of this process: as trustworthy as this rank itself */
        *address = (unsigned char *)(uintptr_t)name;
        return TUTTI_OK;
    }
    if ((name & TTI_SINGLE_COPY_NAME) != 0 && tti_single_copy_allowed(lane)) {
        *address = (unsigned char *)(uintptr_t)(name & ~TTI_SINGLE_COPY_NAME);
        lane->remote[peer] = peer != e->rank; /* only the kernel follows it */
        return TUTTI_OK;
    }
    if (name != 0 && e->heap) {
        hold_heap(lane);
    }
    *address = name != 0 ? tti_heap_address(e->heap, peer, name, bytes) : NULL;
    if (name != 0 && !*address) {
        return tti_fault_corrupt(lane, peer, "the name of its tensor, which is no memory that it shares,", name);
    }
    return TUTTI_OK;
}

tutti_status tti_locate(struct tti_lane *lane, int peer, uint64_t input, uint64_t output)
{
    const tutti_op *op = lane->op;
    lane->inputs[peer] = NULL;
    lane->outputs[peer] = NULL;
    lane->remote[peer] = false;
    tutti_status status = TUTTI_OK;
    if ((input | output) != 0 && tti_is_direct(lane, op)) {
        lane->named = true;
        status =
            locate(lane, peer, shows_input(op, peer) ? input : 0, input_extent(lane, op, peer), &lane->inputs[peer]);
        if (status == TUTTI_OK) {
            status = locate(lane, peer, shows_output(op, peer) ? output : 0, output_extent(op), &lane->outputs[peer]);
        }
    }
    return status;
}

bool tti_exposes_all_needed(const struct tti_lane *lane, int rank)
{
    const tutti_op *op = lane->op;
    return (lane->inputs[rank] || !shows_input(op, rank)) && (lane->outputs[rank] || !shows_output(op, rank));
}

bool tti_all_expose(const struct tti_lane *lane)
{
    for (int r = 0; lane->named && r < lane->engine->size; r++) {
        if (!tti_exposes(lane, r)) {
            return false;
        }
    }
    return lane->named;
}

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

/* Folds the own slice of all inputs; `only` says which output gets it (-1: all). */
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
        tti_intent_end(lane);
    }
    return TUTTI_OK;
}

static tutti_status reduce_part(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    size_t bytes = tti_part_bytes(&op->send_parts, e->rank);
    for (size_t from = 0, n; from < bytes; from += n) {
        tutti_status status = tti_intent_begin(lane);
        if (status != TUTTI_OK) {
            return status;
        }
        n = tti_chunk_bytes(bytes - from, TTI_INTENT_BYTES, 0);
        for (int r = 0; r < e->size; r++) {
            lane->sources[r] = tti_part_chunk(lane->inputs[r], &op->send_parts, e->rank, from, &n);
        }
        tti_reduce_out(lane, (unsigned char *)op->dst + from, n);
        tti_intent_end(lane);
    }
    return TUTTI_OK;
}

tutti_status tti_pull(struct tti_lane *lane, int peer, void *dst, const tutti_parts *dst_parts, int dst_rank,
                      const void *src, const tutti_parts *src_parts, int src_rank, size_t bytes)
{
    const bool remote = lane->remote[peer];
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
            src_parts ? tti_part_chunk(src, src_parts, src_rank, from, &n) : (const unsigned char *)src + from;
        if (remote) {
            status = tti_single_copy_read(lane, peer, dst, dst_parts, dst_rank, from, in, n);
        } else if (dst_parts) {
            tti_part_write(lane, dst, dst_parts, dst_rank, from, in, n);
        } else {
            tti_copy_to_output(lane, (unsigned char *)dst + from, in, n);
        }
        tti_intent_end(lane);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
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
                          tti_part_bytes(&op->recv_parts, peer));
    }
    return status;
}

enum tti_algorithm tti_algorithm_in_place(const struct tti_lane *lane)
{
    return tti_single_copy_offered(lane) ? TTI_ALGORITHM_SINGLE_COPY : TTI_ALGORITHM_ZERO_COPY;
}

tutti_status tti_run_direct(struct tti_lane *lane, const tutti_op *op)
{
    lane->algorithm = tti_algorithm_in_place(lane);
    tutti_status status = share(lane, op);
    if (status == TUTTI_OK) {
        tti_advance(lane, TTI_PHASE_FINAL);
        if (lane->advances && !lane->late_mismatch) {
            tti_digest_advance(lane);
        }
        lane->announces = lane->late_mismatch; /* else it has been */
        status = tti_wait_phase_all(lane, TTI_PHASE_FINAL);
    }
    return status;
}
