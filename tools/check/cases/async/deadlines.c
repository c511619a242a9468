/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deadlines: they are each rank's own. A call to which one rank gives a deadline, or all but one, is the same call:
 * every rank gets its result. And a deadline ends the call, whatever the group's own is.
 *
 * In groups with the default deadline and with others, since an engine may treat them differently.
 */
#include <stdlib.h>

#include "check/cases/cases.h"
#include "check/cases/collectives/forms.h"
#include "check/data/data.h"
#include "check/data/device_memory.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"

enum { GENEROUS_MS = TUTTI_TIMEOUT_MS - 1000, SOON_MS = 300 };

static void one_collective(struct tti_check *c, const struct tti_check_form *form, struct tti_check_plan p)
{
    for (int variant = 0; variant < 2 * c->size; variant++) {
        const bool chosen = c->rank == variant / 2;
        p.root = variant / 2;
        p.timeout_ms = chosen == (variant % 2 == 0) ? GENEROUS_MS : 0;
        for (int asynchronous = 0; asynchronous < 2; asynchronous++) {
            struct tti_check sub = tti_check_sub(c, c->group, (uint64_t)(2 * variant + asynchronous));
            tti_check_label(&sub, "%s, %s, deadline %s rank %d", form->name, asynchronous ? "async" : "sync",
                            variant % 2 == 0 ? "of" : "of all but", variant / 2);
            sub.completion = asynchronous ? tti_check_random_completion(&sub, 0, 0) : TTI_CHECK_SYNC;
            tti_check_run(&sub, form, &p);
            tti_check_merge(c, &sub);
        }
    }
}

static void one_rank(struct tti_check *c, int64_t count)
{
    for (size_t i = 0; i < tti_check_collectives_count; i++) {
        const struct tti_check_collective *collective = &tti_check_collectives[i];
        if (collective->form) {
            one_collective(c, collective->form, tti_check_plan_for(collective, count));
        }
    }
    if (tti_check_has_wire(c)) {
        struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
        for (p.wire = TUTTI_WIRE_BF16; p.wire <= TUTTI_WIRE_FP8; p.wire++) {
            one_collective(c, &tti_check_all_reduce_form, p);
        }
    }
    one_collective(c, &tti_check_barrier_form, tti_check_plan_1d(TUTTI_F32, 0, 1));
}

static void in_group(struct tti_check *c, int64_t timeout_ms, int64_t count)
{
    tutti_group *group = tti_check_group_of_all(c, TUTTI_CONFIG(.timeout_ms = timeout_ms));
    if (group) {
        struct tti_check sub = tti_check_sub(c, group, 1);
        one_rank(&sub, count);
        tti_check_merge(c, &sub);
        tti_check_ok(c, "group_destroy", tutti_group_destroy(group, &c->error));
    }
}

static tutti_status sum(struct tti_check *c, tutti_group *group, struct tti_check_values *values, int64_t timeout_ms)
{
    return tutti_all_reduce(group, &values->t, &values->t, TUTTI_SUM,
                            TUTTI_CALL(.timeout_ms = timeout_ms, .error = &c->error));
}

/* The absent rank calls after the others' deadline. Between hosts the failure may reach it after their data: then its
 * first call returns the sum, and the next one fails. */
static void call_late(struct tti_check *c, tutti_group *group, struct tti_check_values *values)
{
    const bool is_notified = c->capabilities & TUTTI_CAP_CHECKS_CALLS; /* else its own deadline has to end the call */
    const bool at_once = c->capabilities & (TUTTI_CAP_ONE_HOST | TUTTI_CAP_ONE_PROCESS);
    const int64_t timeout_ms = is_notified ? 0 : SOON_MS;
    tutti_status status = sum(c, group, values, timeout_ms);
    if (status == TUTTI_OK && !at_once) {
        tti_check_values_end(values);
        for (int64_t i = 0; i < values->count; i++) {
            tti_check_expect_i64(c, "the sum in a call that begins too late", values->values[i],
                                 (int64_t)c->size * (c->size + 1) / 2);
        }
        tti_check_values_begin(c, values, values->values, values->count);
        status = sum(c, group, values, timeout_ms);
    }
    tti_check_status(c, "a rank that arrives too late", status,
                     !is_notified && status == TUTTI_TIMEOUT ? TUTTI_TIMEOUT : TUTTI_REVOKED);
}

/* A rank calls after the deadline of the others, in a group whose own deadline is the default. */
static void late(struct tti_check *c, int64_t count)
{
    const int absent = c->size - 1;
    tutti_group *group = tti_check_group_of_all(c, TUTTI_CONFIG(.timeout_ms = TUTTI_TIMEOUT_MS));
    struct tti_check_values values;
    int64_t *numbers = tti_check_memory((size_t)count * sizeof(int64_t));
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = c->rank + 1;
    }
    if (group) {
        tti_check_values_begin(c, &values, numbers, count);
        if (c->rank != absent) {
            const tutti_status status = sum(c, group, &values, SOON_MS);
            tti_check_expect_i64(c, "the call ends at its deadline", status == TUTTI_TIMEOUT || status == TUTTI_REVOKED,
                                 1);
        }
        tti_check_barrier(c);
        if (c->rank == absent) {
            call_late(c, group, &values);
        }
        tti_check_values_end(&values);
        tti_check_barrier(c);
        tti_check_ok(c, "group_destroy", tutti_group_destroy(group, &c->error));
    }
    free(numbers);
}

void tti_check_deadlines_cases(struct tti_check *c)
{
    static const int64_t counts[] = {3, 30011};
    static const struct {
        const char *name;
        int64_t timeout_ms;
    } groups[] = {{"default", TUTTI_TIMEOUT_MS}, {"forever", -1}, {"other", TUTTI_TIMEOUT_MS + 1000}};
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof(groups) / sizeof(groups[0]); k++) {
            if (i > 0 && k > 0) { /* large calls take long */
                break;
            }
            TTI_CHECK_CASE(c, "one-rank/%s/%lld", groups[k].name, (long long)counts[i]) {
                in_group(c, groups[k].timeout_ms, counts[i]);
            }
        }
        TTI_CHECK_CASE(c, "late/%lld", (long long)counts[i]) {
            c->size > 1 ? late(c, counts[i]) : tti_check_skip(c);
        }
    }
}
