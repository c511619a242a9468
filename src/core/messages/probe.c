/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A synchronous probe posts its receive and attends it until a message has been refused, or withdraws it at the
 * deadline. Asynchronous probes take the same steps in messages.c.
 */
#include "core/messages/probe.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"

tutti_status tti_probe_refuse(tutti_op *op, const tutti_message *message, int32_t ndim, const int64_t *shape)
{
    struct tti_transfer *t = op->allocate_user;
    (void)ndim;
    (void)shape;
    t->message = *message;
    t->probed = true;
    return TUTTI_MISMATCH;
}

static tutti_status late_error(struct tti_call *c, const struct tti_transfer *t)
{
    char peer[32] = "any rank";
    char tag[32] = "any tag";
    if (t->op.root != TUTTI_ANY_SOURCE) {
        snprintf(peer, sizeof(peer), "rank %d", t->op.root);
    }
    if (t->op.p2p_tag != TUTTI_ANY_TAG) {
        snprintf(tag, sizeof(tag), "tag %d", t->op.p2p_tag);
    }
    const int64_t elapsed = (tti_now_ns() - t->op.begun_ns) / 1000000;
    tti_error_set(c->error, TUTTI_TIMEOUT,
                  "%s: rank %d has seen no message from %s with %s for %lld ms; the group works on", t->function,
                  c->rank, peer, tag, (long long)elapsed);
    c->error->suspect = t->op.root;
    c->error->elapsed_ms = elapsed;
    return TUTTI_TIMEOUT;
}

tutti_status tti_probe_conclude(struct tti_call *c, struct tti_transfer *t, tutti_status status, bool late)
{
    if (t->probed) {
        status = TUTTI_OK;
        if (t->message_out) {
            *t->message_out = t->message;
        }
    } else if (status == TUTTI_CANCELLED && late) {
        status = late_error(c, t);
    } else {
        tti_group_share_failure(c->group, TUTTI_LANE_MESSAGES);
    }
    t->op.status = status;
    return status;
}

tutti_status tti_probe_run(struct tti_call *c, struct tti_transfer *t)
{
    const tutti_backend *backend = c->group->host_backend;
    void *state = c->group->host_state;
    tutti_op *op = &t->op;
    void *batch = NULL;
    bool late = false;
    tutti_status status = tti_transfers_match(c, t);
    if (status == TUTTI_OK && (!backend || !backend->ops->post_p2p)) {
        status = tti_error_set(c->error, TUTTI_UNSUPPORTED, "%s: backend %s cannot wait for messages", t->function,
                               (backend ? backend : c->group->backend)->name);
    }
    if (status != TUTTI_OK) {
        c->options.callback = NULL; /* nothing has started */
        return status;
    }
    op->lane = c->options.lane;
    op->user_tag = c->options.tag;
    op->begun_ns = tti_now_ns();
    op->timeout_ms = -1;
    const int64_t until = tti_deadline_ns(op->begun_ns, c->options.timeout_ms);
    tti_transfers_record_begin(c, t);
    status = backend->ops->post_p2p(state, &op, 1, -1, &batch, c->error);
    if (status == TUTTI_OK) {
        while (!backend->ops->test_p2p(state, batch)) {
            late = late || (tti_now_ns() >= until && backend->ops->cancel_p2p(state, batch) == 1);
            if (!late) {
                backend->ops->attend_p2p(state, batch, until);
            }
        }
        status = backend->ops->end_p2p(state, batch, c->error);
        status = tti_probe_conclude(c, t, status, late);
    }
    c->sequence = op->sequence;
    tti_transfers_record_end(c, t, status);
    return status;
}
