/* SPDX-License-Identifier: BSD-3-Clause */
/* The engines of a group: what they promise, and their failure. See engines.c. */
#ifndef TTI_CORE_GROUP_BACKEND_ENGINES_H
#define TTI_CORE_GROUP_BACKEND_ENGINES_H

#include <stdbool.h>
#include <tutti/backend.h>

struct tti_group;

/* What an engine that was opened promises: TUTTI_CAP_* bits. */
static inline uint32_t tti_engine_capabilities(const tutti_backend *engine, void *state)
{
    return engine->ops->capabilities ? engine->ops->capabilities(state) : engine->capabilities;
}

/* Why an engine has failed; OK if it has not. */
static inline tutti_status tti_engine_failure(const tutti_backend *engine, void *state, tutti_error *error)
{
    return engine->ops->failure ? engine->ops->failure(state, error) : TUTTI_OK;
}

/* What the group promises: TUTTI_CAP_* bits. */
uint32_t tti_group_capabilities(const struct tti_group *group);

/* Why the group has failed, as one of its engines knows; OK if it has not. */
tutti_status tti_group_failure(const struct tti_group *group, tutti_error *error);

/* REVOKED with that cause, for a group that has failed. */
tutti_status tti_group_revoked(const struct tti_group *group, tutti_error *error);

/* Whether a rank is lost, as far as is known here: OK, PEER_LEFT, PEER_DEAD or PEER_CRASHING. */
tutti_status tti_group_peer_status(const struct tti_group *group, int32_t rank, tutti_error *error);

/* After an operation has failed: if one engine has failed, the other one fails, too. */
void tti_group_share_failure(struct tti_group *group, int32_t lane);

/* Fails the group, if its engines can; false: they cannot. See tutti_backend_ops.abort. */
bool tti_group_abort(struct tti_group *group, int32_t lane, const tutti_error *cause);

/* Closes the engines. Nothing is pending any more. */
void tti_group_close(struct tti_group *group);

#endif
