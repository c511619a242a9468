/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An all_reduce of f32 in a smaller format, for engines that do not convert themselves: each chunk is packed into
 * memory of the lane, reduced there by the engine's operations (backends/wire_all_reduce.c), and unpacked into the
 * output. So it works on every engine. Every element is folded alone, in the order of ranks, and chunks are whole
 * blocks, so the result does not depend on the chunk's size.
 *
 * Cost beside the engine's for the packed bytes, with n bytes of f32: 3n loaded and stored for bf16, 2.5n for fp8.
 * Chunks are reduced one after the other, so the conversion does not overlap with the network; it is faster than most
 * networks.
 */
#include "core/call/wire.h"

#include <stdlib.h>

#include "backends/wire_all_reduce.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/kept_memory.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"
#include "kernels/wire_format.h"

tutti_status tti_wire_check(tutti_wire wire, tutti_operation operation, tutti_error *error)
{
    const char *const name = tutti_operation_name(operation);
    if (wire != TUTTI_WIRE_FULL && !tti_wire_format(wire)) {
        return tti_error_set(
            error, TUTTI_INVALID_ARGUMENT,
            "%s: call.wire is %d; it must be TUTTI_WIRE_FULL (0), TUTTI_WIRE_BF16 (1) or TUTTI_WIRE_FP8 (2)", name,
            wire);
    }
    if (wire != TUTTI_WIRE_FULL && operation != TUTTI_OP_ALL_REDUCE) {
        return tti_error_set(error, TUTTI_UNSUPPORTED, "%s: call.wire is set, which works with all_reduce only", name);
    }
    return TUTTI_OK;
}

tutti_status tti_wire_check_reduction(tutti_wire wire, const struct tti_group *g, tutti_dtype dtype,
                                      tutti_reduce_op redop, tutti_error *error)
{
    if (wire == TUTTI_WIRE_FULL) {
        return TUTTI_OK;
    }
    if (dtype != TUTTI_F32) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "all_reduce: call.wire is set for a tensor of %s; it works with f32",
                             tutti_dtype_name(dtype));
    }
    if (redop != TUTTI_SUM && redop != TUTTI_AVG && redop != TUTTI_PREMUL_SUM) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "all_reduce: call.wire is set for the reduce op %s; it works with sum, avg and premul_sum",
                             tutti_reduce_op_name(redop));
    }
    if (tti_group_on_device(g) || g->stages_to_device) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "all_reduce: call.wire is set, but the group works on a device; leave it out there");
    }
    return TUTTI_OK;
}

bool tti_wire_converts(const tutti_backend *engine, void *state, const tutti_op *op)
{
    return op->wire != TUTTI_WIRE_FULL &&
           (!(tti_engine_capabilities(engine, state) & TUTTI_CAP_WIRE) || !engine->ops->supports(state, op));
}

tutti_status tti_wire_check_engine(const tutti_backend *engine, void *state, const tutti_op *op, tutti_error *error)
{
    if (tti_wire_can(engine, state, op)) {
        return TUTTI_OK;
    }
    return tti_error_set(error, TUTTI_UNSUPPORTED, "all_reduce: backend %s cannot send %s (call.wire)", engine->name,
                         tti_wire_format(op->wire)->name);
}

/* Elements [from, from + count). Ranks compare the whole operation; only its first chunk can be cancelled. */
static tutti_op chunk_of(const tutti_op *whole, size_t from, size_t count)
{
    tutti_op op = *whole;
    op.whole = whole;
    op.count = count;
    op.src = (const float *)whole->src + from;
    op.dst = (float *)whole->dst + from;
    op.flags = from == 0 ? whole->flags : 0;
    return op;
}

/* For the largest chunk of any op. */
static size_t memory_bytes(const struct tti_group *g)
{
    const size_t bf16 = tti_wire_memory(TUTTI_WIRE_BF16, g->size, TTI_WIRE_MOST);
    const size_t fp8 = tti_wire_memory(TUTTI_WIRE_FP8, g->size, TTI_WIRE_MOST);
    return ((bf16 > fp8 ? bf16 : fp8) + 4095) / 4096 * 4096;
}

tutti_status tti_wire_reserve(struct tti_group *g, const tutti_op *op, tutti_error *error)
{
    void **const memory = &g->wire_memory[op->lane];
    if (!*memory) {
        *memory = aligned_alloc(4096, memory_bytes(g));
        if (!*memory) {
            return tti_error_set(error, TUTTI_NO_MEMORY, "all_reduce: no memory to convert to %s (%zu bytes)",
                                 tti_wire_format(op->wire)->name, memory_bytes(g));
        }
    }
    return TUTTI_OK;
}

struct runner {
    const tutti_backend *engine;
    void *state;
    int32_t in_use; /* the engine may still use the memory of a step (tutti_op) */
};

static tutti_status run_step(void *self, tutti_op *op, tutti_error *error)
{
    struct runner *r = self;
    const tutti_status status = r->engine->ops->run(r->state, op, error);
    r->in_use |= op->in_use;
    return status;
}

tutti_status tti_wire_run(struct tti_group *g, const tutti_backend *engine, void *state, tutti_op *op,
                          tutti_error *error)
{
    void **const memory = &g->wire_memory[op->lane];
    struct runner runner = {.engine = engine, .state = state};
    const struct tti_wire_engine ranks = {.rank = g->rank, .size = g->size, .run = run_step, .self = &runner};
    op->begun_ns = op->begun_ns != 0 ? op->begun_ns : tti_now_ns(); /* all chunks share the deadline */
    tutti_status status = TUTTI_OK;
    size_t done = 0;
    do {
        const size_t left = op->count - done;
        tutti_op chunk = chunk_of(op, done, left < TTI_WIRE_MOST ? left : TTI_WIRE_MOST);
        status = tti_wire_all_reduce(&ranks, &chunk, *memory, error);
        op->sequence = chunk.sequence;
        done += chunk.count;
    } while (status == TUTTI_OK && done < op->count);
    if (runner.in_use) {
        tti_memory_keep(*memory);
        *memory = NULL;
    }
    return status;
}
