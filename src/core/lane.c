/* SPDX-License-Identifier: BSD-3-Clause */
/* Lane ownership by ticket: order within a lane is the order of the tickets. */
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/group.h"

#define YIELDS 16 /* a synchronous call before ours is usually short */

void tti_lane_enter(struct tti_group *group, int32_t lane)
{
    struct tti_lane_queue *q = &group->lane_queues[lane];
    /* seq_cst: pairs with the exchange and the load in tti_lane_leave */
    uint32_t ticket = atomic_fetch_add_explicit(&q->next, 1, memory_order_seq_cst);
    for (unsigned i = 0;; i++) {
        /* acquire: pairs with the exchange in tti_lane_leave; the lane's state is as its last owner left it */
        uint32_t served = atomic_load_explicit(&q->served, memory_order_acquire);
        if (served == ticket) {
            return;
        }
        if (i < YIELDS) {
            sched_yield();
        } else {
            syscall(SYS_futex, &q->served, FUTEX_WAIT_PRIVATE, served, NULL, NULL, 0);
        }
    }
}

void tti_lane_leave(struct tti_group *group, int32_t lane)
{
    struct tti_lane_queue *q = &group->lane_queues[lane];
    uint32_t ticket = atomic_load_explicit(&q->served, memory_order_relaxed) + 1;
    /* seq_cst: a caller whose ticket is taken before this exchange is seen by the load after it; one that comes later
     * sees the new value before it sleeps */
    atomic_exchange_explicit(&q->served, ticket, memory_order_seq_cst);
    if (atomic_load_explicit(&q->next, memory_order_seq_cst) != ticket) {
        syscall(SYS_futex, &q->served, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    }
}
