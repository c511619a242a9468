/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of tutti/memory.h. Ranks agree by all_gather. So its checks name a rank that is late, has left or calls
 * another operation, and these calls are in the order of lane 0.
 */
#include <tutti/memory.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/collectives/collectives.h"
#include "api/group/blocks.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/kept_memory.h"
#include "base/memory_requests.h"
#include "core/call/call.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"
#include "core/memory/pool.h"

#define EXCHANGE_TAG 0x70616568u /* "heap": distinguishes it from an application's all_gather */
#define EXCHANGE_MAX 1024

/* A rank's result, and the memory that it takes next. Fixed layout: it is sent between processes. */
struct outcome {
    struct tti_memory_request memory;
    int32_t status;
    char message[252];
};

/* A call that consists of several steps, with one deadline for all of them. */
struct collective {
    struct tti_call call;
    int64_t begun_ns;
    tutti_exchange exchange;
};

static tutti_status gather(void *self, const void *mine, size_t bytes, void *all, tutti_error *error)
{
    struct collective *collective = self;
    struct tti_call *c = &collective->call;
    int64_t count = (int64_t)bytes;
    int64_t joined = count * c->group_size;
    if (bytes > EXCHANGE_MAX) {
        return tti_error_set(error, TUTTI_INTERNAL, "%s: the ranks exchange too much at once",
                             tutti_operation_name(c->operation));
    }
    if (atomic_load_explicit(&c->group->in_use, memory_order_relaxed)) { /* a failed group keeps one block, not more */
        return tti_group_revoked(c->group, error);
    }
    /* the engine may use it for longer than the caller's memory lasts */
    char *block = malloc((size_t)(joined + count));
    if (!block) {
        tutti_error cause;
        tti_error_set(&cause, TUTTI_NO_MEMORY, "%s: no memory", tutti_operation_name(c->operation));
        cause.suspect = c->rank;
        cause.scope = TUTTI_SCOPE_GROUP;
        tti_group_abort(c->group, TUTTI_LANE_NONE, &cause); /* the other ranks wait for this one */
        *error = cause;
        return TUTTI_NO_MEMORY;
    }
    memcpy(block + joined, mine, bytes);
    DLTensor input = tutti_tensor_1d(block + joined, &count, TUTTI_U8);
    DLTensor output = tutti_tensor_1d(block, &joined, TUTTI_U8);
    const tutti_status status = tti_all_gather_on_host(c->group->handle, &input, &output, collective->begun_ns,
                                                       TUTTI_CALL(.tag = EXCHANGE_TAG, .error = error));
    if (status == TUTTI_OK && all) {
        memcpy(all, block, (size_t)joined);
    }
    const bool in_use = atomic_load_explicit(&c->group->in_use, memory_order_relaxed);
    tti_memory_free_or_keep(block, status != TUTTI_OK && in_use);
    return status;
}

static tutti_status begin(struct collective *collective, tutti_group *group, tutti_operation operation,
                          tutti_error *error)
{
    const tutti_status status = tti_call_begin_plain(&collective->call, group, operation, error);
    if (status != TUTTI_OK) {
        return status;
    }
    collective->begun_ns = tti_now_ns();
    collective->exchange = (tutti_exchange){
        .size = sizeof(tutti_exchange),
        .self = collective,
        .gather = gather,
        .deadline_ns = tti_deadline_ns(collective->begun_ns, collective->call.options.timeout_ms),
    };
    return TUTTI_OK;
}

/* Whether the group's backend has a heap; else the memory is ordinary. */
static bool has_heap(const struct tti_group *g)
{
    return (tti_group_capabilities(g) & TUTTI_CAP_HEAP) && g->backend->ops->alloc;
}

/* Whether ranks can exchange data: not on backend null, where the others do not exist. */
static bool can_agree(const struct tti_group *g)
{
    tutti_op op = {.size = sizeof(op), .kind = TUTTI_OP_ALL_GATHER, .dtype = TUTTI_U8};
    return g->size > 1 && strcmp(g->backend->name, "null") != 0 && g->host_backend &&
           g->host_backend->ops->supports(g->host_state, &op);
}

static tutti_status error_of_rank(struct tti_call *c, int rank, tutti_status status, const char *message)
{
    tti_error_set(c->error, status, "%s: rank %d: %s", tutti_operation_name(c->operation), rank, message);
    c->error->suspect = rank;
    return status;
}

/* All ranks return OK, or all return the first failure: of a rank so far, or that there is less memory than they want
 * next. */
static tutti_status agree(struct collective *collective, tutti_status mine, struct tti_memory_request next)
{
    struct tti_call *c = &collective->call;
    if (!can_agree(c->group)) {
        return mine == TUTTI_OK ? mine : error_of_rank(c, c->rank, mine, c->error->message);
    }
    struct outcome *all = calloc((size_t)c->group_size, sizeof(*all));
    if (!all && mine == TUTTI_OK) {
        mine = tti_error_set(c->error, TUTTI_NO_MEMORY, "no memory for the outcomes of %d ranks", c->group_size);
    }
    struct outcome own = {.memory = next, .status = mine};
    if (mine != TUTTI_OK) {
        snprintf(own.message, sizeof(own.message), "%.*s", (int)sizeof(own.message) - 1, c->error->message);
    }
    tutti_status status = gather(collective, &own, sizeof(own), all, c->error);
    if (!all) {
        return status != TUTTI_OK ? status : error_of_rank(c, c->rank, mine, own.message);
    }
    for (int r = 0; r < c->group_size && status == TUTTI_OK; r++) {
        if (all[r].status != TUTTI_OK) {
            all[r].message[sizeof(all[r].message) - 1] = '\0';
            status = error_of_rank(c, r, all[r].status, all[r].message);
        }
    }
    if (status == TUTTI_OK &&
        (status = tti_memory_requests_check(&all[0].memory, sizeof(*all), c->group_size, c->error)) != TUTTI_OK) {
        error_of_rank(c, c->error->suspect, status, c->error->message);
    }
    free(all);
    return status;
}

/* Ordinary memory, for all ranks or for none. */
static tutti_status alloc_ordinary(struct collective *collective, size_t bytes, void **memory)
{
    struct tti_call *c = &collective->call;
    const bool on_host = c->group->device.device_type == kDLCPU; /* else its library refuses what is too much */
    const struct tti_memory_request wanted = {.bytes = on_host ? bytes : 0, .available = tti_available_memory_read("")};
    const struct tti_memory_request none = {.bytes = 0};
    struct tti_pool *pool = c->group->pool;
    void *block = NULL;
    tutti_status status = agree(collective, tti_memory_requests_check(&wanted, sizeof(wanted), 1, c->error), wanted);
    if (status != TUTTI_OK) {
        return status;
    }
    status = bytes > 0 ? tti_pool_alloc(pool, c->group->device, bytes, &block, c->error) : TUTTI_OK;
    status = agree(collective, status, none);
    if (status == TUTTI_OK) {
        *memory = block;
    } else if (block) {
        tti_pool_free(pool, block);
    }
    return status;
}

tutti_status tutti_alloc(tutti_group *group, size_t bytes, void **memory, tutti_error *error)
{
    struct collective collective;
    struct tti_call *c = &collective.call;
    tutti_status status = begin(&collective, group, TUTTI_OP_ALLOC, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!memory) {
        status = tti_error_set(c->error, TUTTI_INVALID_ARGUMENT, "alloc: the pointer for the memory is NULL");
    } else if (has_heap(c->group)) {
        status = c->group->backend->ops->alloc(c->group->state, bytes, &collective.exchange, memory, c->error);
    } else {
        status = alloc_ordinary(&collective, bytes, memory);
    }
    if (status == TUTTI_OK && bytes > 0) {
        tti_block_add(*memory, bytes);
    }
    return tti_call_end(c, status);
}

tutti_status tutti_free(tutti_group *group, void *memory, tutti_error *error)
{
    struct tti_call c;
    tutti_status status = tti_call_begin_plain(&c, group, TUTTI_OP_FREE, error);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tti_block *block = memory ? tti_block_begin_end(memory) : NULL;
    if (memory && !tti_pool_free(c.group->pool, memory)) {
        status = has_heap(c.group)
                     ? c.group->backend->ops->release(c.group->state, memory, c.error)
                     : tti_error_set(c.error, TUTTI_INVALID_ARGUMENT, "free: %p is not memory of tutti_alloc", memory);
    }
    tti_block_end(block, status == TUTTI_OK);
    return tti_call_end(&c, status);
}

tutti_status tutti_register(tutti_group *group, void *memory, size_t bytes, tutti_error *error)
{
    struct collective collective;
    struct tti_call *c = &collective.call;
    tutti_status status = begin(&collective, group, TUTTI_OP_REGISTER, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!memory && bytes > 0) {
        status = tti_error_set(c->error, TUTTI_INVALID_ARGUMENT, "register: memory is NULL, but bytes is %zu", bytes);
    } else if (bytes > UINTPTR_MAX - (uintptr_t)memory) {
        status = tti_error_set(c->error, TUTTI_INVALID_ARGUMENT,
                               "register: %zu bytes at %p go beyond the end of the address space", bytes, memory);
    } else if (has_heap(c->group)) {
        status =
            c->group->backend->ops->register_memory(c->group->state, memory, bytes, &collective.exchange, c->error);
    }
    return tti_call_end(c, status);
}

tutti_status tutti_unregister(tutti_group *group, void *memory, tutti_error *error)
{
    struct collective collective;
    struct tti_call *c = &collective.call;
    tutti_status status = begin(&collective, group, TUTTI_OP_UNREGISTER, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (has_heap(c->group)) {
        status = c->group->backend->ops->unregister_memory(c->group->state, memory, &collective.exchange, c->error);
    }
    return tti_call_end(c, status);
}
