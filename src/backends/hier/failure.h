/* SPDX-License-Identifier: BSD-3-Clause */
/* How a group of several engines fails as one. */
#ifndef TTI_BACKENDS_HIER_FAILURE_H
#define TTI_BACKENDS_HIER_FAILURE_H

#include "backends/hier/types.h"

/* REVOKED if this rank knows that the group has failed. */
tutti_status tti_hier_usable(struct tti_hier *s, tutti_error *error);

/* A step on `engine` has failed with *error: turns it into an error of the group, fails the group, and returns the
 * status of the call. After a time-out, the rank polls `polls` times, every 10 ms, for a cause from a rank that is
 * nearer to the missing one. */
tutti_status tti_hier_fail(struct tti_hier *s, const tutti_engine *engine, int32_t lane, int32_t polls,
                           tutti_error *error);

/* As in tutti_backend_ops. The cause uses the ranks of the group. */
void tti_hier_abort(void *state, int32_t lane, const tutti_error *cause);
tutti_status tti_hier_failure(void *state, tutti_error *error);

#endif
