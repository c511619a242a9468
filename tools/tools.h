/* SPDX-License-Identifier: BSD-3-Clause */
/* The sub-commands of `tutti`. Each takes its own argument vector (argv[0] is for messages: "tutti run") and returns
 * the exit code of the process. */
#ifndef TOOLS_TOOLS_H
#define TOOLS_TOOLS_H

#include <stdbool.h>

/* Exit code for a command line that cannot be understood. */
#define TTI_EXIT_USAGE 2

int tutti_tool_run(int argc, char **argv);
int tutti_tool_info(int argc, char **argv);
int tutti_tool_check(int argc, char **argv);
int tutti_tool_bench(int argc, char **argv);
int tutti_tool_trace(int argc, char **argv);

/* Whether this program was built with jansson, which reads and writes JSON; if not, prints that on standard error, as
 * `tool`. */
bool tti_json_usable(const char *tool);

#endif
