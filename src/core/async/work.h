/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handle of an asynchronous operation, as the rest of the core sees it. Works come from a pool that never shrinks, so
 * a stale handle can be compared but never leads anywhere. A work is referred to by its handle (until tutti_work_release),
 * by the operation (until it has ended), and by whoever is using it.
 *
 * Its end is published once: status and error are written, then the state, then watchers are told.
 */
#ifndef TTI_CORE_WORK_H
#define TTI_CORE_WORK_H

#include <stdbool.h>
#include <tutti/work.h>

struct tti_work;
struct tti_group;

/* The work, with the caller counted as a user; or NULL and why: INVALID_ARGUMENT (NULL), BAD_STATE, FORKED. */
struct tti_work *tti_work_acquire(tutti_work *handle, tutti_status *why);

/* The same of an application's work that has not been completed: also when its handle has been given back. */
struct tti_work *tti_work_acquire_user_work(tutti_work *handle, tutti_status *why);

/* tutti_work_complete: OK, or BAD_STATE if that has been done, or is not the application's to do. */
tutti_status tti_work_complete(struct tti_work *w, tutti_status status, const char *message);

/* One user less; the last one gives the work back to the pool. */
void tti_work_drop(struct tti_work *w);

/* Ends the life of the handle; false if it has ended before. The caller remains a user. */
bool tti_work_retire(struct tti_work *w);

tutti_work *tti_work_handle(const struct tti_work *w);

/* The checked options of its call, and the handle of its group. */
const tutti_call *tti_work_options(const struct tti_work *w);
tutti_group *tti_work_owner(const struct tti_work *w);

/* The group, valid before the end only. */
struct tti_group *tti_work_group(const struct tti_work *w);

/* How many operations of a group have been started and have not ended. A snapshot. */
uint32_t tti_work_pending(const tutti_group *group);

/* Whether it has ended, as far as this thread may know: inside the callback of its own end, yes. */
bool tti_work_ended(const struct tti_work *w);

/* After the end. */
tutti_status tti_work_status(const struct tti_work *w);
const tutti_error *tti_work_details(const struct tti_work *w);
tutti_status tti_work_view(const struct tti_work *w, DLTensor *tensor, tutti_error *error);

/* Waits for the end, running the operation itself where that helps; false when until_ns (CLOCK_MONOTONIC, TTI_NEVER) came
 * first. The caller must not be in a callback of the group (tti_work_would_deadlock). */
bool tti_work_wait(struct tti_work *w, int64_t until_ns);
bool tti_work_would_deadlock(const struct tti_work *w);

/* tti_work_wait that also stops, with CANCELLED, when the token fires. The status of the work if it has ended, BUSY at
 * until_ns. */
tutti_status tti_work_wait_token(struct tti_work *w, int64_t until_ns, tutti_cancel_token *token, tutti_error *error);

/* After the end: the status, with the details in `error` (may be NULL). */
tutti_status tti_work_get_outcome(const struct tti_work *w, tutti_error *error);

/* Whether it has ended; ends it, or moves its messages, if that needs no waiting. */
bool tti_work_poll(struct tti_work *w);

/* Makes sure that it ends without anybody waiting for it: for those who sleep on something else than the work. */
void tti_work_push(struct tti_work *w);

/* Told once, after the end, on the thread that ended it; must not block. */
struct tti_watch {
    struct tti_watch *next;
    void (*ended)(struct tti_watch *watch);
};

/* False: it has ended already, and the watch will not be told. */
bool tti_work_watch(struct tti_work *w, struct tti_watch *watch);

/* Afterwards the watch is not told, and is not being told. Not from inside `ended`. */
void tti_work_unwatch(struct tti_work *w, struct tti_watch *watch);

/* tutti_work_wait_stream. */
tutti_status tti_work_wait_stream(struct tti_work *w, void *stream, tutti_error *error);

/* tutti_work_cancel: OK, TOO_LATE or UNSUPPORTED. */
tutti_status tti_work_cancel(struct tti_work *w, tutti_error *error);

/* Whether it has ended CANCELLED, or will. */
bool tti_work_is_cancelled(const struct tti_work *w);

/* The eventfd, made at first use. */
tutti_status tti_work_open_descriptor(struct tti_work *w, int *fd, tutti_error *error);

/* Puts the work into a queue: false if it is in one already. */
bool tti_work_claim_for_queue(struct tti_work *w);

#endif
