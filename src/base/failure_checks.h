/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether calls look at what tells of failures: always, but for the build that `tutti bench --checks-cost` compares with. What
 * that one gives up is every look on the way of a call; keepers, deadlines and the comparison of calls stay.
 */
#ifndef TTI_BASE_CHECKS_H
#define TTI_BASE_CHECKS_H

#ifdef TUTTI_NO_FAULT_CHECKS
#define TTI_FAULT_CHECKS 0
#else
#define TTI_FAULT_CHECKS 1
#endif

#endif
