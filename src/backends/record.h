/* SPDX-License-Identifier: BSD-3-Clause */
/* The records that ranks leave for each other at the rendezvous while a group opens. Header only, since plug-ins use
 * it, too. */
#ifndef TTI_BACKENDS_RECORD_H
#define TTI_BACKENDS_RECORD_H

#include <stdio.h>
#include <tutti/backend.h>

#include "base/clock.h"
#include "base/error.h"

/* Waits for the record of exactly `bytes` that `rank` publishes under `key`. If it does not arrive, or has another
 * size, that rank is the suspect. An error of the rendezvous about another rank is returned unchanged. */
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

/* Publishes this rank's record of that name: its key is NAME/RANK. */
static inline tutti_status tti_record_publish(const tutti_open_info *info, const char *name, const void *record,
                                              size_t bytes, tutti_error *error)
{
    char key[40];
    snprintf(key, sizeof(key), "%s/%d", name, info->rank);
    return info->rendezvous->set(info->rendezvous->self, key, record, bytes, error);
}

/* Waits for the record that `rank` publishes. Errors as of tti_record_get. */
static inline tutti_status tti_record_of(const tutti_open_info *info, int32_t rank, const char *name, void *record,
                                         size_t bytes, int64_t deadline_ns, tutti_error *error)
{
    char key[40];
    snprintf(key, sizeof(key), "%s/%d", name, rank);
    return tti_record_get(info, rank, key, record, bytes, deadline_ns, error);
}

/* Publishes this rank's record, and reads those of all ranks: one of `bytes` for each rank lies in `records`. */
static inline tutti_status tti_records_exchange(const tutti_open_info *info, const char *name, void *records,
                                                size_t bytes, int64_t deadline_ns, tutti_error *error)
{
    char *const all = (char *)records;
    tutti_status status = tti_record_publish(info, name, all + (size_t)info->rank * bytes, bytes, error);
    for (int32_t r = 0; r < info->world_size && status == TUTTI_OK; r++) {
        status = tti_record_of(info, r, name, all + (size_t)r * bytes, bytes, deadline_ns, error);
    }
    return status;
}

#endif
