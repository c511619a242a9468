/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti bench --checks-cost`: the cost of polling for failures. */
#ifndef TTI_BENCH_CHECKS_H
#define TTI_BENCH_CHECKS_H

/* argv[0] is the option itself. The exit code of the program. */
int tti_checks_cost_tool(int argc, char **argv);

#endif
