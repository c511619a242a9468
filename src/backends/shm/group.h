/* SPDX-License-Identifier: BSD-3-Clause */
/* What all groups of the backend shm have in common, wherever their memory comes from. */
#ifndef TTI_BACKENDS_SHM_GROUP_H
#define TTI_BACKENDS_SHM_GROUP_H

#include "backends/shm/state.h"
#include "engine/engine.h"

/* NULL: there is no memory. */
struct tti_shm_group *tti_shm_group_create(int size, int rank);

/* After the engine was destroyed or has left. May be NULL. */
void tti_shm_group_free(struct tti_shm_group *group);

/* The heap of this rank, or the one that it shares with the group that this one is made from. */
tutti_status tti_shm_heap_open(const tutti_open_info *info, struct tti_shm_group *group, tutti_error *error);

/* Completes the options, and creates the engine. */
tutti_status tti_shm_engine_create(struct tti_engine_options *options, struct tti_shm_group *group, tutti_error *error);

#endif
