/* SPDX-License-Identifier: BSD-3-Clause */
/* What staging.c and staging_memory.c keep for a group. */
#ifndef TTI_CORE_STAGING_STATE_H
#define TTI_CORE_STAGING_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <tutti/p2p.h>

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
    bool stays_taken; /* until the group ends: a copy whose wait has timed out may still be under way */
    bool in_use;      /* by the engine, until the process ends: it is never freed */
};

struct tti_staging {
    const struct tti_device *device;
    int32_t index;
    bool to_device;                                     /* the engine takes memory of the device */
    struct tti_staging_pipeline lanes[TUTTI_MAX_LANES]; /* used by the thread that owns the lane */
    pthread_mutex_t lock;                               /* the rest */
    struct tti_staging_block *blocks;
    size_t block_count;
    size_t block_room;
    int64_t counts[]; /* of a chunk: two for each rank, for each lane; used by the thread that owns the lane */
};

#endif
