/* SPDX-License-Identifier: BSD-3-Clause */
/* What postings (postings.c) need of the messages (messages.c). All under the lock of the group's messages. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_MOVING_H
#define TTI_BACKENDS_MPI_PLUGIN_MOVING_H

#include "backends/mpi/plugin/plugin.h"

/* Moves what can be moved. An error is the group's. */
tutti_status tti_mpi_progress(struct tti_mpi_group *g, tutti_error *error);

void tti_mpi_post_send(struct tti_mpi_group *g, struct tti_mpi_request *r);
void tti_mpi_post_recv(struct tti_mpi_group *g, struct tti_mpi_request *r);

/* False for a receive that waits for its letter: then it can be withdrawn as if it had never been. */
bool tti_mpi_has_begun(const struct tti_mpi_messages *m, const struct tti_mpi_request *r);
void tti_mpi_withdraw(struct tti_mpi_group *g, struct tti_mpi_request *r, tutti_status status);

/* The first letter that nobody has wanted yet and that such a receive would take. */
const struct tti_mpi_envelope *tti_mpi_find_envelope(const struct tti_mpi_messages *m, const tutti_op *wanted);
void tti_mpi_envelope_message(const struct tti_mpi_envelope *envelope, tutti_message *message);

#endif
