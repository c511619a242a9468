/* SPDX-License-Identifier: BSD-3-Clause */
/* The frame of a collective's function: it begins, the caller's arguments are checked, and it is run or started. */
#ifndef TTI_API_COLLECTIVES_FRAME_H
#define TTI_API_COLLECTIVES_FRAME_H

#include "api/check.h"

/* tti_checker_begin and its asynchronous form; the checks then fill k->task. BAD_STATE inside a batch of this
 * thread. */
tutti_status tti_collective_begin(struct tti_checker *k, struct tti_task *task, tutti_group *group,
                                  tutti_operation operation, const char *function, const tutti_call *options);
tutti_status tti_collective_begin_async(struct tti_checker *k, tutti_group *group, tutti_operation operation,
                                        const char *function, const tutti_call *options, tutti_work **work);

/* The end of a collective's function: runs or starts it if the checks passed. */
tutti_status tti_collective_run(const struct tti_checker *k, tutti_status checked);
tutti_status tti_collective_start(const struct tti_checker *k, tutti_status checked, tutti_work **work);

/* The memory that the backend gets: the tensor's, or a compact copy (TTI_PACK, TTI_UNPACK; see core/call/task.h). */
void *tti_collective_memory(const struct tti_checker *k, const struct tti_view *view, unsigned what);

#endif
