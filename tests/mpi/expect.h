/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of a program in an MPI job: the first one that fails ends the rank. */
#ifndef TESTS_MPI_EXPECT_H
#define TESTS_MPI_EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

static int rank = -1; /* in the world; set by the program */

static inline void expect(int holds, const char *what, const tutti_error *error)
{
    if (!holds) {
        fprintf(stderr, "FAILED: rank %d: %s: %s: %s\n", rank, what, tutti_status_name(error->status), error->message);
        exit(1);
    }
}

#endif
