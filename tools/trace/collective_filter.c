/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/collective_filter.h"

#include <stdlib.h>
#include <string.h>

static int compare_points(const void *a, const void *b)
{
    const struct tti_filter_point *x = a;
    const struct tti_filter_point *y = b;
    const int by_group = strcmp(x->group, y->group);
    if (by_group != 0) {
        return by_group;
    }
    if (x->lane != y->lane || x->begun != y->begun) {
        return x->lane != y->lane ? (x->lane > y->lane) - (x->lane < y->lane) : x->begun - y->begun;
    }
    return x->sequence != y->sequence ? (x->sequence > y->sequence) - (x->sequence < y->sequence)
                                      : (x->elements > y->elements) - (x->elements < y->elements);
}

bool tti_is_collective(const struct tti_snapshot_op *op)
{
    return !tti_snapshot_is_message(op) && !tti_snapshot_is_opening(op) && op->sequence > 0;
}

bool tti_collective_filter_make(struct tti_collective_filter *filter, const struct tti_record *records, size_t count)
{
    size_t most = 1;
    for (size_t i = 0; i < count; i++) {
        most += records[i].snapshot.op_count + (size_t)records[i].snapshot.group_count * TTI_FLIGHT_LANES;
    }
    *filter = (struct tti_collective_filter){.points = malloc(most * sizeof(*filter->points))};
    for (size_t i = 0; filter->points && i < count; i++) {
        const struct tti_snapshot *s = &records[i].snapshot;
        for (size_t j = 0; j < s->op_count; j++) {
            const struct tti_snapshot_op *op = &s->ops[j];
            if (tti_is_collective(op)) {
                filter->points[filter->count++] = (struct tti_filter_point){s->groups[op->group].name, op->what.lane,
                                                                            false, op->sequence, op->what.count};
            }
        }
        for (int g = 0; g < s->group_count; g++) {
            for (int lane = 0; lane < s->groups[g].lanes; lane++) {
                const int32_t running = s->groups[g].running[lane];
                const uint64_t begun = running >= 0 ? s->ops[running].sequence : s->groups[g].last[lane];
                filter->points[filter->count++] = (struct tti_filter_point){s->groups[g].name, lane, true, begun, 0};
            }
        }
    }
    if (filter->points) {
        qsort(filter->points, filter->count, sizeof(*filter->points), compare_points);
    }
    return filter->points != NULL;
}

/* The first point at or after that one. */
static size_t find(const struct tti_collective_filter *filter, const struct tti_filter_point *p)
{
    size_t low = 0;
    size_t high = filter->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_points(&filter->points[middle], p) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_like(const struct tti_filter_point *a, const struct tti_filter_point *b)
{
    return a->lane == b->lane && a->begun == b->begun && strcmp(a->group, b->group) == 0;
}

bool tti_collective_is_kept(const struct tti_collective_filter *filter, const struct tti_snapshot *s,
                            const struct tti_snapshot_op *op)
{
    if (op->status != TUTTI_OK) {
        return true;
    }
    struct tti_filter_point p = {s->groups[op->group].name, op->what.lane, false, op->sequence, 0};
    const size_t first = find(filter, &p);
    size_t entries = 0;
    while (first + entries < filter->count && is_like(&filter->points[first + entries], &p) &&
           filter->points[first + entries].sequence == op->sequence) {
        entries++;
    }
    p.begun = true;
    size_t begun = 0;
    for (size_t i = find(filter, &p); i < filter->count && is_like(&filter->points[i], &p); i++) {
        begun++;
    }
    return entries >= begun && entries > 0 &&
           filter->points[first].elements == filter->points[first + entries - 1].elements;
}

void tti_collective_filter_free(struct tti_collective_filter *filter)
{
    free(filter->points);
    *filter = (struct tti_collective_filter){.count = 0};
}
