/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that are compared before they run: all of them with the setting check_calls, else, on engines that cannot cancel,
 * those with the flag TUTTI_CANCELLABLE. The comparison also carries a cancel to every rank, so that the
 * ranks stay in step on an engine that knows nothing of cancelling.
 *
 * Without check_calls, ranks that call different things on such an engine wait for their deadlines, or get what the engine
 * makes of it.
 */
#ifndef TTI_CORE_COMPARE_H
#define TTI_CORE_COMPARE_H

#include <stdbool.h>
#include <tutti/backend.h>

struct tti_comparison;
struct tti_group;

/* Once the engines are open: sets group->comparison and compares_all. UNSUPPORTED: the setting asks for it, and no engine can. */
tutti_status tti_comparison_open(struct tti_group *group, tutti_error *error);

/* The end of a collective that rank `by` has cancelled. */
tutti_status tti_comparison_cancelled(const tutti_op *op, int32_t by, tutti_error *error);

/* NULL is allowed. */
void tti_comparison_close(struct tti_comparison *comparison);

/* Whether this collective is compared. Every rank comes to the same answer if all give the same flags. */
bool tti_compares(const struct tti_group *group, const tutti_op *op);

/*
 * Waits until every rank has come to this collective, and compares what they call: OK, or on every rank MISMATCH, and the group
 * works on. A rank that cannot take part (op->failed) gets that status, and the others MISMATCH. If a rank has cancelled
 * (op->failed is CANCELLED) and all call the same, all ranks get CANCELLED, which names the lowest one that did. The calling
 * thread owns the lane.
 */
tutti_status tti_compare(struct tti_group *group, tutti_op *op, tutti_error *error);

#endif
