/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends of a group's works that callbacks have completed (tutti_work_complete), and the thread that runs them. An
 * end calls back, so it waits for the callback lock of the work's group. A callback that holds this lock may wait for
 * another group. So no thread of that other group runs the end: it hands the end over and goes on.
 */
#ifndef TTI_CORE_ASYNC_DEFERRED_ENDS_H
#define TTI_CORE_ASYNC_DEFERRED_ENDS_H

#include "core/async/deferred_ends_state.h"

void tti_deferred_ends_init(struct tti_deferred_ends *ends);

/* Ends the thread. Nothing is pending any more. */
void tti_deferred_ends_close(struct tti_deferred_ends *ends);

/* Has the thread run it; does not wait. */
void tti_deferred_ends_add(struct tti_deferred_ends *ends, struct tti_deferred *deferred);

#endif
