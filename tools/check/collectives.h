/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of contents of the suite. */
#ifndef TOOLS_CHECK_COLLECTIVES_H
#define TOOLS_CHECK_COLLECTIVES_H

#include "check/check.h"
#include "check/plan.h"

enum {
    TTI_CHECK_REDUCES = 1,
    TTI_CHECK_ROOTED = 2,
    TTI_CHECK_JOINS = 4,    /* works along a dimension          */
    TTI_CHECK_IN_PLACE = 8, /* has an in-place form             */
    TTI_CHECK_SPREADS = 16, /* takes counts                     */
    TTI_CHECK_SCALARS = 32, /* takes 0-dimensional tensors      */
    TTI_CHECK_HUGE = 64     /* is worth a run with tens of MiB  */
};

struct tti_check_form; /* operation/jobs.h */

struct tti_check_collective {
    const char *name;
    unsigned traits;
    const struct tti_check_form *form; /* NULL for irregular ones */
    void (*more)(struct tti_check *c); /* cases of its own, or NULL */
};

/* Every collective and every irregular chapter of the suite, in the order of the table. */
extern const struct tti_check_collective tti_check_collectives[];
extern const size_t tti_check_collectives_count;

/* The simplest plan that the collective takes: `count` elements of f32, a sum if it reduces, uneven parts if it takes
 * counts. */
struct tti_check_plan tti_check_plan_for(const struct tti_check_collective *collective, int64_t count);

#endif
