/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the launcher reports of the ranks' operations. It has made the memory of each rank's flight recorder and holds
 * it open. So it can read the record of a rank that was killed or hangs.
 */
#include "run/job/flight_report.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diag/file.h"
#include "run/job/output.h"
#include "trace/record.h"

#define DESCRIBED 16 /* ranks whose operations are listed */

bool tti_report_prepare(struct tti_job *job, int local)
{
    const struct tti_run_options *options = job->options;
    const struct tti_job_identity *identity = job->identity;
    const int rank = identity->first_rank + local;
    char name[4096] = "";
    if (options->trace_dir) {
        const int length =
            snprintf(name, sizeof(name), "%s/%s.rank-%d.flight", options->trace_dir, identity->name, rank);
        if (length < 0 || (size_t)length >= sizeof(name)) {
            errno = ENAMETOOLONG;
            return false;
        }
    }
    job->ranks[local].flight_fd = tti_flight_make(*name ? name : NULL, identity->name, rank, identity->world_size);
    return job->ranks[local].flight_fd >= 0 || !options->trace_dir; /* without a report a job runs as well */
}

void tti_report_close(struct tti_job *job)
{
    for (int i = 0; i < job->options->ranks; i++) {
        if (job->ranks[i].flight_fd >= 0) {
            close(job->ranks[i].flight_fd);
            job->ranks[i].flight_fd = -1;
        }
    }
}

static void read_record(const struct tti_job *job, int local, struct tti_rank_record *r)
{
    const struct tti_rank *rank = &job->ranks[local];
    const char *why;
    *r = (struct tti_rank_record){
        .rank = job->identity->first_rank + local, .ended_with = rank->running ? -1 : rank->status, .fd = -1};
    r->has_snapshot = rank->flight_fd >= 0 && tti_snapshot_read(rank->flight_fd, &r->snapshot, &why);
    if (r->has_snapshot && r->snapshot.process.pid != 0) { /* the program may be a child of what was started */
        r->process = r->snapshot.process;
        r->proc = tti_proc_query(&r->process);
    } else { /* it has not opened Tutti: the launcher knows its number only, as it is in the launcher's namespace */
        struct tti_proc_id own;
        tti_proc_self(&own);
        r->process = (struct tti_proc_id){.pid = (uint32_t)rank->pid, .space = own.space};
        r->proc = tti_proc_query(&r->process);
    }
    if (r->has_snapshot && r->snapshot.rank < 0) {
        r->snapshot.rank = r->rank;
    }
}

static bool any_uses_tutti(const struct tti_rank_record *records, int count)
{
    for (int i = 0; i < count; i++) {
        if (records[i].has_snapshot && records[i].snapshot.process.pid != 0) {
            return true;
        }
    }
    return false;
}

/* Line by line, as the launcher's other messages. */
static void print_lines(struct tti_job *job, char *text)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        tti_output_message(job->output, "%s", line);
    }
}

void tti_report_hang(struct tti_job *job)
{
    const int count = job->started;
    struct tti_rank_record *records = calloc((size_t)count + 1, sizeof(*records));
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!records || !out) {
        tti_output_message(job->output, "there is no memory for a report");
    } else {
        for (int i = 0; i < count; i++) {
            read_record(job, i, &records[i]);
        }
        poll(NULL, 0, TTI_RECORD_INTERVAL_MS);
        for (int i = 0; i < count; i++) {
            struct tti_rank_record before = records[i];
            read_record(job, i, &records[i]);
            records[i].has_before = before.has_snapshot;
            records[i].before = before.snapshot;
        }
        if (any_uses_tutti(records, count)) {
            tti_record_hang_report(out, records, (size_t)count, DESCRIBED);
        } else {
            fprintf(out, "no rank has begun to use Tutti\n");
        }
    }
    if (out) {
        fclose(out);
    }
    if (text) {
        print_lines(job, text);
    }
    free(text);
    tti_record_free(records, (size_t)count);
}

void tti_report_metrics(struct tti_job *job)
{
    const int count = job->started;
    const char *path = count > 0 ? job->options->metrics_file : NULL;
    struct tti_rank_record *records = path ? calloc((size_t)count + 1, sizeof(*records)) : NULL;
    for (int i = 0; records && i < count; i++) {
        read_record(job, i, &records[i]);
    }
    if (path && (!records || !tti_record_metrics_file(path, records, (size_t)count))) {
        tti_output_message(job->output, "cannot write the metrics to %s: %s", path, strerror(records ? errno : ENOMEM));
    }
    tti_record_free(records, (size_t)count);
}

tutti_status tti_report_last_status(const struct tti_job *job, int local)
{
    struct tti_rank_record r;
    const struct tti_snapshot_op *last = NULL;
    read_record(job, local, &r);
    const bool any = r.has_snapshot && tti_record_newest(&r.snapshot, -1, &last, 1) > 0;
    const tutti_status status = any && !tti_snapshot_is_running(last) ? last->status : TUTTI_OK;
    tti_snapshot_free(&r.snapshot);
    return status;
}

bool tti_report_last_operation(const struct tti_job *job, int local, char *text, size_t capacity)
{
    struct tti_rank_record r;
    read_record(job, local, &r);
    const bool any = tti_record_last_text(&r, -1, text, capacity);
    tti_snapshot_free(&r.snapshot);
    return any;
}
