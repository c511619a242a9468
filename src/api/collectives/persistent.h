/* SPDX-License-Identifier: BSD-3-Clause */
/* What persistent operations have to be told by the rest of the API. */
#ifndef TTI_API_PERSISTENT_H
#define TTI_API_PERSISTENT_H

#include <stddef.h>

/* A block of tutti_alloc is free: persistent operations on tensors in it cannot run any more. */
void tti_persistent_memory_freed(const void *memory, size_t bytes);

#endif
