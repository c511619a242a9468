/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that share a host, or a control group on it, are added up. Ranks of one host mostly follow one another, so a
 * host or a control group is compared again only where a rank differs from the one before. Cost: linear in the number
 * of ranks for each such change.
 */
#include "base/memory_requests.h"

#include <stdbool.h>

#include "base/error.h"

static const struct tti_memory_request *request_of(const struct tti_memory_request *first, size_t stride, int32_t rank)
{
    return (const void *)((const char *)first + stride * (size_t)rank);
}

/* Compares the requests of the ranks that share the host of rank `of`, and its control group if `in_cgroup`. */
static tutti_status check_shared(const struct tti_memory_request *first, size_t stride, int32_t ranks, int32_t of,
                                 bool in_cgroup, tutti_error *error)
{
    const struct tti_available_memory *own = &request_of(first, stride, of)->available;
    uint64_t wanted = 0;
    uint64_t left = 0;
    bool endless = false; /* the sum overflows */
    int32_t sharing = 0;
    for (int32_t r = 0; r < ranks; r++) {
        const struct tti_memory_request *request = request_of(first, stride, r);
        const struct tti_available_memory *its = &request->available;
        if (its->machine == own->machine && (!in_cgroup || its->cgroup == own->cgroup)) {
            const uint64_t here = in_cgroup ? its->limit : its->host;
            endless = __builtin_add_overflow(wanted, request->bytes, &wanted) || endless;
            left = here > left ? here : left;
            sharing++;
        }
    }
    if (!endless && wanted <= left) {
        return TUTTI_OK;
    }
    tti_error_set(error, TUTTI_NO_MEMORY, "%s %llu bytes, %s %llu%s", sharing > 1 ? "the ranks want" : "it wants",
                  (unsigned long long)wanted, in_cgroup ? "the control group leaves" : "the host has",
                  (unsigned long long)left, in_cgroup ? "" : " left");
    error->suspect = of;
    return TUTTI_NO_MEMORY;
}

tutti_status tti_memory_requests_check(const struct tti_memory_request *first, size_t stride, int32_t ranks,
                                       tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    const struct tti_available_memory *before = NULL;
    for (int32_t r = 0; r < ranks && status == TUTTI_OK; r++) {
        const struct tti_available_memory *its = &request_of(first, stride, r)->available;
        const bool same_machine = before && its->machine == before->machine;
        if (!same_machine) {
            status = check_shared(first, stride, ranks, r, false, error);
        }
        if (status == TUTTI_OK && (!same_machine || its->cgroup != before->cgroup)) {
            status = check_shared(first, stride, ranks, r, true, error);
        }
        before = its;
    }
    return status;
}
