/* SPDX-License-Identifier: BSD-3-Clause */
/* Records as JSON, for programs. Texts of a snapshot hold nothing that would need escaping. */
#include <inttypes.h>

#include "trace/record.h"

static const char *state_of(const struct tti_snapshot_op *op)
{
    return tti_snapshot_is_running(op) ? "started" : op->status == TUTTI_OK ? "completed" : "failed";
}

static void print_op(FILE *out, const struct tti_snapshot *s, const struct tti_snapshot_op *op)
{
    const struct tti_flight_op *w = &op->what;
    fprintf(out,
            "{\"group\":\"%s\",\"group_index\":%d,\"rank\":%d,\"lane\":%d,\"sequence\":%" PRIu64
            ",\"operation\":\"%s\",\"dtype\":\"%s\",\"redop\":\"%s\","
            "\"%s\":%d,\"tag\":%d,\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"calls\":%" PRIu64
            ",\"state\":\"%s\",\"status\":\"%s\",\"start_ns\":%" PRId64 ",\"end_ns\":%" PRId64 "}",
            s->groups[op->group].name, op->group, s->groups[op->group].world_rank, w->lane, op->sequence,
            tutti_operation_name(w->kind), tutti_dtype_name(w->dtype), tutti_reduce_op_name(w->redop),
            tti_snapshot_is_message(op) ? "peer" : "root", w->root, op->tag, w->count, w->bytes, op->calls,
            state_of(op), tti_snapshot_is_running(op) ? "" : tutti_status_name(op->status),
            tti_record_wall_ns(s, op->begun_ns), tti_record_wall_ns(s, op->ended_ns));
}

static void print_record(FILE *out, const struct tti_rank_record *r)
{
    const struct tti_snapshot *s = &r->snapshot;
    fprintf(out,
            "{\"rank\":%d,\"world_size\":%d,\"host\":\"%s\",\"job\":\"%s\",\"pid\":%u,\"process\":\"%s\",\"full\":%s,"
            "\"unrecorded_groups\":%u,\"groups\":[",
            s->rank, s->world_size, s->host, s->job, r->process.pid, tti_proc_state_name(r->proc.state),
            s->full ? "true" : "false", s->unrecorded);
    for (int i = 0; i < s->group_count; i++) {
        const struct tti_snapshot_group *g = &s->groups[i];
        fprintf(out,
                "%s{\"name\":\"%s\",\"backend\":\"%s\",\"rank\":%d,\"world_rank\":%d,\"size\":%d,\"lanes\":%d,"
                "\"open\":%s,\"last\":[",
                i > 0 ? "," : "", g->name, g->backend, g->rank, g->world_rank, g->size, g->lanes,
                g->alive ? "true" : "false");
        for (int lane = 0; lane < g->lanes; lane++) { /* the numbers of the last operations that have ended */
            fprintf(out, "%s%" PRIu64, lane > 0 ? "," : "", g->last[lane]);
        }
        fprintf(out, "]}");
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

void tti_record_json(FILE *out, const struct tti_rank_record *records, size_t count)
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
