/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts Tutti's calls of MPI through MPI's profiling interface. This library is loaded before MPI's own, counts the
 * calls of the functions that the ledger's programs check, and passes them on. The programs themselves call PMPI_
 * functions, so that only Tutti's calls are counted, and replaced by scripts/check_ledger.py.
 */
#ifndef TESTS_MPI_LEDGER_CALL_COUNTER_H
#define TESTS_MPI_LEDGER_CALL_COUNTER_H

#include <mpi.h>

enum call_counter_function {
    COUNTED_INIT,
    COUNTED_INIT_THREAD,
    COUNTED_FINALIZE,
    COUNTED_BCAST,
    COUNTED_REDUCE,
    COUNTED_ALLREDUCE,
    COUNTED_ALLGATHER,
    COUNTED_REDUCE_SCATTER,
    COUNTED_REDUCE_SCATTER_BLOCK,
    COUNTED_BARRIER,
    COUNTED_ISEND,
    COUNTED_IRECV,
    COUNTED_IMPROBE,
    COUNTED_MRECV,
    COUNTED_FUNCTIONS
};

struct call_counter {
    int calls;
    MPI_Datatype type; /* of the last call */
    MPI_Op op;
    int level; /* requested of MPI_Init_thread */
};

/* The calls since the last call of this function. */
struct call_counter call_counter_take(enum call_counter_function function);

/* At the end of the process MPI must have been started and ended once by Tutti; otherwise it ends with status 1. */
void call_counter_expect_end(void);

#endif
