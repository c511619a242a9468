/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of wires, for options and results. */
#ifndef TTI_TOOLS_WIRE_H
#define TTI_TOOLS_WIRE_H

#include <stdbool.h>
#include <tutti/tutti.h>

#define TTI_TOOL_WIRES "full|bf16|fp8"

/* "full", "bf16", ... */
const char *tti_tool_wire_name(tutti_wire wire);

/* False: there is no such name, and *wire is unchanged. */
bool tti_tool_wire_find(const char *name, tutti_wire *wire);

#endif
