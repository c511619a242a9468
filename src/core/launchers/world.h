/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank, world size and store of this process, from the environment that a launcher has set. */
#ifndef TTI_CORE_LAUNCHERS_WORLD_H
#define TTI_CORE_LAUNCHERS_WORLD_H

#include <stdbool.h>
#include <tutti/status.h>

struct tti_world {
    int rank;
    int size;
    int local_rank;      /* -1 if unknown */
    int local_size;      /* -1 if unknown */
    const char *family;  /* "tutti", "torchrun", "openmpi", "hydra", "pmix", "slurm", "none" */
    char store_url[300]; /* the store of the job; "" if size is 1 and TUTTI_STORE is not set */
    bool serve;          /* this rank serves a tcp store */
};

/*
 * Families in this order, the first that is present counts: TUTTI_RANK TUTTI_WORLD_SIZE TUTTI_LOCAL_RANK
 * TUTTI_LOCAL_WORLD_SIZE TUTTI_STORE; RANK (or WORLD_RANK) WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR
 * MASTER_PORT (torchrun); OMPI_COMM_WORLD_*; PMI_* (hydra) and PMIX_*; SLURM_*. A family that is incomplete, malformed
 * or contradicts itself is INVALID_ARGUMENT naming the variable. TUTTI_STORE overrides the store of every family.
 * `has_store`: the application names the store, so the family need not have one.
 */
tutti_status tti_world_from_environment(bool has_store, struct tti_world *world, tutti_error *error);

#endif
