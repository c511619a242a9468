/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of a rank. In host memory they are written and read where they lie. On a device they are written and read
 * in a mirror of the same size in host memory. Copies to the device and back end before the timed part begins, or start
 * after it.
 */
#include "bench/measure/buffers.h"

#include <stdlib.h>
#include <string.h>
#include <tutti/memory.h>

#include "common/device_arena.h"
#include "common/devices.h"

#define COPY_MS 60000 /* a copy that takes longer counts as hanging */

static bool open_host(struct tti_bench *b, bool heap, void **memory)
{
    const size_t bytes = b->options->offset + b->capacity;
    if (heap && tutti_alloc(b->group, bytes, memory, &b->error) != TUTTI_OK) {
        return tti_bench_print_error(b, "the heap", b->error.message);
    }
    if (!heap && posix_memalign(memory, TTI_BENCH_PAGE, bytes) != 0) {
        fprintf(stderr, "tutti bench: rank %d: no memory for two buffers of %zu bytes: choose a smaller -e\n", b->rank,
                b->capacity);
        return false;
    }
    /* untouched pages would be measured along */
    memset(*memory, 0, bytes);
    return true;
}

static bool open_device(struct tti_bench *b, bool heap, void **memory)
{
    const tutti_status status = heap ? tutti_alloc(b->group, b->capacity, memory, &b->error)
                                     : tti_device_arena_alloc(b->arena, b->capacity, memory, &b->error);
    return (status == TUTTI_OK &&
            tti_device_arena_copy(b->arena, *memory, b->mirror, b->capacity, &b->error) == TUTTI_OK) ||
           tti_bench_print_error(b, "memory of the device", b->error.message);
}

/* What both buffers need on a device. */
static bool open_mirror(struct tti_bench *b)
{
    if (b->options->offset > 0) {
        return tti_bench_print_error(b, "--offset", "the buffers of this backend lie on a device; leave out --offset");
    }
    b->mirror = calloc(1, b->capacity);
    if (!b->mirror) {
        return tti_bench_print_error(b, "start", "no memory for a buffer in host memory");
    }
    return tti_device_arena_open(tutti_group_device(b->group), 1, COPY_MS, &b->arena, &b->error) == TUTTI_OK ||
           tti_bench_print_error(b, "memory of the device", b->error.message);
}

bool tti_bench_open_memory(struct tti_bench *b, bool heap)
{
    unsigned char **const memories[] = {&b->left, &b->right};
    const bool on_device = tti_on_device(tutti_group_device(b->group));
    if (on_device && !open_mirror(b)) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        void *memory = NULL;
        if (!(on_device ? open_device(b, heap, &memory) : open_host(b, heap, &memory))) {
            return false;
        }
        *memories[i] = (unsigned char *)memory + b->options->offset;
    }
    return true;
}

void tti_bench_close_memory(struct tti_bench *b, bool heap)
{
    unsigned char *const buffers[] = {b->left, b->right};
    for (int i = 0; i < 2 && buffers[i]; i++) {
        unsigned char *const memory = buffers[i] - b->options->offset;
        if (heap) {
            tutti_free(b->group, memory, NULL);
        } else if (!b->arena) {
            free(memory);
        }
    }
    tti_device_arena_close(b->arena);
    free(b->mirror);
}

void *tti_bench_write_begin(const struct tti_bench *b, void *memory)
{
    return b->arena ? b->mirror : memory;
}

bool tti_bench_write_end(struct tti_bench *b, void *memory, size_t bytes)
{
    return !b->arena || tti_device_arena_copy(b->arena, memory, b->mirror, bytes, &b->error) == TUTTI_OK;
}

const void *tti_bench_read(struct tti_bench *b, const void *memory, size_t bytes)
{
    if (!b->arena) {
        return memory;
    }
    return tti_device_arena_copy(b->arena, b->mirror, memory, bytes, &b->error) == TUTTI_OK ? b->mirror : NULL;
}
