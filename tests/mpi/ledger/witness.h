/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Tutti asks of MPI, seen through MPI's profiling interface: a library that stands before MPI's own, counts the calls of
 * the functions that the ledger's programs look at, and passes them on. The programs themselves call PMPI_ functions, so that
 * what is counted, and what scripts/check_ledger.py replaces, is Tutti's alone.
 */
#ifndef TESTS_MPI_LEDGER_WITNESS_H
#define TESTS_MPI_LEDGER_WITNESS_H

#include <mpi.h>

enum witness_function {
    WITNESS_INIT,
    WITNESS_INIT_THREAD,
    WITNESS_FINALIZE,
    WITNESS_BCAST,
    WITNESS_REDUCE,
    WITNESS_ALLREDUCE,
    WITNESS_ALLGATHER,
    WITNESS_REDUCE_SCATTER,
    WITNESS_REDUCE_SCATTER_BLOCK,
    WITNESS_BARRIER,
    WITNESS_ISEND,
    WITNESS_IRECV,
    WITNESS_IMPROBE,
    WITNESS_MRECV,
    WITNESS_FUNCTIONS
};

struct witness {
    int calls;
    MPI_Datatype type; /* of the last call */
    MPI_Op op;
    int level; /* what MPI_Init_thread was asked for */
};

/* What was seen since the last call of this function. */
struct witness witness_take(enum witness_function function);

/* At the end of the process MPI must have been started and ended once by Tutti; otherwise it ends with status 1. */
void witness_expect_end(void);

#endif
