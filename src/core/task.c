/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/task.h"

#include <stdlib.h>

#include "base/error.h"
#include "core/group.h"
#include "core/recall.h"
#include "tensor/strided.h"

void tti_task_reset(struct tti_task *t, const char *function)
{
    t->function = function;
    t->side_count = 0;
    t->result = NULL;
    t->signature = NULL;
}

void *tti_task_stand_in(struct tti_task *t, const DLTensor *tensor, const char *name, size_t bytes, unsigned what)
{
    struct tti_side *side = &t->sides[t->side_count++];
    *side = (struct tti_side){.name = name,
                              .tensor = tensor,
                              .bytes = bytes,
                              .memory = malloc(bytes),
                              .pack = (what & TTI_PACK) != 0,
                              .unpack = (what & TTI_UNPACK) != 0};
    if (!side->memory) {
        t->op.failed = TUTTI_NO_MEMORY;
    }
    return side->memory;
}

static tutti_status no_memory(struct tti_task *t)
{
    const struct tti_side *side = &t->sides[0];
    if (side->memory && t->side_count > 1) {
        side = &t->sides[1];
    }
    return tti_error_set(t->call.error, TUTTI_NO_MEMORY,
                         "%s: no memory to pack the strided tensor %s (%zu bytes); a compact one needs none",
                         t->function, side->name, side->bytes);
}

tutti_status tti_task_complete(struct tti_task *t)
{
    struct tti_call *c = &t->call;
    const struct tti_group *g = c->group;
    tutti_op *op = &t->op;
    op->size = sizeof(*op);
    op->kind = c->operation;
    op->lane = c->options.lane;
    op->user_tag = c->options.tag;
    op->timeout_ms = c->options.timeout_ms;
    op->scale = c->options.scale;
    op->flags = c->options.flags;
    if (!g->backend->ops->supports(g->state, op)) {
        return tti_error_set(c->error, TUTTI_UNSUPPORTED, "%s: backend %s cannot do this", t->function,
                             g->backend->name);
    }
    if (op->failed != TUTTI_OK && !(tti_group_capabilities(g) & TUTTI_CAP_CHECKS_CALLS)) {
        return no_memory(t); /* an engine that cannot tell the others */
    }
    return TUTTI_OK;
}

tutti_status tti_task_perform(struct tti_task *t)
{
    struct tti_call *c = &t->call;
    for (int32_t i = 0; i < t->side_count && t->op.failed == TUTTI_OK; i++) {
        if (t->sides[i].pack) {
            tti_tensor_pack(t->sides[i].memory, t->sides[i].tensor);
        }
    }
    tutti_status status = c->group->backend->ops->run(c->group->state, &t->op, c->error);
    c->sequence = t->op.sequence;
    if (status == TUTTI_NO_MEMORY && t->op.failed == TUTTI_NO_MEMORY) {
        return no_memory(t);
    }
    for (int32_t i = 0; i < t->side_count && status == TUTTI_OK; i++) {
        if (t->sides[i].unpack) {
            tti_tensor_unpack(t->sides[i].tensor, t->sides[i].memory);
        }
    }
    return status;
}

void tti_task_drop(struct tti_task *t)
{
    for (int32_t i = 0; i < t->side_count; i++) {
        free(t->sides[i].memory);
    }
    t->side_count = 0;
}

tutti_status tti_task_run(struct tti_task *t)
{
    struct tti_lane_queue *lane = &t->call.group->lane_queues[t->call.options.lane];
    tutti_status status = tti_task_complete(t);
    if (status == TUTTI_OK) {
        status = tti_lane_enter(lane, t->op.timeout_ms, &t->op.begun_ns, t->call.error);
        if (status == TUTTI_OK) {
            status = tti_task_perform(t);
            tti_lane_leave(lane);
        }
    }
    if (status == TUTTI_OK && t->signature) {
        tti_recall_note(t);
    }
    tti_task_drop(t);
    return tti_call_end(&t->call, status);
}
