/* SPDX-License-Identifier: BSD-3-Clause */
/* The comparison for people: a line for each cell, then the means over all cells. */
#include "bench/compare/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/compare/comparison.h"
#include "bench/compare/evaluate.h"
#include "bench/measure/collectives.h"
#include "bench/roofline/hop.h"

#define TEXT 32 /* room for a short text */

/* A time in us, a size and a ratio, in a form that is short to read. They return `text`. */
static const char *time_text(double us, char text[TEXT])
{
    const int digits = us < 1 ? 3 : us < 10 ? 2 : us < 100 ? 1 : 0;
    if (us >= 1e6) {
        snprintf(text, TEXT, "%.0fk", us / 1000);
    } else {
        snprintf(text, TEXT, "%.*f", digits, us);
    }
    return text;
}

static const char *size_text(int64_t bytes, char text[TEXT])
{
    static const char units[] = {'\0', 'K', 'M', 'G'};
    size_t unit = 0;
    while (unit + 1 < sizeof(units) && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, TEXT, "%" PRId64 "%.1s", bytes, &units[unit]);
    return text;
}

static const char *ratio_text(double ratio, char text[TEXT])
{
    const int digits = ratio < 0.1 ? 4 : ratio < 10 ? 2 : 1;
    snprintf(text, TEXT, "%.*f", digits, ratio);
    return text;
}

const char *tti_compare_hop_name(enum tti_compare_hop hop)
{
    static const char *const names[TTI_COMPARE_HOPS] = {"unknown", "near", "far", "same", "moved"};
    return names[hop];
}

const char *tti_compare_place_name(const struct tti_compare_cell *cell)
{
    return cell->in_place ? "in" : "out";
}

static const char *missing_reason(const struct tti_comparison *c, const struct tti_compare_cell *cell, int contender)
{
    const struct tti_compare_contender *peer = &c->contenders[contender];
    if (peer->missing) {
        return "missing";
    }
    if (peer->blocks > 0 && peer->failed == peer->blocks) {
        return "failed";
    }
    return tti_compare_measured_elsewhere(c, cell, contender) ? "elsewhere" : "-";
}

static void mean_text(const struct tti_compare_mean *mean, char *text, size_t capacity)
{
    const double ratio = tti_compare_mean_value(mean);
    if (mean->cells == 0) {
        snprintf(text, capacity, "nothing to compare with");
    } else {
        snprintf(text, capacity, "geometric mean of the ratios %.3f (Tutti is %.2f times as fast); %d of %d cells lost",
                 ratio, 1 / ratio, mean->lost, mean->cells);
    }
}

/* Columns of contenders that are missing would only be empty. */
static bool shown(const struct tti_comparison *c, int contender)
{
    return c->contenders[contender].missing == NULL;
}

/* A column for a time and a ratio. */
static int width_of(const struct tti_comparison *c, int contender)
{
    const int name = (int)strlen(c->contenders[contender].name);
    return name > 16 ? name : 16;
}

static void print_title(const struct tti_comparison *c, const char *collective)
{
    printf("#\n# %s\n#%8s %5s %7s %7s %9s %9s", collective, "size", "place", "where", "hop", "algo", "tutti");
    for (int i = 0; i < c->contender_count; i++) {
        if (shown(c, i)) {
            printf("  %*s", width_of(c, i), c->contenders[i].name);
        }
    }
    printf("  best peer: ratio, interval\n#%8s %5s %7s %7s %9s %9s", "(B)", "", "", "", "", "(us)");
    for (int i = 0; i < c->contender_count; i++) {
        if (shown(c, i)) {
            printf("  %*s", width_of(c, i), "(us)  ratio ");
        }
    }
    printf("\n");
}

static void print_entry(const struct tti_comparison *c, const struct tti_compare_cell *cell, int contender)
{
    const struct tti_compare_entry *entry = &cell->peers[contender];
    const int width = width_of(c, contender);
    char time[TEXT];
    char ratio[TEXT];
    if (entry->count == 0) {
        printf("  %*s ", width - 1, missing_reason(c, cell, contender));
    } else {
        printf("  %*s %6s%c", width - 8, time_text(entry->p50, time), ratio_text(entry->ratio, ratio),
               tti_compare_wins(cell, contender) ? '!' : ' ');
    }
}

static void print_cell(const struct tti_comparison *c, const struct tti_compare_cell *cell)
{
    char size[TEXT];
    char time[TEXT];
    char ratio[TEXT];
    char low[TEXT];
    char high[TEXT];
    printf(" %8s %5s %7s %7s %9s %9s", size_text(cell->size, size), tti_compare_place_name(cell),
           cell->heap ? "heap" : "private", tti_compare_hop_name(cell->hop), *cell->algorithm ? cell->algorithm : "-",
           cell->tutti.count > 0 ? time_text(cell->tutti.p50, time) : "-");
    for (int i = 0; i < c->contender_count; i++) {
        if (shown(c, i)) {
            print_entry(c, cell, i);
        }
    }
    if (cell->best >= 0) {
        const struct tti_compare_entry *best = &cell->peers[cell->best];
        printf("  %s: %s [%s, %s]%s", c->contenders[cell->best].name, ratio_text(best->ratio, ratio),
               ratio_text(best->low, low), ratio_text(best->high, high), cell->lost ? " !" : "");
    }
    printf("\n");
}

static void print_contender(const struct tti_comparison *c, int i)
{
    const struct tti_compare_contender *peer = &c->contenders[i];
    const struct tti_compare_mean mean = tti_compare_mean_to(c, i);
    const int elsewhere = tti_compare_count_elsewhere(c, i);
    char text[160];
    if (peer->missing) {
        printf("# %-24s missing: %s\n", peer->name, peer->missing);
        return;
    }
    mean_text(&mean, text, sizeof(text));
    printf("# %-24s %s%s%s\n", peer->name, text, *peer->version ? "; version " : "", peer->version);
    if (peer->failed > 0) {
        printf("# %-24s %d of %d blocks failed, the last because %s\n", "", peer->failed, peer->blocks,
               peer->failure ? peer->failure : "of an unknown reason");
    }
    if (peer->wrong > 0) {
        printf("# %-24s %" PRId64 " elements of its results were wrong; such rows are left out\n", "", peer->wrong);
    }
    if (elsewhere > 0) {
        printf("# %-24s not compared in %d cells: it ran while the hop was of another class (more repetitions help)\n",
               "", elsewhere);
    }
}

static void print_mean(const struct tti_comparison *c, const char *collective, int heap)
{
    const struct tti_compare_mean mean = tti_compare_mean_of(c, collective, heap);
    char text[160];
    if (mean.cells > 0) {
        mean_text(&mean, text, sizeof(text));
        printf("# %-16s %-7s %s\n", collective ? collective : "all",
               heap < 0 ? "both"
               : heap   ? "heap"
                        : "private",
               text);
    }
}

void tti_compare_print(const struct tti_comparison *c)
{
    const char *last = NULL;
    printf("# tutti bench %s against others: %d ranks, %d repetitions\n", tutti_version_string(), c->options->ranks,
           c->compare->repeat);
    printf(
        "# time: median of the repetitions' medians. ratio: Tutti's time over the contender's, paired within each\n"
        "#   repetition; below 1 Tutti is faster. interval: from the lowest to the highest of the repetitions' 95 %%\n"
        "#   intervals; '!': it lies wholly above 1, the cell is lost. hop: near below %d ns; a cell has one class\n",
        TTI_ROOFLINE_NEAR_NS);
    for (size_t i = 0; i < c->cell_count; i++) {
        const struct tti_compare_cell *cell = &c->cells[i];
        if (!cell->tabulated) {
            continue;
        }
        if (cell->collective != last) {
            print_title(c, cell->collective);
            last = cell->collective;
        }
        print_cell(c, cell);
    }
    printf("#\n# To each contender:\n");
    for (int i = 0; i < c->contender_count; i++) {
        print_contender(c, i);
    }
    printf("#\n# To the best peer of each cell:\n");
    for (size_t i = 0; i < tti_bench_collectives_count; i++) {
        print_mean(c, tti_bench_collectives[i].name, 0);
        print_mean(c, tti_bench_collectives[i].name, 1);
    }
    print_mean(c, NULL, 0);
    print_mean(c, NULL, 1);
    print_mean(c, NULL, -1);
    if (c->wrong > 0) {
        printf("# Wrong elements of Tutti's results: %" PRId64 " FAILED\n", c->wrong);
    }
    const struct tti_compare_mean all = tti_compare_mean_of(c, NULL, -1);
    printf("# Cells: %d, lost: %d, geometric mean of the ratios to the best peer: %.3f\n", all.cells, all.lost,
           tti_compare_mean_value(&all));
    fflush(stdout);
}
