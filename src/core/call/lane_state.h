/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a lane consists of. In the common case its state word is all there is to read, so a synchronous call on an idle
 * lane costs two compare-and-swaps and no lock:
 *     0                      idle
 *     BUSY                   a thread is running an operation
 *     address of a work      the next operation is this work, open: the thread that claims it (address -> BUSY) runs it
 * plus the bit WAITING while the queue behind it is not empty. The queue is under a lock and holds waiters: threads
 * with a synchronous call, and works.
 */
#ifndef TTI_CORE_CALL_LANE_STATE_H
#define TTI_CORE_CALL_LANE_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/async/timer.h"
#include "core/async/worker.h"

struct tti_group;
struct tti_work;

/* A place in the queue of a lane. */
struct tti_lane_waiter {
    struct tti_lane_waiter *next;
    struct tti_work *work;    /* NULL: a thread, which sleeps on granted */
    int64_t overdue_ns;       /* when the work was marked as overdue; 0: it is not */
    _Atomic uint32_t granted; /* release by the thread that hands the lane over, acquire by its new owner */
};

struct tti_lane_queue {
    _Atomic uintptr_t state;
    unsigned char pad[120]; /* of its own cache lines: lanes do not disturb one another */
    pthread_mutex_t lock;   /* the queue */
    struct tti_lane_waiter *first;
    struct tti_lane_waiter **end;
    struct tti_group *group;
    int32_t index;
    struct tti_worker worker;
    struct tti_timer timer; /* deadlines of works that no thread runs */
    bool gave_up;           /* since one of them has passed: under the lock */
};

#define TTI_LANE_BUSY ((uintptr_t)1)

#endif
