/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory is available now. Linux hands out memory until the OOM killer has to end a process, so a large
 * allocation checks before.
 */
#ifndef TTI_BASE_HOST_AVAILABLE_MEMORY_H
#define TTI_BASE_HOST_AVAILABLE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <tutti/status.h>

struct tti_available_memory {
    uint64_t host;    /* bytes, swap included; UINT64_MAX = unknown */
    uint64_t limit;   /* of the control group: bytes that are left; UINT64_MAX = no limit */
    uint64_t machine; /* stands for the host: ranks with the same one share its memory */
    uint64_t cgroup;  /* stands for the control group: ranks of a host with the same one share its limit */
};

struct tti_available_memory tti_available_memory_read(void);

/* What a rank wants, and what was there before any rank took memory. Fixed layout: it is sent between processes. */
struct tti_memory_request {
    uint64_t bytes;
    struct tti_available_memory available;
};

/* NO_MEMORY if the ranks of a host, or of a control group, together want more than it has; the suspect is the first of
 * them. The largest value that one of them has read counts: the last one has read after all have freed what they free
 * before. The requests are `stride` bytes apart. All ranks with the same requests get the same result. */
tutti_status tti_memory_requests_check(const struct tti_memory_request *first, size_t stride, int32_t ranks,
                                       tutti_error *error);

#endif
