/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations in words. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

static bool is_rooted(int kind)
{
    return kind == TUTTI_OP_BROADCAST || kind == TUTTI_OP_REDUCE || kind == TUTTI_OP_GATHER || kind == TUTTI_OP_SCATTER;
}

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

void tti_record_op_text(const struct tti_snapshot *s, const struct tti_snapshot_op *op, char *text, size_t capacity)
{
    const struct tti_flight_what *w = &op->what;
    char more[120] = "";
    char size[24];
    char number[32] = "";
    if (op->sequence > 0) {
        snprintf(number, sizeof(number), " #%" PRIu64, op->sequence);
    }
    if (w->kind != TUTTI_OP_BARRIER) {
        size_text(w->bytes, size, sizeof(size));
        snprintf(more, sizeof(more), " %s x%" PRIu64 "%s%s (%s)", tutti_dtype_name(w->dtype), w->count,
                 is_reduction(w->kind) ? " " : "", is_reduction(w->kind) ? tutti_reduce_op_name(w->redop) : "", size);
    }
    snprintf(text, capacity, "%s%s%s", tutti_operation_name(w->kind), number, more);
    size_t used = strlen(text);
    if (tti_snapshot_is_message(op) && w->root < 0) {
        snprintf(text + used, capacity - used, " from any rank, tag %d", op->tag);
    } else if (tti_snapshot_is_message(op)) {
        snprintf(text + used, capacity - used, " %s %d, tag %d", w->kind == TUTTI_OP_SEND ? "to" : "from", w->root,
                 op->tag);
    } else if (is_rooted(w->kind)) {
        snprintf(text + used, capacity - used, ", root %d", w->root);
    }
    used = strlen(text);
    const struct tti_snapshot_group *g = &s->groups[op->group];
    if (g->lanes > 1) {
        snprintf(text + used, capacity - used, ", lane %d", w->lane);
    }
    used = strlen(text);
    if (g->name[0] != 'w') { /* the world's is w0 */
        snprintf(text + used, capacity - used, ", group %s", g->name);
    }
}

bool tti_record_last_text(const struct tti_record *record, char *text, size_t capacity)
{
    const struct tti_snapshot_op *last = NULL;
    const struct tti_snapshot *s = &record->snapshot;
    for (size_t i = 0; record->has_snapshot && i < s->op_count; i++) {
        const struct tti_snapshot_op *op = &s->ops[i];
        const bool better = !last || (tti_snapshot_is_running(op) && !tti_snapshot_is_running(last)) ||
                            (tti_snapshot_is_running(op) == tti_snapshot_is_running(last) &&
                             (op->sequence > last->sequence || op->group > last->group));
        last = better ? op : last;
    }
    if (last) {
        tti_record_op_text(s, last, text, capacity);
        const size_t used = strlen(text);
        const char *how = tti_snapshot_is_running(last) ? ", not ended" : NULL;
        if (how) {
            snprintf(text + used, capacity - used, "%s", how);
        } else if (last->status != TUTTI_OK) {
            snprintf(text + used, capacity - used, ", %s", tutti_status_name(last->status));
        }
    }
    return last != NULL;
}

void tti_record_free(struct tti_record *records, size_t count)
{
    for (size_t i = 0; records && i < count; i++) {
        tti_snapshot_free(&records[i].snapshot);
        tti_snapshot_free(&records[i].before);
    }
    free(records);
}
