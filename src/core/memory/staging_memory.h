/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for copies of tensors, tensors that are copied as a whole, and events on streams: see staging_memory.c. */
#ifndef TTI_CORE_MEMORY_STAGING_MEMORY_H
#define TTI_CORE_MEMORY_STAGING_MEMORY_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "core/memory/staging_state.h"

struct tti_group;

/* A block of at least `bytes` bytes, *room of them: pinned memory, or memory of the device (`there`). A block that was
 * given back is used again; it is freed when the group ends. */
tutti_status tti_staging_block_take(struct tti_staging *s, size_t bytes, bool there, void **memory, size_t *room,
                                    tutti_error *error);
/* The taker needs it no more, but it stays taken until then, at least. NULL: does nothing. */
void tti_staging_block_give(struct tti_staging *s, const void *memory, enum tti_staging_until until);

/* Inside the device's scope. */
void tti_staging_blocks_free(struct tti_staging *s);

/* The same for a caller that has a group; NULL: there is no memory. `in_use`: as in tutti_op. */
void *tti_staging_take(struct tti_group *group, size_t bytes, bool there);
void tti_staging_give(struct tti_group *group, const void *memory, int32_t in_use);

/* Copies a tensor of the device into compact memory anywhere, or back, behind the event `after` (NULL: at once), and
 * waits until the copy is done; TIMEOUT at deadline_ns. */
tutti_status tti_staging_pack(struct tti_group *group, void *compact, const DLTensor *tensor, void *after,
                              int64_t deadline_ns, tutti_error *error);
tutti_status tti_staging_unpack(struct tti_group *group, const DLTensor *tensor, const void *compact, void *after,
                                int64_t deadline_ns, tutti_error *error);

/* An event behind everything that has been queued on the stream so far. */
tutti_status tti_staging_mark(struct tti_group *group, void *stream, void **event, tutti_error *error);
void tti_staging_unmark(DLDevice device, void *event);

#endif
