/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group has one engine, or two: one for tensors on a device, and beside it one of the host. Each engine finds its own
 * failure. A failure of one ends what waits in the other, so that the group fails as one.
 */
#include "core/group/backend/engines.h"

#include "base/error.h"

#include "core/group/group_state.h"

/* Whether there is a second engine, for tensors of the host. */
static bool has_host_engine(const struct tti_group *g)
{
    return g->host_backend && g->host_backend != g->backend;
}

uint32_t tti_group_capabilities(const struct tti_group *g)
{
    uint32_t has = tti_engine_capabilities(g->backend, g->state);
    const bool other_kind = tti_group_on_device(g) ? !g->takes_device : g->stages_to_device;
    if (other_kind || !g->host_backend) { /* without it the ranks cannot agree on memory */
        has &= ~(uint32_t)TUTTI_CAP_HEAP;
    }
    if (g->compares_all) {
        has |= TUTTI_CAP_CHECKS_CALLS;
    }
    if (g->size == 1) {
        has |= TUTTI_CAP_CANCEL; /* no other rank takes part */
    }
    return g->comparison || (has & TUTTI_CAP_CANCEL) ? has | TUTTI_CAP_CANCEL_FLAGGED : has;
}

tutti_status tti_group_failure(const struct tti_group *g, tutti_error *error)
{
    tutti_status status = tti_engine_failure(g->backend, g->state, error);
    return status == TUTTI_OK && has_host_engine(g) ? tti_engine_failure(g->host_backend, g->host_state, error)
                                                    : status;
}

tutti_status tti_group_revoked(const struct tti_group *g, tutti_error *error)
{
    tutti_error cause;
    tti_error_clear(&cause);
    tti_group_failure(g, &cause);
    return tti_error_revoked(error, &cause);
}

tutti_status tti_group_peer_status(const struct tti_group *g, int32_t rank, tutti_error *error)
{
    if (g->backend->ops->peer_status) {
        return g->backend->ops->peer_status(g->state, rank, error);
    }
    if (has_host_engine(g) && g->host_backend->ops->peer_status) {
        return g->host_backend->ops->peer_status(g->host_state, rank, error);
    }
    const tutti_status status = tti_group_failure(g, error);
    const bool death = status == TUTTI_PEER_DEAD || status == TUTTI_PEER_CRASHING;
    return death && error->suspect == rank ? status : TUTTI_OK;
}

void tti_group_share_failure(struct tti_group *g, int32_t lane)
{
    tutti_error own;
    tutti_error host;
    if (!has_host_engine(g)) {
        return;
    }
    const bool own_failed = tti_engine_failure(g->backend, g->state, &own) != TUTTI_OK;
    const bool host_failed = tti_engine_failure(g->host_backend, g->host_state, &host) != TUTTI_OK;
    if (own_failed && !host_failed && g->host_backend->ops->abort) {
        g->host_backend->ops->abort(g->host_state, lane, &own);
    } else if (host_failed && !own_failed && g->backend->ops->abort) {
        g->backend->ops->abort(g->state, lane, &host);
    }
}

bool tti_group_abort(struct tti_group *g, int32_t lane, const tutti_error *cause)
{
    if (!g->backend->ops->abort) {
        return false;
    }
    const bool both = has_host_engine(g) && g->host_backend->ops->abort;
    tutti_error more;
    if (both && g->compares_all) { /* the ranks compare calls there, so that engine knows which rank is late */
        g->host_backend->ops->abort(g->host_state, lane, cause);
        cause = tti_engine_failure(g->host_backend, g->host_state, &more) != TUTTI_OK ? &more : cause;
    }
    g->backend->ops->abort(g->state, lane, cause);
    if (both && !g->compares_all) {
        g->host_backend->ops->abort(g->host_state, lane, cause);
    }
    return true;
}

void tti_group_close(struct tti_group *g)
{
    g->backend->ops->close(g->state);
    if (has_host_engine(g)) {
        g->host_backend->ops->close(g->host_state);
    }
}
