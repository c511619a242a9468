/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/collect.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/resolve.h"

#define LOOK_MS 100 /* between looks whether the others are still there */

/* After a time-out: everybody who has not put `stem`/rank yet, in one sentence. */
static tutti_status name_missing(const struct tti_group_plan *plan, const tutti_rendezvous *rv, const char *stem,
                                 int64_t waited_ms, tutti_error *error)
{
    char names[200] = "";
    int first = -1;
    for (int r = 0; r < plan->size; r++) {
        char key[40];
        char value[sizeof(struct tti_hello)]; /* the largest record */
        size_t length;
        snprintf(key, sizeof(key), "%s/%d", stem, r);
        if (rv->get(rv->self, key, value, sizeof(value), &length, 0, NULL) == TUTTI_TIMEOUT) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof(names) - used, "%s%d", first < 0 ? "" : ", ", r);
            first = first < 0 ? r : first;
        }
    }
    tti_error_set(error, TUTTI_TIMEOUT, "%s of %d ranks waited %lld ms; missing: rank %s",
                  tutti_operation_name(plan->operation), plan->size, (long long)waited_ms, names);
    if (error) {
        error->suspect = first;
    }
    return TUTTI_TIMEOUT;
}

/* Waits for a record; with engines that are open (NULL: none), also for the news that a rank has died meanwhile. */
static tutti_status await_record(const struct tti_group *open, const tutti_rendezvous *rv, const char *key,
                                 void *record, size_t bytes, size_t *length, int64_t deadline, tutti_error *error)
{
    for (;;) {
        const int64_t left = tti_remaining_ms(deadline);
        const bool last = !open || (left >= 0 && left <= LOOK_MS);
        tutti_status status = rv->get(rv->self, key, record, bytes, length, last ? left : LOOK_MS, error);
        if (status != TUTTI_TIMEOUT || last || (status = tti_group_failure(open, error)) != TUTTI_OK) {
            return status;
        }
    }
}

tutti_status tti_collect(const struct tti_group_plan *plan, const struct tti_group *open, const tutti_rendezvous *rv,
                         const char *stem, void *records, size_t bytes, tti_collect_look look, tutti_error *error)
{
    int64_t timeout_ms = tti_setting_number(&plan->settings, TTI_SET_TIMEOUT_MS);
    int64_t deadline = tti_deadline_ns(tti_now_ns(), timeout_ms);
    for (int r = 0; r < plan->size; r++) {
        char key[40];
        size_t length = 0;
        snprintf(key, sizeof(key), "%s/%d", stem, r);
        tutti_status status =
            await_record(open, rv, key, (char *)records + (size_t)r * bytes, bytes, &length, deadline, error);
        if (status == TUTTI_TIMEOUT) {
            return name_missing(plan, rv, stem, timeout_ms, error);
        }
        const bool longer = status == TUTTI_PROTOCOL && length > bytes;
        if (status != TUTTI_OK && !longer) {
            return status;
        }
        if (length != bytes) {
            return tti_error_set(error, TUTTI_VERSION,
                                 "rank %d uses another version of Tutti: run the same on all ranks", r);
        }
        if ((status = look(plan, (char *)records + (size_t)plan->rank * bytes, (char *)records + (size_t)r * bytes, r,
                           error)) != TUTTI_OK) {
            if (error) {
                error->suspect = r;
            }
            return status;
        }
    }
    return TUTTI_OK;
}
