/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The open groups of this process, and the entry to MPI. A thread announces itself (`creating`, `users` of a group,
 * `inside` of a lane) and then reads `stopping` or the group's `failed`. The end of the process writes those first and
 * then reads the announcements. All are seq_cst, so one of the two sees the other (Dekker; Dijkstra, 1965).
 */
#include "backends/mpi/plugin/open_groups.h"

_Atomic uint32_t tti_mpi_stopping;

static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tti_mpi_group *groups;
static _Atomic int32_t creating; /* threads that create or free communicators */

void tti_mpi_stop(void)
{
    /* under the lock: the watchdog calls MPI under it only, so it is outside from here on */
    pthread_mutex_lock(&groups_lock);
    atomic_store_explicit(&tti_mpi_stopping, 1, memory_order_seq_cst); /* pairs with the loads after announcements */
    pthread_mutex_unlock(&groups_lock);
}

bool tti_mpi_begin_creation(void)
{
    /* seq_cst, as in tti_mpi_use */
    atomic_fetch_add_explicit(&creating, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&tti_mpi_stopping, memory_order_seq_cst)) {
        tti_mpi_end_creation();
        return false;
    }
    return true;
}

void tti_mpi_end_creation(void)
{
    /* release: pairs with the load in tti_mpi_creations, whose caller then finds a new group in the list */
    atomic_fetch_sub_explicit(&creating, 1, memory_order_release);
}

int32_t tti_mpi_creations(void)
{
    return atomic_load_explicit(&creating, memory_order_seq_cst);
}

void tti_mpi_add_open(struct tti_mpi_group *g)
{
    pthread_mutex_lock(&groups_lock);
    g->next_open = groups;
    groups = g;
    pthread_mutex_unlock(&groups_lock);
}

void tti_mpi_remove_open(struct tti_mpi_group *g)
{
    pthread_mutex_lock(&groups_lock);
    for (struct tti_mpi_group **link = &groups; *link; link = &(*link)->next_open) {
        if (*link == g) {
            *link = g->next_open;
            break;
        }
    }
    pthread_mutex_unlock(&groups_lock);
}

void tti_mpi_for_each_open(void (*visit)(struct tti_mpi_group *g, void *user), void *user)
{
    pthread_mutex_lock(&groups_lock);
    for (struct tti_mpi_group *g = groups; g; g = g->next_open) {
        visit(g, user);
    }
    pthread_mutex_unlock(&groups_lock);
}
