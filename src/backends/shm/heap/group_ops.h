/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BACKENDS_SHM_HEAP_GROUP_OPS_H
#define TTI_BACKENDS_SHM_HEAP_GROUP_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/status.h>

/* What the heap asks the engine of a group: about messages that use heap memory, and about the group's failure. */
struct tti_heap_group_ops {
    void *user;
    /* Whether the tensor of a pending message of this rank overlaps the range. */
    bool (*use)(void *user, const void *memory, size_t bytes);
    /* Whether no thread of this rank still uses memory that it looked up before this withdrawal (engine/memory/heap.h).
     * Waits for chunks of messages; not for collectives, which may wait for other ranks. */
    bool (*quiesced)(void *user, uint64_t withdrawal);
    /* Why the group has failed; OK if it has not. NULL: the group cannot be asked. */
    tutti_status (*failure)(void *user, tutti_error *error);
};

static inline tutti_status tti_heap_group_failure(const struct tti_heap_group_ops *group, tutti_error *error)
{
    return group->failure ? group->failure(group->user, error) : TUTTI_OK;
}

#endif
