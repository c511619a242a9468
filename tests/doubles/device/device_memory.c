/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of devices. Each allocation is a memory file that is mapped at a shadow address inside the double. The program
 * gets an address without access rights, so a program that dereferences a device pointer dies of SIGSEGV. New memory is
 * filled with 0xff: NaN in every floating-point format, -1 in integers; beyond FILLED bytes it is zeros, since a page
 * that is filled has to be made.
 *
 * Freed memory keeps its address for a while, so that a use after free is detected and does not hit a new allocation.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device_state.h"

enum { QUARANTINED = 256, FILLED = 32 << 20 };
#define QUARANTINE_BYTES ((size_t)8 << 30)

/* Sorted by `begin`. */
static struct tti_double_block **blocks;
static size_t block_count;
static size_t block_capacity;
static struct tti_double_block *dead; /* blocks that operations still use */
static uint64_t last_id;

/* Freed ranges, still reserved: a ring buffer, the oldest is released first. */
static struct quarantined {
    uintptr_t begin;
    size_t bytes;
} quarantine_list[QUARANTINED];
static size_t quarantine_first;
static size_t quarantine_count;
static size_t quarantined_bytes;

/* Addresses are handed out as numbers, and come back as pointers. */
static void *pointer_to(uintptr_t address)
{
    void *pointer = NULL;
    memcpy(&pointer, &address, sizeof(pointer));
    return pointer;
}

static size_t whole_pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* The index of the first block that begins after the address. */
static size_t first_behind(uintptr_t address)
{
    size_t low = 0;
    size_t high = block_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (blocks[middle]->begin <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct tti_double_block *tti_double_block_at(uintptr_t address)
{
    const size_t index = first_behind(address);
    struct tti_double_block *block = index ? blocks[index - 1] : NULL;
    return block && address - block->begin < block->bytes ? block : NULL;
}

bool tti_double_block_touches(uintptr_t begin, size_t bytes)
{
    const uintptr_t last = begin + (bytes ? bytes - 1 : 0);
    const size_t index = first_behind(last);
    if (last < begin || tti_double_block_at(begin) || (index && blocks[index - 1]->begin >= begin)) {
        return true;
    }
    for (size_t i = 0; i < quarantine_count; i++) {
        const struct quarantined *quarantined = &quarantine_list[(quarantine_first + i) % QUARANTINED];
        if (begin < quarantined->begin + quarantined->bytes && last >= quarantined->begin) {
            return true;
        }
    }
    for (const struct tti_double_block *block = dead; block; block = block->next_dead) {
        if (begin < block->begin + block->mapped && last >= block->begin) {
            return true;
        }
    }
    return false;
}

bool tti_double_block_add(struct tti_double_block *block)
{
    if (block_count == block_capacity) {
        const size_t capacity = block_capacity ? 2 * block_capacity : 64;
        struct tti_double_block **larger = realloc(blocks, capacity * sizeof(*larger));
        if (!larger) {
            return false;
        }
        blocks = larger;
        block_capacity = capacity;
    }
    const size_t index = first_behind(block->begin);
    memmove(&blocks[index + 1], &blocks[index], (block_count - index) * sizeof(*blocks));
    blocks[index] = block;
    block_count++;
    block->id = ++last_id;
    return true;
}

static void quarantine(uintptr_t begin, size_t bytes)
{
    while (quarantine_count > 0 && (quarantine_count == QUARANTINED || quarantined_bytes + bytes > QUARANTINE_BYTES)) {
        const struct quarantined *oldest = &quarantine_list[quarantine_first];
        munmap(pointer_to(oldest->begin), oldest->bytes);
        quarantined_bytes -= oldest->bytes;
        quarantine_first = (quarantine_first + 1) % QUARANTINED;
        quarantine_count--;
    }
    quarantine_list[(quarantine_first + quarantine_count++) % QUARANTINED] = (struct quarantined){begin, bytes};
    quarantined_bytes += bytes;
}

static bool has_file(const struct tti_double_block *block)
{
    return block->kind == TTI_DOUBLE_DEVICE || block->kind == TTI_DOUBLE_IMPORTED;
}

/* Frees the contents; the address stays reserved for a while, without access rights. */
static void unmap(struct tti_double_block *block)
{
    if (has_file(block)) {
        munmap(block->shadow, whole_pages(block->bytes));
        close(block->fd);
    } else if (block->mapped) {
        mmap(pointer_to(block->begin), block->mapped, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    if (block->mapped) {
        quarantine(block->begin, block->mapped);
    }
    free(block);
}

void tti_double_block_use(struct tti_double_block *block)
{
    if (block) {
        block->users++;
    }
}

void tti_double_block_release(struct tti_double_block *block)
{
    if (block && --block->users == 0 && block->dead) {
        struct tti_double_block **link = &dead;
        while (*link != block) {
            link = &(*link)->next_dead;
        }
        *link = block->next_dead;
        unmap(block);
    }
}

void tti_double_block_remove(struct tti_double_block *block)
{
    const size_t index = first_behind(block->begin) - 1;
    memmove(&blocks[index], &blocks[index + 1], (block_count - index - 1) * sizeof(*blocks));
    block_count--;
    if (block->kind == TTI_DOUBLE_DEVICE || block->kind == TTI_DOUBLE_MANAGED) {
        tti_double.devices[block->device].used -= block->bytes;
    }
    block->dead = true;
    block->next_dead = dead;
    dead = block;
    block->users++;
    tti_double_block_release(block);
}

struct tti_double_block *tti_double_block_imported(uint64_t inode, int device)
{
    for (size_t i = 0; i < block_count; i++) {
        if (blocks[i]->kind == TTI_DOUBLE_IMPORTED && blocks[i]->inode == inode && blocks[i]->device == device) {
            return blocks[i];
        }
    }
    return NULL;
}

static void *reserve(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

bool tti_double_block_map(struct tti_double_block *block)
{
    const size_t bytes = whole_pages(block->bytes);
    void *outside = reserve(bytes);
    if (!outside) {
        return false;
    }
    void *shadow = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, block->fd, 0);
    if (shadow == MAP_FAILED) {
        munmap(outside, bytes);
        return false;
    }
    madvise(shadow, bytes, MADV_DONTFORK); /* a fork's child has no device */
    block->begin = (uintptr_t)outside;
    block->mapped = bytes;
    block->shadow = shadow;
    return true;
}

/* Memory of a device: a file, so that another process can map it. */
static bool map_device(struct tti_double_block *block)
{
    struct stat file;
    block->fd = memfd_create("tutti-double", MFD_CLOEXEC);
    if (block->fd < 0) {
        return false;
    }
    if (ftruncate(block->fd, (off_t)whole_pages(block->bytes)) || fstat(block->fd, &file) ||
        !tti_double_block_map(block)) {
        close(block->fd);
        return false;
    }
    block->inode = file.st_ino;
    return true;
}

/* Memory of the host, with a guard page behind it. */
static bool map_host(struct tti_double_block *block)
{
    const size_t bytes = whole_pages(block->bytes);
    const size_t guarded = bytes + whole_pages(1);
    char *memory = reserve(guarded);
    if (!memory) {
        return false;
    }
    if (mprotect(memory, bytes, PROT_READ | PROT_WRITE)) {
        munmap(memory, guarded);
        return false;
    }
    block->fd = -1;
    block->begin = (uintptr_t)memory;
    block->mapped = guarded;
    block->shadow = memory;
    return true;
}

int tti_double_alloc(enum tti_double_kind kind, int device, size_t bytes, unsigned flags, void **memory)
{
    const bool counted = kind == TTI_DOUBLE_DEVICE || kind == TTI_DOUBLE_MANAGED;
    struct tti_double_block *block = calloc(1, sizeof(*block));
    if (!block) {
        return TTI_DOUBLE_OUT_OF_MEMORY;
    }
    block->kind = kind;
    block->device = device;
    block->bytes = bytes;
    block->flags = flags;
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_device *owner = &tti_double.devices[device];
    const bool fits = bytes <= (SIZE_MAX >> 2) && (!counted || bytes <= tti_double_settings()->memory - owner->used);
    bool done = fits && (kind == TTI_DOUBLE_DEVICE ? map_device(block) : map_host(block));
    if (done && !tti_double_block_add(block)) {
        unmap(block);
        block = NULL;
        done = false;
    }
    if (done) {
        owner->used += counted ? bytes : 0;
        *memory = pointer_to(block->begin);
        block->users++; /* while it is filled without the lock */
    }
    pthread_mutex_unlock(&tti_double.lock);
    if (!done) {
        free(block);
        return TTI_DOUBLE_OUT_OF_MEMORY;
    }
    memset(block->shadow, 0xff, bytes < FILLED ? bytes : FILLED);
    pthread_mutex_lock(&tti_double.lock);
    tti_double_block_release(block);
    pthread_mutex_unlock(&tti_double.lock);
    return TTI_DOUBLE_OK;
}

int tti_double_free(unsigned kinds, void *memory)
{
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_block *block = tti_double_block_at((uintptr_t)memory);
    int code = TTI_DOUBLE_INVALID_VALUE;
    if (block && block->begin == (uintptr_t)memory && kinds & (1u << block->kind)) {
        const uint64_t id = block->id;
        code = tti_double_device_drain(block->device);
        /* Another thread may have freed it meanwhile. */
        block = tti_double_block_at((uintptr_t)memory);
        if (!code && block && block->id == id) {
            tti_double_block_remove(block);
        } else if (!code) {
            code = TTI_DOUBLE_INVALID_VALUE;
        }
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

int tti_double_register(int device, void *memory, size_t bytes, unsigned flags)
{
    struct tti_double_block *block = calloc(1, sizeof(*block));
    if (!block) {
        return TTI_DOUBLE_OUT_OF_MEMORY;
    }
    *block = (struct tti_double_block){.begin = (uintptr_t)memory,
                                       .bytes = bytes,
                                       .shadow = memory,
                                       .kind = TTI_DOUBLE_REGISTERED,
                                       .device = device,
                                       .flags = flags,
                                       .fd = -1};
    int code = TTI_DOUBLE_OK;
    pthread_mutex_lock(&tti_double.lock);
    if (tti_double_block_touches((uintptr_t)memory, bytes)) {
        code = TTI_DOUBLE_ALREADY_REGISTERED;
    } else if (!tti_double_block_add(block)) {
        code = TTI_DOUBLE_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&tti_double.lock);
    if (code) {
        free(block);
    }
    return code;
}

bool tti_double_lookup(const void *address, struct tti_double_memory *memory)
{
    pthread_mutex_lock(&tti_double.lock);
    const struct tti_double_block *block = tti_double_block_at((uintptr_t)address);
    if (block) {
        *memory = (struct tti_double_memory){.kind = block->kind,
                                             .device = block->device,
                                             .flags = block->flags,
                                             .base = pointer_to(block->begin),
                                             .bytes = block->bytes,
                                             .id = block->id};
    }
    pthread_mutex_unlock(&tti_double.lock);
    return block;
}

void tti_double_memory_info(int device, size_t *free_bytes, size_t *total)
{
    pthread_mutex_lock(&tti_double.lock);
    *total = tti_double_settings()->memory;
    *free_bytes = *total - tti_double.devices[device].used;
    pthread_mutex_unlock(&tti_double.lock);
}

void tti_double_blocks_close(int device)
{
    for (size_t i = block_count; i-- > 0;) {
        if (blocks[i]->device == device) {
            tti_double_block_remove(blocks[i]);
        }
    }
}
