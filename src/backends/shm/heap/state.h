/* SPDX-License-Identifier: BSD-3-Clause */
/* The heap of a rank, a group's view of it, and the record of a collective call on it. */
#ifndef TTI_BACKENDS_SHM_HEAP_STATE_H
#define TTI_BACKENDS_SHM_HEAP_STATE_H

#include <pthread.h>
#include <stdbool.h>

#include "backends/shm/heap/arena.h"
#include "backends/shm/heap/group_ops.h"
#include "base/memory_requests.h"
#include "engine/memory/heap.h"
#include "store/limits.h"

/* One of the own regions. */
struct tti_heap_region {
    bool taken;
    bool *mapped; /* for each member: it has the region mapped */
    int fd;       /* -1: less than a page was registered, there is no memory */
    unsigned char *base;
    size_t bytes;
    void *registered; /* the caller's address; NULL for the arena */
    bool huge;        /* huge pages were asked for before it was registered */
    bool overlaid;    /* the file lies over the range */
    uint64_t inode;   /* these three name the file where the system lists what is mapped */
    unsigned device_major;
    unsigned device_minor;
    struct tti_heap_region *next_claimed; /* ranges.c */
};

/* A mapping of a member's region that was taken out of the table, but is perhaps still in use. */
struct tti_heap_retired {
    struct tti_heap_retired *next;
    uint64_t word;
    uint64_t withdrawal; /* the number of the withdrawal that took it out */
};

struct tti_heap_shared {
    pthread_mutex_t lock; /* all below; held briefly, never while waiting for another rank */
    int references;
    int members; /* ranks of the group that made the heap */
    int own;     /* the own number among them */
    int32_t *globals;
    struct tti_heap_member *table; /* a row for each member: what this process has mapped of it */
    struct tti_heap_region regions[TTI_HEAP_REGIONS];
    unsigned regions_end; /* those from here on have never been taken */
    struct tti_heap_orphans orphans;
    _Atomic uint64_t withdrawals; /* see engine/memory/heap.h */
    struct tti_heap_retired *retired_mappings;
    struct tti_arena *arena;
    size_t capacity; /* of the arena */
    int maps;        /* tti_heap_maps_open */
    struct tti_heap_view *views;
};

struct tti_heap_view {
    struct tti_heap_view *next;
    struct tti_heap_view **link; /* that points here; NULL: the view is in no list */
    struct tti_heap_shared *shared;
    struct tti_heap table;
    int rank;
    int size;
    int *member_of;                          /* for each rank */
    struct tti_heap_group_ops group_ops;     /* under the lock of the heap */
    char directory[TTI_STORE_DIRECTORY + 1]; /* tutti_open_info.socket_directory, or "" */
};

/* A rank's record in one step of a collective call. Fixed layout: it is sent between processes. */
struct tti_heap_record {
    int32_t status;
    uint32_t region;                  /* index of the own region                 */
    uint64_t offset;                  /* of the block in the arena               */
    struct tti_memory_request memory; /* in the first round: see tti_heap_check_available */
    uint64_t random[2];               /* rank 0: the name of the channel         */
    uint8_t incomplete;               /* the arena of a rank is missing here     */
    uint8_t serves;                   /* this rank serves the descriptor channel */
    uint8_t origin;                   /* of a resource error: tti_resource_origin */
    uint8_t reserved;                 /* 0                                       */
    int32_t suspect;                  /* the rank that has caused the failure    */
    char message[220];
};

#endif
