/* SPDX-License-Identifier: BSD-3-Clause */
/* The heap: memory that is registered with the library. */
#ifndef TTI_BACKENDS_NCCL_MEMORY_H
#define TTI_BACKENDS_NCCL_MEMORY_H

#include "backends/nccl/state.h"

/* Whether the library registers memory (2.19 and newer). */
bool tti_nccl_has_heap(const struct tti_nccl_library *library);

/* The heap of the parent group, shared, or a new one; NULL: no memory. */
struct tti_nccl_heap *tti_nccl_heap_open(struct tti_nccl_group *g, const tutti_open_info *info);
/* Deregisters all that the group has registered. To be called before its communicators end. */
void tti_nccl_heap_leave(struct tti_nccl_group *g);
/* Gives up the heap; the last group frees its memory. The caller has entered the device. */
void tti_nccl_heap_close(struct tti_nccl_group *g);

/* As the functions of tutti_backend_ops. */
tutti_status tti_nccl_alloc(void *state, size_t bytes, const tutti_exchange *exchange, void **memory,
                            tutti_error *error);
tutti_status tti_nccl_release(void *state, void *memory, tutti_error *error);
tutti_status tti_nccl_register(void *state, void *memory, size_t bytes, const tutti_exchange *exchange,
                               tutti_error *error);
tutti_status tti_nccl_unregister(void *state, void *memory, const tutti_exchange *exchange, tutti_error *error);

#endif
