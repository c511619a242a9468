/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of wires, for options and results. */
#ifndef TOOLS_COMMON_WIRE_H
#define TOOLS_COMMON_WIRE_H

#include "kernels/wire_format.h"

#define TTI_TOOL_WIRES "full|bf16|fp8" /* by their numbers */

static inline const char *tti_tool_wire_name(tutti_wire wire)
{
    const struct tti_wire_format *format = tti_wire_format(wire);
    return format ? format->name : "full";
}

#endif
