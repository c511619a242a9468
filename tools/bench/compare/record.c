/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of a comparison: a CSV file of a few tens of kilobytes from which tables are made again later. Lines that
 * begin with `# NAME = VALUE` hold the machine and the contenders. Each further line is one contender in one cell: its
 * median, its 99th percentile, and the ratio of Tutti's time to its own with the interval. The line of Tutti itself
 * holds the ratio to the best peer, and that peer's name.
 */
#include "bench/compare/record.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/compare/command.h"
#include "bench/compare/comparison.h"
#include "bench/compare/table.h"

/* A field as RFC 4180 wants it. */
static void put_field(FILE *file, const char *text)
{
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text != '\0'; text++) {
        fputs(*text == '"' ? "\"\"" : (char[2]){*text == '\n' ? ' ' : *text, '\0'}, file);
    }
    fputc('"', file);
}

/* A setting; its text stays on one line. */
static void put_setting(FILE *file, const char *name, const char *contender, const char *text)
{
    fprintf(file, "# %s%s%s = ", name, *contender != '\0' ? " " : "", contender);
    for (; *text != '\0'; text++) {
        fputc(*text == '\n' ? ' ' : *text, file);
    }
    fputc('\n', file);
}

static void put_machine(const struct tti_comparison *c, FILE *file)
{
    const char *const names[] = {"cpu", "kernel", "isa"};
    char date[64] = "";
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) {
        strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &utc);
    }
    put_setting(file, "date", "", date);
    put_setting(file, "tutti", "", tutti_version_string());
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const json_t *value = json_object_get(c->config, names[i]);
        put_setting(file, names[i], "", json_is_string(value) ? json_string_value(value) : "unknown");
    }
    fprintf(file, "# cpus = %d\n", (int)json_integer_value(json_object_get(c->config, "cpus")));
    fprintf(file, "# ranks = %d\n# repetitions = %d\n# seconds = %.0f\n", c->options->ranks, c->compare->repeat,
            c->seconds);
}

static void put_contender(const struct tti_comparison *c, FILE *file, const struct tti_compare_contender *contender)
{
    struct tti_compare_command command;
    if (contender->missing) {
        put_setting(file, "missing", contender->name, contender->missing);
        return;
    }
    put_setting(file, "version", contender->name, contender->version);
    tti_compare_command(c, contender, false, NULL, &command);
    char *line = tti_compare_command_line(c, contender, &command);
    put_setting(file, "command", contender->name, line ? line : "");
    free(line);
    if (contender->failed > 0) {
        fprintf(file, "# failed %s = %d of %d jobs: %s\n", contender->name, contender->failed, contender->blocks,
                contender->failure ? contender->failure : "");
    }
}

/* `judged` holds the ratio: the entry itself, or that of the best peer on Tutti's line. */
static void put_line(const struct tti_comparison *c, FILE *file, const struct tti_compare_cell *cell,
                     const char *contender, const struct tti_compare_entry *entry,
                     const struct tti_compare_entry *judged, const char *best)
{
    const bool own = entry == &cell->tutti;
    fprintf(file, "%s,%d,%" PRId64 ",%s,%s,%s,%d,", cell->collective, c->options->ranks, cell->size,
            tti_compare_place_name(cell), cell->heap ? "heap" : "private", tti_compare_hop_name(cell->hop),
            (int)cell->counted);
    put_field(file, contender);
    fprintf(file, ",%.5g,%.5g,%d,", entry->p50, entry->p99, entry->count);
    if (judged && judged->ratio > 0) {
        fprintf(file, "%.4g,%.4g,%.4g,", judged->ratio, judged->low, judged->high);
    } else {
        fputs(",,,", file);
    }
    put_field(file, best);
    if (own && entry->bound_us > 0) {
        fprintf(file, ",%s,%.4g\n", cell->algorithm, entry->bound_us);
    } else {
        fprintf(file, ",%s,\n", own ? cell->algorithm : "");
    }
}

static void put_cell(const struct tti_comparison *c, FILE *file, const struct tti_compare_cell *cell)
{
    if (cell->tutti.count > 0) {
        const bool peer = cell->best >= 0;
        put_line(c, file, cell, "tutti", &cell->tutti, peer ? &cell->peers[cell->best] : NULL,
                 peer ? c->contenders[cell->best].name : "");
    }
    for (int i = 0; i < c->contender_count; i++) {
        if (cell->peers[i].count > 0) {
            put_line(c, file, cell, c->contenders[i].name, &cell->peers[i], &cell->peers[i], "");
        }
    }
}

bool tti_compare_record(const struct tti_comparison *c, FILE *file)
{
    put_machine(c, file);
    for (int i = 0; i < c->contender_count; i++) {
        put_contender(c, file, &c->contenders[i]);
    }
    fputs(
        "collective,ranks,size,place,buffers,hop,counted,contender,p50_us,p99_us,repetitions,ratio,low,high,best_peer,"
        "algorithm,bound_us\n",
        file);
    for (size_t i = 0; i < c->cell_count; i++) {
        if (c->cells[i].tabulated) {
            put_cell(c, file, &c->cells[i]);
        }
    }
    const bool good = fflush(file) == 0 && !ferror(file);
    return fclose(file) == 0 && good;
}
