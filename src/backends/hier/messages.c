/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages go through the flat engine, also between ranks of one host. A receive from any source must match messages in
 * the order of their arrival, and a probe must not find a message that a receive in another engine takes. The price: a
 * message inside a host costs as much as one between hosts.
 */
#include "backends/hier/messages.h"

#include "backends/hier/failure.h"
#include "base/error.h"

static const tutti_backend_ops *flat_ops(const struct tti_hier *s)
{
    return s->flat->backend->ops;
}

static tutti_status unsupported(const struct tti_hier *s, const char *what, tutti_error *error)
{
    return tti_error_set(error, TUTTI_UNSUPPORTED, "backend %s, which joins the hosts, has no %s",
                         s->flat->backend->name, what);
}

/* A status above MISMATCH may mean that the flat engine has failed: then the group fails, too, and REVOKED becomes the
 * error that names the cause. */
static tutti_status after_flat(struct tti_hier *s, tutti_status status, tutti_error *error)
{
    if (status <= TUTTI_MISMATCH || tti_hier_failure(s, NULL) == TUTTI_OK) {
        return status;
    }
    return status == TUTTI_REVOKED ? tti_hier_usable(s, error) : status;
}

tutti_status tti_hier_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error)
{
    struct tti_hier *s = state;
    if (!flat_ops(s)->run_p2p) {
        return unsupported(s, "messages between ranks", error);
    }
    return after_flat(s, flat_ops(s)->run_p2p(s->flat->state, ops, count, timeout_ms, error), error);
}

tutti_status tti_hier_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                            tutti_error *error)
{
    struct tti_hier *s = state;
    if (!flat_ops(s)->probe) {
        return unsupported(s, "probe for messages", error);
    }
    return after_flat(s, flat_ops(s)->probe(s->flat->state, peer, tag, found, message, error), error);
}

tutti_status tti_hier_post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                               tutti_error *error)
{
    struct tti_hier *s = state;
    if (!flat_ops(s)->post_p2p) {
        return unsupported(s, "asynchronous messages", error);
    }
    return after_flat(s, flat_ops(s)->post_p2p(s->flat->state, ops, count, timeout_ms, batch, error), error);
}

int32_t tti_hier_test_p2p(void *state, void *batch)
{
    struct tti_hier *s = state;
    return flat_ops(s)->test_p2p(s->flat->state, batch);
}

void tti_hier_attend_p2p(void *state, void *batch, int64_t until_ns)
{
    struct tti_hier *s = state;
    if (flat_ops(s)->attend_p2p) {
        flat_ops(s)->attend_p2p(s->flat->state, batch, until_ns);
    }
}

void tti_hier_wake_p2p(void *state)
{
    struct tti_hier *s = state;
    if (flat_ops(s)->wake_p2p) {
        flat_ops(s)->wake_p2p(s->flat->state);
    }
}

int32_t tti_hier_cancel_p2p(void *state, void *batch)
{
    struct tti_hier *s = state;
    return flat_ops(s)->cancel_p2p(s->flat->state, batch);
}

tutti_status tti_hier_end_p2p(void *state, void *batch, tutti_error *error)
{
    struct tti_hier *s = state;
    return after_flat(s, flat_ops(s)->end_p2p(s->flat->state, batch, error), error);
}
