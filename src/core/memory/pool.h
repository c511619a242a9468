/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ordinary memory, the CPU's or a device's, for groups with a backend without a heap. It lives as long as heap memory
 * would: until it is freed, or until the last group that shares the pool is gone. Groups made from a group share its
 * pool.
 */
#ifndef TTI_CORE_MEMORY_POOL_H
#define TTI_CORE_MEMORY_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <tutti/dlpack.h>
#include <tutti/status.h>

struct tti_pool;

/* A new pool with one reference; NULL without memory. */
struct tti_pool *tti_pool_create(void);
struct tti_pool *tti_pool_retain(struct tti_pool *pool);

/* The last release frees all blocks that are left. NULL is allowed. */
void tti_pool_release(struct tti_pool *pool);

/* After this, blocks that are left at the last release are not freed: an engine may use them until the process ends.
 * NULL is allowed. */
void tti_pool_keep(struct tti_pool *pool);

/* On the CPU: aligned as tutti_alloc promises, on huge pages where the system has them, mapped by this thread. On a
 * device: aligned as its allocator aligns. */
tutti_status tti_pool_alloc(struct tti_pool *pool, DLDevice device, size_t bytes, void **memory, tutti_error *error);

/* False: the memory is not the pool's. */
bool tti_pool_free(struct tti_pool *pool, void *memory);

#endif
