/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for the works of a queue: what the public functions of these names do. limit_ms is -1 or more. */
#ifndef TTI_CORE_QUEUE_QUEUE_WAIT_H
#define TTI_CORE_QUEUE_QUEUE_WAIT_H

#include <tutti/queue.h>

struct tti_queue;

tutti_status tti_queue_wait_all(struct tti_queue *queue, int64_t limit_ms, tutti_error *error);
tutti_status tti_queue_wait_any(struct tti_queue *queue, int64_t limit_ms, int64_t *index, tutti_error *error);

#endif
