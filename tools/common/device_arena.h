/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a device for tools that need many blocks of it while operations are under way. Vendors' free, and sometimes
 * their alloc, wait for what runs on the device; what runs there may wait for another rank, and that one for this. So
 * blocks are cut from slabs, which are given back with the arena.
 *
 * Any thread may call; copies of one arena run one at a time.
 */
#ifndef TOOLS_COMMON_DEVICE_ARENA_H
#define TOOLS_COMMON_DEVICE_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include <tutti/dlpack.h>
#include <tutti/status.h>

#include "device/device.h"

struct tti_device_arena;

/* Takes the first slab, of `slab` bytes; later ones are as large, or as large as a block. */
tutti_status tti_device_arena_open(DLDevice where, size_t slab, int64_t timeout_ms, struct tti_device_arena **arena,
                                   tutti_error *error);
/* Frees all its chunks. NULL is allowed. */
void tti_device_arena_close(struct tti_device_arena *arena);

const struct tti_device *tti_device_arena_driver(const struct tti_device_arena *arena);
DLDevice tti_device_arena_device(const struct tti_device_arena *arena);

/* Aligned to 256 bytes; the content is undefined. */
tutti_status tti_device_arena_alloc(struct tti_device_arena *arena, size_t bytes, void **memory, tutti_error *error);
/* With the size that it was asked for. NULL is allowed. */
void tti_device_arena_free(struct tti_device_arena *arena, void *memory, size_t bytes);
/* Copies between any two places, and returns when that is done. */
tutti_status tti_device_arena_copy(struct tti_device_arena *arena, void *dst, const void *src, size_t bytes,
                                   tutti_error *error);

#endif
