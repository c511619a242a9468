/* SPDX-License-Identifier: BSD-3-Clause */
/* The datatype and the operation of MPI for each reduction. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_LIBRARY_DATATYPES_H
#define TTI_BACKENDS_MPI_PLUGIN_LIBRARY_DATATYPES_H

#include <mpi.h>
#include <stdbool.h>
#include <tutti/backend.h>

/* At the start of MPI. */
tutti_status tti_mpi_datatypes_make(tutti_error *error);

/* How MPI does one reduction. */
struct tti_mpi_fold {
    tutti_dtype dtype;
    MPI_Datatype type;
    MPI_Op op;
    bool is_native; /* both are MPI's own */
    bool scaled;    /* inputs are multiplied by `scale` before: PREMUL_SUM, and AVG of f64 and f32 */
    size_t wide;    /* bytes of an element of the sums, or 0: i64 for AVG of integers, f32 for scaled narrow floats */
    int size;       /* such sums are divided by it */
    double scale;   /* and their inputs multiplied by it */
};
void tti_mpi_fold_of(const tutti_op *op, int size, struct tti_mpi_fold *fold);

#endif
