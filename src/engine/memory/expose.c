/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exposing tensors: which tensors of a large call other ranks can read and write in place. With threads that is every
 * tensor. With processes a tensor must lie in the heap (heap.h), or the kernel copies from it (single_copy.c).
 *
 * A rank publishes the names of its tensors with its arrival. So once all have arrived, all ranks know whether the call
 * can run without staging. In a call in which all wait for all, and in a reduction, one rank that does not expose its
 * tensors makes all ranks stage; those that do expose begin one step later. In broadcast, gather and scatter each
 * writer exposes or stages by itself. In a gather the root exposes its output, too, and if all do, the leaves write
 * there. Of two ranks with a CPU each, the leaf of a broadcast exposes its output, and the root writes a part of it.
 *
 * A peer may withdraw a region of the heap at any time: a rank that looks up a name notes the count of withdrawals
 * first.
 */
#include "engine/memory/expose.h"

#include "engine/failure/corrupt.h"
#include "engine/memory/parts.h"
#include "engine/memory/single_copy.h"
#include "tensor/parts.h"

static bool may_expose(const struct tti_lane *lane, const tutti_op *op)
{
    const struct tti_engine *e = lane->engine;
    if (op->kind == TUTTI_OP_ALL_TO_ALL && op->send_parts.counts) {
        return false; /* with different lengths no rank knows where the peers' parts lie */
    }
    if (op->wire != TUTTI_WIRE_FULL) {
        return false; /* peers read what has been rounded */
    }
    if (!e->direct && !e->heap && !tti_single_copy_is_used(&e->tuning)) {
        return false;
    }
    return lane->bytes >= e->tuning.zero_copy; /* below, staging is faster: it takes one epoch instead of two */
}

/* Whether peers read a rank's input. The tensor of a broadcast is its output. */
static bool peers_need_input(const tutti_op *op, int rank)
{
    switch (op->kind) {
    case TUTTI_OP_BROADCAST:
        return false;
    case TUTTI_OP_SCATTER:
        return rank == op->root;
    case TUTTI_OP_GATHER:
        return rank != op->root;
    case TUTTI_OP_ALL_GATHER:
        return tti_parts_bytes(&op->recv_parts, rank) > 0; /* an empty part has no address */
    default:
        return true;
    }
}

bool tti_peers_write_output(const struct tti_lane *lane, int rank)
{
    const tutti_op *op = lane->op;
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
        return true;
    case TUTTI_OP_REDUCE:
    case TUTTI_OP_GATHER:
        return rank == op->root;
    case TUTTI_OP_BROADCAST:
        return rank != op->root && lane->engine->size == 2;
    default:
        return false;
    }
}

/* Whether peers write a rank's output or, in a broadcast, read it. */
static bool peers_need_output(const struct tti_lane *lane, int rank)
{
    return tti_peers_write_output(lane, rank) || (lane->op->kind == TUTTI_OP_BROADCAST && rank == lane->op->root);
}

/* Bytes from the beginning of a rank's input to its end. For a scatter only the root knows how its parts are joined. */
static size_t input_extent(const struct tti_lane *lane, const tutti_op *op, int rank)
{
    const size_t bytes = op->count * tti_dtype_size(op->dtype);
    switch (op->kind) {
    case TUTTI_OP_REDUCE_SCATTER:
    case TUTTI_OP_ALL_TO_ALL:
        return op->send_parts.outer * op->send_parts.pitch;
    case TUTTI_OP_ALL_GATHER:
        return tti_parts_bytes(&op->recv_parts, rank);
    case TUTTI_OP_SCATTER:
        return (size_t)lane->engine->size * bytes;
    default:
        return bytes;
    }
}

/* The leaves of a scatter or gather compute the places of their parts, so these must lie one after the other. */
static bool parts_are_contiguous(const struct tti_lane *lane, const tutti_op *op)
{
    if (lane->engine->rank != op->root) {
        return true;
    }
    return (op->kind != TUTTI_OP_SCATTER || op->send_parts.outer <= 1) &&
           (op->kind != TUTTI_OP_GATHER || op->recv_parts.outer <= 1);
}

size_t tti_output_extent(const struct tti_lane *lane, const tutti_op *op)
{
    const size_t bytes = op->count * tti_dtype_size(op->dtype);
    return op->kind == TUTTI_OP_GATHER ? (size_t)lane->engine->size * bytes : bytes;
}

/* The kernel copies from this rank's tensors, if it can. */
static void expose_to_kernel(struct tti_lane *lane, const tutti_op *op)
{
    const int rank = lane->engine->rank;
    const bool input = peers_need_input(op, rank);
    const bool output = peers_need_output(lane, rank);
    if (tti_peers_write_output(lane, rank)) {
        return; /* the kernel only reads for a rank */
    }
    if ((!input || tti_single_copy_readable(op->src, input_extent(lane, op, rank))) &&
        (!output || tti_single_copy_readable(op->dst, tti_output_extent(lane, op)))) {
        lane->input = input ? TTI_SINGLE_COPY_NAME | (uintptr_t)op->src : 0;
        lane->output = output ? TTI_SINGLE_COPY_NAME | (uintptr_t)op->dst : 0;
        lane->exposed = true;
    }
}

/* Ranks that share a CPU gain nothing from a root that helps, and pay two changes of ranks for it. */
static bool wants_help(const struct tti_lane *lane)
{
    return lane->op->kind != TUTTI_OP_BROADCAST || lane->engine->rank == lane->op->root ||
           lane->engine->ranks_per_cpu <= 1;
}

/* With threads the name of a tensor is its address. */
static uint64_t name_of(const struct tti_engine *e, const void *tensor, size_t bytes)
{
    return e->direct ? (uintptr_t)tensor : tti_heap_name(e->heap, tensor, bytes);
}

void tti_expose(struct tti_lane *lane, const tutti_op *op)
{
    const struct tti_engine *e = lane->engine;
    lane->exposed = false;
    lane->named = false;
    lane->input = 0;
    lane->output = 0;
    if (!may_expose(lane, op) || !parts_are_contiguous(lane, op)) {
        return;
    }
    const bool needs_input = peers_need_input(op, e->rank);
    const bool needs_output = peers_need_output(lane, e->rank) && wants_help(lane);
    const uint64_t input = needs_input ? name_of(e, op->src, input_extent(lane, op, e->rank)) : 0;
    const uint64_t output = needs_output ? name_of(e, op->dst, tti_output_extent(lane, op)) : 0;
    lane->exposed = (input != 0 || !needs_input) && (output != 0 || !needs_output);
    lane->input = lane->exposed ? input : 0;
    lane->output = lane->exposed ? output : 0;
    if (!lane->exposed && tti_single_copy_wanted(lane, op)) {
        expose_to_kernel(lane, op);
    }
}

/* Regions that the call finds in the heap from now on are in use until it ends. */
static void hold_heap(struct tti_lane *lane)
{
    if (atomic_load_explicit(&lane->holds_heap, memory_order_relaxed) == 0) { /* relaxed: only this thread writes it */
        const uint64_t withdrawals = atomic_load_explicit(lane->engine->heap->withdrawals, memory_order_seq_cst);
        /* seq_cst: before the lookup; pairs with the load in tti_heap_is_quiescent, after the withdrawal */
        atomic_store_explicit(&lane->holds_heap, withdrawals, memory_order_seq_cst);
    }
}

void tti_release_heap(struct tti_lane *lane)
{
    if (lane->named) { /* release: pairs with tti_heap_is_quiescent; the call's last access comes before */
        atomic_store_explicit(&lane->holds_heap, 0, memory_order_release);
    }
}

bool tti_heap_is_quiescent(const struct tti_engine *e, uint64_t withdrawal)
{
    for (int32_t i = 0; i < e->layout.lanes; i++) {
        /* seq_cst: pairs with hold_heap() and tti_release_heap */
        const uint64_t since = atomic_load_explicit(&e->lanes[i].holds_heap, memory_order_seq_cst);
        if (since != 0 && since < withdrawal) {
            return false;
        }
    }
    return true;
}

/* The address in this process of a peer's tensor; NULL = private. A name without a meaning here is corrupt. */
static tutti_status locate(struct tti_lane *lane, int peer, uint64_t name, size_t bytes, bool is_written,
                           unsigned char **address)
{
    struct tti_engine *e = lane->engine;
    if (e->direct) { /* a thread of this process: its name is an address */
        *address = (unsigned char *)(uintptr_t)name;
        return TUTTI_OK;
    }
    if ((name & TTI_SINGLE_COPY_NAME) != 0 && !is_written && tti_single_copy_allowed(lane)) {
        *address = (unsigned char *)(uintptr_t)(name & ~TTI_SINGLE_COPY_NAME);
        lane->remote[peer] = peer != e->rank; /* only the kernel uses this address */
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
    if ((input | output) != 0 && may_expose(lane, op)) {
        lane->named = true;
        status = locate(lane, peer, peers_need_input(op, peer) ? input : 0, input_extent(lane, op, peer), false,
                        &lane->inputs[peer]);
        if (status == TUTTI_OK) {
            status = locate(lane, peer, peers_need_output(lane, peer) ? output : 0, tti_output_extent(lane, op),
                            tti_peers_write_output(lane, peer), &lane->outputs[peer]);
        }
    }
    return status;
}

bool tti_exposes_all_needed(const struct tti_lane *lane, int rank)
{
    const tutti_op *op = lane->op;
    return (lane->inputs[rank] || !peers_need_input(op, rank)) &&
           (lane->outputs[rank] || !peers_need_output(lane, rank));
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
