/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory is available now. Linux hands out memory until the OOM killer has to end a process, so a large
 * allocation checks before.
 */
#ifndef TTI_BASE_HOST_AVAILABLE_MEMORY_H
#define TTI_BASE_HOST_AVAILABLE_MEMORY_H

#include <stdint.h>

struct tti_available_memory {
    uint64_t host;    /* bytes, swap included; UINT64_MAX = unknown */
    uint64_t limit;   /* of the control group: bytes that are left; UINT64_MAX = no limit */
    uint64_t machine; /* stands for the host: ranks with the same one share its memory */
    uint64_t cgroup;  /* stands for the innermost control group with a limit; 0 = there is none */
};

/* `root` is put before every path that is read: "" outside of tests. */
struct tti_available_memory tti_available_memory_read(const char *root);

#endif
