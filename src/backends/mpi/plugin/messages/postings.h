/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend's functions for messages: tutti_backend_ops describes each. A batch is a struct tti_mpi_posting. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_MESSAGES_POSTINGS_H
#define TTI_BACKENDS_MPI_PLUGIN_MESSAGES_POSTINGS_H

#include <tutti/backend.h>

/* In one call. */
tutti_status tti_mpi_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
/* Without waiting. An error of MPI or an invalid message fails the group, as in the other functions. */
tutti_status tti_mpi_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                           tutti_error *error);

/* In two steps: post, test or attend until the batch has ended, end. */
tutti_status tti_mpi_post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                              tutti_error *error);
/* Takes the lock of the messages, makes progress for all of them, and checks deadline and failures. */
int32_t tti_mpi_test_p2p(void *state, void *batch);
/* Polls in a loop. With batch == NULL for the worker thread, which waits for a change in any batch. */
void tti_mpi_attend_p2p(void *state, void *batch, int64_t until_ns);
/* Counts a change, so that a worker in attend returns. */
void tti_mpi_wake_p2p(void *state);
/* May run beside test and attend, not beside end. */
int32_t tti_mpi_cancel_p2p(void *state, void *batch);
/* The batch has ended; frees it. */
tutti_status tti_mpi_end_p2p(void *state, void *batch, tutti_error *error);

#endif
