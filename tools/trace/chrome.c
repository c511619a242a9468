/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records as a trace that Perfetto and chrome://tracing draw: a process for each rank, a track (a thread, to them) for
 * each lane of a group and for its messages. Two spans of one track that overlap without one lying in the other are
 * refused or drawn wrongly, and messages do overlap: if a track is busy, the message goes to a further track beside it.
 *
 * Readers hold times as floating numbers of microseconds, which cannot represent nanoseconds since 1970; so times count
 * from the first event, and otherData says when that was. Texts of a snapshot hold nothing that would need escaping.
 *
 * Cost: each operation searches the tracks in use.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/record.h"

#define KINDS        (TTI_FLIGHT_LANES + 1) /* of tracks in a group: its lanes, and its messages */
#define UNKNOWN_RANK 1000000                /* pids of processes whose rank is not known begin here */

struct track {
    int pid;
    int group; /* index */
    int kind;  /* the lane, or TTI_FLIGHT_LANES */
    int beside;
    int64_t busy_until;
};

struct trace {
    FILE *out;
    const char *comma;
    int64_t first_ns; /* time 0 */
    struct track *tracks;
    size_t count;
    size_t capacity;
    size_t own; /* the tracks of the record that is being written begin here */
};

static void begin_event(struct trace *t, const char *phase, int pid, size_t tid)
{
    fprintf(t->out, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%zu", t->comma, phase, pid, tid);
    t->comma = ",";
}

static void name_event(struct trace *t, const char *what, int pid, size_t tid, const char *name)
{
    begin_event(t, "M", pid, tid);
    fprintf(t->out, ",\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}", what, name);
}

static void sort_event(struct trace *t, const char *what, int pid, size_t tid, size_t index)
{
    begin_event(t, "M", pid, tid);
    fprintf(t->out, ",\"name\":\"%s\",\"args\":{\"sort_index\":%zu}}", what, index);
}

static int pid_of(const struct tti_snapshot *s, const struct tti_snapshot_group *g, size_t which)
{
    return s->rank >= 0 || tti_snapshot_is_world(g) ? g->world_rank : UNKNOWN_RANK + (int)which;
}

static void name_process(struct trace *t, const struct tti_snapshot *s, int pid)
{
    char name[120];
    if (pid >= UNKNOWN_RANK) {
        snprintf(name, sizeof(name), "process %u on %s", s->process.pid, s->host);
    } else {
        snprintf(name, sizeof(name), "rank %d on %s", pid, s->host);
    }
    name_event(t, "process_name", pid, 0, name);
    sort_event(t, "process_sort_index", pid, 0, (size_t)pid);
}

static void name_track(struct trace *t, const struct tti_snapshot *s, size_t index)
{
    const struct track *track = &t->tracks[index];
    const struct tti_snapshot_group *g = &s->groups[track->group];
    char name[140];
    char more[16] = "";
    if (track->beside > 0) {
        snprintf(more, sizeof(more), " (%d)", track->beside + 1);
    }
    if (track->kind == TTI_FLIGHT_LANES) {
        snprintf(name, sizeof(name), "group %s messages%s", g->name, more);
    } else {
        snprintf(name, sizeof(name), "group %s lane %d%s", g->name, track->kind, more);
    }
    name_event(t, "thread_name", track->pid, index + 1, name);
    sort_event(t, "thread_sort_index", track->pid, index + 1,
               ((size_t)track->group * KINDS + (size_t)track->kind) * TTI_FLIGHT_RING + (size_t)track->beside);
}

/* The first free track for an operation; `count` if there is no memory for another one. */
static size_t track_of(struct trace *t, const struct tti_snapshot *s, const struct tti_snapshot_op *op, int pid)
{
    const int kind = tti_snapshot_is_message(op) ? TTI_FLIGHT_LANES : op->what.lane;
    int beside = 0;
    for (size_t i = t->own; i < t->count; i++) {
        const struct track *track = &t->tracks[i];
        if (track->group == op->group && track->kind == kind) {
            if (track->busy_until <= op->begun_ns) {
                return i;
            }
            beside++;
        }
    }
    if (t->count == t->capacity) {
        const size_t capacity = t->capacity > 0 ? 2 * t->capacity : 64;
        struct track *grown = realloc(t->tracks, capacity * sizeof(*grown));
        if (!grown) {
            return t->count;
        }
        t->tracks = grown;
        t->capacity = capacity;
    }
    t->tracks[t->count] = (struct track){.pid = pid, .group = op->group, .kind = kind, .beside = beside};
    name_track(t, s, t->count);
    return t->count++;
}

static const char *state_of(const struct tti_snapshot_op *op)
{
    return tti_snapshot_is_running(op) ? "started" : tutti_status_name(op->status);
}

static void print_event(struct trace *t, const struct tti_snapshot *s, const struct tti_snapshot_op *op, int pid,
                        size_t tid)
{
    const int64_t begun = tti_record_wall_ns(s, op->begun_ns) - t->first_ns;
    const bool runs = tti_snapshot_is_running(op);
    begin_event(t, op->ended_ns > 0 ? "X" : runs ? "B" : "i", pid, tid);
    fprintf(t->out, ",\"name\":\"%s\",\"cat\":\"tutti\",\"ts\":%" PRId64 ".%03d", tutti_operation_name(op->what.kind),
            begun / 1000, (int)(begun % 1000));
    if (op->ended_ns > 0) {
        const int64_t ns = op->ended_ns - op->begun_ns;
        fprintf(t->out, ",\"dur\":%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
    } else if (!runs) {
        fprintf(t->out, ",\"s\":\"t\"");
    }
    fprintf(t->out,
            ",\"args\":{\"sequence\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"count\":%" PRIu64
            ",\"dtype\":\"%s\",\"state\":\"%s\"",
            op->sequence, op->what.bytes, op->what.count, tutti_dtype_name(op->what.dtype), state_of(op));
    if (tti_snapshot_is_message(op)) {
        fprintf(t->out, ",\"peer\":%d,\"tag\":%d}}", op->what.root, op->tag);
    } else {
        fprintf(t->out, ",\"redop\":\"%s\",\"root\":%d}}", tutti_reduce_op_name(op->what.redop), op->what.root);
    }
}

/* An operation without times cannot be drawn. A tally is many operations, and the opening of a group is none. */
static bool is_drawn(const struct tti_snapshot *s, const struct tti_snapshot_op *op)
{
    return op->number != 0 && tti_record_wall_ns(s, op->begun_ns) > 0;
}

static int compare_begins(const void *a, const void *b)
{
    const struct tti_snapshot_op *x = *(const struct tti_snapshot_op *const *)a;
    const struct tti_snapshot_op *y = *(const struct tti_snapshot_op *const *)b;
    return (x->begun_ns > y->begun_ns) - (x->begun_ns < y->begun_ns);
}

static void print_record(struct trace *t, const struct tti_rank_record *r, size_t which)
{
    const struct tti_snapshot *s = &r->snapshot;
    const struct tti_snapshot_op **drawn = malloc((s->op_count + 1) * sizeof(const struct tti_snapshot_op *));
    size_t count = 0;
    t->own = t->count;
    for (size_t i = 0; drawn && i < s->op_count; i++) {
        if (is_drawn(s, &s->ops[i])) {
            drawn[count++] = &s->ops[i];
        }
    }
    if (count > 0) { /* they lie in the order of their entries, which several threads write at the same time */
        qsort(drawn, count, sizeof(const struct tti_snapshot_op *), compare_begins);
    }
    int named = -1;
    for (int g = 0; g < s->group_count; g++) { /* if ranks are threads, each has groups of its own */
        const int pid = pid_of(s, &s->groups[g], which);
        if (pid != named) {
            name_process(t, s, pid);
            named = pid;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct tti_snapshot_op *op = drawn[i];
        const int pid = pid_of(s, &s->groups[op->group], which);
        const size_t track = track_of(t, s, op, pid);
        if (track < t->count) {
            const bool open = tti_snapshot_is_running(op) && op->ended_ns == 0; /* drawn to the end */
            t->tracks[track].busy_until = open ? INT64_MAX : op->ended_ns > 0 ? op->ended_ns : op->begun_ns;
            print_event(t, s, op, pid, track + 1);
        }
    }
    free((void *)drawn);
}

static int64_t first_of(const struct tti_rank_record *records, size_t count)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct tti_snapshot *s = &records[i].snapshot;
        for (size_t j = 0; records[i].has_snapshot && j < s->op_count; j++) {
            const int64_t at = tti_record_wall_ns(s, s->ops[j].begun_ns);
            first = is_drawn(s, &s->ops[j]) && at < first ? at : first;
        }
    }
    return first < INT64_MAX ? first : 0;
}

void tti_record_chrome(FILE *out, const struct tti_rank_record *records, size_t count)
{
    struct trace t = {.out = out, .comma = "", .first_ns = first_of(records, count)};
    fprintf(out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"begin_ns\":\"%" PRId64 "\"},\"traceEvents\":[",
            t.first_ns);
    for (size_t i = 0; i < count; i++) {
        if (records[i].has_snapshot) {
            print_record(&t, &records[i], i);
        }
    }
    fprintf(out, "\n]}\n");
    free(t.tracks);
}
