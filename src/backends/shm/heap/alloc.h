/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BACKENDS_SHM_HEAP_ALLOC_H
#define TTI_BACKENDS_SHM_HEAP_ALLOC_H

#include <tutti/backend.h>

struct tti_heap_view;

/* As the functions of tutti_backend_ops. */
tutti_status tti_heap_alloc(struct tti_heap_view *view, size_t bytes, const tutti_exchange *exchange, void **memory,
                            tutti_error *error);
tutti_status tti_heap_release(struct tti_heap_view *view, void *memory, tutti_error *error);

#endif
