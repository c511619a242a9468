/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of reduce ops: their names, and their dtypes. */
#include <tutti/collectives.h>

#include "tensor/name.h"

static const char *const names[TUTTI_REDUCE_OP_COUNT] = {
#define NAME(name, value, text) [TUTTI_##name] = text,
    TUTTI_REDUCE_OP_LIST(NAME)
#undef NAME
};

const char *tutti_reduce_op_name(tutti_reduce_op op)
{
    return op > 0 && op < TUTTI_REDUCE_OP_COUNT ? names[op] : "unknown";
}

tutti_status tutti_reduce_op_parse(const char *name, tutti_reduce_op *op)
{
    if (!name || !op) {
        return op ? TUTTI_NOT_FOUND : TUTTI_INVALID_ARGUMENT;
    }
    for (tutti_reduce_op o = 1; o < TUTTI_REDUCE_OP_COUNT; o++) {
        if (tti_same_name(name, names[o])) {
            *op = o;
            return TUTTI_OK;
        }
    }
    if (tti_same_name(name, "prod")) {
        *op = TUTTI_PRODUCT;
        return TUTTI_OK;
    }
    return TUTTI_NOT_FOUND;
}

int32_t tutti_reduce_op_valid(tutti_reduce_op op, tutti_dtype dtype)
{
    if (op <= 0 || op >= TUTTI_REDUCE_OP_COUNT || dtype <= 0 || dtype >= TUTTI_DTYPE_COUNT) {
        return 0;
    }
    switch (op) {
    case TUTTI_AVG:
    case TUTTI_PREMUL_SUM:
        return dtype != TUTTI_BOOL;
    case TUTTI_BAND:
    case TUTTI_BOR:
    case TUTTI_BXOR:
    case TUTTI_LAND:
    case TUTTI_LOR:
        return dtype >= TUTTI_I8;
    default:
        return 1;
    }
}
