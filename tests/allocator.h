/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes allocations fail at a chosen moment. A program's own definitions come before libc's, also for the shared
 * library: these call allocation_fails(), which the file that includes this has defined before, and then go on to the
 * real ones. In a thread that has set `fails_from`, allocations of so many bytes fail, too. dlsym may allocate, so they
 * use the names by which libc itself calls them. Not for programs with a sanitizer that has an allocator of its own.
 */
#ifndef TESTS_ALLOCATOR_H
#define TESTS_ALLOCATOR_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static _Thread_local size_t fails_from = SIZE_MAX;

static bool refuses(size_t bytes)
{
    if (allocation_fails() || bytes >= fails_from) {
        errno = ENOMEM;
        return true;
    }
    return false;
}

void *malloc(size_t bytes)
{
    return refuses(bytes) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return refuses(count * bytes) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    return refuses(bytes) ? NULL : __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return refuses(bytes) ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    void *got = refuses(bytes) ? NULL : __libc_memalign(alignment, bytes);
    if (!got) {
        return ENOMEM;
    }
    *memory = got;
    return 0;
}

#endif
