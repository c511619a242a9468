/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_OVERLAP_TOOL_H
#define TTI_BENCH_OVERLAP_TOOL_H

/* The command line; argv[0] is "overlap". */
int tti_overlap_tool(int argc, char **argv);

#endif
