/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes: one that looks once asks the backend; one that waits is a transfer that takes no message
 * (core/messages/probe.h). */
#include "core/messages/probe.h"

#include <tutti/work.h>

#include "api/messages/messages.h"
#include "base/error.h"
#include "core/group/group_state.h"

tutti_status tutti_probe(tutti_group *group, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                         tutti_error *error)
{
    struct tti_call c;
    tutti_status status = tti_call_begin_plain(&c, group, TUTTI_OP_PROBE, error);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tti_checker k = {.c = &c, .function = "probe"};
    if ((status = tti_message_check_source(&k, "peer", peer, "tag", tag, message)) != TUTTI_OK) {
        return tti_call_end(&c, status);
    }
    if (!found) {
        return tti_call_end(&c, tti_reject(&k, "found is NULL; it must point to where the answer goes"));
    }
    const tutti_backend *backend = c.group->host_backend;
    if (!backend || !backend->ops->probe) {
        return tti_call_end(&c, tti_error_set(c.error, TUTTI_UNSUPPORTED, "probe: backend %s cannot probe for messages",
                                              (backend ? backend : c.group->backend)->name));
    }
    int32_t there = 0;
    tutti_message described = TUTTI_MESSAGE_INIT;
    status = backend->ops->probe(c.group->host_state, peer, tag, &there, &described, c.error);
    if (status == TUTTI_OK) {
        *found = there;
        if (there && message) {
            *message = described;
        }
    }
    return tti_call_end(&c, status);
}

static tutti_status probe_wait(const struct tti_checker *k, int32_t peer, int32_t tag, tutti_message *message,
                               struct tti_transfer *t)
{
    const tutti_status status = tti_message_check_source(k, "peer", peer, "tag", tag, message);
    if (status != TUTTI_OK) {
        return status;
    }
    tti_message_blank(k, message, t);
    t->op = (tutti_op){.size = (uint32_t)sizeof(tutti_op),
                       .kind = TUTTI_OP_PROBE,
                       .root = peer,
                       .p2p_tag = tag,
                       .shape = t->shape,
                       .allocate = tti_probe_refuse,
                       .allocate_user = t};
    return TUTTI_OK;
}

tutti_status tutti_probe_wait(tutti_group *group, int32_t peer, int32_t tag, const tutti_call *call,
                              tutti_message *message)
{
    struct tti_call c;
    struct tti_checker k;
    struct tti_transfer t;
    tutti_status status = tti_checker_begin(&k, &c, group, TUTTI_OP_PROBE, "probe_wait", call);
    if (status != TUTTI_OK) {
        return status;
    }
    status = probe_wait(&k, peer, tag, message, &t);
    if (status == TUTTI_OK) {
        c.options.callback = k.callback;
        status = tti_probe_run(&c, &t);
    }
    return tti_call_end(&c, status);
}

tutti_status tutti_probe_async(tutti_group *group, int32_t peer, int32_t tag, const tutti_call *call,
                               tutti_message *message, tutti_work **work)
{
    struct tti_checker k;
    tutti_status status = tti_checker_begin_async(&k, group, TUTTI_OP_PROBE, "probe_async", call, work);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tti_transfer *t = tti_start_transfers(k.work);
    return tti_message_start(&k, group, t, probe_wait(&k, peer, tag, message, t), work);
}
