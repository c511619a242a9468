/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The open groups of this process, and which of its threads are inside MPI. The end of the process needs both: it
 * closes the entry (`stopping`), fails the groups, and waits until no thread is inside.
 */
#ifndef TTI_BACKENDS_MPI_PLUGIN_OPEN_GROUPS_H
#define TTI_BACKENDS_MPI_PLUGIN_OPEN_GROUPS_H

#include "backends/mpi/plugin/types.h"

extern _Atomic uint32_t tti_mpi_stopping; /* 1: no thread may enter MPI any more */

/* Closes the entry to MPI for good. */
void tti_mpi_stop(void);

/* Around the creation and the freeing of communicators. False: MPI is about to end, or has ended. */
bool tti_mpi_begin_creation(void);
void tti_mpi_end_creation(void);
/* How many threads are between the two. */
int32_t tti_mpi_creations(void);

/* A new group is in the list before tti_mpi_end_creation. */
void tti_mpi_add_open(struct tti_mpi_group *g);
void tti_mpi_remove_open(struct tti_mpi_group *g);
/* Calls `visit` for each open group, under the lock of the list. */
void tti_mpi_for_each_open(void (*visit)(struct tti_mpi_group *g, void *user), void *user);

/* Around calls of MPI outside collectives. False: MPI is about to end or has ended, and the group has failed. */
static inline bool tti_mpi_use(struct tti_mpi_group *g)
{
    /* seq_cst, as the load: either this thread sees `stopping`, or the end of the process sees this thread */
    atomic_fetch_add_explicit(&g->users, 1, memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&tti_mpi_stopping, memory_order_seq_cst) == 0, 1)) {
        return true;
    }
    atomic_fetch_sub_explicit(&g->users, 1, memory_order_release);
    return false;
}

static inline void tti_mpi_unuse(struct tti_mpi_group *g)
{
    /* release: this thread's calls of MPI are over when where_inside in finalize.c reads the lower count */
    atomic_fetch_sub_explicit(&g->users, 1, memory_order_release);
}

#endif
