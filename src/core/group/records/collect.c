/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank polls the records one after the other, in the order of the ranks. Its own view counts more than a report of
 * another rank: a record that is in the store after all is read, whatever the wait has returned.
 */
#include "core/group/records/collect.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/group/plan.h"
#include "core/group/records/hello.h"

tutti_status tti_collect_name_missing(const struct tti_group_plan *plan, bool (*is_missing)(void *user, int32_t member),
                                      void *user, int64_t waited_ms, tutti_error *error)
{
    char names[200] = "";
    int first = -1;
    for (int r = 0; r < plan->size; r++) {
        if (is_missing(user, r)) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof(names) - used, "%s%d", first < 0 ? "" : ", ", r);
            first = first < 0 ? r : first;
        }
    }
    tti_error_set(error, TUTTI_TIMEOUT, "%s of %d ranks waited %lld ms; missing: rank %s",
                  tutti_operation_name(plan->operation), plan->size, (long long)waited_ms, names);
    error->suspect = first;
    return TUTTI_TIMEOUT;
}

struct records {
    const tutti_rendezvous *rv;
    const char *stem;
};

static bool is_record_missing(void *user, int32_t member)
{
    const struct records *records = user;
    char key[40];
    char value[sizeof(struct tti_hello)]; /* the largest record */
    size_t length;
    snprintf(key, sizeof(key), "%s/%d", records->stem, member);
    return records->rv->get(records->rv->self, key, value, sizeof(value), &length, 0, NULL) == TUTTI_TIMEOUT;
}

/* A record that is there after all counts more than a failed wait. */
static tutti_status get_record(const tutti_rendezvous *rv, const char *key, void *record, size_t bytes, size_t *length,
                               int64_t deadline, tutti_error *error)
{
    const tutti_status status = rv->get(rv->self, key, record, bytes, length, tti_remaining_ms(deadline), error);
    return status != TUTTI_OK && rv->get(rv->self, key, record, bytes, length, 0, NULL) == TUTTI_OK ? TUTTI_OK : status;
}

tutti_status tti_collect_records(const struct tti_group_plan *plan, const tutti_rendezvous *rv, const char *stem,
                                 void *records, size_t bytes, tti_collect_check check, tutti_error *error)
{
    int64_t deadline = tti_deadline_ns(tti_now_ns(), plan->opening_ms);
    for (int r = 0; r < plan->size; r++) {
        char key[40];
        size_t length = 0;
        snprintf(key, sizeof(key), "%s/%d", stem, r);
        tutti_status status = get_record(rv, key, (char *)records + (size_t)r * bytes, bytes, &length, deadline, error);
        if (status == TUTTI_TIMEOUT &&
            error->suspect < 0) { /* else the time-out is a report of another rank, which names the missing one */
            const bool whole = plan->watch.deadline_ns != 0 && tti_remaining_ms(plan->watch.deadline_ns) == 0;
            struct records all = {.rv = rv, .stem = stem};
            return tti_collect_name_missing(plan, is_record_missing, &all,
                                            whole ? plan->watch.timeout_ms : plan->opening_ms, error);
        }
        const bool longer = status == TUTTI_PROTOCOL && length > bytes;
        if (status != TUTTI_OK && !longer) {
            return status;
        }
        if (length != bytes) {
            return tti_error_set(error, TUTTI_VERSION,
                                 "rank %d uses another version of Tutti: run the same on all ranks", r);
        }
        if ((status = check(plan, (char *)records + (size_t)plan->rank * bytes, (char *)records + (size_t)r * bytes, r,
                            error)) != TUTTI_OK) {
            if (error->suspect < 0 && !tti_is_loss(status)) { /* the suspect of a loss may be unknown */
                error->suspect = r;
            }
            return status;
        }
    }
    return TUTTI_OK;
}
