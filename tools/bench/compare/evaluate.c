/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Combines the repetitions. Two virtual CPUs may be near each other in one minute and far in the next, which changes
 * times by factors; so repetitions of different hop classes are different cells, and never mixed. Of the cells that
 * differ in nothing else, the main one has most samples. The other cell counts, too, if every contender was measured in
 * it (else the best one may be missing), or if Tutti is slower in it. Samples during which the hop changed are used
 * only if there are no others.
 *
 * Of the repetitions in a cell: time and ratio are the medians of theirs, and the interval reaches from the lowest low
 * to the highest high of theirs. That is wider than an interval of 95 % would have to be. Each repetition is a job of
 * its own, with other pages and perhaps other CPUs, so repetitions differ more than calls within one do; three of them
 * are too few to estimate how much, and an interval that holds each of theirs cannot be too narrow on that account.
 */
#include "bench/compare/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/comparison.h"

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static bool differ_in_hop_only(const struct tti_compare_cell *a, const struct tti_compare_cell *b)
{
    return a != b && a->order == b->order && a->size == b->size && a->in_place == b->in_place && a->heap == b->heap;
}

static int samples_of(const struct tti_comparison *c, const struct tti_compare_cell *cell)
{
    int count = cell->tutti.count;
    for (int i = 0; i < c->contender_count; i++) {
        count += cell->peers[i].count;
    }
    return count;
}

/* More for a cell that rather is the main one: a class that is known goes before the others, then many samples before
 * few, and then near before far, far before same. */
static long weight_of(const struct tti_comparison *c, const struct tti_compare_cell *cell)
{
    const bool known = cell->hop == TTI_COMPARE_NEAR || cell->hop == TTI_COMPARE_FAR || cell->hop == TTI_COMPARE_SAME;
    return ((long)known << 40) + (long)samples_of(c, cell) * TTI_COMPARE_HOPS + (TTI_COMPARE_HOPS - (int)cell->hop);
}

bool tti_compare_measured_elsewhere(const struct tti_comparison *c, const struct tti_compare_cell *cell, int contender)
{
    for (size_t i = 0; i < c->cell_count; i++) {
        if (differ_in_hop_only(cell, &c->cells[i]) && c->cells[i].peers[contender].count > 0) {
            return true;
        }
    }
    return false;
}

static void find_place(const struct tti_comparison *c, struct tti_compare_cell *cell)
{
    cell->main = true;
    for (size_t i = 0; i < c->cell_count; i++) {
        const struct tti_compare_cell *other = &c->cells[i];
        cell->main = cell->main && (!differ_in_hop_only(cell, other) || weight_of(c, cell) > weight_of(c, other));
    }
    cell->partial = false;
    for (int i = 0; i < c->contender_count; i++) {
        cell->partial = cell->partial || (cell->peers[i].count == 0 && tti_compare_measured_elsewhere(c, cell, i));
    }
}

static double middle(const struct tti_compare_entry *entry, size_t member, double *values)
{
    for (int i = 0; i < entry->count; i++) {
        memcpy(&values[i], (const char *)&entry->samples[i] + member, sizeof(*values));
    }
    return entry->count > 0 ? median(values, entry->count) : 0;
}

static void combine(struct tti_compare_entry *entry)
{
    double *values = calloc((size_t)entry->count + 1, sizeof(*values));
    if (!values) {
        return;
    }
    entry->p50 = middle(entry, offsetof(struct tti_compare_sample, p50), values);
    entry->p99 = middle(entry, offsetof(struct tti_compare_sample, p99), values);
    entry->ratio = middle(entry, offsetof(struct tti_compare_sample, ratio), values);
    entry->bound_us = middle(entry, offsetof(struct tti_compare_sample, bound_us), values);
    for (int i = 0; i < entry->count; i++) {
        const struct tti_compare_sample *s = &entry->samples[i];
        entry->low = i == 0 || s->low < entry->low ? s->low : entry->low;
        entry->high = i == 0 || s->high > entry->high ? s->high : entry->high;
    }
    free(values);
}

static bool compared(const struct tti_compare_entry *entry)
{
    return entry->count > 0 && entry->ratio > 0;
}

bool tti_compare_wins(const struct tti_compare_cell *cell, int contender)
{
    return compared(&cell->peers[contender]) && cell->peers[contender].low > 1;
}

/* The best peer has the largest ratio, not the least time: the times of two contenders come from different jobs, while
 * each ratio comes from one job. A contender that certainly wins goes before one that may win. */
static int best_of(const struct tti_comparison *c, const struct tti_compare_cell *cell)
{
    int best = -1;
    for (int i = 0; i < c->contender_count; i++) {
        const struct tti_compare_entry *entry = &cell->peers[i];
        if (!compared(entry)) {
            continue;
        }
        const struct tti_compare_entry *other = best < 0 ? NULL : &cell->peers[best];
        const bool wins = tti_compare_wins(cell, i);
        if (!other || (wins == tti_compare_wins(cell, best) ? entry->ratio > other->ratio : wins)) {
            best = i;
        }
    }
    return best;
}

static int by_place(const void *a, const void *b)
{
    const struct tti_compare_cell *x = a;
    const struct tti_compare_cell *y = b;
    if (x->order != y->order) {
        return x->order < y->order ? -1 : 1;
    }
    if (x->heap != y->heap) {
        return x->heap ? 1 : -1;
    }
    if (x->in_place != y->in_place) {
        return x->in_place ? 1 : -1;
    }
    return x->size != y->size ? (x->size > y->size) - (x->size < y->size) : (int)x->hop - (int)y->hop;
}

static void count_cell(double ratio, bool lost, struct tti_compare_mean *mean)
{
    mean->log_sum += log(ratio);
    mean->cells++;
    mean->lost += lost;
}

void tti_compare_evaluate(struct tti_comparison *c)
{
    if (c->cell_count > 0) {
        qsort(c->cells, c->cell_count, sizeof(*c->cells), by_place);
    }
    for (size_t i = 0; i < c->cell_count; i++) {
        struct tti_compare_cell *cell = &c->cells[i];
        find_place(c, cell);
        combine(&cell->tutti);
        for (int j = 0; j < c->contender_count; j++) {
            combine(&cell->peers[j]);
        }
        const bool settled = cell->hop != TTI_COMPARE_MOVED && cell->hop != TTI_COMPARE_UNKNOWN;
        cell->best = best_of(c, cell);
        cell->lost = cell->best >= 0 && tti_compare_wins(cell, cell->best);
        cell->tabulated = cell->main || settled;
        cell->counted = cell->best >= 0 && (cell->main || (settled && (!cell->partial || cell->lost)));
    }
}

struct tti_compare_mean tti_compare_mean_of(const struct tti_comparison *c, const char *collective, int heap)
{
    struct tti_compare_mean mean = {0};
    for (size_t i = 0; i < c->cell_count; i++) {
        const struct tti_compare_cell *cell = &c->cells[i];
        if (cell->counted && (!collective || strcmp(collective, cell->collective) == 0) &&
            (heap < 0 || (heap != 0) == cell->heap)) {
            count_cell(cell->peers[cell->best].ratio, cell->lost, &mean);
        }
    }
    return mean;
}

struct tti_compare_mean tti_compare_mean_to(const struct tti_comparison *c, int contender)
{
    struct tti_compare_mean mean = {0};
    for (size_t i = 0; i < c->cell_count; i++) {
        const struct tti_compare_entry *entry = &c->cells[i].peers[contender];
        if (compared(entry) && c->cells[i].counted) {
            count_cell(entry->ratio, tti_compare_wins(&c->cells[i], contender), &mean);
        }
    }
    return mean;
}

double tti_compare_mean_value(const struct tti_compare_mean *mean)
{
    return mean->cells > 0 ? exp(mean->log_sum / mean->cells) : 0;
}

int tti_compare_count_elsewhere(const struct tti_comparison *c, int contender)
{
    int count = 0;
    for (size_t i = 0; i < c->cell_count; i++) {
        const struct tti_compare_cell *cell = &c->cells[i];
        count += cell->main && cell->peers[contender].count == 0 && tti_compare_measured_elsewhere(c, cell, contender);
    }
    return count;
}
