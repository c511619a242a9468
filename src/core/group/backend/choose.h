/* SPDX-License-Identifier: BSD-3-Clause */
/* Which engine runs a group: every rank decides from the same records by the same rules, so all decide alike. */
#ifndef TTI_CORE_GROUP_BACKEND_CHOOSE_H
#define TTI_CORE_GROUP_BACKEND_CHOOSE_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "core/group/plan.h"
#include "core/group/records/hello.h"

/* The engines of a group. */
struct tti_choice {
    const tutti_backend *backend;
    /* For what `backend` does not do: `backend` itself, unless it takes no host memory; NULL: there is none. */
    const tutti_backend *host;
    bool unprobed; /* no engine is chosen: all ranks have to probe first */
};

/*
 * The engine of a group, from the records of all ranks. "auto": the highest priority among those that can be used on
 * all ranks and fit where the ranks are. If the ranks are threads of one process, a backend for threads comes first. OK
 * with choice->unprobed: the choice depends on backends that are not probed; once all ranks have probed them, choose
 * again.
 */
tutti_status tti_choose(const struct tti_group_plan *plan, const struct tti_hello *all, struct tti_choice *choice,
                        tutti_error *error);

/*
 * An engine for some of the ranks: `ranks` are their numbers in `all`. "auto" takes the best one that is not composed,
 * by their hosts. A named one may also join hosts that are one machine under several TUTTI_HOST_ID. NOT_FOUND,
 * NOT_AVAILABLE.
 */
tutti_status tti_choose_part(const struct tti_hello *all, const int32_t *ranks, int32_t count, const char *wish,
                             const tutti_backend **backend, tutti_error *error);

/* Why "auto" has not taken the engine that shares memory, in one sentence. False: it has taken it, or the ranks are on
 * different machines. */
bool tti_choose_shm_unused(const struct tti_hello *all, int32_t size, const tutti_backend *chosen, char *text,
                           size_t capacity);

#endif
