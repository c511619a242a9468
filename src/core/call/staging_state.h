/* SPDX-License-Identifier: BSD-3-Clause */
/* What staging.c and staging_memory.c keep for a group. */
#ifndef TTI_CORE_STAGING_STATE_H
#define TTI_CORE_STAGING_STATE_H

#include <pthread.h>
#include <tutti/p2p.h>

#include "core/call/staging.h"
#include "device/device.h"

#define TTI_STAGING_SLOTS 3

struct tti_staging_slot {
    void *memory;
    size_t bytes;
    void *loaded; /* events */
    void *stored;
};

struct tti_staging_pipeline {
    bool ready;
    void *in; /* streams */
    void *out;
    struct tti_staging_slot slots[TTI_STAGING_SLOTS];
};

struct tti_staging_block {
    void *memory;
    size_t bytes;
    bool there; /* memory of the device; else pinned memory of the host */
    bool taken;
    bool kept; /* until the end of the group: a copy that was given up may still be under way */
};

struct tti_staging {
    const struct tti_device *device;
    int32_t index;
    bool to_device;                                     /* the engine wants memory of the device */
    struct tti_staging_pipeline lanes[TUTTI_MAX_LANES]; /* each its lane's owner's */
    pthread_mutex_t lock;                               /* the rest */
    struct tti_staging_block *blocks;
    size_t block_count;
    size_t block_room;
};

/* staging_memory.c. At least so many bytes, *room of them: pinned ones, or the device's own. What is given back is not freed
 * before the group ends. */
tutti_status tti_staging_block_take(struct tti_staging *s, size_t bytes, bool there, void **memory, size_t *room,
                                    tutti_error *error);
void tti_staging_block_give(struct tti_staging *s, const void *memory);
/* Inside the device's scope. */
void tti_staging_blocks_free(struct tti_staging *s);

#endif
