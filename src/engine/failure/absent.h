/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that are dead or have left: absent.c. */
#ifndef TTI_ENGINE_FAILURE_ABSENT_H
#define TTI_ENGINE_FAILURE_ABSENT_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "engine/lane.h"

/* Whether a rank is dead or has left, as far as this process has noticed: it will neither vote nor call any more. */
bool tti_is_absent(const struct tti_engine *e, int rank);

/* The functions behind tutti_backend_ops.lost and .peer_status. */
void tti_engine_lost(struct tti_engine *e, uint64_t *ranks);
tutti_status tti_engine_peer_status(struct tti_engine *e, int rank, tutti_error *error);

#endif
