/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by `tutti trace` and the reports of `tutti run`: records of ranks, and the functions that write them. */
#ifndef TOOLS_TRACE_RECORD_H
#define TOOLS_TRACE_RECORD_H

#include <stdbool.h>
#include <stdio.h>

#include "trace/hang.h"

/* A rank whose record was read, or could not be. */
struct tti_rank_record {
    int32_t rank; /* in the world, -1 = not known */
    struct tti_proc_id process;
    struct tti_proc proc;
    int ended_with; /* from waitpid, -1 = not reaped */
    bool has_snapshot;
    struct tti_snapshot snapshot;
    bool has_before; /* and one of a moment before */
    struct tti_snapshot before;
    int fd; /* find.c's, of a living process's record; -1 = none */
};

#define TTI_RECORD_INTERVAL_MS 50 /* between two readings: a rank that has advanced meanwhile does not hang */

/* Frees what a record holds; all records, and their memory. */
void tti_record_clear(struct tti_rank_record *record);
void tti_record_free(struct tti_rank_record *records, size_t count);

/* "all_reduce #418 f32 x2 sum (8 B)" */
void tti_record_op_text(const struct tti_snapshot *s, const struct tti_snapshot_op *op, char *text, size_t capacity);

/* The last operation that ran or had ended; false: there is none. If the process's threads are ranks, only operations
 * of `rank` count; else pass -1. */
bool tti_record_last_text(const struct tti_rank_record *record, int32_t rank, char *text, size_t capacity);

/* The newest operations of that rank: the running ones first, then newest first. Returns their number. */
size_t tti_record_newest(const struct tti_snapshot *s, int32_t rank, const struct tti_snapshot_op **ops,
                         size_t capacity);

/* Nanoseconds since 1970, of a time that is known; else 0. */
static inline int64_t tti_record_wall_ns(const struct tti_snapshot *s, int64_t monotonic_ns)
{
    return monotonic_ns > 0 && monotonic_ns < INT64_MAX - s->realtime_offset_ns ? monotonic_ns + s->realtime_offset_ns
                                                                                : 0;
}

/* hang_report.c: the rank that delays the others, which rank waits for which, and the last operations. At most `most`
 * ranks are described one by one. */
void tti_record_hang_report(FILE *out, const struct tti_rank_record *records, size_t count, size_t most);

/* json.c, chrome.c: the other formats of `tutti trace dump`. */
void tti_record_json(FILE *out, const struct tti_rank_record *records, size_t count);
void tti_record_chrome(FILE *out, const struct tti_rank_record *records, size_t count);

/* metrics.c: `tutti trace metrics`; and the same into a file, which is complete at any time unless `path` is a link, a
 * terminal or a pipe. False: with errno. */
void tti_record_metrics(FILE *out, const struct tti_rank_record *records, size_t count);
bool tti_record_metrics_file(const char *path, const struct tti_rank_record *records, size_t count);
/* Whether that file can be made. It is left as it is. False: with errno. */
bool tti_record_metrics_writable(const char *path);

#endif
