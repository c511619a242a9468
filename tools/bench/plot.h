/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency against size as SVG: a panel for each collective, with logarithmic axes, and a line for each contender. The
 * file needs nothing else (no scripts, no fonts), and adapts to a light or dark page.
 */
#ifndef TTI_BENCH_PLOT_H
#define TTI_BENCH_PLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TTI_PLOT_COLOURS 8
#define TTI_PLOT_DASHES  4

struct tti_plot_point {
    int64_t bytes;
    double us; /* above 0 */
};

struct tti_plot_style {
    const char *name;
    int colour; /* below TTI_PLOT_COLOURS */
    int dash;   /* below TTI_PLOT_DASHES; 0 = solid */
    bool thick;
};

struct tti_plot_line {
    const struct tti_plot_style *style;
    const struct tti_plot_point *points; /* in the order of their sizes */
    int count;                           /* 0 = not in this panel */
};

struct tti_plot_panel {
    const char *title;
    const struct tti_plot_line *lines;
    int count;
};

struct tti_plot {
    const char *title;
    const struct tti_plot_style *styles; /* the legend */
    int style_count;
    const struct tti_plot_panel *panels;
    int panel_count;
};

/* False, with errno, if the file cannot be written; closes it in any case. */
bool tti_plot_write(const struct tti_plot *plot, FILE *file);

#endif
