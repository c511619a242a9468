/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of each chapter. */
#ifndef TOOLS_CHECK_CASES_CASES_H
#define TOOLS_CHECK_CASES_CASES_H

#include "check/check.h"
#include "check/collectives.h"

/* Makes the calling rank late. */
void tti_check_delay_rank(void);

void tti_check_regular_cases(struct tti_check *c, const struct tti_check_collective *collective);

void tti_check_all_reduce_cases(struct tti_check *c);
void tti_check_barrier_cases(struct tti_check *c);
void tti_check_p2p_cases(struct tti_check *c);
void tti_check_probe_cases(struct tti_check *c); /* more cases of p2p */
void tti_check_strides_cases(struct tti_check *c);
void tti_check_group_cases(struct tti_check *c);
void tti_check_mismatch_cases(struct tti_check *c);
void tti_check_lanes_cases(struct tti_check *c);
void tti_check_soak_cases(struct tti_check *c);
void tti_check_async_cases(struct tti_check *c);
void tti_check_async_order_cases(struct tti_check *c); /* more cases of async */
void tti_check_cancel_cases(struct tti_check *c);
void tti_check_message_cancel_cases(struct tti_check *c); /* more cases of cancel */
bool tti_check_can_cancel(const struct tti_check *c);
bool tti_check_has_wire(const struct tti_check *c);
void tti_check_deadlines_cases(struct tti_check *c);
void tti_check_async_soak_cases(struct tti_check *c);
void tti_check_device_cases(struct tti_check *c);        /* has cases only if the group works on a device */
void tti_check_device_stream_cases(struct tti_check *c); /* more cases of device */

#endif
