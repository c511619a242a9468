/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives on engines that do not take the tensors' kind of memory. If the engine takes host memory only, tensors of
 * a device pass through pinned memory of the host, which the device copies from and to by itself. If the engine takes
 * memory of a device only, tensors in host memory pass through memory of the device. They pass in chunks (chunks.h).
 */
#ifndef TTI_CORE_MEMORY_STAGING_H
#define TTI_CORE_MEMORY_STAGING_H

#include <tutti/backend.h>

struct tti_group;
struct tti_staging;

/* `device`: the device of the copies. */
tutti_status tti_staging_create(struct tti_group *group, DLDevice device, struct tti_staging **staging,
                                tutti_error *error);

/* NULL is allowed. */
void tti_staging_free(struct tti_staging *staging);

/* The status of a wait for the own device. TIMEOUT fails the group with `error` as the cause. `lane`: as for a
 * backend's `abort`. */
tutti_status tti_staging_waited(struct tti_group *group, int32_t lane, tutti_status status, tutti_error *error);

/* Runs a collective on copies of its tensors, on the engine that is given. The calling thread owns the lane. */
tutti_status tti_staging_run(struct tti_group *group, const tutti_backend *engine, void *state, tutti_op *op,
                             tutti_error *error);

#endif
