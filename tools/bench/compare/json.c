/* SPDX-License-Identifier: BSD-3-Clause */
/* The comparison for programs: combined rows in the form of `tutti bench -J`, each with its repetitions, and the cells. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/compare.h"
#include "bench/roofline/roofline.h"

/* Text of other programs may not be UTF-8. */
static json_t *text(const char *bytes)
{
    json_t *string = bytes ? json_string(bytes) : json_null();
    return string ? string : json_null();
}

static json_t *command_of(const struct tti_comparison *c, const struct tti_compare_contender *contender)
{
    struct tti_compare_command command;
    if (contender->missing) {
        return json_null();
    }
    if (contender->beside) {
        tti_compare_command_beside(c, contender, false, NULL, &command);
    } else {
        tti_compare_command_program(c, contender, false, &command);
    }
    char *line = tti_compare_command_line(c, contender, &command);
    json_t *string = text(line);
    free(line);
    return string;
}

static json_t *mean_json(const struct tti_compare_mean *mean)
{
    return mean->cells > 0 ? json_pack("{s:f, s:i, s:i}", "geometric_mean", tti_compare_mean_value(mean), "cells",
                                       mean->cells, "lost", mean->lost)
                           : json_null();
}

static json_t *contender_json(const struct tti_comparison *c, int i)
{
    const struct tti_compare_contender *who = &c->contenders[i];
    const struct tti_compare_mean mean = tti_compare_mean_to(c, i);
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:i, s:i, s:o, s:I, s:f, s:o}", "name", text(who->name), "library",
                     who->library, "settings", text(who->settings), "version",
                     *who->version ? text(who->version) : json_null(), "command", command_of(c, who), "blocks",
                     who->blocks, "failed", who->failed, "failure", text(who->failure), "wrong", (json_int_t)who->wrong,
                     "seconds", who->seconds, "ratio", mean_json(&mean));
}

static json_t *config_json(const struct tti_comparison *c)
{
    const struct tti_bench_options *o = c->options;
    json_t *config = c->config ? json_deep_copy(c->config) : json_object();
    json_t *contenders = json_array();
    json_t *missing = json_array();
    for (int i = 0; i < c->contender_count; i++) {
        const struct tti_compare_contender *who = &c->contenders[i];
        json_array_append_new(contenders, contender_json(c, i));
        if (who->missing) {
            json_array_append_new(missing, json_pack("{s:o, s:o}", "name", text(who->name), "why", text(who->missing)));
        }
    }
    json_t *own =
        json_pack("{s:s, s:i, s:I, s:I, s:I, s:s, s:s, s:i, s:i, s:s, s:f, s:f, s:o, s:o}", "version",
                  tutti_version_string(), "ranks", o->ranks, "min_bytes", (json_int_t)o->least, "max_bytes",
                  (json_int_t)o->most, "factor", (json_int_t)o->factor, "type", tutti_dtype_name(o->dtype), "redop",
                  tutti_reduce_op_name(o->op), "root", o->root, "repetitions", c->compare->repeat, "profile",
                  tti_compare_profiles[c->compare->profile], "near_below_ns", (double)TTI_ROOFLINE_NEAR_NS, "seconds",
                  c->seconds, "contenders", contenders, "missing", missing);
    json_object_update(config, own);
    json_decref(own);
    return config;
}

static json_t *sample_json(const struct tti_compare_sample *s)
{
    json_t *sample = json_pack("{s:i, s:s, s:f}", "repetition", s->repetition + 1, "hop", tti_compare_hop_name(s->hop),
                               "p50", s->p50);
    if (s->hop_ns[0] > 0 && s->hop_ns[1] > 0) {
        json_object_set_new(sample, "hop_ns", json_pack("[f, f]", s->hop_ns[0], s->hop_ns[1]));
    }
    if (s->ratio > 0) {
        json_object_set_new(sample, "ratio", json_real(s->ratio));
        json_object_set_new(sample, "low", json_real(s->low));
        json_object_set_new(sample, "high", json_real(s->high));
    }
    return sample;
}

static json_t *row_json(const struct tti_comparison *c, const struct tti_compare_cell *cell, const char *contender,
                        const struct tti_compare_entry *entry)
{
    json_t *row = json_pack(
        "{s:o, s:s, s:i, s:I, s:I, s:s, s:s, s:i, s:b, s:s, s:s, s:i}", "contender", text(contender), "collective",
        cell->collective, "ranks", c->options->ranks, "size", (json_int_t)cell->size, "count", (json_int_t)cell->count,
        "type", cell->type, "redop", cell->redop, "root", cell->root, "inplace", (int)cell->in_place, "placement",
        cell->heap ? "heap" : "private", "hop", tti_compare_hop_name(cell->hop), "used", entry->count);
    json_t *samples = json_array();
    for (int i = 0; i < entry->count; i++) {
        json_array_append_new(samples, sample_json(&entry->samples[i]));
    }
    if (entry->count > 0) {
        const struct tti_bench_times times = {entry->p50, entry->p99, entry->min, entry->max};
        const double alg_bw = (double)cell->size / entry->p50 / 1000;
        const double factor = tti_bench_bus_factor(tti_bench_collectives[cell->order].bus, c->options->ranks);
        json_object_set_new(row, "time_us", tti_bench_json_times(&times));
        json_object_set_new(row, "alg_bw", json_real(alg_bw));
        json_object_set_new(row, "bus_bw", json_real(alg_bw * factor));
    } else {
        json_object_set_new(row, "time_us", json_null());
    }
    if (entry->count > 0 && entry->ratio > 0) {
        json_object_set_new(
            row, "versus", json_pack("{s:f, s:f, s:f}", "ratio", entry->ratio, "low", entry->low, "high", entry->high));
    }
    json_object_set_new(row, "algorithm",
                        entry == &cell->tutti && *cell->algorithm ? json_string(cell->algorithm) : json_null());
    if (entry == &cell->tutti && cell->tutti.bound_us > 0) {
        json_object_set_new(row, "bound_us", json_real(cell->tutti.bound_us));
    }
    json_object_set_new(row, "repetitions", samples);
    return row;
}

static json_t *results_json(const struct tti_comparison *c)
{
    json_t *results = json_array();
    for (size_t i = 0; i < c->cell_count; i++) {
        const struct tti_compare_cell *cell = &c->cells[i];
        json_array_append_new(results, row_json(c, cell, "tutti", &cell->tutti));
        for (int j = 0; j < c->contender_count; j++) {
            if (cell->peers[j].count > 0) {
                json_array_append_new(results, row_json(c, cell, c->contenders[j].name, &cell->peers[j]));
            }
        }
    }
    return results;
}

static json_t *comparison_json(const struct tti_comparison *c)
{
    json_t *comparison = json_array();
    for (size_t i = 0; i < c->cell_count; i++) {
        const struct tti_compare_cell *cell = &c->cells[i];
        if (cell->best < 0 || !cell->tabulated) {
            continue;
        }
        const struct tti_compare_entry *best = &cell->peers[cell->best];
        json_array_append_new(
            comparison, json_pack("{s:s, s:i, s:I, s:b, s:s, s:s, s:o, s:o, s:f, s:o, s:f, s:f, s:f, s:f, s:b, s:b}",
                                  "collective", cell->collective, "ranks", c->options->ranks, "size",
                                  (json_int_t)cell->size, "inplace", (int)cell->in_place, "placement",
                                  cell->heap ? "heap" : "private", "hop", tti_compare_hop_name(cell->hop), "algorithm",
                                  *cell->algorithm ? json_string(cell->algorithm) : json_null(), "bound_us",
                                  cell->tutti.bound_us > 0 ? json_real(cell->tutti.bound_us) : json_null(), "tutti_us",
                                  cell->tutti.p50, "best_peer", text(c->contenders[cell->best].name), "best_us",
                                  best->p50, "ratio", best->ratio, "low", best->low, "high", best->high, "lost",
                                  (int)cell->lost, "counted", (int)cell->counted));
    }
    return comparison;
}

static json_t *summary_json(const struct tti_comparison *c)
{
    json_t *summary = json_array();
    for (size_t i = 0; i < tti_bench_collectives_count; i++) {
        for (int heap = 0; heap < 2; heap++) {
            const struct tti_compare_mean mean = tti_compare_mean_of(c, tti_bench_collectives[i].name, heap);
            if (mean.cells > 0) {
                json_t *row = mean_json(&mean);
                json_object_set_new(row, "collective", json_string(tti_bench_collectives[i].name));
                json_object_set_new(row, "placement", json_string(heap ? "heap" : "private"));
                json_array_append_new(summary, row);
            }
        }
    }
    return summary;
}

bool tti_compare_json(const struct tti_comparison *c, FILE *file)
{
    json_t *root =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:i, s:i}", "config", config_json(c), "results", results_json(c),
                  "comparison", comparison_json(c), "summary", summary_json(c), "geometric_mean",
                  c->all.cells > 0 ? json_real(tti_compare_mean_value(&c->all)) : json_null(), "cells", c->all.cells,
                  "lost", c->all.lost);
    const bool good = tti_bench_json_write(root, file) && root != NULL;
    json_decref(root);
    return good;
}
