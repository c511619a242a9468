/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the JSON of a block to samples in cells. Incomplete rows are left out, and a document without a usable row is
 * refused.
 */
#include "bench/compare/cells.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/comparison.h"
#include "bench/measure/collectives.h"
#include "bench/roofline/hop.h"

static double number_or(const json_t *value, double otherwise)
{
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static const char *text_or(const json_t *value, const char *otherwise)
{
    return json_is_string(value) ? json_string_value(value) : otherwise;
}

static enum tti_compare_hop class_of(double hop_ns)
{
    if (hop_ns <= 0) {
        return TTI_COMPARE_UNKNOWN;
    }
    return hop_ns < TTI_ROOFLINE_NEAR_NS    ? TTI_COMPARE_NEAR
           : hop_ns <= TTI_ROOFLINE_SAME_NS ? TTI_COMPARE_FAR
                                            : TTI_COMPARE_SAME;
}

static enum tti_compare_hop class_of_both(const double hop_ns[2])
{
    const enum tti_compare_hop before = class_of(hop_ns[0]);
    const enum tti_compare_hop after = class_of(hop_ns[1]);
    if (before == after) {
        return before;
    }
    return before == TTI_COMPARE_UNKNOWN || after == TTI_COMPARE_UNKNOWN ? TTI_COMPARE_UNKNOWN : TTI_COMPARE_MOVED;
}

/* False if the row has no time: the contender has no such call. */
static bool read_sample(const json_t *row, struct tti_compare_sample *sample)
{
    const json_t *time = json_object_get(row, "time_us");
    const json_t *hop = json_object_get(row, "hop_ns");
    const json_t *versus = json_object_get(row, "versus");
    const double hop_ns[2] = {number_or(json_array_get(hop, 0), 0), number_or(json_array_get(hop, 1), 0)};
    *sample = (struct tti_compare_sample){.hop = class_of_both(hop_ns)};
    sample->p50 = number_or(json_object_get(time, "p50"), 0);
    sample->p99 = number_or(json_object_get(time, "p99"), sample->p50);
    sample->bound_us = number_or(json_object_get(row, "bound_us"), 0);
    sample->ratio = number_or(json_object_get(versus, "ratio"), 0);
    sample->low = number_or(json_object_get(versus, "low"), sample->ratio);
    sample->high = number_or(json_object_get(versus, "high"), sample->ratio);
    return isfinite(sample->p50) && sample->p50 > 0;
}

static bool add_sample(struct tti_compare_entry *entry, const struct tti_compare_sample *sample)
{
    struct tti_compare_sample *grown = realloc(entry->samples, ((size_t)entry->count + 1) * sizeof(*entry->samples));
    if (!grown) {
        return false;
    }
    entry->samples = grown;
    entry->samples[entry->count++] = *sample;
    return true;
}

/* Where Tutti's buffers lay in a job, for all rows of its document; NULL if that does not say. */
static const char *placement_of(const json_t *document)
{
    return text_or(json_object_get(json_object_get(document, "config"), "placement"), NULL);
}

static int cpus_of(const json_t *document, int otherwise)
{
    return (int)number_or(json_object_get(json_object_get(document, "config"), "cpus"), otherwise);
}

/* The key of a cell. */
static bool read_key(const struct tti_comparison *c, const json_t *row, const char *placement, enum tti_compare_hop hop,
                     struct tti_compare_cell *key)
{
    const struct tti_bench_collective *collective = tti_bench_find(text_or(json_object_get(row, "collective"), ""));
    const json_t *size = json_object_get(row, "size");
    if (!collective || !json_is_integer(size) || json_integer_value(size) < 0 ||
        (int)number_or(json_object_get(row, "ranks"), c->options->ranks) != c->options->ranks) {
        return false;
    }
    *key = (struct tti_compare_cell){.collective = collective->name,
                                     .order = (int)(collective - tti_bench_collectives),
                                     .size = json_integer_value(size),
                                     .in_place = json_is_true(json_object_get(row, "inplace")),
                                     .hop = hop,
                                     .best = -1};
    key->heap = strcmp(placement ? placement : text_or(json_object_get(row, "placement"), "private"), "heap") == 0;
    /* without buffers there is nothing to be placed */
    return !key->heap || !(collective->traits & TTI_BENCH_EMPTY);
}

static struct tti_compare_cell *find(const struct tti_comparison *c, const struct tti_compare_cell *key)
{
    for (size_t i = 0; i < c->cell_count; i++) {
        struct tti_compare_cell *cell = &c->cells[i];
        if (cell->order == key->order && cell->size == key->size && cell->in_place == key->in_place &&
            cell->heap == key->heap && cell->hop == key->hop) {
            return cell;
        }
    }
    return NULL;
}

/* The cell of a row, new if needed; NULL if the row is invalid, or when memory is exhausted (*full). */
static struct tti_compare_cell *cell_of(struct tti_comparison *c, const json_t *row, const char *placement,
                                        enum tti_compare_hop hop, bool *full)
{
    struct tti_compare_cell key;
    if (!read_key(c, row, placement, hop, &key)) {
        return NULL;
    }
    struct tti_compare_cell *cell = find(c, &key);
    if (cell) {
        return cell;
    }
    struct tti_compare_cell *grown = realloc(c->cells, (c->cell_count + 1) * sizeof(*c->cells));
    if (!grown) {
        *full = true;
        return NULL;
    }
    c->cells = grown;
    c->cells[c->cell_count] = key;
    return &c->cells[c->cell_count++];
}

void tti_compare_cells_free(struct tti_comparison *c)
{
    for (size_t i = 0; i < c->cell_count; i++) {
        for (int j = 0; j < c->contender_count; j++) {
            free(c->cells[i].peers[j].samples);
        }
        free(c->cells[i].tutti.samples);
    }
    free(c->cells);
    c->cells = NULL;
    c->cell_count = 0;
}

/* The first block describes the machine; the blocks of a contender name its version. */
static void read_config(struct tti_comparison *c, struct tti_compare_contender *contender, const json_t *document)
{
    json_t *config = json_object_get(document, "config");
    if (!c->config && json_is_object(config)) {
        c->config = json_deep_copy(config);
    }
    const char *version = text_or(json_object_get(json_object_get(config, "peer"), "version"), NULL);
    if (version) {
        snprintf(contender->version, sizeof(contender->version), "%s", version);
    }
}

static int64_t wrong_of(const json_t *row)
{
    return (int64_t)json_integer_value(json_object_get(row, "wrong"));
}

static bool refuse(bool full, char *why, size_t capacity)
{
    snprintf(why, capacity, "%s",
             full ? "out of memory" : "its JSON has no row with a collective, a size, the right ranks and a time");
    return false;
}

bool tti_compare_take_block(struct tti_comparison *c, int contender, const json_t *document, char *why, size_t capacity)
{
    bool full = false;
    int taken = 0;
    size_t i = 0;
    const json_t *row = NULL;
    const bool crowded = c->options->ranks > cpus_of(document, c->options->ranks);
    read_config(c, &c->contenders[contender], document);
    json_array_foreach(json_object_get(document, "results"), i, row)
    {
        struct tti_compare_sample sample;
        const bool tutti = strcmp(text_or(json_object_get(row, "contender"), "tutti"), "tutti") == 0;
        *(tutti ? &c->wrong : &c->contenders[contender].wrong) += wrong_of(row);
        if (!read_sample(row, &sample) || (wrong_of(row) > 0 && !tutti)) {
            continue;
        }
        sample.hop = crowded ? TTI_COMPARE_SAME : sample.hop;
        struct tti_compare_cell *cell = cell_of(c, row, placement_of(document), sample.hop, &full);
        if (!cell) {
            continue;
        }
        const char *algorithm = text_or(json_object_get(row, "algorithm"), NULL);
        if (tutti && algorithm) {
            snprintf(cell->algorithm, sizeof(cell->algorithm), "%s", algorithm);
        }
        full = !add_sample(tutti ? &cell->tutti : &cell->peers[contender], &sample) || full;
        taken++;
    }
    return (taken > 0 && !full) || refuse(full, why, capacity);
}
