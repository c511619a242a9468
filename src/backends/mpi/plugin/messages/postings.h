/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend's functions for messages, as in tutti_backend_ops. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_MESSAGES_POSTINGS_H
#define TTI_BACKENDS_MPI_PLUGIN_MESSAGES_POSTINGS_H

#include <tutti/backend.h>

tutti_status tti_mpi_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
tutti_status tti_mpi_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                           tutti_error *error);
tutti_status tti_mpi_post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                              tutti_error *error);
int32_t tti_mpi_test_p2p(void *state, void *batch);
void tti_mpi_attend_p2p(void *state, void *batch, int64_t until_ns);
void tti_mpi_wake_p2p(void *state);
int32_t tti_mpi_cancel_p2p(void *state, void *batch);
tutti_status tti_mpi_end_p2p(void *state, void *batch, tutti_error *error);

#endif
