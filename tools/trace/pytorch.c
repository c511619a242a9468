/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PyTorch's flight recorder format, for its analyser (torch.distributed.flight_recorder): files <prefix><rank> of
 * version 2.4 with entries, pg_config (ranks as a string) and pg_status. The analyser takes the first operation of a
 * group on one rank and searches all members for the entry with its number. It reports a member without one as missing,
 * and two neighbours of one number as a bug. These rules make it name the rank that delays the others, and no other:
 *
 *   - A lane is a process group of its own, since lanes are numbered apart.
 *   - Messages between two ranks are one group for each direction. Only messages that have not ended are written: the two
 *     sides number theirs apart, and Tutti has matched those that have ended. Receives from any rank belong to no pair.
 *   - Some collectives that have ended are left out: see collective_filter.c.
 *   - A failed operation is written as "started": the analyser has no failed state. It checks started operations.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/collective_filter.h"
#include "trace/pickle.h"

#define NAME 128

struct dump {
    const struct tti_record *records;
    size_t count;
    const struct tti_collective_filter *filter;
    FILE *out;
    int32_t rank; /* of the file that is being written */
    int64_t id;   /* of the next entry */
};

/* ---- words ------------------------------------------------------------------------------------------------------- */

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

static void lane_name(const struct tti_snapshot_group *g, int lane, char *name)
{
    snprintf(name, NAME, lane > 0 ? "%s.lane%d" : "%s", g->name, lane);
}

static const char *description(const struct tti_snapshot_group *g, int lane)
{
    return strcmp(g->name, "w0") == 0 && lane == 0 ? "default_pg" : "undefined";
}

/* The world rank of a member; -1 if no record has it. */
static int32_t world_rank(const struct dump *d, const struct tti_snapshot_group *g, int32_t member)
{
    if (tti_snapshot_is_world(g) || member == g->rank) {
        return tti_snapshot_is_world(g) ? member : g->world_rank;
    }
    for (size_t i = 0; i < d->count; i++) {
        const struct tti_snapshot *s = &d->records[i].snapshot;
        for (int k = 0; k < s->group_count; k++) {
            if (s->groups[k].rank == member && strcmp(s->groups[k].name, g->name) == 0) {
                return s->groups[k].world_rank;
            }
        }
    }
    return -1;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static void time_of(FILE *out, const char *key, const struct tti_snapshot *s, int64_t ns)
{
    tti_pickle(out, ns > 0 ? "si" : "sn", key, tti_record_wall_ns(s, ns));
}

/* The record holds the number of elements of the tensor that is not joined. */
static void tensors(FILE *out, const struct tti_snapshot_group *g, const struct tti_flight_op *w)
{
    const char *dtype = torch_dtype(w->dtype);
    const int64_t count = (int64_t)(w->count & INT64_MAX);
    const int64_t joined = (int64_t)(w->count * (uint64_t)g->size & INT64_MAX);
    const bool joins = w->kind == TUTTI_OP_ALL_GATHER || w->kind == TUTTI_OP_GATHER;
    const bool parts = w->kind == TUTTI_OP_REDUCE_SCATTER || w->kind == TUTTI_OP_SCATTER;
    if (w->kind == TUTTI_OP_BARRIER) {
        tti_pickle(out, "s[]s[]s[]s[]", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes");
    } else {
        tti_pickle(out, "s[[i]]s[s]", "input_sizes", parts ? joined : count, "input_dtypes", dtype);
        tti_pickle(out, "s[[i]]s[s]", "output_sizes", joins ? joined : count, "output_dtypes", dtype);
    }
}

static void entry(struct dump *d, const struct tti_snapshot *s, const struct tti_snapshot_op *op, const char *group,
                  const char *described, const char *name, int64_t sequence)
{
    FILE *out = d->out;
    const bool message = tti_snapshot_is_message(op);
    tti_pickle(out, "{sisisss2sisisisssi", "record_id", d->id++, "pg_id", (int64_t)op->group, "process_group", group,
               described, "collective_seq_id", sequence, "p2p_seq_id", message ? sequence : INT64_C(0), "op_id",
               sequence, "profiling_name", name, "time_created_ns", tti_record_wall_ns(s, op->begun_ns));
    time_of(out, "time_discovered_started_ns", s, op->begun_ns);
    time_of(out, "time_discovered_completed_ns", s, op->ended_ns);
    tti_pickle(out, op->ended_ns > 0 ? "sf" : "sn", "duration_ms", (double)(op->ended_ns - op->begun_ns) / 1e6);
    tensors(out, &s->groups[op->group], &op->what);
    tti_pickle(out, "sssbsisbs[]}", "state", op->status == TUTTI_OK ? "completed" : "started", "retired",
               !tti_snapshot_is_running(op), "timeout_ms", INT64_C(0), "is_p2p", message, "frames");
}

static int compare_sequences(const void *a, const void *b)
{
    const struct tti_snapshot_op *x = *(const struct tti_snapshot_op *const *)a;
    const struct tti_snapshot_op *y = *(const struct tti_snapshot_op *const *)b;
    if (x->what.lane != y->what.lane) {
        return (x->what.lane > y->what.lane) - (x->what.lane < y->what.lane);
    }
    return x->sequence != y->sequence ? (x->sequence > y->sequence) - (x->sequence < y->sequence)
                                      : (x->number > y->number) - (x->number < y->number);
}

/* The collectives of a group, lane by lane, in order. */
static void collectives(struct dump *d, const struct tti_snapshot *s, int group, const struct tti_snapshot_op **ops)
{
    const struct tti_snapshot_group *g = &s->groups[group];
    size_t count = 0;
    for (size_t i = 0; i < s->op_count; i++) {
        if (s->ops[i].group == group && tti_is_collective(&s->ops[i]) &&
            tti_collective_is_kept(d->filter, s, &s->ops[i])) {
            ops[count++] = &s->ops[i];
        }
    }
    if (count > 0) {
        qsort(ops, count, sizeof(const struct tti_snapshot_op *), compare_sequences);
    }
    for (size_t i = 0; i < count; i++) {
        const struct tti_snapshot_op *op = ops[i];
        char lane[NAME];
        char name[60];
        if (i + 1 < count && ops[i + 1]->what.lane == op->what.lane && ops[i + 1]->sequence == op->sequence) {
            continue; /* a corrupted record: one entry for each number */
        }
        lane_name(g, op->what.lane, lane);
        snprintf(name, sizeof(name), "nccl:%s", tutti_operation_name(op->what.kind));
        entry(d, s, op, lane, description(g, op->what.lane), name, (int64_t)(op->sequence & INT64_MAX));
    }
}

struct direction {
    int32_t from; /* ranks in the world */
    int32_t to;
};

/* Of a message that has not ended; false for all else, and if the peer is not known. */
static bool direction_of(const struct dump *d, const struct tti_snapshot *s, const struct tti_snapshot_op *op,
                         struct direction *direction)
{
    if (!tti_snapshot_is_message(op) || !tti_snapshot_is_running(op) || op->what.root < 0) {
        return false;
    }
    const struct tti_snapshot_group *g = &s->groups[op->group];
    const int32_t peer = world_rank(d, g, op->what.root);
    const bool sends = op->what.kind == TUTTI_OP_SEND;
    *direction = (struct direction){sends ? g->world_rank : peer, sends ? peer : g->world_rank};
    return peer >= 0 && peer != g->world_rank;
}

static void direction_name(const struct tti_snapshot_group *g, const struct direction *direction, char *name)
{
    snprintf(name, NAME, "%s.%d-%d", g->name, direction->from, direction->to);
}

/* The number of earlier messages in the same direction. */
static int64_t number_of(const struct dump *d, const struct tti_snapshot *s, const struct tti_snapshot_op *op,
                         const struct direction *direction)
{
    int64_t n = 0;
    for (const struct tti_snapshot_op *other = s->ops; other < op; other++) {
        struct direction w;
        n += other->group == op->group && direction_of(d, s, other, &w) && w.from == direction->from &&
             w.to == direction->to;
    }
    return n;
}

static void messages(struct dump *d, const struct tti_snapshot *s, int group)
{
    for (size_t i = 0; i < s->op_count; i++) {
        const struct tti_snapshot_op *op = &s->ops[i];
        struct direction direction;
        if (op->group != group || !direction_of(d, s, op, &direction)) {
            continue;
        }
        char pair_name[NAME];
        char name[60];
        const int from = direction.from > direction.to; /* places in the sorted pair */
        direction_name(&s->groups[group], &direction, pair_name);
        if (op->what.kind == TUTTI_OP_SEND) {
            snprintf(name, sizeof(name), "nccl:send %d->%d", from, 1 - from);
        } else {
            snprintf(name, sizeof(name), "nccl:recv %d<-%d", 1 - from, from);
        }
        entry(d, s, op, pair_name, "undefined", name, number_of(d, s, op, &direction) + 1);
    }
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static void config(FILE *out, const char *name, const char *described, const char *ranks)
{
    tti_pickle(out, "s{ssssss}", name, "name", name, "desc", described, "ranks", ranks);
}

/* "[0, 1, 3]": the members that are known, in an order that is the same in all files; of a world, all. NULL: no
 * memory. */
static char *ranks_of(const struct dump *d, const struct tti_snapshot_group *g)
{
    char *text = NULL;
    size_t size = 0;
    FILE *list = open_memstream(&text, &size);
    const char *comma = "[";
    for (int32_t r = 0; list && tti_snapshot_is_world(g) && r < g->size; r++) {
        fprintf(list, "%s%d", comma, r);
        comma = ", ";
    }
    for (size_t i = 0; list && !tti_snapshot_is_world(g) && i < d->count; i++) {
        const struct tti_snapshot *s = &d->records[i].snapshot;
        for (int k = 0; k < s->group_count; k++) {
            if (strcmp(s->groups[k].name, g->name) == 0) {
                fprintf(list, "%s%d", comma, s->groups[k].world_rank);
                comma = ", ";
            }
        }
    }
    const bool good = list && fputc(']', list) != EOF && fclose(list) == 0;
    if (!good) {
        free(text);
    }
    return good ? text : NULL;
}

static void group_config(struct dump *d, const struct tti_snapshot *s, int group)
{
    const struct tti_snapshot_group *g = &s->groups[group];
    char name[NAME];
    char *members = ranks_of(d, g);
    for (int lane = 0; lane < g->lanes; lane++) {
        lane_name(g, lane, name);
        config(d->out, name, description(g, lane), members ? members : "[]");
    }
    free(members);
    for (size_t i = 0; i < s->op_count; i++) {
        struct direction direction;
        if (s->ops[i].group == group && direction_of(d, s, &s->ops[i], &direction) &&
            number_of(d, s, &s->ops[i], &direction) == 0) {
            char ranks[40];
            snprintf(ranks, sizeof(ranks), "[%d, %d]", direction.from, direction.to);
            direction_name(g, &direction, name);
            config(d->out, name, "undefined", ranks);
        }
    }
}

static void group_status(struct dump *d, const struct tti_snapshot *s, int group)
{
    const struct tti_snapshot_group *g = &s->groups[group];
    for (int lane = 0; lane < g->lanes; lane++) {
        const int64_t ended = (int64_t)(g->last[lane] & INT64_MAX);
        const int64_t begun = g->running[lane] >= 0 ? (int64_t)(s->ops[g->running[lane]].sequence & INT64_MAX) : ended;
        char name[NAME];
        lane_name(g, lane, name);
        tti_pickle(d->out, "s{sisisi}", name, "last_enqueued_collective", begun, "last_started_collective", begun,
                   "last_completed_collective", ended);
    }
}

/* ---- */

/* Calls it for all groups of the rank: more than one record may have some. */
static void for_groups(struct dump *d, void (*write)(struct dump *d, const struct tti_snapshot *s, int group))
{
    for (size_t i = 0; i < d->count; i++) {
        const struct tti_snapshot *s = &d->records[i].snapshot;
        for (int g = 0; g < s->group_count; g++) {
            if (s->groups[g].world_rank == d->rank) {
                write(d, s, g);
            }
        }
    }
}

static void write_entries(struct dump *d, const struct tti_snapshot *s, int group)
{
    const struct tti_snapshot_op **ops = malloc((s->op_count + 1) * sizeof(const struct tti_snapshot_op *));
    if (ops) {
        collectives(d, s, group, ops);
        messages(d, s, group);
    }
    free((void *)ops);
}

static void write_rank(struct dump *d, const char *host)
{
    fputs(TTI_PICKLE_BEGIN, d->out);
    tti_pickle(d->out, "{sssssis{", "version", "2.4", "host_name", host, "rank", (int64_t)d->rank, "pg_config");
    for_groups(d, group_config);
    tti_pickle(d->out, "}s{", "pg_status");
    for_groups(d, group_status);
    tti_pickle(d->out, "}s[", "entries");
    d->id = 0;
    for_groups(d, write_entries);
    tti_pickle(d->out, "]}");
    fputs(TTI_PICKLE_END, d->out);
}

static bool write_file(struct dump *d, const char *prefix, const char *host, char *path, size_t capacity)
{
    const int length = snprintf(path, capacity, "%s%d", prefix, d->rank);
    if (length < 0 || (size_t)length >= capacity) {
        errno = ENAMETOOLONG;
        return false;
    }
    d->out = fopen(path, "we");
    if (!d->out) {
        return false;
    }
    write_rank(d, host);
    const bool good = !ferror(d->out);
    return fclose(d->out) == 0 && good;
}

/* Whether an earlier group, or record, is of that rank. */
static bool was_before(const struct dump *d, size_t record, int group, int32_t rank)
{
    for (size_t i = 0; i <= record; i++) {
        const struct tti_snapshot *s = &d->records[i].snapshot;
        for (int g = 0; g < (i < record ? s->group_count : group); g++) {
            if (s->groups[g].world_rank == rank) {
                return true;
            }
        }
    }
    return false;
}

bool tti_record_pytorch(const char *prefix, const struct tti_record *records, size_t count, char *path, size_t capacity)
{
    struct tti_collective_filter filter;
    struct dump d = {.records = records, .count = count, .filter = &filter};
    snprintf(path, capacity, "%s", prefix);
    bool good = tti_collective_filter_make(&filter, records, count);
    for (size_t i = 0; good && i < count; i++) {
        const struct tti_snapshot *s = &records[i].snapshot;
        for (int g = 0; good && g < s->group_count; g++) {
            d.rank = s->groups[g].world_rank;
            good = was_before(&d, i, g, d.rank) || write_file(&d, prefix, s->host, path, capacity);
        }
        if (good && s->group_count == 0 && s->rank >= 0 && !was_before(&d, count - 1, 0, s->rank)) {
            d.rank = s->rank; /* the rank has done nothing; the analyser needs an empty entry for it */
            good = write_file(&d, prefix, s->host, path, capacity);
        }
    }
    tti_collective_filter_free(&filter);
    return good;
}
