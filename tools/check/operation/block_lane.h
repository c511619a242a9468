/* SPDX-License-Identifier: BSD-3-Clause */
/* A lane on which no operation ends; for groups of two ranks or more. */
#ifndef TOOLS_CHECK_OPERATION_BLOCK_LANE_H
#define TOOLS_CHECK_OPERATION_BLOCK_LANE_H

#include "check/check.h"
#include "check/operation/jobs.h"

/* Every rank but the holder starts an all_reduce of so many elements on c->lane, ... */
void tti_check_block_lane(struct tti_check *c, struct tti_check_job *held, int holder, int64_t count);
/* ... which cannot end before every rank has called here. The holder starts nothing on that lane before. */
void tti_check_unblock_lane(struct tti_check *c, struct tti_check_job *held, int holder);
/* Waits for it and compares. */
void tti_check_blocked_end(struct tti_check *c, struct tti_check_job *held);

#endif
