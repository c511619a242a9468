/* SPDX-License-Identifier: BSD-3-Clause */
/* What rank 0 shows: a progress line on a terminal, a table by collective, and a last line that scripts read. */
#include "check/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

struct row {
    const char *collective;
    long passed;
    long failed;
    long skipped;
    int64_t elapsed_ns;
};

struct tti_check_report {
    size_t count;
    size_t capacity;
    bool terminal;
    int64_t shown_ns; /* when the progress line was last written; 0 = there is none */
    int named;        /* failed cases that have been named */
    struct row rows[];
};

enum { NAMED_AT_MOST = 50 };

struct tti_check_report *tti_check_report_create(size_t collectives)
{
    struct tti_check_report *report = calloc(1, sizeof(*report) + collectives * sizeof(report->rows[0]));
    if (!report) {
        return NULL;
    }
    report->capacity = collectives;
    /* Under `tutti run` standard output is a pipe; the variable says what is behind it. */
    const char *behind = getenv(TTI_CHECK_STARTED);
    report->terminal = behind ? strcmp(behind, "terminal") == 0 : isatty(STDOUT_FILENO) == 1;
    return report;
}

static struct row *row_of(struct tti_check_report *report, const char *collective)
{
    for (size_t i = 0; i < report->count; i++) {
        if (strcmp(report->rows[i].collective, collective) == 0) {
            return &report->rows[i];
        }
    }
    if (report->count == report->capacity) {
        return &report->rows[report->capacity - 1];
    }
    struct row *row = &report->rows[report->count++];
    row->collective = collective;
    return row;
}

void tti_check_report_add(struct tti_check_report *report, const char *collective, const char *name,
                          enum tti_check_outcome outcome, int64_t elapsed_ns)
{
    struct row *row = row_of(report, collective);
    row->elapsed_ns += elapsed_ns;
    if (outcome == TTI_CHECK_PASSED) {
        row->passed++;
    } else if (outcome == TTI_CHECK_SKIPPED) {
        row->skipped++;
    } else {
        row->failed++;
        if (++report->named > NAMED_AT_MOST) {
            return;
        }
        printf("%sFAILED %s/%s\n", report->shown_ns != 0 ? "\r\033[K" : "", collective, name);
        fflush(stdout);
        report->shown_ns = 0;
    }
}

void tti_check_report_progress(struct tti_check_report *report, const char *collective, const char *name)
{
    enum { EVERY_NS = 100000000 };
    const int64_t now = tti_now_ns();
    if (report->terminal && now - report->shown_ns >= EVERY_NS) {
        report->shown_ns = now;
        printf("\r\033[K%s/%s", collective, name);
        fflush(stdout);
    }
}

bool tti_check_report_finish(struct tti_check_report *report, const char *note)
{
    struct row sum = {0};
    printf("%s%-18s %8s %8s %8s %9s\n", report->shown_ns != 0 ? "\r\033[K" : "", "collective", "passed", "failed",
           "skipped", "seconds");
    for (size_t i = 0; i < report->count; i++) {
        const struct row *row = &report->rows[i];
        printf("%-18s %8ld %8ld %8ld %9.2f\n", row->collective, row->passed, row->failed, row->skipped,
               (double)row->elapsed_ns / 1e9);
        sum.passed += row->passed;
        sum.failed += row->failed;
        sum.skipped += row->skipped;
        sum.elapsed_ns += row->elapsed_ns;
    }
    printf("%-18s %8ld %8ld %8ld %9.2f\n", "all", sum.passed, sum.failed, sum.skipped, (double)sum.elapsed_ns / 1e9);
    if (report->named > NAMED_AT_MOST) {
        printf("(only the first %d failed cases were named)\n", NAMED_AT_MOST);
    }
    if (note) {
        printf("%s\n", note);
    } else if (sum.passed == 0 && sum.failed == 0) {
        printf("No case was run; `tutti check --list` shows their names.\n");
    }
    printf("%ld passed, %ld failed, %ld skipped\n", sum.passed, sum.failed, sum.skipped);
    fflush(stdout);
    return sum.failed == 0 && sum.passed > 0;
}
