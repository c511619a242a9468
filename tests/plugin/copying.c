/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend in a plug-in file, as small as one can be: groups of one rank, for which every reduction is a copy. It is
 * built against the public headers only, and not linked with the library: the program that loads it has the library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/backend.h>

struct state {
    int64_t calls;
};

static int32_t available(char *why, size_t capacity)
{
    snprintf(why, capacity, "copies");
    return 1;
}

static tutti_status open_group(const tutti_open_info *info, void **state, tutti_error *error)
{
    if (info->world_size != 1) {
        snprintf(error->message, sizeof(error->message), "copying has room for one rank, not %d", info->world_size);
        error->status = TUTTI_UNSUPPORTED;
        return TUTTI_UNSUPPORTED;
    }
    *state = calloc(1, sizeof(struct state));
    return *state ? TUTTI_OK : TUTTI_NO_MEMORY;
}

static void close_group(void *state)
{
    free(state);
}

static const char *supports(void *state, const tutti_op *op)
{
    (void)state;
    return op->kind == TUTTI_OP_ALL_REDUCE || op->kind == TUTTI_OP_BARRIER ? "copied" : NULL;
}

static tutti_status run(void *state, tutti_op *op, tutti_error *error)
{
    struct state *s = state;
    (void)error;
    op->sequence = ++s->calls;
    if (op->kind == TUTTI_OP_ALL_REDUCE && op->dst != op->src && op->count > 0) {
        memcpy(op->dst, op->src, op->count * tutti_dtype_size(op->dtype));
    }
    return TUTTI_OK;
}

static const tutti_backend_ops ops = {
    .size = sizeof(ops),
    .available = available,
    .open = open_group,
    .close = close_group,
    .supports = supports,
    .run = run,
};

static const tutti_backend backend = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(backend),
    .name = "copying",
    .priority = -1,
    .ops = &ops,
};

TUTTI_API const tutti_backend *tutti_backend_entry(void);

const tutti_backend *tutti_backend_entry(void)
{
    return &backend;
}
