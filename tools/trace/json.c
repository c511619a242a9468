/* SPDX-License-Identifier: BSD-3-Clause */
/* Records as JSON: as it is for programs, and as a trace that Perfetto and chrome://tracing draw. Texts of a snapshot hold
 * nothing that would need escaping. */
#include <inttypes.h>
#include <string.h>

#include "record.h"

static int64_t wall_ns(const struct tti_snapshot *s, int64_t monotonic_ns)
{
    return monotonic_ns > 0 ? monotonic_ns + s->beyond_ns : 0;
}

static const char *state_of(const struct tti_snapshot_op *op)
{
    return tti_snapshot_is_running(op) ? "started" : op->status == TUTTI_OK ? "completed" : "failed";
}

static void print_op(FILE *out, const struct tti_snapshot *s, const struct tti_snapshot_op *op)
{
    const struct tti_flight_what *w = &op->what;
    fprintf(out,
            "{\"group\":\"%s\",\"lane\":%d,\"sequence\":%" PRIu64
            ",\"operation\":\"%s\",\"dtype\":\"%s\",\"redop\":\"%s\","
            "\"%s\":%d,\"tag\":%d,\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"calls\":%" PRIu64
            ",\"state\":\"%s\",\"status\":\"%s\",\"start_ns\":%" PRId64 ",\"end_ns\":%" PRId64 "}",
            s->groups[op->group].name, w->lane, op->sequence, tutti_operation_name(w->kind), tutti_dtype_name(w->dtype),
            tutti_reduce_op_name(w->redop), tti_snapshot_is_message(op) ? "peer" : "root", w->root, op->tag, w->count,
            w->bytes, op->calls, state_of(op), tti_snapshot_is_running(op) ? "" : tutti_status_name(op->status),
            wall_ns(s, op->begun_ns), wall_ns(s, op->ended_ns));
}

static void print_record(FILE *out, const struct tti_record *r)
{
    const struct tti_snapshot *s = &r->snapshot;
    fprintf(out,
            "{\"rank\":%d,\"world_size\":%d,\"host\":\"%s\",\"job\":\"%s\",\"pid\":%u,\"process\":\"%s\",\"full\":%s,"
            "\"groups\":[",
            s->rank, s->world_size, s->host, s->job, r->process.pid, tti_proc_state_name(r->look.state),
            s->full ? "true" : "false");
    for (int i = 0; i < s->group_count; i++) {
        const struct tti_snapshot_group *g = &s->groups[i];
        fprintf(out, "%s{\"name\":\"%s\",\"backend\":\"%s\",\"rank\":%d,\"size\":%d,\"lanes\":%d,\"open\":%s}",
                i > 0 ? "," : "", g->name, g->backend, g->rank, g->size, g->lanes, g->alive ? "true" : "false");
    }
    fprintf(out, "],\"counters\":{");
    const char *comma = "";
    for (int kind = 0; kind <= TUTTI_OP_RECV; kind++) {
        const struct tti_snapshot_counter *c = &s->counters[kind];
        if (c->calls > 0) {
            fprintf(out, "%s\"%s\":{\"calls\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"failures\":%" PRIu64 "}", comma,
                    tutti_operation_name(kind), c->calls, c->bytes, c->failures);
            comma = ",";
        }
    }
    fprintf(out, "},\"operations\":[");
    for (size_t i = 0; i < s->op_count; i++) {
        fprintf(out, "%s\n", i > 0 ? "," : "");
        print_op(out, s, &s->ops[i]);
    }
    fprintf(out, "]}");
}

void tti_record_json(FILE *out, const struct tti_record *records, size_t count)
{
    const char *comma = "";
    fprintf(out, "{\"version\":1,\"ranks\":[");
    for (size_t i = 0; i < count; i++) {
        if (records[i].has_snapshot) {
            fprintf(out, "%s\n", comma);
            print_record(out, &records[i]);
            comma = ",";
        }
    }
    fprintf(out, "]}\n");
}

/* ---- Chrome trace ------------------------------------------------------------------------------------------------------ */

static void name_event(FILE *out, const char *what, int pid, int tid, const char *name)
{
    fprintf(out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", what, pid, tid,
            name);
}

/* One track for each lane, and one for each group's messages. What overlaps there goes to a second track and so on: Perfetto
 * draws nested what overlaps, and messages do. */
#define TRACKS   (TTI_FLIGHT_LANES + 1)
#define OVERLAPS 16

static int track_of(const struct tti_snapshot_op *op)
{
    return op->group * TRACKS * OVERLAPS + (tti_snapshot_is_message(op) ? TTI_FLIGHT_LANES : op->what.lane) * OVERLAPS;
}

static void print_event(FILE *out, const struct tti_snapshot *s, const struct tti_snapshot_op *op, int tid)
{
    const int64_t begun = wall_ns(s, op->begun_ns);
    fprintf(out, ",\n{\"ph\":\"%s\",\"name\":\"%s\",\"cat\":\"tutti\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64 ".%03d",
            op->ended_ns > 0 ? "X" : "i", tutti_operation_name(op->what.kind), s->rank, tid, begun / 1000,
            (int)(begun % 1000));
    if (op->ended_ns > 0) {
        const int64_t ns = op->ended_ns - op->begun_ns;
        fprintf(out, ",\"dur\":%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
    } else {
        fprintf(out, ",\"s\":\"t\"");
    }
    fprintf(out,
            ",\"args\":{\"sequence\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"count\":%" PRIu64
            ",\"dtype\":\"%s\",\"state\":\"%s\",\"root_or_peer\":%d}}",
            op->sequence, op->what.bytes, op->what.count, tutti_dtype_name(op->what.dtype), state_of(op),
            op->what.root);
}

static void print_tracks(FILE *out, const struct tti_snapshot *s)
{
    for (int g = 0; g < s->group_count; g++) {
        for (int t = 0; t < TRACKS; t++) {
            char name[120];
            if (t >= s->groups[g].lanes && t < TTI_FLIGHT_LANES) {
                continue;
            }
            if (t == TTI_FLIGHT_LANES) {
                snprintf(name, sizeof(name), "group %s messages", s->groups[g].name);
            } else {
                snprintf(name, sizeof(name), "group %s lane %d", s->groups[g].name, t);
            }
            fprintf(out, ",\n");
            name_event(out, "thread_name", s->rank, (g * TRACKS + t) * OVERLAPS, name);
        }
    }
}

/* Operations whose time is known, in the order in which they began. */
static void print_events(FILE *out, const struct tti_snapshot *s)
{
    static int64_t busy_until[TTI_FLIGHT_GROUPS * TRACKS * OVERLAPS];
    memset(busy_until, 0, sizeof(busy_until));
    for (size_t i = 0; i < s->op_count; i++) {
        const struct tti_snapshot_op *op = &s->ops[i];
        int tid = track_of(op);
        if (op->begun_ns <= 0 || op->number == 0) {
            continue;
        }
        for (int more = 0; more < OVERLAPS - 1 && busy_until[tid] > op->begun_ns; more++) {
            tid++;
        }
        busy_until[tid] = op->ended_ns > busy_until[tid] ? op->ended_ns : busy_until[tid];
        print_event(out, s, op, tid);
    }
}

void tti_record_chrome(FILE *out, const struct tti_record *records, size_t count)
{
    fprintf(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"tutti\",\"pid\":0,\"tid\":0,"
                 "\"args\":{}}");
    for (size_t i = 0; i < count; i++) {
        const struct tti_snapshot *s = &records[i].snapshot;
        if (records[i].has_snapshot) {
            char name[120];
            snprintf(name, sizeof(name), "rank %d on %s", s->rank, s->host);
            fprintf(out, ",\n");
            name_event(out, "process_name", s->rank, 0, name);
            fprintf(
                out,
                ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"tid\":0,\"args\":{\"sort_index\":%d}}",
                s->rank, s->rank);
            print_tracks(out, s);
            print_events(out, s);
        }
    }
    fprintf(out, "]}\n");
}
