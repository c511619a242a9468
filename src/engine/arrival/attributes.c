/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The attributes of a large call: where a rank's data lie, and whether it has memory for them. They are in the
 * arrival line, in the cache line of the sequence, so they cost no further miss. In calls in which all wait for all,
 * every rank checks all ranks' attributes, its own ones too, so all decide alike.
 */
#include "engine/arrival/attributes.h"

#include "engine/arrival/arrival.h"
#include "engine/failure/corrupt.h"
#include "engine/failure/fault.h"
#include "engine/memory/expose.h"
#include "engine/memory/stage.h"

tutti_status tti_arrive_staged(struct tti_lane *lane, uint32_t resource_error)
{
    struct tti_attributes a = {.resource_error = resource_error,
                               .start = (uint32_t)(tti_stage_place(lane) / 64),
                               .scale = lane->op->scale,
                               .input = lane->input,
                               .output = lane->output};
    static_assert(offsetof(struct tti_arrival, payload) + sizeof(a) <= 64, "they fit the cache line of the sequence");
    return tti_arrive(lane, &a, sizeof(a));
}

static tutti_status resource_error(struct tti_lane *lane, int peer, uint32_t status)
{
    switch (status) {
    case TUTTI_NO_MEMORY:
        tti_error_set(lane->error, TUTTI_NO_MEMORY, "rank %d has no memory for its stage (%zu bytes)", peer,
                      lane->engine->layout.stage);
        lane->error->suspect = peer;
        return TUTTI_NO_MEMORY;
    case TUTTI_NO_RESOURCE:
        return tti_error_set(lane->error, TUTTI_NO_RESOURCE,
                             "lane %d has made 2^%d calls, and cannot count more; make a new group", lane->index,
                             64 - TTI_PHASE_BITS);
    case TUTTI_UNSUPPORTED:
        return tti_error_set(lane->error, TUTTI_UNSUPPORTED,
                             "this %s takes too many steps: its tensor has %zu bytes, and a step %llu; set "
                             "engine.window to more, or divide the tensor",
                             tutti_operation_name(lane->op->kind), lane->bytes,
                             (unsigned long long)lane->engine->tuning.window);
    default:
        return tti_fault_corrupt(lane, peer, "the resource error of its stage", status);
    }
}

tutti_status tti_attributes_one(struct tti_lane *lane, int peer)
{
    struct tti_attributes a;
    memcpy(&a, tti_arrival_of(lane, peer, lane->call)->payload, sizeof(a));
    if (a.resource_error != TUTTI_OK) {
        return resource_error(lane, peer, a.resource_error);
    }
    tti_stage_start(lane, peer, (uint64_t)a.start * 64);
    lane->scales[peer] = a.scale;
    return tti_locate(lane, peer, a.input, a.output);
}

tutti_status tti_attributes_names(struct tti_lane *lane, int peer)
{
    struct tti_attributes a;
    memcpy(&a, tti_arrival_of(lane, peer, lane->call)->payload, sizeof(a));
    return tti_locate(lane, peer, a.input, a.output);
}

tutti_status tti_attributes_all(struct tti_lane *lane)
{
    for (int r = 0; r < lane->engine->size; r++) {
        tutti_status status = tti_attributes_one(lane, r); /* the own ones, too: all ranks must decide alike */
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

tutti_status tti_attributes_as_root(struct tti_lane *lane, bool others_wait)
{
    const tutti_status status = tti_attributes_all(lane);
    const bool all_return = status == TUTTI_OK || status == TUTTI_NO_RESOURCE || status == TUTTI_UNSUPPORTED;
    if (others_wait && !all_return && lane->error->scope != TUTTI_SCOPE_GROUP) {
        return tti_fault_raise_suspect(lane->engine, lane, lane->error->suspect, lane->error);
    }
    return status;
}
