/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The records of processes: an operation as one line of text ("all_reduce #418 f32 x2 sum (8 B)"), the newest
 * operations of a rank in order, and freeing them. Cost of the newest k of n operations, t of them tallies: n (k + t)
 * steps, since an insertion sort places each of them, and each tally is searched for.
 */
#include "trace/record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/operation.h"

static bool is_reduction(int kind)
{
    return kind == TUTTI_OP_ALL_REDUCE || kind == TUTTI_OP_REDUCE || kind == TUTTI_OP_REDUCE_SCATTER;
}

static void size_text(uint64_t bytes, char *text, size_t capacity)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    snprintf(text, capacity, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

static bool is_only_world(const struct tti_snapshot *s, const struct tti_snapshot_group *g)
{
    bool only = tti_snapshot_is_world(g);
    for (int i = 0; i < s->group_count && only; i++) {
        only = !tti_snapshot_is_world(&s->groups[i]) || strcmp(s->groups[i].name, g->name) == 0;
    }
    return only;
}

void tti_record_op_text(const struct tti_snapshot *s, const struct tti_snapshot_op *op, char *text, size_t capacity)
{
    const struct tti_flight_op *w = &op->what;
    char operands[120] = "";
    char size[24];
    char number[32] = "";
    if (op->sequence > 0) {
        snprintf(number, sizeof(number), " #%" PRIu64, op->sequence);
    }
    if (w->kind != TUTTI_OP_BARRIER && !tti_snapshot_is_opening(op)) {
        size_text(w->bytes, size, sizeof(size));
        snprintf(operands, sizeof(operands), " %s x%" PRIu64 "%s%s (%s)", tutti_dtype_name(w->dtype), w->count,
                 is_reduction(w->kind) ? " " : "", is_reduction(w->kind) ? tutti_reduce_op_name(w->redop) : "", size);
    }
    snprintf(text, capacity, "%s%s%s", tutti_operation_name(w->kind), number, operands);
    size_t used = strlen(text);
    if (tti_snapshot_is_message(op) && w->root < 0) {
        snprintf(text + used, capacity - used, " from any rank, tag %d", op->tag);
    } else if (tti_snapshot_is_message(op)) {
        snprintf(text + used, capacity - used, " %s %d, tag %d", w->kind == TUTTI_OP_SEND ? "to" : "from", w->root,
                 op->tag);
    } else if (tti_operation_is_rooted(w->kind)) {
        snprintf(text + used, capacity - used, ", root %d", w->root);
    }
    used = strlen(text);
    const struct tti_snapshot_group *g = &s->groups[op->group];
    if (tti_snapshot_is_opening(op)) {
        snprintf(text + used, capacity - used, " of %d rank%s", g->size, g->size == 1 ? "" : "s");
    } else if (g->lanes > 1) {
        snprintf(text + used, capacity - used, ", lane %d", w->lane);
    }
    used = strlen(text);
    if (!is_only_world(s, g)) {
        snprintf(text + used, capacity - used, ", group %s", g->name);
    }
}

/* Entries of the ring have an order. A tally comes before the first entry of its lane that has a greater number; if
 * there is none, it may be the newest of all. */
static uint64_t place_of(const struct tti_snapshot *s, const struct tti_snapshot_op *op)
{
    if (op->number != 0) {
        return 2 * op->number;
    }
    for (size_t i = 0; i < s->op_count; i++) {
        const struct tti_snapshot_op *other = &s->ops[i];
        if (other->number != 0 && !tti_snapshot_is_message(other) && other->group == op->group &&
            other->what.lane == op->what.lane && other->sequence > op->sequence) {
            return 2 * other->number - 1;
        }
    }
    return UINT64_MAX;
}

struct placed {
    const struct tti_snapshot_op *op;
    uint64_t place;
};

static bool is_newer(const struct placed *a, const struct placed *b)
{
    const bool runs = tti_snapshot_is_running(a->op);
    if (runs != tti_snapshot_is_running(b->op)) {
        return runs;
    }
    return a->place != b->place ? a->place > b->place : a->op->sequence > b->op->sequence;
}

#define NEWEST_MOST 16

size_t tti_record_newest(const struct tti_snapshot *s, int32_t rank, const struct tti_snapshot_op **ops,
                         size_t capacity)
{
    struct placed newest[NEWEST_MOST + 1];
    size_t count = 0;
    const size_t most = capacity < NEWEST_MOST ? capacity : NEWEST_MOST;
    for (size_t i = 0; i < s->op_count; i++) {
        const struct tti_snapshot_op *op = &s->ops[i];
        if (rank >= 0 && s->groups[op->group].world_rank != rank) {
            continue;
        }
        const struct placed one = {op, place_of(s, op)};
        size_t at = count;
        for (; at > 0 && is_newer(&one, &newest[at - 1]); at--) {
            newest[at] = newest[at - 1];
        }
        newest[at] = one;
        count = count < most ? count + 1 : most;
    }
    for (size_t i = 0; i < count; i++) {
        ops[i] = newest[i].op;
    }
    return count;
}

bool tti_record_last_text(const struct tti_rank_record *record, int32_t rank, char *text, size_t capacity)
{
    const struct tti_snapshot *s = &record->snapshot;
    const struct tti_snapshot_op *last = NULL;
    if (!record->has_snapshot || tti_record_newest(s, rank, &last, 1) == 0) {
        return false;
    }
    tti_record_op_text(s, last, text, capacity);
    const size_t used = strlen(text);
    if (tti_snapshot_is_running(last)) {
        snprintf(text + used, capacity - used, ", not ended");
    } else if (last->status != TUTTI_OK) {
        snprintf(text + used, capacity - used, ", %s", tutti_status_name(last->status));
    }
    return true;
}

void tti_record_clear(struct tti_rank_record *r)
{
    tti_snapshot_free(&r->snapshot);
    tti_snapshot_free(&r->before);
    /* A record that was never filled is all zeros, fd included. */
    if (r->has_snapshot && r->fd >= 0) {
        close(r->fd);
    }
}

void tti_record_free(struct tti_rank_record *records, size_t count)
{
    for (size_t i = 0; records && i < count; i++) {
        tti_record_clear(&records[i]);
    }
    free(records);
}
