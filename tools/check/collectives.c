/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of contents of the suite. */
#include "check/collectives.h"

#include "check/cases/cases.h"
#include "check/cases/collectives/forms.h"

enum { /* as collectives.h has them, in names so short that a collective takes a line */
       REDUCES = TTI_CHECK_REDUCES,
       ROOTED = TTI_CHECK_ROOTED,
       JOINS = TTI_CHECK_JOINS,
       IN_PLACE = TTI_CHECK_IN_PLACE,
       SPREADS = TTI_CHECK_SPREADS,
       SCALARS = TTI_CHECK_SCALARS,
       HUGE_ONES = TTI_CHECK_HUGE
};

const struct tti_check_collective tti_check_collectives[] = {
    {"all_reduce", REDUCES | IN_PLACE | SCALARS | HUGE_ONES, &tti_check_all_reduce_form, tti_check_all_reduce_cases},
    {"reduce", REDUCES | ROOTED | IN_PLACE | SCALARS, &tti_check_reduce_form, NULL},
    {"broadcast", ROOTED | SCALARS | HUGE_ONES, &tti_check_broadcast_form, NULL},
    {"all_gather", JOINS | IN_PLACE | SCALARS | HUGE_ONES, &tti_check_all_gather_form, NULL},
    {"all_gather_v", JOINS | IN_PLACE | SPREADS, &tti_check_all_gather_v_form, NULL},
    {"gather", JOINS | ROOTED | IN_PLACE, &tti_check_gather_form, NULL},
    {"scatter", JOINS | ROOTED | IN_PLACE, &tti_check_scatter_form, NULL},
    {"reduce_scatter", REDUCES | JOINS | IN_PLACE, &tti_check_reduce_scatter_form, NULL},
    {"reduce_scatter_v", REDUCES | JOINS | IN_PLACE | SPREADS, &tti_check_reduce_scatter_v_form, NULL},
    {"all_to_all", JOINS | HUGE_ONES, &tti_check_all_to_all_form, NULL},
    {"all_to_all_v", JOINS | SPREADS, &tti_check_all_to_all_v_form, NULL},
    {"barrier", 0, NULL, tti_check_barrier_cases},
    {"p2p", 0, NULL, tti_check_p2p_cases},
    {"strides", 0, NULL, tti_check_strides_cases},
    {"group", 0, NULL, tti_check_group_cases},
    {"mismatch", 0, NULL, tti_check_mismatch_cases},
    {"lanes", 0, NULL, tti_check_lanes_cases},
    {"soak", 0, NULL, tti_check_soak_cases},
    {"async", 0, NULL, tti_check_async_cases},
    {"cancel", 0, NULL, tti_check_cancel_cases},
    {"deadlines", 0, NULL, tti_check_deadlines_cases},
    {"async_soak", 0, NULL, tti_check_async_soak_cases},
    {"device", 0, NULL, tti_check_device_cases},
};
const size_t tti_check_collectives_count = sizeof(tti_check_collectives) / sizeof(tti_check_collectives[0]);

struct tti_check_plan tti_check_plan_for(const struct tti_check_collective *collective, int64_t count)
{
    struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, collective->traits & REDUCES ? TUTTI_SUM : 0, count);
    p.spread = collective->traits & SPREADS ? TTI_CHECK_UNEVEN : TTI_CHECK_EVEN;
    return p;
}
