/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of blocks under a lock: tutti_alloc and tutti_free are no part of a hot path. */
#include "core/memory/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/kept_memory.h"
#include "device/device.h"

#define LINE ((size_t)64)
#define PAGE ((size_t)4096)
#define HUGE ((size_t)2 << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct block {
    struct block *next;
    void *memory;
    DLDevice device;
};

struct tti_pool {
    pthread_mutex_t lock;
    int references;
    bool kept; /* what is left at the end is not freed */
    struct block *blocks;
};

static void free_block(struct block *b)
{
    if (b->device.device_type == kDLCPU) {
        free(b->memory);
    } else {
        tti_device_free(b->device, b->memory);
    }
    free(b);
}

struct tti_pool *tti_pool_create(void)
{
    struct tti_pool *pool = calloc(1, sizeof(*pool));
    if (pool) {
        pthread_mutex_init(&pool->lock, NULL);
        pool->references = 1;
    }
    return pool;
}

struct tti_pool *tti_pool_retain(struct tti_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->references++;
    pthread_mutex_unlock(&pool->lock);
    return pool;
}

void tti_pool_release(struct tti_pool *pool)
{
    if (!pool) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    int left = --pool->references;
    pthread_mutex_unlock(&pool->lock);
    if (left > 0) {
        return;
    }
    if (pool->kept) { /* with its blocks */
        tti_memory_keep(pool);
        return;
    }
    while (pool->blocks) {
        struct block *next = pool->blocks->next;
        free_block(pool->blocks);
        pool->blocks = next;
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void tti_pool_keep(struct tti_pool *pool)
{
    if (pool) {
        pthread_mutex_lock(&pool->lock);
        pool->kept = true;
        pthread_mutex_unlock(&pool->lock);
    }
}

static tutti_status alloc_here(size_t bytes, void **memory)
{
    size_t alignment = bytes >= HUGE ? HUGE : bytes >= PAGE ? PAGE : LINE;
    /* the memory must exist: more than the machine has is refused before the allocator promises it */
    bool possible = bytes / PAGE <= (size_t)sysconf(_SC_PHYS_PAGES) * ((size_t)sysconf(_SC_PAGESIZE) / PAGE);
    if (!possible || posix_memalign(memory, alignment, bytes) != 0) {
        return TUTTI_NO_MEMORY;
    }
    if (alignment == HUGE) { /* both are advice: without them pages are small, or are mapped at first touch */
        madvise(*memory, bytes, MADV_HUGEPAGE);
        madvise(*memory, bytes / PAGE * PAGE, MADV_POPULATE_WRITE);
    }
    return TUTTI_OK;
}

tutti_status tti_pool_alloc(struct tti_pool *pool, DLDevice device, size_t bytes, void **memory, tutti_error *error)
{
    struct block *b = malloc(sizeof(*b));
    tutti_status status = TUTTI_NO_MEMORY;
    if (b && device.device_type == kDLCPU) {
        status = alloc_here(bytes, &b->memory);
    } else if (b) {
        status = tti_device_alloc(device, bytes, &b->memory, error);
    }
    if (status != TUTTI_OK) {
        free(b);
        return status == TUTTI_NO_MEMORY
                   ? tti_error_set(error, TUTTI_NO_MEMORY, "no memory: %zu bytes are needed", bytes)
                   : status;
    }
    b->device = device;
    pthread_mutex_lock(&pool->lock);
    b->next = pool->blocks;
    pool->blocks = b;
    pthread_mutex_unlock(&pool->lock);
    *memory = b->memory;
    return TUTTI_OK;
}

bool tti_pool_free(struct tti_pool *pool, void *memory)
{
    struct block *found = NULL;
    pthread_mutex_lock(&pool->lock);
    for (struct block **link = &pool->blocks; *link; link = &(*link)->next) {
        if ((*link)->memory == memory) {
            found = *link;
            *link = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    if (found) {
        free_block(found);
    }
    return found != NULL;
}
