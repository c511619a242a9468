/* SPDX-License-Identifier: BSD-3-Clause */
/* Which MPI: there are several, with different binary interfaces, and a process can have one. */
#ifndef TTI_BACKENDS_MPI_CHOOSE_H
#define TTI_BACKENDS_MPI_CHOOSE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct tti_mpi_choice {
    const char *flavour;    /* "openmpi", "mpich" or "abi": the name of the plug-in file ends so */
    char library[PATH_MAX]; /* the file of the MPI library, "" = by its usual names */
    char reason[160];       /* why this one */
    bool loaded;            /* the library is in the process already */
    bool launched;          /* a launcher of MPI jobs has started the process */
};

/*
 * The MPI library that is in the process already decides; else the variables of the launcher do. TUTTI_MPI_LIBRARY names
 * the file where it has an unusual name. False: nothing asks for MPI here, `reason` says what is missing. Starts and loads
 * nothing.
 */
bool tti_mpi_choose(struct tti_mpi_choice *choice);

/* Makes the library's symbols visible to the plug-in. False with the reason. */
bool tti_mpi_open_library(const struct tti_mpi_choice *choice, char *why, size_t capacity);

/* Whether MPI has been initialised. Only with the library open. */
bool tti_mpi_is_running(void);

#endif
