/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether calls poll for failures: always, except in the build that bench/checks_cost.c compares with. That
 * build omits every poll inside a call; liveness monitor, deadlines and the comparison of calls stay.
 */
#ifndef TTI_BASE_FAILURE_CHECKS_H
#define TTI_BASE_FAILURE_CHECKS_H

#ifdef TUTTI_NO_FAULT_CHECKS
#define TTI_FAULT_CHECKS 0
#else
#define TTI_FAULT_CHECKS 1
#endif

#endif
