/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BACKENDS_SHM_HEAP_REGISTER_H
#define TTI_BACKENDS_SHM_HEAP_REGISTER_H

#include <tutti/backend.h>

#include "backends/shm/heap/state.h"

/* As the functions of tutti_backend_ops. */
tutti_status tti_heap_register(struct tti_heap_view *view, void *memory, size_t bytes, const tutti_exchange *exchange,
                               tutti_error *error);
tutti_status tti_heap_unregister(struct tti_heap_view *view, void *memory, const tutti_exchange *exchange,
                                 tutti_error *error);

/* Ends a registered region: the parts that still are its file become private memory with the same content, and the
 * region is free again. NO_MEMORY if a part had to stay as it was; the region ends all the same. */
tutti_status tti_heap_end_region(struct tti_heap_shared *h, unsigned index, tutti_error *error);

#endif
