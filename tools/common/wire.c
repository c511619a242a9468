/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/wire.h"

#include <string.h>

static const char *const names[] = {[TUTTI_WIRE_FULL] = "full", [TUTTI_WIRE_BF16] = "bf16", [TUTTI_WIRE_FP8] = "fp8"};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

const char *tti_tool_wire_name(tutti_wire wire)
{
    return names[wire];
}

bool tti_tool_wire_find(const char *name, tutti_wire *wire)
{
    for (tutti_wire i = 0; i < NAMES; i++) {
        if (strcmp(name, names[i]) == 0) {
            *wire = i;
            return true;
        }
    }
    return false;
}
