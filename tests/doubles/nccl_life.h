/* SPDX-License-Identifier: BSD-3-Clause */
/* How communicators begin and end: what the exported functions of these names do, between tti_group_start and _end. */
#ifndef TTI_DOUBLES_NCCL_LIFE_H
#define TTI_DOUBLES_NCCL_LIFE_H

#include "nccl_double.h"

ncclResult_t tti_life_init(struct ncclComm **place, int ranks, const ncclUniqueId *id, int rank,
                           const ncclConfig_t *config, bool with_config);
ncclResult_t tti_life_split(struct ncclComm *comm, int color, int key, struct ncclComm **place,
                            const ncclConfig_t *config);
ncclResult_t tti_life_finalize(struct ncclComm *comm);
ncclResult_t tti_life_destroy(struct ncclComm *comm);
ncclResult_t tti_life_abort(struct ncclComm *comm);
ncclResult_t tti_life_revoke(struct ncclComm *comm, int flags);

#endif
