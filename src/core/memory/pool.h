/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ordinary memory, the CPU's or a device's, for groups whose backend has no heap. It lives as long as heap memory would: until it is freed, or until
 * the last group is gone that shares the pool, which a group hands down to those that are made from it.
 */
#ifndef TTI_CORE_MEMORY_H
#define TTI_CORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <tutti/dlpack.h>
#include <tutti/status.h>

struct tti_pool;

/* A new pool with one reference; NULL without memory. */
struct tti_pool *tti_pool_create(void);
struct tti_pool *tti_pool_retain(struct tti_pool *pool);

/* The last one frees all that is left. NULL is allowed. */
void tti_pool_release(struct tti_pool *pool);

/* On the CPU aligned as tutti_alloc promises, on huge pages where the system gives them, touched by this thread; on a device
 * as that aligns. */
tutti_status tti_pool_alloc(struct tti_pool *pool, DLDevice device, size_t bytes, void **memory, tutti_error *error);

/* False if it is not the pool's. */
bool tti_pool_free(struct tti_pool *pool, void *memory);

#endif
