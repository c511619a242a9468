/* SPDX-License-Identifier: BSD-3-Clause */
/* How communicators begin and end: the bodies of the exported functions, between tti_group_start and _end. */
#ifndef TESTS_DOUBLES_NCCL_LIFE_H
#define TESTS_DOUBLES_NCCL_LIFE_H

#include "double.h"

ncclResult_t tti_lifecycle_init(struct ncclComm **place, int ranks, const ncclUniqueId *id, int rank,
                                const ncclConfig_t *config, bool with_config);
ncclResult_t tti_lifecycle_split(struct ncclComm *comm, int color, int key, struct ncclComm **place,
                                 const ncclConfig_t *config);
ncclResult_t tti_lifecycle_finalize(struct ncclComm *comm);
ncclResult_t tti_lifecycle_destroy(struct ncclComm *comm);
ncclResult_t tti_lifecycle_abort(struct ncclComm *comm);
ncclResult_t tti_lifecycle_revoke(struct ncclComm *comm, int flags);

#endif
