/* SPDX-License-Identifier: BSD-3-Clause */
/* What the arrival of a large call carries beside its descriptor: attributes.c. */
#ifndef TTI_ENGINE_ARRIVAL_ATTRIBUTES_H
#define TTI_ENGINE_ARRIVAL_ATTRIBUTES_H

#include "engine/lane.h"

/* All of it fits the cache line of the sequence. */
struct tti_attributes {
    uint32_t resource_error; /* tutti_status; not OK: see tti_stage_begin                           */
    uint32_t start;          /* place of its first span in its stage, in units of 64 bytes         */
    double scale;            /* its factor, for a PREMUL_SUM                                       */
    uint64_t input;          /* names of the tensors that it exposes (expose.c); 0 = private       */
    uint64_t output;
};

/* Publishes the own arrival with the attributes of this call. */
tutti_status tti_arrive_staged(struct tti_lane *lane, uint32_t resource_error);

/* After the wait for the arrival: checks the attributes of one rank / of all, and fills lane->starts, lane->scales and
 * the addresses of exposed tensors. NO_MEMORY if a rank has published a resource error. */
tutti_status tti_attributes_one(struct tti_lane *lane, int peer);
tutti_status tti_attributes_all(struct tti_lane *lane);
/* The same for the addresses of one rank that only reads, so that nobody reads its stage. */
tutti_status tti_attributes_names(struct tti_lane *lane, int peer);

/* The same for a root that reads. If leaves wait for it (others_wait), it fails the group instead of returning
 * alone. */
tutti_status tti_attributes_as_root(struct tti_lane *lane, bool others_wait);

#endif
