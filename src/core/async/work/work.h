/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handle of an asynchronous operation, as the rest of the core uses it. A work has three kinds of users: its handle
 * (until tutti_work_release), the operation (until its end), and threads that are inside a call on it. See pool.h
 * for its life, stage.h for its end.
 */
#ifndef TTI_CORE_ASYNC_WORK_WORK_H
#define TTI_CORE_ASYNC_WORK_WORK_H

#include <stdbool.h>
#include <tutti/work.h>

struct tti_token_link;
struct tti_work;

/* The checked options of its call, and the handle of its group. */
const tutti_call *tti_work_options(const struct tti_work *w);
tutti_group *tti_work_owner(const struct tti_work *w);

/* After the end. */
tutti_status tti_work_status(const struct tti_work *w);
const tutti_error *tti_work_details(const struct tti_work *w);
tutti_status tti_work_view(const struct tti_work *w, DLTensor *tensor, tutti_error *error);

/* After the end: the status, with the details in `error` (may be NULL). */
tutti_status tti_work_get_outcome(const struct tti_work *w, tutti_error *error);

/* Waits for the end, running the operation itself where that helps; false when until_ns (CLOCK_MONOTONIC, TTI_NEVER)
 * came first. The caller must not be in a callback of the group (tti_work_would_deadlock). */
bool tti_work_wait(struct tti_work *w, int64_t until_ns);
bool tti_work_would_deadlock(const struct tti_work *w);

/* tutti_work_wait: its status, or INVALID_ARGUMENT, BUSY or WOULD_DEADLOCK. */
tutti_status tti_work_wait_limited(struct tti_work *w, int64_t limit_ms);

/* Whether it has ended; ends it, or transfers its messages, if that needs no waiting. */
bool tti_work_poll(struct tti_work *w);

/* Makes sure that it ends without a thread that waits for it: for threads that sleep on something else than the
 * work. */
void tti_work_push(struct tti_work *w);

/* tutti_work_cancel: OK, TOO_LATE or UNSUPPORTED. */
tutti_status tti_work_cancel(struct tti_work *w, tutti_error *error);

/* Whether a cancel can work at all: OK, or UNSUPPORTED with a sentence that begins with `function`. */
tutti_status tti_work_check_cancellable(const struct tti_work *w, const char *function, tutti_error *error);

/* For tti_token_link.fired: cancels the work that the link lies in. True if it was too late. */
bool tti_work_fired(struct tti_token_link *link);

/* Whether it has ended CANCELLED, or will. */
bool tti_work_is_cancelled(const struct tti_work *w);

/* tutti_work_release. BAD_STATE if another one owns the handle; `by_owner`: this is a call of that one. */
tutti_status tti_work_release(tutti_work *handle, bool by_owner);

/* Puts the work into a queue: false if another one owns the handle, or it is in one already. */
bool tti_work_claim_for_queue(struct tti_work *w);

#endif
