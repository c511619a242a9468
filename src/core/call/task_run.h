/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole of a synchronous collective. */
#ifndef TTI_CORE_CALL_TASK_RUN_H
#define TTI_CORE_CALL_TASK_RUN_H

#include <tutti/status.h>

struct tti_task;

/* Completes the task, waits for the lane, performs, stores the call in the call cache, ends the call. */
tutti_status tti_task_run(struct tti_task *t);

#endif
