/* SPDX-License-Identifier: BSD-3-Clause */
/* The comparison as Markdown, for bench/results and for pages that show it. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/compare.h"

/* Text that may hold what Markdown takes for its own. */
static void put(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("|\\`*_<>[]", *text)) {
            fputc('\\', file);
        }
        fputc(*text == '\n' ? ' ' : *text, file);
    }
}

static const char *config_text(const struct tti_comparison *c, const char *name)
{
    const json_t *value = json_object_get(c->config, name);
    return json_is_string(value) ? json_string_value(value) : "unknown";
}

static void put_machine(const struct tti_comparison *c, FILE *file)
{
    char date[64] = "";
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) {
        strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &utc);
    }
    fprintf(file, "| | |\n|---|---|\n| date | %s |\n| CPU | ", date);
    put(file, config_text(c, "cpu"));
    fprintf(file, ", %d usable |\n| kernel | ", (int)json_integer_value(json_object_get(c->config, "cpus")));
    put(file, config_text(c, "kernel"));
    fprintf(file, " |\n| Tutti | %s, kernels %s |\n", tutti_version_string(), config_text(c, "isa"));
    fprintf(file, "| ranks, repetitions | %d, %d |\n| took | %.0f s |\n\n", c->options->ranks, c->compare->repeat,
            c->seconds);
}

static void put_mean(const struct tti_comparison *c, FILE *file, const char *collective, int heap)
{
    const struct tti_compare_mean mean = tti_compare_mean_of(c, collective, heap);
    if (mean.cells > 0) {
        const double ratio = tti_compare_mean_value(&mean);
        fprintf(file, "| %s | %s | %.3f | %.2f | %d | %d |\n", collective ? collective : "**all**",
                heap < 0 ? "both"
                : heap   ? "heap"
                         : "private",
                ratio, 1 / ratio, mean.lost, mean.cells);
    }
}

static void put_summary(const struct tti_comparison *c, FILE *file)
{
    fprintf(file, "## To the best peer of each cell\n\n"
                  "| collective | buffers | ratio | times as fast | lost | cells |\n|---|---|---:|---:|---:|---:|\n");
    for (size_t i = 0; i < tti_bench_collectives_count; i++) {
        put_mean(c, file, tti_bench_collectives[i].name, 0);
        put_mean(c, file, tti_bench_collectives[i].name, 1);
    }
    put_mean(c, file, NULL, 0);
    put_mean(c, file, NULL, 1);
    put_mean(c, file, NULL, -1);
    fprintf(file, "\nRatios are geometric means of Tutti's time over that of the best peer; below 1 Tutti is faster. "
                  "A cell is lost when the interval of its ratio lies wholly above 1.\n\n");
}

static void put_contenders(const struct tti_comparison *c, FILE *file)
{
    fprintf(file, "## Contenders\n\n| | version | ratio | lost | cells | |\n|---|---|---:|---:|---:|---|\n");
    for (int i = 0; i < c->contender_count; i++) {
        const struct tti_compare_contender *who = &c->contenders[i];
        const struct tti_compare_mean mean = tti_compare_mean_to(c, i);
        fprintf(file, "| ");
        put(file, who->name);
        fprintf(file, " | ");
        put(file, who->version);
        if (mean.cells > 0) {
            fprintf(file, " | %.3f | %d | %d | ", tti_compare_mean_value(&mean), mean.lost, mean.cells);
        } else {
            fprintf(file, " | | | 0 | ");
        }
        if (who->missing) {
            fprintf(file, "missing: ");
            put(file, who->missing);
        } else if (who->failed > 0) {
            fprintf(file, "%d of %d blocks failed: ", who->failed, who->blocks);
            put(file, who->failure ? who->failure : "");
        }
        fprintf(file, " |\n");
    }
    fprintf(file, "\n");
    for (int i = 0; i < c->contender_count; i++) {
        const struct tti_compare_contender *who = &c->contenders[i];
        struct tti_compare_command command;
        if (who->missing || !who->beside) {
            continue;
        }
        tti_compare_command_beside(c, who, false, NULL, &command);
        char *line = tti_compare_command_line(c, who, &command);
        fprintf(file, "    %s\n", line ? line : "");
        free(line);
    }
    fprintf(file, "\n");
}

static bool shown(const struct tti_comparison *c, int contender)
{
    return c->contenders[contender].missing == NULL;
}

static void put_title(const struct tti_comparison *c, FILE *file, const char *collective)
{
    fprintf(file, "\n### %s\n\n| size | place | buffers | hop | algo | Tutti |", collective);
    for (int i = 0; i < c->contender_count; i++) {
        if (shown(c, i)) {
            fprintf(file, " ");
            put(file, c->contenders[i].name);
            fprintf(file, " |");
        }
    }
    fprintf(file, " ratio | interval | to |\n|---:|---|---|---|---|---:|");
    for (int i = 0; i < c->contender_count; i++) {
        fprintf(file, shown(c, i) ? "---:|" : "");
    }
    fprintf(file, "---:|---|---|\n");
}

static void put_cell(const struct tti_comparison *c, FILE *file, const struct tti_compare_cell *cell)
{
    char size[TTI_COMPARE_TEXT];
    char text[TTI_COMPARE_TEXT];
    char low[TTI_COMPARE_TEXT];
    char high[TTI_COMPARE_TEXT];
    fprintf(file, "| %s | %s | %s | %s | ", tti_compare_size(cell->size, size), tti_compare_place_name(cell),
            cell->heap ? "heap" : "private", tti_compare_hop_name(cell->hop));
    put(file, cell->algorithm);
    fprintf(file, " | %s |", cell->tutti.count > 0 ? tti_compare_time(cell->tutti.p50, text) : "-");
    for (int i = 0; i < c->contender_count; i++) {
        if (shown(c, i)) {
            fprintf(file, " %s |",
                    cell->peers[i].count > 0 ? tti_compare_time(cell->peers[i].p50, text)
                                             : tti_compare_absence(c, cell, i));
        }
    }
    if (cell->best < 0) {
        fprintf(file, " | | |\n");
        return;
    }
    const struct tti_compare_entry *best = &cell->peers[cell->best];
    const char *mark = cell->lost ? "**" : "";
    fprintf(file, " %s%s%s | %s to %s | ", mark, tti_compare_ratio(best->ratio, text), mark,
            tti_compare_ratio(best->low, low), tti_compare_ratio(best->high, high));
    put(file, c->contenders[cell->best].name);
    fprintf(file, " |\n");
}

bool tti_compare_markdown(const struct tti_comparison *c, FILE *file)
{
    const char *last = NULL;
    fprintf(file,
            "# Tutti against others, %d ranks\n\nWritten by `tutti bench --vs %s`; docs/bench.md says how it is "
            "measured.\n\n",
            c->options->ranks, c->compare->vs);
    put_machine(c, file);
    if (c->compare->plot) {
        const char *slash = strrchr(c->compare->plot, '/');
        fprintf(file, "![Latency against size](%s)\n\n", slash ? slash + 1 : c->compare->plot);
    }
    put_summary(c, file);
    put_contenders(c, file);
    fprintf(file, "## All cells\n\nTimes in us. In bold: lost.\n");
    for (size_t i = 0; i < c->cell_count; i++) {
        if (!c->cells[i].told) {
            continue;
        }
        if (c->cells[i].collective != last) {
            last = c->cells[i].collective;
            put_title(c, file, last);
        }
        put_cell(c, file, &c->cells[i]);
    }
    const bool good = fflush(file) == 0 && !ferror(file);
    return fclose(file) == 0 && good;
}
