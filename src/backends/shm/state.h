/* SPDX-License-Identifier: BSD-3-Clause */
/* A group of the backend shm. Types only. */
#ifndef TTI_BACKENDS_SHM_STATE_H
#define TTI_BACKENDS_SHM_STATE_H

#include "backends/engine_ops.h"
#include "backends/shm/heap/heap.h"
#include "backends/shm/root.h"
#include "backends/shm/shares.h"

struct tti_shm_group {
    struct tti_engine_state common; /* first: engine_ops.h */
    int size;
    int rank;
    struct tti_root *root;      /* shared with the groups made from this one */
    unsigned char **bases;      /* of each rank's memory for this group */
    struct tti_heap_view *heap; /* NULL: engine.heap is off */
    struct tti_share *share;    /* of the own segment; NULL: this is the root's own group */
    int32_t *root_ranks;        /* of each rank; NULL: its number */
};

static inline int32_t tti_shm_root_rank(const struct tti_shm_group *group, int32_t rank)
{
    return group->root_ranks ? group->root_ranks[rank] : rank;
}

#endif
