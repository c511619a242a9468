/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tutti/queue.h. Each holds its queue while it calls the core: their arguments differ, so no helper
 * could do both. */
#include <tutti/queue.h>

#include "api/check.h"
#include "base/error.h"
#include "core/group/handles.h"
#include "core/queue/queue.h"
#include "core/queue/queue_wait.h"

/* The queue, acquired; or NULL with the status and a sentence. */
static struct tti_queue *hold(tutti_queue *handle, const char *function, tutti_error *error, tutti_status *status)
{
    struct tti_queue *q = tti_queue_acquire(handle, status);
    if (!q) {
        tti_handle_error(error, *status, function, "queue", TTI_KIND_QUEUE);
    }
    return q;
}

static tutti_status check_pointer(const void *pointer, const char *function, const char *what, tutti_error *error)
{
    return pointer ? TUTTI_OK
                   : tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: the pointer for %s is NULL", function, what);
}

tutti_status tutti_queue_create(tutti_queue **queue, tutti_error *error)
{
    tutti_status status = check_pointer(queue, "queue_create", "the queue", error);
    if (status == TUTTI_OK && (status = tti_queue_create(queue, error)) == TUTTI_OK) {
        tti_error_clear(error);
    }
    return status;
}

tutti_status tutti_queue_enqueue(tutti_queue *queue, tutti_work *work, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_queue *q = hold(queue, "queue_enqueue", error, &status);
    if (q) {
        status = tti_queue_enqueue(q, work, error);
        tti_queue_release(q);
    }
    return status;
}

/* Runs a function that returns a number. `number` may be NULL. */
static tutti_status get_number(tutti_queue *queue, int64_t (*get)(struct tti_queue *), int64_t *number)
{
    tutti_status status = TUTTI_OK;
    struct tti_queue *q = tti_queue_acquire(queue, &status);
    if (q) {
        int64_t value = get(q);
        if (number) {
            *number = value;
        }
        tti_queue_release(q);
    }
    return status;
}

tutti_status tutti_queue_count(tutti_queue *queue, int64_t *count)
{
    return count ? get_number(queue, tti_queue_count, count) : TUTTI_INVALID_ARGUMENT;
}

tutti_status tutti_queue_pending(tutti_queue *queue, int64_t *count)
{
    return count ? get_number(queue, tti_queue_poll, count) : TUTTI_INVALID_ARGUMENT;
}

tutti_status tutti_queue_clear_completed(tutti_queue *queue, int64_t *cleared)
{
    return get_number(queue, tti_queue_clear_completed, cleared);
}

tutti_status tutti_queue_cancel_all(tutti_queue *queue, int64_t *began)
{
    return get_number(queue, tti_queue_cancel_all, began);
}

tutti_status tutti_queue_wait_all(tutti_queue *queue, int64_t limit_ms, tutti_error *error)
{
    tutti_status status = tti_check_limit("queue_wait_all", limit_ms, error);
    struct tti_queue *q = status == TUTTI_OK ? hold(queue, "queue_wait_all", error, &status) : NULL;
    if (q) {
        status = tti_queue_wait_all(q, limit_ms, error);
        tti_queue_release(q);
    }
    return status;
}

tutti_status tutti_queue_wait_any(tutti_queue *queue, int64_t limit_ms, int64_t *index, tutti_error *error)
{
    tutti_status status = tti_check_limit("queue_wait_any", limit_ms, error);
    if (status == TUTTI_OK) {
        status = check_pointer(index, "queue_wait_any", "the index", error);
    }
    struct tti_queue *q = status == TUTTI_OK ? hold(queue, "queue_wait_any", error, &status) : NULL;
    if (q) {
        status = tti_queue_wait_any(q, limit_ms, index, error);
        tti_queue_release(q);
    }
    return status;
}

tutti_status tutti_queue_status(tutti_queue *queue, int64_t index, tutti_error *details)
{
    if (!details) {
        return TUTTI_INVALID_ARGUMENT;
    }
    tutti_status status = TUTTI_OK;
    struct tti_queue *q = hold(queue, "queue_status", details, &status);
    if (q) {
        status = tti_queue_status(q, index, details);
        tti_queue_release(q);
    }
    return status;
}

tutti_status tutti_queue_result(tutti_queue *queue, int64_t index, DLTensor *tensor, tutti_error *error)
{
    tutti_status status = check_pointer(tensor, "queue_result", "the tensor", error);
    struct tti_queue *q = status == TUTTI_OK ? hold(queue, "queue_result", error, &status) : NULL;
    if (q) {
        status = tti_queue_result(q, index, tensor, error);
        tti_queue_release(q);
    }
    return status;
}

tutti_status tutti_queue_destroy(tutti_queue *queue, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_queue *q = hold(queue, "queue_destroy", error, &status);
    if (!q) {
        return status;
    }
    status = tti_queue_destroy(q);
    if (status != TUTTI_OK) {
        return tti_error_set(error, status,
                             "queue_destroy: another thread is inside a call on the queue; destroy it after that call");
    }
    return tti_error_clear(error);
}
