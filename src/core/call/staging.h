/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors on engines that do not take their kind of memory. Those of a device pass through pinned memory of the host, which the
 * device copies from and to by itself, if the engine takes host memory only; those in host memory through memory of the device, if
 * it is the other way round. Collectives go piece by piece (chunks.h), messages as a whole.
 */
#ifndef TTI_CORE_STAGING_H
#define TTI_CORE_STAGING_H

#include <stdbool.h>
#include <tutti/backend.h>

struct tti_group;
struct tti_staging;

/* `device`: the one that has to do with it. */
tutti_status tti_staging_create(struct tti_group *group, DLDevice device, struct tti_staging **staging,
                                tutti_error *error);

/* NULL is allowed. */
void tti_staging_free(struct tti_staging *staging);

/* Runs a collective on copies of its tensors, on the engine that is given. The calling thread owns the lane. */
tutti_status tti_staging_run(struct tti_group *group, const tutti_backend *engine, void *state, tutti_op *op,
                             tutti_error *error);

/* Pinned memory, or memory of the device (`there`), from what was given back before if it is large enough; NULL: there is none. */
void *tti_staging_take(struct tti_group *group, size_t bytes, bool there);
void tti_staging_give(struct tti_group *group, void *memory);

/* Copies a tensor of the device into compact memory anywhere, or back, behind the event `after` (NULL: at once), and waits until that
 * is done; TIMEOUT at deadline_ns. */
tutti_status tti_staging_pack(struct tti_group *group, void *compact, const DLTensor *tensor, void *after,
                              int64_t deadline_ns, tutti_error *error);
tutti_status tti_staging_unpack(struct tti_group *group, const DLTensor *tensor, const void *compact, void *after,
                                int64_t deadline_ns, tutti_error *error);

/* An event behind everything that has been queued on the stream so far. */
tutti_status tti_staging_mark(struct tti_group *group, void *stream, void **event, tutti_error *error);
void tti_staging_unmark(DLDevice device, void *event);

#endif
