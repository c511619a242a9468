/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of works that are waited for together: see tutti/queue.h. */
#ifndef TTI_CORE_QUEUE_QUEUE_H
#define TTI_CORE_QUEUE_QUEUE_H

#include <tutti/queue.h>

struct tti_queue;

/* NO_MEMORY, NO_RESOURCE. */
tutti_status tti_queue_create(tutti_queue **handle, tutti_error *error);

/* The queue, with the caller counted as a user; or NULL and why: INVALID_ARGUMENT (NULL), BAD_STATE, FORKED. */
struct tti_queue *tti_queue_acquire(tutti_queue *handle, tutti_status *why);
void tti_queue_release(struct tti_queue *queue);

/* What the public functions of these names do, after the checks of their arguments. limit_ms is -1 or more. */
tutti_status tti_queue_enqueue(struct tti_queue *queue, tutti_work *work, tutti_error *error);
int64_t tti_queue_count(struct tti_queue *queue);
tutti_status tti_queue_status(struct tti_queue *queue, int64_t index, tutti_error *details);
tutti_status tti_queue_result(struct tti_queue *queue, int64_t index, DLTensor *tensor, tutti_error *error);
int64_t tti_queue_clear_completed(struct tti_queue *queue);
int64_t tti_queue_cancel_all(struct tti_queue *queue);

/* tutti_queue_pending: polls every open member, for callers that never wait; how many have not ended. */
int64_t tti_queue_poll(struct tti_queue *queue);

/* Frees it, instead of a release: OK; BUSY if there is another user. */
tutti_status tti_queue_destroy(struct tti_queue *queue);

#endif
