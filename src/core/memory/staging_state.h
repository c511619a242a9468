/* SPDX-License-Identifier: BSD-3-Clause */
/* What staging.c and staging_memory.c keep for a group. */
#ifndef TTI_CORE_MEMORY_STAGING_STATE_H
#define TTI_CORE_MEMORY_STAGING_STATE_H

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

/* How long a block stays taken: also after a copy whose wait has timed out, or if the engine still uses it
 * (tutti_op). */
enum tti_staging_until { TTI_UNTIL_GIVEN_BACK, TTI_UNTIL_GROUP_ENDS, TTI_UNTIL_PROCESS_ENDS };

struct tti_staging_block {
    void *memory;
    size_t bytes;
    bool there; /* memory of the device; else pinned memory of the host */
    bool taken;
    enum tti_staging_until until; /* taken for longer than its taker needs it */
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
    /* Of a chunk: two for each rank, for each lane; used by the thread that owns the lane. They are here because a rank
     * that could not allocate them in a call would not arrive. */
    int64_t counts[];
};

#endif
