/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that are compared before they run, on engines that do not do so by themselves: the setting check_calls. Without it
 * ranks that call different things on such an engine wait for their deadlines, or get what the engine makes of it.
 */
#ifndef TTI_CORE_COMPARE_H
#define TTI_CORE_COMPARE_H

#include <stdbool.h>
#include <tutti/backend.h>

struct tti_comparison;
struct tti_group;

/* Once the engines are open: *comparison stays NULL if nothing is to be compared. UNSUPPORTED if it cannot be. */
tutti_status tti_comparison_open(struct tti_group *group, struct tti_comparison **comparison, tutti_error *error);

/* NULL is allowed. */
void tti_comparison_close(struct tti_comparison *comparison);

/*
 * Waits until every rank has come to this collective, and compares what they call: OK, or on every rank MISMATCH, and the group
 * works on. A rank that cannot take part (op->failed) gets that status, and the others MISMATCH. The calling thread owns the lane.
 */
tutti_status tti_compare(struct tti_group *group, tutti_op *op, tutti_error *error);

#endif
