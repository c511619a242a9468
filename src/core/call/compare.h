/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comparing the calls of all ranks before a collective runs. With the setting check_calls every collective is compared;
 * else, on engines that cannot cancel, those with the flag TUTTI_CANCELLABLE. The comparison also carries a cancel to
 * every rank, so that the ranks stay in step on an engine without cancelling.
 *
 * Without check_calls, ranks with different calls on such an engine wait for their deadlines, or get undefined results.
 */
#ifndef TTI_CORE_CALL_COMPARE_H
#define TTI_CORE_CALL_COMPARE_H

#include <stdbool.h>
#include <tutti/backend.h>

struct tti_comparison;
struct tti_group;

/* Sets group->comparison and compares_all, once the engines are open. UNSUPPORTED: check_calls is set, but no engine
 * can compare. */
tutti_status tti_comparison_open(struct tti_group *group, tutti_error *error);

/* The end of a collective that rank `by` has cancelled. */
tutti_status tti_comparison_cancelled(const tutti_op *op, int32_t by, tutti_error *error);

/* NULL is allowed. */
void tti_comparison_close(struct tti_comparison *comparison);

/* Whether this collective is compared; the same on every rank if all ranks give the same flags. */
bool tti_compares(const struct tti_group *group, const tutti_op *op);

/*
 * Waits until every rank has entered this collective, and compares their calls. OK, or MISMATCH on every rank; the
 * group works on. A rank that cannot take part (op->failed) gets that status, and the others MISMATCH. If a rank has
 * cancelled (op->failed is CANCELLED) and all calls are the same, all ranks get CANCELLED, which names the lowest such
 * rank. The calling thread owns the lane.
 */
tutti_status tti_compare(struct tti_group *group, tutti_op *op, tutti_error *error);

#endif
