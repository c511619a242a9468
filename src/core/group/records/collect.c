/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank reads the records in the order of the ranks, as many in one request as the store has and a reply holds. So
 * each rank makes a few requests (one for each 64 KiB of records) where one for each record would make n^2 in all. It
 * checks the records that it has before it waits for more. Its own view counts more than a report of another rank: a
 * record that is in the store after all is read, whatever the wait has returned.
 */
#include "core/group/records/collect.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/group/plan.h"
#include "core/group/records/hello.h"
#include "core/membership/rendezvous.h"

#define AT_ONCE 256

tutti_status tti_collect_name_missing(const struct tti_group_plan *plan, bool (*is_missing)(void *user, int32_t member),
                                      void *user, tutti_error *error)
{
    static const char more[] = ", ...";
    char names[200] = "";
    size_t used = 0;
    int first = -1;
    bool full = false; /* then no more ranks are asked for: the deadline has passed */
    for (int r = 0; r < plan->size && !full; r++) {
        if (is_missing(user, r)) {
            char name[16];
            const int length = snprintf(name, sizeof(name), "%s%d", first < 0 ? "" : ", ", r);
            full = used + (size_t)length + sizeof(more) > sizeof(names);
            strcpy(names + used, full ? more : name);
            used += (size_t)length;
            first = first < 0 ? r : first;
        }
    }
    tti_error_set(error, TUTTI_TIMEOUT, "%s of %d ranks waited %lld ms; missing: rank %s",
                  tutti_operation_name(plan->operation), plan->size, (long long)plan->watch.timeout_ms, names);
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

/* The next records, as many as are there. One that is there after all counts more than a failed wait. */
static tutti_status get_records(struct tti_rendezvous *rendezvous, struct tti_store_range *range, int64_t deadline_ns,
                                tutti_error *error)
{
    const tutti_status status = tti_rendezvous_get_range(rendezvous, range, tti_remaining_ms(deadline_ns), error);
    return status != TUTTI_OK && tti_rendezvous_get_range(rendezvous, range, 0, NULL) == TUTTI_OK ? TUTTI_OK : status;
}

/* A record that has arrived. */
static tutti_status check_record(const struct tti_group_plan *plan, unsigned char *records, size_t bytes, size_t length,
                                 int r, tti_collect_check check, tutti_error *error)
{
    if (length != bytes) {
        return tti_error_set(error, TUTTI_VERSION, "rank %d uses another version of Tutti: run the same on all ranks",
                             r);
    }
    const tutti_status status =
        check(plan, records + (size_t)plan->rank * bytes, records + (size_t)r * bytes, r, error);
    if (status != TUTTI_OK && error->suspect < 0 && !tti_is_loss(status)) { /* the suspect of a loss may be unknown */
        error->suspect = r;
    }
    return status;
}

/* No record has arrived. */
static tutti_status name_missing(const struct tti_group_plan *plan, const tutti_rendezvous *rv, const char *stem,
                                 tutti_error *error)
{
    struct records all = {.rv = rv, .stem = stem};
    return tti_collect_name_missing(plan, is_record_missing, &all, error);
}

tutti_status tti_collect_records(const struct tti_group_plan *plan, struct tti_rendezvous *rendezvous, const char *stem,
                                 void *records, size_t bytes, tti_collect_check check, tutti_error *error)
{
    size_t lengths[AT_ONCE];
    struct tti_store_range range = {.stem = stem, .stride = bytes, .lengths = lengths};
    for (int r = 0; r < plan->size; r += (int)range.got) {
        range.first = (uint32_t)r;
        range.count = plan->size - r < AT_ONCE ? (uint32_t)(plan->size - r) : AT_ONCE;
        range.values = (unsigned char *)records + (size_t)r * bytes;
        tutti_status status = get_records(rendezvous, &range, plan->watch.deadline_ns, error);
        if (status == TUTTI_TIMEOUT &&
            error->suspect < 0) { /* else the time-out is a report of another rank, which names the missing one */
            return name_missing(plan, &rendezvous->table, stem, error);
        }
        for (uint32_t i = 0; i < range.got && status == TUTTI_OK; i++) {
            status = check_record(plan, records, bytes, lengths[i], r + (int)i, check, error);
        }
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}
