/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The comparison as a plot. The lines are those of private buffers, out of place unless a contender has only the other
 * form; and where there are measurements in the heap, Tutti has a second line. Main cells only.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/compare/compare.h"
#include "bench/plot.h"

enum { TUTTI, TUTTI_HEAP, FIRST_CONTENDER, MOST = FIRST_CONTENDER + TTI_COMPARE_CONTENDERS };

/* Colours by library, dashes by settings. */
static void choose_styles(const struct tti_comparison *c, struct tti_plot_style styles[MOST])
{
    static const char *const libraries[] = {"openmpi", "mpich", "gloo", "torch", "exec", "", "tutti"};
    styles[TUTTI] = (struct tti_plot_style){"Tutti", 0, 0, true};
    styles[TUTTI_HEAP] = (struct tti_plot_style){"Tutti, heap", 0, 1, true};
    for (int i = 0; i < c->contender_count; i++) {
        const struct tti_compare_contender *who = &c->contenders[i];
        int same = 0;
        int colour = 0;
        while (colour < 6 && strcmp(libraries[colour], who->library) != 0) {
            colour++;
        }
        for (int j = 0; j < i; j++) {
            same += strcmp(c->contenders[j].library, who->library) == 0;
        }
        styles[FIRST_CONTENDER + i] = (struct tti_plot_style){who->name, colour + 1, same % TTI_PLOT_DASHES, false};
    }
}

/* The points of one line in one collective; returns how many. */
static int collect_form(const struct tti_comparison *c, const char *collective, int line, bool in_place,
                        struct tti_plot_point *points)
{
    int count = 0;
    for (size_t i = 0; i < c->cell_count; i++) {
        const struct tti_compare_cell *cell = &c->cells[i];
        const struct tti_compare_entry *entry =
            line < FIRST_CONTENDER ? &cell->tutti : &cell->peers[line - FIRST_CONTENDER];
        if (cell->main && strcmp(cell->collective, collective) == 0 && cell->in_place == in_place &&
            cell->heap == (line == TUTTI_HEAP) && entry->count > 0 && entry->p50 > 0) {
            points[count++] = (struct tti_plot_point){cell->size, entry->p50};
        }
    }
    return count;
}

static int collect(const struct tti_comparison *c, const char *collective, int line, struct tti_plot_point *points)
{
    const int count = collect_form(c, collective, line, false, points);
    return count > 0 ? count : collect_form(c, collective, line, true, points);
}

/* What a plot is made of, in one piece. */
struct parts {
    struct tti_plot_style styles[MOST];
    struct tti_plot_style shown[MOST];
    struct tti_plot_panel *panels;
    struct tti_plot_line *lines;
    struct tti_plot_point *points;
};

static int fill(const struct tti_comparison *c, struct parts *parts)
{
    const int lines = FIRST_CONTENDER + c->contender_count;
    struct tti_plot_point *points = parts->points;
    int panels = 0;
    for (size_t i = 0; i < tti_bench_collectives_count; i++) {
        const char *name = tti_bench_collectives[i].name;
        struct tti_plot_line *first = &parts->lines[panels * lines];
        int found = 0;
        for (int line = 0; line < lines; line++) {
            const int count = collect(c, name, line, points);
            first[line] = (struct tti_plot_line){&parts->styles[line], points, count};
            points += count;
            found += count;
        }
        if (found > 0) {
            parts->panels[panels++] = (struct tti_plot_panel){name, first, lines};
        }
    }
    return panels;
}

bool tti_compare_plot(const struct tti_comparison *c, FILE *file)
{
    const size_t lines = (size_t)(FIRST_CONTENDER + c->contender_count);
    struct parts *parts = calloc(1, sizeof(*parts));
    if (!parts) {
        fclose(file);
        return false;
    }
    parts->panels = calloc(tti_bench_collectives_count, sizeof(*parts->panels));
    parts->lines = calloc(tti_bench_collectives_count * lines, sizeof(*parts->lines));
    parts->points = calloc(c->cell_count * lines + 1, sizeof(*parts->points));
    bool good = parts->panels && parts->lines && parts->points;
    if (good) {
        char title[128];
        choose_styles(c, parts->styles);
        struct tti_plot plot = {.title = title, .styles = parts->shown, .panels = parts->panels};
        plot.panel_count = fill(c, parts);
        for (size_t line = 0; line < lines; line++) {
            bool used = false;
            for (int panel = 0; panel < plot.panel_count; panel++) {
                used = used || parts->panels[panel].lines[line].count > 0;
            }
            if (used) {
                parts->shown[plot.style_count++] = parts->styles[line];
            }
        }
        snprintf(title, sizeof(title), "Latency against size, %d ranks on one host (median; lower is better)",
                 c->options->ranks);
        good = tti_plot_write(&plot, file);
    } else {
        fclose(file);
    }
    free(parts->panels);
    free(parts->lines);
    free(parts->points);
    free(parts);
    return good;
}
