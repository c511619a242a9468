/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An all_reduce of f32 as bf16, for engines that do not convert themselves: each chunk is rounded into memory of the
 * lane, reduced there in place as bf16, and expanded into the output. So it works on every engine that has bf16. A
 * chunk stays in the second-level cache. Every element is folded alone, in the order of ranks, so the result does not
 * depend on the chunk's size.
 *
 * Cost beside the engine's for half the bytes: 3n bytes loaded and stored, of n. Chunks are reduced one after the
 * other, so the conversion does not overlap with the network; it is faster than a network by far.
 */
#include "core/call/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"
#include "kernels/kernels.h"

enum { FEW = 1024, CHUNK = 1 << 19 }; /* elements: on the stack; in memory of the lane */

tutti_status tti_wire_check(tutti_wire wire, tutti_operation operation, tutti_error *error)
{
    const char *const name = tutti_operation_name(operation);
    if (wire != TUTTI_WIRE_FULL && wire != TUTTI_WIRE_BF16) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "%s: call.wire is %d; it must be TUTTI_WIRE_FULL (0) or TUTTI_WIRE_BF16 (1)", name, wire);
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

/* Elements [from, from + count) as bf16. Ranks compare the whole operation; only its first chunk can be cancelled. */
static tutti_op chunk_of(const tutti_op *whole, size_t from, size_t count, uint16_t *memory)
{
    tutti_op op = *whole;
    op.whole = whole;
    op.wire = TUTTI_WIRE_FULL;
    op.dtype = TUTTI_BF16;
    op.count = count;
    op.src = op.dst = memory;
    op.flags = from == 0 ? whole->flags : 0;
    memset(op.prepared, 0, sizeof(op.prepared));
    return op;
}

tutti_status tti_wire_reserve(const tutti_op *op, void **memory, tutti_error *error)
{
    if (op->count > FEW && !*memory) {
        *memory = aligned_alloc(4096, CHUNK * sizeof(uint16_t));
        if (!*memory) {
            return tti_error_set(error, TUTTI_NO_MEMORY, "all_reduce: no memory to convert to bf16 (%zu bytes)",
                                 CHUNK * sizeof(uint16_t));
        }
    }
    return TUTTI_OK;
}

tutti_status tti_wire_run(const tutti_backend *engine, void *state, tutti_op *op, void *memory, tutti_error *error)
{
    uint16_t few[FEW];
    uint16_t *room = op->count > FEW && op->failed == TUTTI_OK ? memory : few;
    const size_t most = room == few ? FEW : CHUNK;
    op->begun_ns = op->begun_ns != 0 ? op->begun_ns : tti_now_ns(); /* all chunks share the deadline */
    tutti_status status = TUTTI_OK;
    size_t done = 0;
    do {
        const size_t count = op->count - done < most ? op->count - done : most;
        tutti_op chunk = chunk_of(op, done, count, room);
        if (op->failed == TUTTI_OK) {
            tti_narrow_bf16(room, (const float *)op->src + done, count);
        }
        status = engine->ops->run(state, &chunk, error);
        op->sequence = chunk.sequence;
        if (status == TUTTI_OK) {
            tti_widen_bf16((float *)op->dst + done, room, count);
        }
        done += count;
    } while (status == TUTTI_OK && done < op->count);
    return status;
}
