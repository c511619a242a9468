/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tutti/group.h that read from a group. */
#include <tutti/group.h>

#include <stdio.h>
#include <string.h>

#include "api/group/group.h"
#include "backends/null/null.h"
#include "base/error.h"
#include "base/text.h"
#include "core/call/task.h"
#include "core/group/backend/engines.h"
#include "core/group/group_table.h"
#include "core/settings/variables.h"

/* Runs `read` on a group; returns `otherwise` for a stale handle. */
static int32_t read_group(tutti_group *group, int32_t (*read)(const struct tti_group *g, int32_t argument),
                          int32_t argument, int32_t otherwise)
{
    tutti_status status;
    struct tti_group *g = tti_group_acquire(group, &status);
    if (!g) {
        return otherwise;
    }
    int32_t value = read(g, argument);
    tti_group_release(g);
    return value;
}

static int32_t read_rank(const struct tti_group *g, int32_t argument)
{
    (void)argument;
    return g->rank;
}

static int32_t read_size(const struct tti_group *g, int32_t argument)
{
    (void)argument;
    return g->size;
}

static int32_t read_lanes(const struct tti_group *g, int32_t argument)
{
    (void)argument;
    return g->lanes;
}

static int32_t read_capabilities(const struct tti_group *g, int32_t argument)
{
    (void)argument;
    return (int32_t)tti_group_capabilities(g);
}

static int32_t read_global(const struct tti_group *g, int32_t rank)
{
    return rank >= 0 && rank < g->size ? g->global_ranks[rank] : -1;
}

static int32_t read_local(const struct tti_group *g, int32_t global)
{
    for (int32_t r = 0; r < g->size; r++) {
        if (g->global_ranks[r] == global) {
            return r;
        }
    }
    return -1;
}

int32_t tutti_group_rank(tutti_group *group)
{
    return read_group(group, read_rank, 0, -1);
}

int32_t tutti_group_size(tutti_group *group)
{
    return read_group(group, read_size, 0, -1);
}

int32_t tutti_group_lanes(tutti_group *group)
{
    return read_group(group, read_lanes, 0, -1);
}

uint32_t tutti_group_capabilities(tutti_group *group)
{
    return (uint32_t)read_group(group, read_capabilities, 0, 0);
}

int32_t tutti_group_global_rank(tutti_group *group, int32_t rank)
{
    return read_group(group, read_global, rank, -1);
}

int32_t tutti_group_local_rank(tutti_group *group, int32_t global_rank)
{
    return read_group(group, read_local, global_rank, -1);
}

const char *tutti_group_backend(tutti_group *group)
{
    tutti_status status;
    struct tti_group *g = tti_group_acquire(group, &status);
    if (!g) {
        return NULL;
    }
    const char *name = g->backend->name;
    tti_group_release(g);
    return name;
}

void *tutti_group_native_communicator(tutti_group *group)
{
    tutti_status why;
    struct tti_group *g = tti_group_acquire(group, &why);
    if (!g) {
        return NULL;
    }
    void *native = g->backend->ops->native ? g->backend->ops->native(g->state) : NULL;
    tti_group_release(g);
    return native;
}

const char *tutti_group_algorithm(tutti_group *group, int32_t lane)
{
    tutti_status status;
    struct tti_group *g = tti_group_acquire(group, &status);
    if (!g) {
        return NULL;
    }
    const bool has_name = lane >= 0 && lane < g->lanes && g->backend->ops->algorithm;
    const char *name = has_name ? g->backend->ops->algorithm(g->state, lane) : NULL;
    tti_group_release(g);
    return name;
}

DLDevice tutti_group_device(tutti_group *group)
{
    tutti_status status;
    struct tti_group *g = tti_group_acquire(group, &status);
    DLDevice device;
    memset(&device, 0, sizeof(device));
    if (g) {
        device = g->device;
        tti_group_release(g);
    }
    return device;
}

static size_t describe(struct tti_group *g, char *text, size_t capacity)
{
    struct tti_text t = {.at = text, .capacity = capacity};
    tti_append(&t,
               "group of %d ranks on backend %s: rank %d (rank %d of the world), %d lane%s, deadline "
               "%lld ms\n",
               g->size, g->backend->name, g->rank, g->global_ranks[g->rank], g->lanes, g->lanes == 1 ? "" : "s",
               (long long)g->timeout_ms);
    if (tti_group_on_device(g)) {
        char device[24];
        tti_append(&t, "  tensors lie on device %s\n", tti_device_text(g->device, device));
    }
    if (g->shm_unused_reason) {
        tti_append(&t, "  shared memory (shm) was not taken: %s\n", g->shm_unused_reason);
    }
    char unknown[400];
    tti_unknown_variables(unknown, sizeof(unknown));
    if (unknown[0] != '\0') {
        tti_append(&t, "  unknown environment variables: %s\n", unknown);
    }
    for (tutti_operation kind = TUTTI_OP_ALL_REDUCE; kind <= TUTTI_OP_RECV; kind++) {
        char how[80];
        tti_append(&t, "  %s: %s\n", tutti_operation_name(kind), tti_task_describe(g, kind, how, sizeof(how)));
    }
    if (g->backend->ops->describe) {
        t.length += g->backend->ops->describe(g->state, tti_text_end(&t), tti_text_room(&t));
    }
    return t.length;
}

tutti_status tutti_group_describe(tutti_group *group, char *text, size_t capacity, size_t *needed, tutti_error *error)
{
    if (!text && capacity > 0) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "group_describe: text is NULL but capacity is %zu",
                             capacity);
    }
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_api_hold(group, "group_describe", error, &status);
    if (!g) {
        return status;
    }
    size_t length = describe(g, text, capacity);
    if (needed) {
        *needed = length;
    }
    tti_group_release(g);
    return tti_error_clear(error);
}

tutti_status tutti_group_error(tutti_group *group, tutti_error *details)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_api_hold(group, "group_error", details, &status);
    if (!g) {
        return status;
    }
    tti_error_clear(details);
    tti_group_failure(g, details);
    if (details) {
        details->rank = g->rank;
        snprintf(details->backend, sizeof(details->backend), "%s", g->backend->name);
    }
    tti_group_release(g);
    return TUTTI_OK;
}

tutti_status tutti_null_recorded(tutti_group *group, int64_t index, tutti_null_record *record, tutti_error *error)
{
    if (!record || record->size == 0) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "null_recorded: record is NULL or its size is 0");
    }
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_api_hold(group, "null_recorded", error, &status);
    if (!g) {
        return status;
    }
    if (g->backend != &tti_backend_null) {
        status = tti_error_set(error, TUTTI_UNSUPPORTED, "null_recorded: the group runs on backend %s, not null",
                               g->backend->name);
    } else if ((status = tti_null_record_at(g->state, index, record)) != TUTTI_OK) {
        tti_error_set(error, status, "null_recorded: operation %lld is not recorded", (long long)index);
    } else {
        tti_error_clear(error);
    }
    tti_group_release(g);
    return status;
}
