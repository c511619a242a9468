/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of mpi.profiling. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_PROFILE_H
#define TTI_BACKENDS_MPI_PLUGIN_PROFILE_H

#include "backends/mpi/plugin/types.h"
#include "base/text.h"

struct tti_mpi_profile *tti_mpi_profile_make(void);
void tti_mpi_profile_free(struct tti_mpi_profile *p);
uint64_t tti_mpi_op_bytes(const tutti_op *op, int size);
/* Counts an operation that has succeeded. */
void tti_mpi_profile_add(struct tti_mpi_profile *p, tutti_operation kind, uint64_t bytes, int64_t begun_ns);
/* Appends a table. */
void tti_mpi_profile_append(struct tti_mpi_profile *p, struct tti_text *t);
void tti_mpi_profile_print(const struct tti_mpi_group *g);

#endif
