/* SPDX-License-Identifier: BSD-3-Clause */
/* What the functions share that start operations and wait for them: deadline.c and limit.c. */
#ifndef TTI_API_RUN_H
#define TTI_API_RUN_H

#include <stdbool.h>
#include <tutti/work.h>

struct tti_group;

struct tti_run {
    const char *function; /* for sentences */
    tutti_group *handle;
    struct tti_group *group; /* held, once it is open */
};

/* Whether they can be started at all: looked at before the first one is. */
tutti_status tti_run_check(const tutti_start *operations, size_t count, const char *function, tutti_error *error);

/* Holds the group, if it may be waited for here. */
tutti_status tti_run_open(struct tti_run *run, tutti_error *error);

/* Starts one operation with these options. `cause` is filled in any case, *work only if this returns OK. */
tutti_status tti_run_start(const struct tti_run *run, const tutti_start *operation, const tutti_call *options,
                           tutti_work **work, tutti_error *cause);

/* Puts in front of the cause's sentence where it came from; its other fields stay. `place`: "" or "operations[3]: ". */
void tti_run_report(const struct tti_run *run, const char *place, const tutti_error *cause, tutti_error *error);

/* Whether this end is the one to return, so far: the first error in the order of the operations. REVOKED only follows from
 * another one, as for an operation at its deadline if the next one's in the same lane is noticed a moment earlier. */
bool tti_run_outranks(tutti_status status, tutti_status first);

#endif
