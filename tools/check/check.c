/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How one rank runs the suite, and how the ranks agree on the result of a case.
 *
 * The world group carries the agreement; the group under test is made from the same parent, so that a case that spoils
 * its group costs that group only: it is replaced. After three of them the run stops, because each may have cost a
 * deadline. The world works on the CPU, whatever the device under test, so the agreement does not rest on what is
 * tested.
 */
#include "check/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check/cases/cases.h"
#include "check/data/data.h"
#include "check/data/device_memory.h"
#include "check/operation/completion.h"
#include "check/report.h"
#include "check/sabotage.h"
#include "check/watchdog.h"
#include "common/device_arena.h"
#include "common/devices.h"
#include "info/info.h"

enum { LOST_AT_MOST = 3, MAX_PRINTED_FAILURES = 10 };

enum { SYNCHRONOUS_ROUND = 1, ASYNCHRONOUS_ROUND = 2 };

/* More than the tensors of any case together; so nothing is allocated on the device while operations are under way. */
#define SLAB ((size_t)256 << 20)

/* Beyond this nearly all time goes into data and reference, so that a case has one round only. */
enum { LIGHT_BYTES = 8 << 10 };

/* A rank's clock for the case; the report shows rank 0's. */
static _Thread_local int64_t case_started_ns;

/* Outside of rounds a case is synchronous, on lane 0, one call at a time. */
static void reset_round(struct tti_check *c)
{
    c->completion = TTI_CHECK_SYNC;
    c->concurrency = TTI_CHECK_ONE_CALL;
    c->lane = 0;
}

bool tti_check_begin(struct tti_check *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->name, sizeof(c->name), format, args);
    va_end(args);

    char full[sizeof(c->name) + 40];
    snprintf(full, sizeof(full), "%s/%s", c->collective, c->name);
    if (c->stopped || (c->options->filter && !strstr(full, c->options->filter))) {
        return false;
    }
    if (c->options->list) {
        puts(full);
        return false;
    }
    tti_check_watchdog_hold(c->watchdog);
    tti_check_watchdog_case(c->watchdog, c->collective, c->name, c->report);
    if (c->report) {
        tti_check_report_progress(c->report, c->collective, c->name);
    }
    tti_check_watchdog_release(c->watchdog);
    c->key = tti_check_hash(full, strlen(full), c->options->seed);
    c->failed = false;
    c->skipped = false;
    c->rounds = SYNCHRONOUS_ROUND | ASYNCHRONOUS_ROUND;
    reset_round(c);
    case_started_ns = tti_now_ns();
    return true;
}

bool tti_check_next_round(struct tti_check *c, int64_t bytes)
{
    const unsigned both = SYNCHRONOUS_ROUND | ASYNCHRONOUS_ROUND;
    reset_round(c);
    if (c->rounds == both && bytes > LIGHT_BYTES) {
        c->rounds = (c->key + (uint64_t)c->size) % 2 == 0 ? SYNCHRONOUS_ROUND : ASYNCHRONOUS_ROUND;
    }
    if (c->rounds & SYNCHRONOUS_ROUND) {
        c->rounds &= ~SYNCHRONOUS_ROUND;
        return true;
    }
    if (c->rounds == 0) {
        return false;
    }
    c->rounds = 0;
    c->key = tti_check_mix(c->key, 1);
    const uint64_t draw = tti_check_mix(c->key, 2);
    c->completion = tti_check_random_completion(c, 3, 0);
    c->lane = (int)(draw % TTI_CHECK_LANE_COUNT);
    c->concurrency = draw >> 8 & 1 ? TTI_CHECK_ONE_CALL : draw >> 9 & 1 ? TTI_CHECK_SAME_LANE : TTI_CHECK_ALL_LANES;
    return true;
}

void tti_check_skip(struct tti_check *c)
{
    c->skipped = true;
}

void tti_check_fail(struct tti_check *c, const char *format, ...)
{
    if (!c->failed && c->printed <= MAX_PRINTED_FAILURES) {
        char text[640];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        fprintf(stderr, "tutti check: rank %d: %s/%s%s: %s\n", c->rank, c->collective, c->name,
                tti_check_completion_name(c),
                c->printed < MAX_PRINTED_FAILURES
                    ? text
                    : "failed too; further failures of this rank are counted, not printed");
        c->printed++;
    }
    c->failed = true;
}

bool tti_check_status(struct tti_check *c, const char *what, tutti_status status, tutti_status wanted)
{
    tti_check_watchdog_step();
    tutti_status seen = status;
    if (tti_check_sabotaged(c, TTI_CHECK_SPOIL_STATUS)) {
        seen = status == TUTTI_INTERNAL ? TUTTI_OK : TUTTI_INTERNAL;
    }
    if (seen != wanted) {
        const bool printed = seen != TUTTI_OK && c->error.size == sizeof(c->error) && c->error.status == seen;
        tti_check_fail(c, "%s: expected %s, got %s%s%s", what, tutti_status_name(wanted), tutti_status_name(seen),
                       printed ? ": " : "", printed ? c->error.message : "");
    }
    /* sabotage is reported, but no rank does anything else because of it */
    return status == wanted;
}

struct tti_check tti_check_sub(const struct tti_check *c, tutti_group *group, uint64_t salt)
{
    struct tti_check sub = *c;
    sub.group = group;
    sub.rank = tutti_group_rank(group);
    sub.size = tutti_group_size(group);
    sub.key = tti_check_mix(c->key, salt + 1);
    sub.failed = false;
    if (group != c->group) {
        sub.concurrency = TTI_CHECK_ONE_CALL;
        sub.lane = 0; /* it may have no other */
    }
    return sub;
}

void tti_check_merge(struct tti_check *c, const struct tti_check *sub)
{
    c->failed = c->failed || sub->failed;
    c->printed = sub->printed > c->printed ? sub->printed : c->printed;
}

void tti_check_label(struct tti_check *sub, const char *format, ...)
{
    const size_t used = strlen(sub->name);
    va_list args;
    va_start(args, format);
    vsnprintf(sub->name + used, sizeof(sub->name) - used, format, args);
    va_end(args);
}

void tti_check_case(struct tti_check *c, bool possible, void (*run)(struct tti_check *c, int64_t argument),
                    int64_t argument, const char *format, ...)
{
    char name[sizeof(c->name)];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    if (tti_check_begin(c, "%s", name)) {
        possible ? run(c, argument) : tti_check_skip(c);
        tti_check_end(c);
    }
}

void tti_check_small_and_large(struct tti_check *c, bool possible, void (*run)(struct tti_check *c, int64_t count),
                               const char *name)
{
    tti_check_case(c, possible, run, 5, "%s/small", name);
    tti_check_case(c, possible, run, 100003, "%s/large", name);
}

/* ---- agreement ---- */

static tutti_status agree(struct tti_check *c, int64_t *values, int64_t count)
{
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_I64);
    return tutti_all_reduce(c->world, &t, &t, TUTTI_MAX,
                            TUTTI_CALL(.timeout_ms = 2 * c->options->timeout_ms, .error = &c->error));
}

static void stop(struct tti_check *c, const char *why)
{
    c->stopped = true;
    fprintf(stderr, "tutti check: rank %d: stopping behind %s/%s: %s\n", c->rank, c->collective, c->name, why);
}

static bool group_has_failed(struct tti_check *c)
{
    tutti_error error;
    if (tutti_group_error(c->group, &error) != TUTTI_OK) {
        return true;
    }
    if (error.status != TUTTI_OK) {
        tti_check_fail(c, "the group has failed: %s", error.message);
    }
    return error.status != TUTTI_OK;
}

/* Whether messages have an asynchronous form here: one from this rank to itself says so. */
static bool has_messages(struct tti_check *c)
{
    const int64_t none = 0;
    tutti_work *work = NULL;
    const DLTensor out = tti_check_tensor_over(c, NULL, 1, &none, TUTTI_U8);
    DLTensor in = tti_check_tensor_over(c, NULL, 1, &none, TUTTI_U8);
    const tutti_status status =
        tutti_sendrecv_async(c->group, &out, c->rank, 0, &in, c->rank, 0, TUTTI_CALL(.error = &c->error), NULL, &work);
    if (status == TUTTI_OK) {
        tutti_work_wait(work, TUTTI_FOREVER);
        tutti_work_release(work);
    }
    return status != TUTTI_UNSUPPORTED;
}

/* Memory of the group's device. A group that replaces another one has the same. */
static bool open_device(struct tti_check *c)
{
    const DLDevice device = tutti_group_device(c->group);
    if (!tti_on_device(device) || c->arena) {
        return true;
    }
    if (tti_device_arena_open(device, SLAB, c->options->timeout_ms, &c->arena, &c->error) != TUTTI_OK) {
        stop(c, c->error.message);
        return false;
    }
    return true;
}

static tutti_status create_group(tutti_group *parent, const tutti_config *config, tutti_group **group,
                                 tutti_error *error)
{
    const int size = tutti_group_size(parent);
    int32_t *ranks = tti_check_memory((size_t)size * sizeof(int32_t));
    for (int i = 0; i < size; i++) {
        ranks[i] = i;
    }
    const tutti_status status = tutti_group_create(parent, ranks, size, config, group, error);
    free(ranks);
    return status;
}

tutti_group *tti_check_group_of_all(struct tti_check *c, const tutti_config *config)
{
    tutti_group *group = NULL;
    return tti_check_ok(c, "group_create", create_group(c->group, config, &group, &c->error)) ? group : NULL;
}

static bool make_group(struct tti_check *c)
{
    char text[32];
    const char *settings[2];
    tti_device_settings(c->options->device, text, settings);
    const tutti_config *config =
        TUTTI_CONFIG(.lanes = TTI_CHECK_LANE_COUNT, .timeout_ms = c->options->timeout_ms, .settings = settings);
    if (create_group(c->parent, config, &c->group, &c->error) != TUTTI_OK) {
        c->group = NULL;
        stop(c, c->error.message);
        return false;
    }
    if (!open_device(c)) {
        return false;
    }
    c->capabilities = tutti_group_capabilities(c->group);
    c->messages = has_messages(c);
    return true;
}

static void replace_group(struct tti_check *c)
{
    tutti_group_destroy(c->group, NULL);
    c->group = NULL;
    if (++c->lost >= LOST_AT_MOST) {
        stop(c, "three groups have failed");
    } else {
        make_group(c);
    }
}

void tti_check_end(struct tti_check *c)
{
    enum { FAILED, SKIPPED, LOST, WORDS };
    const bool lost = group_has_failed(c);
    int64_t words[WORDS] = {c->failed, c->skipped, lost};
    if (agree(c, words, WORDS) != TUTTI_OK) {
        words[FAILED] = 1;
        stop(c, c->error.message);
    } else if (words[LOST]) {
        words[FAILED] = 1;
        replace_group(c);
    }
    if (c->report) {
        const enum tti_check_outcome outcome = words[FAILED]    ? TTI_CHECK_FAILED
                                               : words[SKIPPED] ? TTI_CHECK_SKIPPED
                                                                : TTI_CHECK_PASSED;
        tti_check_watchdog_hold(c->watchdog);
        tti_check_report_add(c->report, c->collective, c->name, outcome, tti_now_ns() - case_started_ns);
        tti_check_watchdog_release(c->watchdog);
    }
}

/* ---- the whole suite ---- */

static void all_cases(struct tti_check *c)
{
    for (size_t i = 0; i < tti_check_collectives_count; i++) {
        const struct tti_check_collective *collective = &tti_check_collectives[i];
        c->collective = collective->name;
        if (collective->form) {
            tti_check_regular_cases(c, collective);
        }
        if (collective->more) {
            collective->more(c);
        }
    }
}

static void print_promises(uint32_t capabilities)
{
    const uint32_t promises = TUTTI_CAP_RANK_ORDER | TUTTI_CAP_ROUND_ONCE | TUTTI_CAP_SAME_BITS |
                              TUTTI_CAP_CHECKS_CALLS | TUTTI_CAP_CANCEL | TUTTI_CAP_CANCEL_FLAGGED;
    char names[128];
    tti_info_capabilities(capabilities & promises, names, sizeof(names));
    printf("promised: %s\n", *names ? names : "nothing beyond correct results");
}

static void print_head(const struct tti_check *c)
{
    const DLDevice device = tutti_group_device(c->group);
    char text[24];
    printf("tutti check %s: %d rank%s, backend %s%s%s, %s suite, seed %llu, ", tutti_version_string(), c->size,
           c->size == 1 ? "" : "s", tutti_group_backend(c->group), c->arena ? " on " : "",
           c->arena ? tti_device_text(device, text) : "", c->quick ? "quick" : "full",
           (unsigned long long)c->options->seed);
    print_promises(c->capabilities);
    fflush(stdout);
}

/* The last report: the watchdog prints none behind it. */
static bool finish_report(struct tti_check *c)
{
    tti_check_watchdog_hold(c->watchdog);
    tti_check_watchdog_case(c->watchdog, "suite", "end", NULL);
    const bool passed = tti_check_report_finish(c->report, c->stopped ? "Stopped early; see above." : NULL);
    tti_check_watchdog_release(c->watchdog);
    free(c->report);
    c->report = NULL;
    return passed && !c->stopped;
}

static bool run_suite(struct tti_check *c)
{
    if (tti_control_group(c->parent, &c->world, &c->error) != TUTTI_OK) {
        fprintf(stderr, "tutti check: rank %d: no group on the CPU beside the one on the device: %s\n", c->rank,
                c->error.message);
        return false;
    }
    if (c->rank == 0) {
        c->report = tti_check_report_create(tti_check_collectives_count);
        if (!c->report) {
            fprintf(stderr, "tutti check: no memory for the report\n");
            exit(1);
        }
    }
    if (make_group(c)) {
        if (c->report) {
            print_head(c);
        }
        all_cases(c);
    }
    const bool passed = c->report && finish_report(c);
    if (c->group) {
        tutti_group_destroy(c->group, NULL);
    }
    tti_device_arena_close(c->arena);
    /* Also keeps every rank until rank 0 has printed: a launcher ends a job when its first rank fails. */
    int64_t result = c->rank == 0 && !passed;
    const bool good = agree(c, &result, 1) == TUTTI_OK && result == 0;
    tti_control_group_end(c->parent, c->world);
    return good;
}

bool tti_check_rank(const struct tti_check_options *options, tutti_group *parent)
{
    struct tti_check c = {.options = options, .parent = parent, .quick = options->quick, .collective = "suite"};
    c.rank = tutti_group_rank(parent);
    c.size = tutti_group_size(parent);
    c.watchdog = tti_check_watchdog_start(c.rank, options->timeout_ms);
    if (!c.watchdog) {
        fprintf(stderr, "tutti check: no memory or no thread for the watchdog\n");
        exit(1);
    }
    const bool good = run_suite(&c);
    tti_check_watchdog_stop(c.watchdog);
    return good;
}

void tti_check_list(const struct tti_check_options *options, int ranks)
{
    /* the promises decide whether a case is skipped, not whether it is listed */
    struct tti_check c = {.options = options, .size = ranks, .quick = options->quick};
    all_cases(&c);
}
