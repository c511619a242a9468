/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BACKENDS_SHM_HEAP_REGISTER_H
#define TTI_BACKENDS_SHM_HEAP_REGISTER_H

#include "backends/shm/heap_state.h"

/* Ends a registered region: what still is its file becomes private memory with the same content, and the region is free
 * again. NO_MEMORY if a part had to stay as it was; the region is gone all the same. */
tutti_status tti_heap_end_region(struct tti_heap_shared *h, unsigned index, tutti_error *error);

#endif
