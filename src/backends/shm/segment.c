/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments are files of memfd_create. Seals make them safe to map from another process: the size cannot change, so an
 * access cannot raise SIGBUS. The rank that adopts a descriptor checks seals and size before it maps the file, and
 * trusts nothing else about it. It maps a peer's segment read-only, so that a stray write of the program ends in
 * SIGSEGV, and later makes writable only data that it alone reads. Memory is committed by fallocate, so a shortage is
 * an error here and not a signal at the first write.
 */
#include "backends/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_limit.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE 4096u

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static tutti_status map(struct tti_mapping *m, int protection, tutti_error *error)
{
    void *base = mmap(NULL, m->bytes, protection, MAP_SHARED, m->fd, 0);
    if (base == MAP_FAILED) {
        return tti_error_system(error, errno, "cannot map a shared segment of %zu bytes", m->bytes);
    }
    m->base = base;
    /* A forked child must not keep the segments alive; its handles answer FORKED anyway. */
    madvise(base, m->bytes, MADV_DONTFORK);
    return TUTTI_OK;
}

tutti_status tti_memory_file(const char *what, size_t bytes, int *fd, tutti_error *error)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    const uint64_t most = tti_file_limit();
    if (bytes > most) {
        return tti_error_set(error, TUTTI_NO_RESOURCE,
                             "no memory file of %zu bytes for %s: files may have %llu bytes (ulimit -f)", bytes, what,
                             (unsigned long long)most);
    }
    int file = memfd_create(what, flags | MFD_NOEXEC_SEAL);
    if (file < 0 && errno == EINVAL) { /* kernels before 6.3 do not know the flag */
        file = memfd_create(what, flags);
    }
    if (file < 0) {
        return tti_error_system(error, errno, "cannot create a memory file for %s", what);
    }
    if (ftruncate(file, (off_t)bytes) != 0) {
        int cause = errno;
        close(file);
        return tti_error_system(error, cause, "cannot size a memory file to %zu bytes", bytes);
    }
    *fd = file;
    return TUTTI_OK;
}

tutti_status tti_mapping_create(const char *what, size_t bytes, size_t spare, size_t committed,
                                struct tti_mapping *mapping, tutti_error *error)
{
    struct tti_mapping m = {.fd = -1, .bytes = bytes, .spare = spare};
    tutti_status status = tti_memory_file(what, bytes + spare, &m.fd, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (tti_mapping_commit(&m, 0, committed) != TUTTI_OK) {
        const int cause = errno;
        status = cause == ENOSPC || cause == ENOMEM
                     ? tti_error_set(error, TUTTI_NO_MEMORY, "no memory for %s: %zu bytes are needed", what, committed)
                     : tti_error_system(error, cause, "cannot get %zu bytes of memory for %s", committed, what);
    } else {
        status = map(&m, PROT_READ | PROT_WRITE, error);
    }
    if (status != TUTTI_OK) {
        tti_mapping_close(&m);
        return status;
    }
    *mapping = m;
    return TUTTI_OK;
}

tutti_status tti_memory_seal(int fd, tutti_error *error)
{
    if (fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        return tti_error_system(error, errno, "cannot seal the size of a memory file");
    }
    return TUTTI_OK;
}

bool tti_memory_is_sealed(int fd, int *seals)
{
    *seals = fcntl(fd, F_GET_SEALS);
    /* F_SEAL_EXEC may be set too: the kernel adds it to files without the executable bit. */
    return *seals >= 0 && (*seals & (SEALS | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) == SEALS;
}

tutti_status tti_mapping_adopt(int fd, size_t bytes, size_t spare, bool writable, int rank, struct tti_mapping *mapping,
                               tutti_error *error)
{
    struct tti_mapping m = {.fd = fd, .bytes = bytes};
    struct stat st;
    int seals;
    tutti_status status = TUTTI_OK;
    if (!tti_memory_is_sealed(fd, &seals)) {
        status = tti_error_set(error, TUTTI_PROTOCOL, "the segment of rank %d is not sealed as it must be (seals 0x%x)",
                               rank, (unsigned)seals);
    } else if (fstat(fd, &st) != 0 || st.st_size < (off_t)bytes || st.st_size > (off_t)(bytes + spare)) {
        status = tti_error_set(error, TUTTI_PROTOCOL, "the segment of rank %d does not have the agreed %zu bytes", rank,
                               bytes);
    } else {
        m.spare = (size_t)st.st_size - bytes;
        status = map(&m, writable ? PROT_READ | PROT_WRITE : PROT_READ, error);
    }
    close(fd);
    m.fd = -1;
    if (status == TUTTI_OK) {
        *mapping = m;
    }
    return status;
}

tutti_status tti_memory_commit(int fd, size_t offset, size_t bytes, unsigned char *address)
{
    int result;
    do {
        result = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
    } while (result != 0 && errno == EINTR);
    if (result == 0 && address) { /* optional: Linux 5.14 and newer */
        madvise(address, bytes, MADV_POPULATE_WRITE);
    }
    return result == 0 || bytes == 0 ? TUTTI_OK : TUTTI_NO_MEMORY;
}

tutti_status tti_mapping_commit(const struct tti_mapping *mapping, size_t offset, size_t bytes)
{
    return tti_memory_commit(mapping->fd, offset, bytes, mapping->base ? mapping->base + offset : NULL);
}

tutti_status tti_memory_populate(unsigned char *address, size_t bytes)
{
    unsigned char *const first = address - (uintptr_t)address % PAGE;
    const size_t length = (size_t)(address + bytes - first);
    return madvise(first, length, MADV_POPULATE_WRITE) == 0 || errno == EINVAL ? TUTTI_OK : TUTTI_NO_MEMORY;
}

/* mremap with an old size of 0 maps the same file once more, from the old address on, and further than the old mapping
 * reaches. So the new mapping begins with the last page of the old one. */
unsigned char *tti_mapping_continue(unsigned char *end, size_t bytes)
{
    void *again = mremap(end - PAGE, 0, PAGE + bytes, MREMAP_MAYMOVE);
    if (again == MAP_FAILED) {
        return NULL;
    }
    madvise(again, PAGE + bytes, MADV_DONTFORK);
    return (unsigned char *)again + PAGE;
}

void tti_mapping_drop(unsigned char *continued, size_t bytes)
{
    munmap(continued - PAGE, PAGE + bytes);
}

void tti_memory_prefault(unsigned char *address, size_t bytes)
{
    madvise(address, bytes, MADV_POPULATE_READ);
}

bool tti_memory_make_writable(unsigned char *address, size_t bytes)
{
    return mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
}

void tti_mapping_close(struct tti_mapping *mapping)
{
    if (mapping->base) {
        munmap(mapping->base, mapping->bytes);
        mapping->base = NULL;
    }
    if (mapping->fd >= 0) {
        close(mapping->fd);
        mapping->fd = -1;
    }
}
