/* SPDX-License-Identifier: BSD-3-Clause */
/* The records of the other ranks at the rendezvous, read while a group opens. Header only, since plug-ins use it,
 * too. */
#ifndef TTI_BACKENDS_RECORD_H
#define TTI_BACKENDS_RECORD_H

#include <tutti/backend.h>

#include "base/clock.h"
#include "base/error.h"

/* Waits for the record of exactly `bytes` that `rank` publishes under `key`. If it does not come, or has another size,
 * that rank is the suspect. An error of the rendezvous about another rank is returned unchanged. */
static inline tutti_status tti_record_get(const tutti_open_info *info, int32_t rank, const char *key, void *record,
                                          size_t bytes, int64_t deadline_ns, tutti_error *error)
{
    const tutti_rendezvous *rv = info->rendezvous;
    tutti_error why;
    size_t length = 0;
    tutti_status status = rv->get(rv->self, key, record, bytes, &length, tti_remaining_ms(deadline_ns), &why);
    const bool other = (status == TUTTI_OK && length != bytes) || (status == TUTTI_PROTOCOL && length > bytes);
    if (other) {
        status = tti_error_set(&why, TUTTI_PROTOCOL,
                               "rank %d left a record (%s) of %zu bytes, not %zu; run the same version of Tutti on all "
                               "ranks",
                               rank, key, length, bytes);
        why.suspect = rank;
    } else if (status == TUTTI_TIMEOUT && why.suspect < 0) {
        tti_error_set(&why, status, "rank %d did not leave its record (%s) for the others within %lld ms", rank, key,
                      (long long)info->timeout_ms);
        why.suspect = rank;
    }
    if (status != TUTTI_OK && error) {
        *error = why;
    }
    return status;
}

#endif
