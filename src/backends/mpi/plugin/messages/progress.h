/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching and progress of a group's messages. All but init and free are called with the lock of the messages held. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_MESSAGES_PROGRESS_H
#define TTI_BACKENDS_MPI_PLUGIN_MESSAGES_PROGRESS_H

#include "backends/mpi/plugin/types.h"

/* False: there is no memory. tti_mpi_messages_free is due in any case. */
bool tti_mpi_messages_init(struct tti_mpi_messages *m, int size);
void tti_mpi_messages_free(struct tti_mpi_messages *m);

/* Takes in envelopes and tests active requests. An error is the group's. */
tutti_status tti_mpi_progress(struct tti_mpi_group *g, tutti_error *error);

void tti_mpi_post_send(struct tti_mpi_group *g, struct tti_mpi_request *r);
void tti_mpi_post_recv(struct tti_mpi_group *g, struct tti_mpi_request *r);

/* False for a receive without an envelope: it can be withdrawn without a trace. */
bool tti_mpi_has_begun(const struct tti_mpi_messages *m, const struct tti_mpi_request *r);
void tti_mpi_withdraw(struct tti_mpi_group *g, struct tti_mpi_request *r, tutti_status status);

/* The first unexpected envelope that such a receive would match. */
const struct tti_mpi_envelope *tti_mpi_find_envelope(const struct tti_mpi_messages *m, const tutti_op *wanted);
void tti_mpi_envelope_message(const struct tti_mpi_envelope *envelope, tutti_message *message);

#endif
