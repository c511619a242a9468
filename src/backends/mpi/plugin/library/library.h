/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process knows of its MPI library, and the lock around calls of it. Every function of MPI that is called
 * after the start stands between tti_mpi_enter and tti_mpi_leave. They take a lock where the library does not allow
 * calls from several threads at once, and do nothing where it does.
 */
#ifndef TTI_BACKENDS_MPI_PLUGIN_LIBRARY_LIBRARY_H
#define TTI_BACKENDS_MPI_PLUGIN_LIBRARY_LIBRARY_H

#include <stdbool.h>
#include <sys/types.h>
#include <tutti/backend.h>

struct tti_mpi_library {
    int level;       /* MPI_THREAD_* */
    bool locked;     /* calls that do not block are made one at a time */
    long cpus;       /* of this host */
    bool own;        /* Tutti has started MPI, not the application */
    int tag_max;     /* the largest tag; the upper half are for MPI_Comm_create_group, see plugin/group.c */
    int world_rank;  /* in MPI_COMM_WORLD */
    pid_t process;   /* that has started MPI, or found it started */
    bool cuda_aware; /* device memory may be handed to MPI */
    bool rocm_aware;
    char version[96]; /* the library's name and version */
};

extern struct tti_mpi_library tti_mpi_library; /* constant after the start */

void tti_mpi_lock(void);
void tti_mpi_unlock(void);

static inline void tti_mpi_enter(void)
{
    if (tti_mpi_library.locked) {
        tti_mpi_lock();
    }
}

static inline void tti_mpi_leave(void)
{
    if (tti_mpi_library.locked) {
        tti_mpi_unlock();
    }
}

/* BACKEND with MPI's class, code and text. `what` names the function of MPI. */
tutti_status tti_mpi_error(tutti_error *error, int code, const char *what);

#endif
