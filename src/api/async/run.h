/* SPDX-License-Identifier: BSD-3-Clause */
/* Common to the functions that start operations and wait for them: deadline.c and limit.c. */
#ifndef TTI_API_ASYNC_RUN_H
#define TTI_API_ASYNC_RUN_H

#include <stdbool.h>
#include <tutti/work.h>

struct tti_group;

struct tti_run {
    const char *function; /* for sentences */
    tutti_group *handle;
    struct tti_group *group; /* acquired by tti_run_open */
};

/* Checks all start functions before the first start. */
tutti_status tti_run_check(const tutti_start *operations, size_t count, const char *function, tutti_error *error);

/* Acquires the group, if this thread may wait for it. */
tutti_status tti_run_open(struct tti_run *run, tutti_error *error);

/* Starts one operation with these options. Always fills `cause`; *work only if this returns OK. */
tutti_status tti_run_start(const struct tti_run *run, const tutti_start *operation, const tutti_call *options,
                           tutti_work **work, tutti_error *cause);

/* Prefixes the cause's sentence with the function and `place` ("" or "operations[3]: "); its other fields stay. */
void tti_run_report(const struct tti_run *run, const char *place, const tutti_error *cause, tutti_error *error);

/* Whether this is the result to return, so far: the first error in the order of the operations. REVOKED is replaced by
 * its cause in another operation. */
bool tti_run_outranks(tutti_status status, tutti_status first);

#endif
