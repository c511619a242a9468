/* SPDX-License-Identifier: BSD-3-Clause */
/* The MPI library of this process. There are several, with different binary interfaces; a process can use one. */
#ifndef TTI_BACKENDS_MPI_CHOOSE_H
#define TTI_BACKENDS_MPI_CHOOSE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct tti_mpi_choice {
    const char *flavour;    /* "openmpi", "mpich" or "abi": the end of the plug-in file's name */
    char library[PATH_MAX]; /* the file of the MPI library; "": its usual names */
    char reason[160];       /* of the choice */
    bool loaded;            /* the library is in the process already */
    bool launched;          /* a launcher of MPI jobs has started the process */
};

/* Chooses the library; loads and starts nothing. False: this process has no MPI, and `reason` says what is missing. */
bool tti_mpi_choose(struct tti_mpi_choice *choice);

/* Makes the library's symbols visible to the plug-in. False with the reason. */
bool tti_mpi_open_library(const struct tti_mpi_choice *choice, char *why, size_t capacity);

/* Whether MPI has been initialised. Only with the library open. */
bool tti_mpi_is_running(void);

#endif
