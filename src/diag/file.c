/* SPDX-License-Identifier: BSD-3-Clause */
/* A file on a disk gets all its bytes at once, so that no later store fails (SIGBUS). A memory file gets its pages when
 * they are used, and is sealed against becoming shorter. */
#include "diag/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_limit.h"
#include "diag/record.h"

static int make_memory(void)
{
#ifdef MFD_NOEXEC_SEAL
    int fd = memfd_create(TTI_FLIGHT_MEMORY, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd >= 0 || errno != EINVAL) {
        return fd;
    }
#endif
    return memfd_create(TTI_FLIGHT_MEMORY, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

static int failed(int fd, const char *name)
{
    const int code = errno;
    close(fd);
    if (name) {
        unlink(name);
    }
    errno = code;
    return -1;
}

int tti_flight_make(const char *name, const char *job, int32_t rank, int32_t world_size)
{
    if (tti_file_limit() < TTI_FLIGHT_BYTES) {
        errno = EFBIG;
        return -1;
    }
    const int fd = name ? open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : make_memory();
    if (fd < 0) {
        return -1;
    }
    struct tti_flight_head head = {.magic = TTI_FLIGHT_MAGIC,
                                   .abi = TTI_FLIGHT_ABI,
                                   .bytes = TTI_FLIGHT_BYTES,
                                   .rank = rank,
                                   .world_size = world_size};
    snprintf(head.job, sizeof(head.job), "%s", job ? job : "");
    if (gethostname(head.host, sizeof(head.host) - 1) != 0) {
        head.host[0] = '\0';
    }
    const int code = name ? posix_fallocate(fd, 0, TTI_FLIGHT_BYTES) : ftruncate(fd, TTI_FLIGHT_BYTES) == 0 ? 0 : errno;
    if (code != 0) {
        errno = code;
        return failed(fd, name);
    }
    if (pwrite(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
        (!name && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        return failed(fd, name);
    }
    return fd;
}

bool tti_flight_is(int fd)
{
    struct stat st;
    struct tti_flight_head head;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size != (off_t)TTI_FLIGHT_BYTES) {
        return false;
    }
    const int seals = fcntl(fd, F_GET_SEALS);
    const bool in_folder = seals < 0 || seals == F_SEAL_SEAL; /* its file system has no seals */
    const bool whole = (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW);
    return (in_folder || whole) && pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
           head.magic == TTI_FLIGHT_MAGIC && head.abi == TTI_FLIGHT_ABI && head.bytes == TTI_FLIGHT_BYTES;
}
