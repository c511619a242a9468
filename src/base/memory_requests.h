/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that ranks want, against what their hosts and control groups have left. */
#ifndef TTI_BASE_MEMORY_REQUESTS_H
#define TTI_BASE_MEMORY_REQUESTS_H

#include <stddef.h>
#include <stdint.h>
#include <tutti/status.h>

#include "base/host/available_memory.h"

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
