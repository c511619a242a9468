/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A heap file has its full size from the start, and its size is sealed: no rank can shrink it under the others, whose
 * access would then raise SIGBUS. It is sparse; pages are added with MADV_POPULATE_WRITE (fallocate before Linux 5.14)
 * and given back by punching holes. Without this step the first write to a page that the system cannot supply would end
 * the process with SIGBUS; here it is NO_MEMORY. Pages are added in steps of TTI_HEAP_STEP, with a poll for a failure
 * of the group before each.
 */
#include "backends/shm/heap/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/shm/heap/arena.h"
#include "backends/shm/heap/group_ops.h"
#include "backends/shm/segment.h"
#include "base/error.h"
#include "engine/memory/heap.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

tutti_status tti_heap_file_create(const char *what, size_t bytes, int *fd, tutti_error *error)
{
    int file = -1;
    tutti_status status = tti_memory_file(what, bytes, &file, error);
    if (status == TUTTI_OK && (status = tti_memory_seal(file, error)) != TUTTI_OK) {
        close(file);
    }
    if (status == TUTTI_OK) {
        *fd = file;
    }
    return status;
}

tutti_status tti_heap_file_check(int fd, int rank, size_t *bytes, tutti_error *error)
{
    struct stat st;
    int seals;
    if (!tti_memory_is_sealed(fd, &seals)) {
        return tti_error_set(error, TUTTI_PROTOCOL, "the heap of rank %d is not sealed as it must be (seals 0x%x)",
                             rank, (unsigned)seals);
    }
    if (fstat(fd, &st) != 0) {
        return tti_error_set(error, TUTTI_PROTOCOL, "the size of the heap of rank %d cannot be read (errno %d)", rank,
                             errno);
    }
    if (st.st_size <= 0 || (uint64_t)st.st_size > TTI_HEAP_MAX_BYTES || st.st_size % TTI_HEAP_PAGE != 0) {
        return tti_error_set(
            error, TUTTI_PROTOCOL, "the heap of rank %d has %lld bytes, which is no multiple of %llu up to %llu", rank,
            (long long)st.st_size, (unsigned long long)TTI_HEAP_PAGE, (unsigned long long)TTI_HEAP_MAX_BYTES);
    }
    *bytes = (size_t)st.st_size;
    return TUTTI_OK;
}

tutti_status tti_heap_file_map(int fd, size_t bytes, bool own, unsigned char **base, tutti_error *error)
{
    /* Reserves a larger range, maps the file over an aligned part of it, and unmaps the rest. */
    size_t slack = bytes >= TTI_ARENA_HUGE ? TTI_ARENA_HUGE : 0;
    unsigned char *room = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        return tti_error_system(error, errno,
                                "cannot find %zu bytes of address space for the heap (engine.heap_capacity)", bytes);
    }
    size_t front = slack > 0 ? (TTI_ARENA_HUGE - (uintptr_t)room % TTI_ARENA_HUGE) % TTI_ARENA_HUGE : 0;
    unsigned char *place = room + front;
    /* Not accessible at first: after mlockall(MCL_FUTURE) the kernel would fill all of it. */
    if (mmap(place, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED || munlock(place, bytes) != 0 ||
        mprotect(place, bytes, PROT_READ | PROT_WRITE) != 0) {
        int cause = errno;
        munmap(room, bytes + slack);
        return tti_error_system(error, cause, "cannot map %zu bytes of the heap", bytes);
    }
    if (front > 0) {
        munmap(room, front);
    }
    if (slack > front) {
        munmap(place + bytes, slack - front);
    }
    madvise(place, bytes, MADV_HUGEPAGE); /* advice only */
    madvise(place, bytes, MADV_DONTDUMP); /* a core dump reads the holes too, and that fills them with memory */
    if (!own) {
        madvise(place, bytes, MADV_DONTFORK);
    }
    *base = place;
    return TUTTI_OK;
}

static size_t step_of(size_t left)
{
    return left < TTI_HEAP_STEP ? left : TTI_HEAP_STEP;
}

void tti_heap_file_populate(void *memory, size_t bytes, const struct tti_heap_group_ops *group)
{
    tutti_error unused;
    uintptr_t first = (uintptr_t)memory / TTI_ARENA_PAGE * TTI_ARENA_PAGE;
    uintptr_t last = ((uintptr_t)memory + bytes + TTI_ARENA_PAGE - 1) / TTI_ARENA_PAGE * TTI_ARENA_PAGE;
    for (size_t step; first < last && tti_heap_group_failure(group, &unused) == TUTTI_OK; first += step) {
        step = step_of(last - first);
        madvise((void *)first, step, MADV_POPULATE_WRITE);
    }
}

/* By MADV_POPULATE_WRITE, which honours the advice for huge pages; by fallocate before Linux 5.14. */
static int fill(int fd, unsigned char *base, size_t offset, size_t bytes)
{
    int result = madvise(base + offset, bytes, MADV_POPULATE_WRITE);
    while (result != 0 && (errno == EINTR || errno == EAGAIN)) {
        result = madvise(base + offset, bytes, MADV_POPULATE_WRITE);
    }
    if (result == 0 || errno != EINVAL) {
        return result;
    }
    do {
        result = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
    } while (result != 0 && errno == EINTR);
    return result;
}

tutti_status tti_heap_file_commit(int fd, unsigned char *base, size_t offset, size_t bytes,
                                  const struct tti_heap_group_ops *group, tutti_error *error)
{
    for (size_t done = 0; done < bytes;) {
        const size_t step = step_of(bytes - done);
        const tutti_status status = tti_heap_group_failure(group, error);
        if (status != TUTTI_OK) {
            return status;
        }
        if (fill(fd, base, offset + done, step) != 0) {
            const int cause = errno;
            tti_error_set(error, TUTTI_NO_MEMORY, "no memory: the heap got %zu of %zu bytes (errno %d)", done, bytes,
                          cause);
            if (error) {
                error->vendor_code = cause;
            }
            return TUTTI_NO_MEMORY;
        }
        done += step;
    }
    return TUTTI_OK;
}

void tti_heap_file_discard(int fd, size_t offset, size_t bytes)
{
    int result;
    do {
        result = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
    } while (result != 0 && errno == EINTR);
}
