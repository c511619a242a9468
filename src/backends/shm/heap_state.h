/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the heap share: the heap of a rank, a group's view of it, and how its members agree. */
#ifndef TTI_BACKENDS_SHM_HEAP_STATE_H
#define TTI_BACKENDS_SHM_HEAP_STATE_H

#include <pthread.h>
#include <stdbool.h>

#include "backends/shm/heap.h"
#include "backends/shm/heap_arena.h"
#include "engine/memory/heap.h"
#include "store/store.h"

/* One of the own regions. */
struct tti_heap_region {
    bool taken;
    bool *mapped; /* for each member: it has the region mapped */
    int fd;       /* -1: less than a page was registered, there is no memory */
    unsigned char *base;
    size_t bytes;
    void *registered; /* as the caller gave it; NULL for the arena */
    bool huge;        /* huge pages were asked for before it was registered */
    bool overlaid;    /* the file lies over the range */
    uint64_t inode;   /* these three name the file where the system lists what is mapped */
    unsigned device_major;
    unsigned device_minor;
    struct tti_heap_region *next_claimed; /* heap_ranges.c */
};

/* A mapping of a member's region that is in the table no more, but perhaps still in use. */
struct tti_heap_retired {
    struct tti_heap_retired *next;
    uint64_t word;
    uint64_t withdrawal; /* the number of the one that took it out */
};

struct tti_heap_shared {
    pthread_mutex_t lock; /* all below; held for moments, never while waiting for another rank */
    int references;
    int members; /* ranks of the group that made the heap */
    int own;     /* the own number among them */
    int32_t *globals;
    struct tti_heap_member *table; /* a row for each member: what this process has mapped of it */
    struct tti_heap_region regions[TTI_HEAP_REGIONS];
    struct tti_heap_orphans orphans;
    _Atomic uint64_t withdrawals; /* see engine/memory/heap.h */
    struct tti_heap_retired *retired_mappings;
    struct tti_arena *arena;
    size_t capacity; /* of the arena */
    int maps;        /* /proc/self/maps, to ask what is mapped; -1 = cannot be asked */
    struct tti_heap_view *views;
};

struct tti_heap_view {
    struct tti_heap_view *next;
    struct tti_heap_shared *shared;
    struct tti_heap table;
    int rank;
    int size;
    int *member_of;                      /* for each rank */
    struct tti_heap_group_ops group_ops; /* under the lock of the heap */
    int64_t timeout_ms;
    char directory[TTI_STORE_DIRECTORY + 1]; /* tutti_open_info.socket_directory, or "" */
};

/* What a rank tells the others in one step of a collective call. Travels between processes. */
struct tti_heap_record {
    int32_t status;
    uint32_t region;    /* index of the own region that is meant   */
    uint64_t bytes;     /* how much memory is wanted               */
    uint64_t offset;    /* of the block in the arena               */
    uint64_t cgroup;    /* whose memory limit this rank shares     */
    uint64_t random[2]; /* rank 0: the name of the passage         */
    uint8_t incomplete; /* the arena of a rank is missing here     */
    uint8_t serves;     /* the passage                             */
    uint8_t refused;    /* by the rank that serves it              */
    uint8_t reserved;   /* 0                                       */
    int32_t suspect;    /* the rank whose failure it is            */
    char message[220];
};

/* ---- heap.c ----------------------------------------------------------------------------------------------------------------- */

/* Shows each view which own regions it may name now. Under the lock. */
void tti_heap_publish(struct tti_heap_shared *h);

/* All ranks of the view have mapped the own region. Under the lock. */
void tti_heap_mark_mapped(struct tti_heap_view *v, unsigned region);

/* What this process has mapped of a member's region, exchanged for another mapping. The old one is unmapped when no message and
 * no collective touches it any more, perhaps by a later call. Under the lock. */
void tti_heap_replace(struct tti_heap_shared *h, int member, unsigned region, uint64_t word);

/* Who moves the group's messages, as long as the call that asks. Takes the lock. */
struct tti_heap_group_ops tti_heap_group_ops_of(struct tti_heap_view *v);

/* Takes a free region: its index, or 0 if there is none. Under the lock. */
unsigned tti_heap_alloc_region(struct tti_heap_shared *h);

/* Gives a region back whose memory is gone already. Under the lock. */
void tti_heap_free_region(struct tti_heap_shared *h, unsigned region);

/* ---- heap_agree.c ----------------------------------------------------------------------------------------------------------- */

/* Tells everybody `mine` and reads all records; the first failure among them becomes everybody's, with a sentence that
 * begins with `what`. On failure before the call `mine.status` is set and *error is what went wrong. */
tutti_status tti_heap_agree(const struct tti_heap_view *v, const tutti_exchange *exchange, const char *what,
                            struct tti_heap_record *mine, struct tti_heap_record *all, tutti_error *error);

/*
 * The passage of descriptors: a store under a random name, which rank 0 has told all in its record. A step of its own, as a rank
 * that cannot open it could not tell the others, who would wait for what it hands over. It is to stay open until all ranks
 * have agreed that they are done.
 */
tutti_status tti_heap_open_fd_channel(const struct tti_heap_view *v, const tutti_exchange *exchange, const char *what,
                                      struct tti_heap_record *mine, struct tti_heap_record *all,
                                      struct tti_store **channel, tutti_error *error);

/*
 * Hands `fd` (-1: none) to the other ranks and maps what those with wanted[rank] hand over, as their region: `arena`, the one
 * that has this number, or not. PEER_CORRUPT: a rank means a region that it cannot have.
 */
tutti_status tti_heap_exchange_fds(struct tti_heap_view *v, const struct tti_heap_record *all, const bool *wanted,
                                   bool arena, int fd, struct tti_store *channel, tutti_error *error);

/* The same for a rank that cannot hand over what the others want: they need not wait for it. */
void tti_heap_put_no_fd(const struct tti_heap_view *v, struct tti_store *channel);

/* NO_MEMORY if what all ranks want cannot be had. */
tutti_status tti_heap_check_available(const struct tti_heap_view *v, const struct tti_heap_record *all,
                                      tutti_error *error);

#endif
