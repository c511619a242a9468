/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on several futexes at once, which Debian 12's libc does not declare: Linux 5.16 and newer. */
#ifndef TTI_BASE_WAIT_FUTEX_WAITV_H
#define TTI_BASE_WAIT_FUTEX_WAITV_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define TTI_WAITV_MAX 128 /* FUTEX_WAITV_MAX of the kernel */
#define TTI_WAITV_U32 2u  /* FUTEX2_SIZE_U32; FUTEX_PRIVATE_FLAG may be added */

/* The kernel's struct futex_waitv. */
struct tti_waitv {
    uint64_t value;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
};

/* Waits until one of the words has changed or been woken, or until that time of the monotonic clock (-1 with errno). */
static inline long tti_waitv(const struct tti_waitv *entries, unsigned count, int64_t until_ns)
{
    const struct timespec limit = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    return syscall(SYS_futex_waitv, entries, count, 0, &limit, CLOCK_MONOTONIC);
}

/* Whether this errno says that there is no such call: before Linux 5.16, or in old sandboxes. Another error concerns
 * one sleep alone: EFAULT, if a word has just been unmapped. */
static inline bool tti_waitv_is_missing(int code)
{
    return code == ENOSYS || code == EPERM;
}

#endif
