/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking a lane: so an operation is known to wait, without a sleep. All ranks but one, the holder, start an
 * all_reduce on the lane. It cannot end: the holder starts its own only after a message of every other rank, which a
 * rank sends when it has checked what it wanted to check.
 */
#include "check/operation/block_lane.h"

#include "check/cases/collectives/forms.h"
#include "check/data/device_memory.h"

enum { TAG = 900 };

void tti_check_block_lane(struct tti_check *c, struct tti_check_job *held, int holder, int64_t count)
{
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    tti_check_job_prepare(held, c, &tti_check_all_reduce_form, &p, 900);
    if (c->rank != holder) {
        tti_check_job_start(held, TTI_CHECK_WAIT);
    }
}

void tti_check_unblock_lane(struct tti_check *c, struct tti_check_job *held, int holder)
{
    const int64_t none = 0;
    DLTensor nothing = tti_check_tensor_over(c, NULL, 1, &none, TUTTI_U8);
    const tutti_call *options = TUTTI_CALL(.error = &c->error);
    if (c->rank != holder) {
        tti_check_ok(c, "send", tutti_send(c->group, &nothing, holder, TAG, options));
        return;
    }
    for (int r = 0; r < c->size; r++) {
        if (r != holder) {
            tti_check_ok(c, "recv", tutti_recv(c->group, &nothing, r, TAG, options, NULL));
        }
    }
    tti_check_job_start(held, TTI_CHECK_WAIT);
}

void tti_check_blocked_end(struct tti_check *c, struct tti_check_job *held)
{
    tti_check_job_finish(held, TUTTI_OK);
    tti_check_job_end(held, c);
}
