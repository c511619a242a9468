/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PyTorch's flight recorder format: a pickle of one rank, as its analyser (torch.distributed.flight_recorder) loads it from
 * files <prefix><rank>. Version 2.4: entries, pg_config (ranks as a string), pg_status.
 *
 * Of Python's pickle protocol 2 only what builds dictionaries, lists, pairs, texts and numbers is written; nothing that a loader
 * would have to run.
 */
#include <inttypes.h>
#include <string.h>

#include "record.h"

static void begin(FILE *out, char container)
{
    fputc(container, out);
    fputc('(', out);
}

static void text(FILE *out, const char *string)
{
    const uint32_t length = (uint32_t)strlen(string);
    fputc('X', out);
    for (int i = 0; i < 4; i++) {
        fputc((int)(length >> (8 * i) & 0xff), out);
    }
    fwrite(string, 1, length, out);
}

static void number(FILE *out, int64_t value)
{
    fputc('\x8a', out);
    fputc(8, out);
    for (int i = 0; i < 8; i++) {
        fputc((int)((uint64_t)value >> (8 * i) & 0xff), out);
    }
}

static void real(FILE *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    fputc('G', out);
    for (int i = 7; i >= 0; i--) {
        fputc((int)(bits >> (8 * i) & 0xff), out);
    }
}

static void truth(FILE *out, bool value)
{
    fputc(value ? '\x88' : '\x89', out);
}

static void none(FILE *out)
{
    fputc('N', out);
}

static void pair(FILE *out, const char *key, const char *value)
{
    text(out, key);
    text(out, value);
}

static void count_of(FILE *out, const char *key, int64_t value)
{
    text(out, key);
    number(out, value);
}

/* The names of torch's scalar types. */
static const char *torch_dtype(int dtype)
{
    static const char *const names[][2] = {{"f64", "Double"}, {"f32", "Float"}, {"f16", "Half"}, {"bf16", "BFloat16"},
                                           {"i8", "Char"},    {"i16", "Short"}, {"i32", "Int"},  {"i64", "Long"},
                                           {"u8", "Byte"},    {"bool", "Bool"}};
    const char *name = tutti_dtype_name(dtype);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i][0], name) == 0) {
            return names[i][1];
        }
    }
    return name;
}

static const char *description(const struct tti_snapshot_group *g)
{
    return g->name[0] == 'w' ? "default_pg" : "undefined";
}

/* [[count]] and ["Float"] */
static void tensors(FILE *out, const struct tti_flight_what *w, const char *sizes, const char *dtypes)
{
    const bool any = w->kind != TUTTI_OP_BARRIER;
    text(out, sizes);
    begin(out, ']');
    if (any) {
        begin(out, ']');
        number(out, (int64_t)w->count);
        fputc('e', out);
    }
    fputc('e', out);
    text(out, dtypes);
    begin(out, ']');
    if (any) {
        text(out, torch_dtype(w->dtype));
    }
    fputc('e', out);
}

static void time_of(FILE *out, const char *key, int64_t ns, int64_t beyond)
{
    text(out, key);
    if (ns > 0) {
        number(out, ns + beyond);
    } else {
        none(out);
    }
}

static void entry(FILE *out, const struct tti_snapshot *s, const struct tti_snapshot_op *op, int64_t id)
{
    const struct tti_snapshot_group *g = &s->groups[op->group];
    const bool message = tti_snapshot_is_message(op);
    char name[60];
    begin(out, '}');
    count_of(out, "record_id", id);
    count_of(out, "pg_id", op->group);
    text(out, "process_group");
    text(out, g->name);
    text(out, description(g));
    fputc('\x86', out);
    count_of(out, "collective_seq_id", message ? 0 : (int64_t)op->sequence);
    count_of(out, "p2p_seq_id", message ? (int64_t)op->sequence : 0);
    count_of(out, "op_id", (int64_t)op->sequence);
    if (message) {
        snprintf(name, sizeof(name), "nccl:%s %d%s%d", tutti_operation_name(op->what.kind),
                 op->what.kind == TUTTI_OP_SEND ? g->rank : op->what.root, op->what.kind == TUTTI_OP_SEND ? "->" : "<-",
                 op->what.kind == TUTTI_OP_SEND ? op->what.root : g->rank);
    } else {
        snprintf(name, sizeof(name), "nccl:%s", tutti_operation_name(op->what.kind));
    }
    pair(out, "profiling_name", name);
    text(out, "time_created_ns");
    number(out, op->begun_ns > 0 ? op->begun_ns + s->beyond_ns : 0);
    time_of(out, "time_discovered_started_ns", op->begun_ns, s->beyond_ns);
    time_of(out, "time_discovered_completed_ns", op->ended_ns, s->beyond_ns);
    text(out, "duration_ms");
    if (op->ended_ns > 0) {
        real(out, (double)(op->ended_ns - op->begun_ns) / 1e6);
    } else {
        none(out);
    }
    tensors(out, &op->what, "input_sizes", "input_dtypes");
    tensors(out, &op->what, "output_sizes", "output_dtypes");
    pair(out, "state", tti_snapshot_is_running(op) ? "started" : "completed");
    text(out, "retired");
    truth(out, !tti_snapshot_is_running(op));
    count_of(out, "timeout_ms", 0);
    text(out, "is_p2p");
    truth(out, message);
    text(out, "frames");
    fputc(']', out);
    fputc('u', out);
}

/* "[0, 1, 3]": the world ranks of the members that are known; of the world, all. */
static void ranks_of(FILE *out, const struct tti_snapshot_group *g, const struct tti_record *records, size_t count)
{
    char list[4096] = "[";
    size_t used = 1;
    int listed = 0;
    for (int r = 0; r < g->size && used + 16 < sizeof(list); r++) {
        int32_t world = g->name[0] == 'w' ? r : r == g->rank ? g->world_rank : -1;
        for (size_t i = 0; world < 0 && i < count; i++) {
            const struct tti_snapshot *s = &records[i].snapshot;
            for (int k = 0; records[i].has_snapshot && k < s->group_count; k++) {
                const bool same = s->groups[k].rank == r && strcmp(s->groups[k].name, g->name) == 0;
                world = same ? s->groups[k].world_rank : world;
            }
        }
        if (world >= 0) {
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%d", listed++ > 0 ? ", " : "", world);
        }
    }
    snprintf(list + used, sizeof(list) - used, "]");
    pair(out, "ranks", list);
}

static void groups(FILE *out, const struct tti_record *records, size_t count, const struct tti_snapshot *s)
{
    text(out, "pg_config");
    begin(out, '}');
    for (int i = 0; i < s->group_count; i++) {
        const struct tti_snapshot_group *g = &s->groups[i];
        text(out, g->name);
        begin(out, '}');
        pair(out, "name", g->name);
        pair(out, "desc", description(g));
        ranks_of(out, g, records, count);
        fputc('u', out);
    }
    fputc('u', out);
    text(out, "pg_status");
    begin(out, '}');
    for (int i = 0; i < s->group_count; i++) {
        const struct tti_snapshot_group *g = &s->groups[i];
        const int64_t ended = (int64_t)g->last[0];
        text(out, g->name);
        begin(out, '}');
        count_of(out, "last_enqueued_collective", ended + (g->running[0] >= 0));
        count_of(out, "last_started_collective", ended + (g->running[0] >= 0));
        count_of(out, "last_completed_collective", ended);
        fputc('u', out);
    }
    fputc('u', out);
}

void tti_record_pickle(FILE *out, const struct tti_record *records, size_t count, size_t which)
{
    const struct tti_snapshot *s = &records[which].snapshot;
    fputs("\x80\x02", out);
    begin(out, '}');
    pair(out, "version", "2.4");
    pair(out, "host_name", s->host);
    count_of(out, "rank", s->rank);
    groups(out, records, count, s);
    text(out, "entries");
    begin(out, ']');
    for (size_t i = 0; i < s->op_count; i++) {
        entry(out, s, &s->ops[i], (int64_t)i);
    }
    fputs("eu.", out);
}
