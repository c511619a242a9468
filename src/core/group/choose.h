/* SPDX-License-Identifier: BSD-3-Clause */
/* Which engine runs a group: every rank decides from the same records by the same rules, so all decide alike. */
#ifndef TTI_CORE_CHOOSE_H
#define TTI_CORE_CHOOSE_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "core/group/hello.h"
#include "core/group/plan.h"

/* What the records say. */
struct tti_choice {
    const tutti_backend *backend;
    const tutti_backend
        *host;     /* for what `backend` cannot do; the same, unless it takes no host memory; NULL: there is none */
    bool unprobed; /* nothing has been chosen: all ranks have to answer first */
};

/*
 * The engine of a group, from the records of all ranks. "auto": the highest priority among those that can be used on all
 * ranks and fit where the ranks are. One that is made for threads of one process comes first when that is what they are.
 * OK with choice->unasked: that hangs on backends that have not been asked; once all ranks have answered, choose again.
 */
tutti_status tti_choose(const struct tti_group_plan *plan, const struct tti_hello *all, struct tti_choice *choice,
                        tutti_error *error);

/*
 * An engine for some of the ranks: `ranks` are their numbers in `all`. "auto" takes the best one for them that is not itself
 * composed, by their hosts. One that is named may also join hosts that are one machine in truth. NOT_FOUND, NOT_AVAILABLE.
 */
tutti_status tti_choose_part(const struct tti_hello *all, const int32_t *ranks, int32_t count, const char *wish,
                             const tutti_backend **backend, tutti_error *error);

/* Why "auto" has passed over the engine that shares memory, in one sentence. False: it has not, or the ranks are on hosts that
 * have nothing in common. */
bool tti_choose_shm_unused(const struct tti_hello *all, int32_t size, const tutti_backend *chosen, char *text,
                           size_t capacity);

#endif
