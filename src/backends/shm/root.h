/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The root of groups: the segments and the doorbell of a group that was formed at the rendezvous. The groups that are
 * made from it share them (subgroup.h), each with a share of each member's segment (shares.h). They stay mapped until
 * the last of these groups is closed.
 *
 *   segment    of the root's group | directory | block 0, block 1, ... for shares, each twice as large as the last
 *   doorbell   of the root's group | for each rank a line: how many ranks may sleep until it has made its next step of
 *              forming a group (await.c) | for each rank a room: what it gives to groups in which it is rank 0
 *
 * Blocks are sparse and mapped when they are first needed. So a process maps a few ranges for each peer, however many
 * groups it has, and opens nothing.
 */
#ifndef TTI_BACKENDS_SHM_ROOT_H
#define TTI_BACKENDS_SHM_ROOT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "backends/engine_settings.h"
#include "backends/shm/segment.h"
#include "engine/memory/layout.h"

#define TTI_DIRECTORY_ENTRIES 16384u /* a power of two */
#define TTI_ROOT_BLOCKS       10u
#define TTI_ROOT_BLOCK        ((size_t)256 << 20) /* bytes of the first one */

/* One share of its owner's segment: whose it is, and where. 0 = free. The state is stored last. */
struct tti_directory_entry {
    _Atomic uint64_t state;    /* how often the entry has been taken << 2 | TTI_SHARE_* */
    _Atomic uint64_t group;    /* a hash of the parent's name and of the ranks */
    _Atomic uint64_t serial;   /* of the group among those of that list, or of the split among the parent's */
    _Atomic uint64_t offset;   /* behind the directory */
    _Atomic uint64_t doorbell; /* in the doorbell file: of rank 0 only */
    _Atomic uint64_t place;    /* size << 32 | rank of the owner in the group */
    uint64_t in_use;           /* 1: by a share of the owner, which alone reads this, under the lock */
    uint64_t unused;
};
static_assert(sizeof(struct tti_directory_entry) == 64, "one cache line");
enum { TTI_SHARE_FREE = 0, TTI_SHARE_OFFERED = 1, TTI_SHARE_RELEASED = 2, TTI_SHARE_WITHDRAWN = 3 };
#define TTI_DIRECTORY_BYTES (TTI_DIRECTORY_ENTRIES * sizeof(struct tti_directory_entry))

struct tti_share_kind;
struct tti_fitted_tuning;

struct tti_root {
    int size;
    int rank;
    struct tti_layout layout;
    struct tti_tuning_basis tuning;
    int64_t spin_ns; /* of the settings, which all its groups have: see struct tti_engine_options */
    int64_t yield_ns;
    struct tti_mapping doorbell;
    size_t doorbell_room; /* bytes of each rank's */
    struct tti_mapping *segments;
    bool kept;                 /* the own segment: liveness_monitor.h */
    struct tti_engine *engine; /* of the root's own group: it watches the processes for all groups */
    pthread_mutex_t lock;      /* what follows */
    int references;
    unsigned char *(*blocks)[TTI_ROOT_BLOCKS]; /* of each rank, as far as they are mapped */
    uint64_t next_offset;                      /* of the own shares */
    size_t next_doorbell;                      /* in the own room */
    struct tti_fitted_tuning *fitted;          /* for the sizes of its groups */
    struct tti_share_kind *kinds;
    void (*free_kinds)(struct tti_root *root); /* NULL: there are none */
};

/* NULL: there is no memory. Nothing is mapped yet. */
struct tti_root *tti_root_create(int size, int rank);
void tti_root_retain(struct tti_root *root);
/* The last reference destroys the engine, and unmaps everything. */
void tti_root_release(struct tti_root *root);

/* The thresholds of a group of `size` ranks: those of the last group of that size. */
void tti_root_tuning(struct tti_root *root, int size, struct tti_tuning *tuning);

/* Bytes behind the segment of the root's group that are mapped with it, and that this process adds to its file. */
size_t tti_root_segment_bytes(const struct tti_layout *layout);
size_t tti_root_spare_bytes(const struct tti_layout *layout);
#define TTI_ROOT_SPARE_MOST (TTI_ROOT_BLOCK * ((1u << TTI_ROOT_BLOCKS) - 1))

/* Bytes of each rank's room in the doorbell, and where the first one begins. */
size_t tti_root_doorbell_room(int size);
static inline size_t tti_root_rooms(const struct tti_root *root)
{
    return root->layout.doorbell_bytes + tti_whole_pages((size_t)root->size * TTI_LINE);
}

/* How many ranks may sleep until that rank's next step. A hint: any rank can write it. */
static inline _Atomic uint32_t *tti_root_sleepers(const struct tti_root *root, int rank)
{
    return (_Atomic uint32_t *)(root->doorbell.base + root->layout.doorbell_bytes + (size_t)rank * TTI_LINE);
}

static inline struct tti_segment_header *tti_root_header(const struct tti_root *root, int rank)
{
    return (struct tti_segment_header *)root->segments[rank].base;
}

static inline struct tti_directory_entry *tti_root_directory(const struct tti_root *root, int rank)
{
    return (struct tti_directory_entry *)(root->segments[rank].base + root->layout.segment_bytes);
}

/* First byte of a block, behind the directory. */
static inline uint64_t tti_root_block_offset(unsigned block)
{
    return TTI_ROOT_BLOCK * ((UINT64_C(1) << block) - 1);
}

/* Where [offset, + bytes) behind the directory of a rank is mapped here; maps it at first use. NULL: it lies in no
 * block, or it cannot be mapped. Under the lock. */
unsigned char *tti_root_address(struct tti_root *root, int rank, uint64_t offset, size_t bytes);

/* Maps the blocks that the rank has in use. Under the lock. */
bool tti_root_map_used(struct tti_root *root, int rank);

#endif
