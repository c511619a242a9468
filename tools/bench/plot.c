/* SPDX-License-Identifier: BSD-3-Clause */
/* Layout and output of a plot. All lengths are in pixels of the viewBox; y grows downwards. */
#include "bench/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN      16.0
#define LEFT        46.0 /* of a panel: numbers of the axis */
#define TOP         26.0 /* its title */
#define BOTTOM      32.0
#define LETTER      6.1 /* width of one at 11 px, about */
#define LABEL_APART 10.5
#define LABELS      64
#define LEGEND_LINE 18.0

/* Light and dark: red, blue, brown, green, violet, grey, pink, teal. */
static const char *const colours[2][TTI_PLOT_COLOURS] = {
    {"#cf222e", "#0969da", "#9a6700", "#1a7f37", "#8250df", "#57606a", "#bf3989", "#0f7b7b"},
    {"#ff7b72", "#58a6ff", "#e3b341", "#3fb950", "#bc8cff", "#9da7b1", "#f778ba", "#39c5cf"},
};
static const char *const dashes[TTI_PLOT_DASHES] = {"", "6 3", "2 2.5", "9 3 2 3"};

struct range {
    double low;
    double high;
};

/* Where a panel's axes are. */
struct area {
    double left, top, width, height;
    struct range x; /* log2 of bytes  */
    struct range y; /* log10 of us    */
};

static void put_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        switch (byte) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default: /* XML has no control characters, and other bytes need not be UTF-8 */
            fputc(byte < 0x20 || byte >= 0x7f ? '?' : byte, file);
        }
    }
}

static void put_label(FILE *file, double x, double y, const char *attributes, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, attributes);
    put_text(file, text);
    fputs("</text>\n", file);
}

static void put_colours(FILE *file, int dark)
{
    for (int i = 0; i < TTI_PLOT_COLOURS; i++) {
        fprintf(file, ".k%d{stroke:%s}.f%d{fill:%s}", i, colours[dark][i], i, colours[dark][i]);
    }
}

static void put_style(FILE *file)
{
    fputs("<style>\ntext{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:11px;"
          "fill:#24292f}\n.title{font-size:15px;font-weight:600}.panel{font-size:12px;font-weight:600}"
          ".tick{font-size:10px;fill:#57606a}.name{font-size:9px}\n"
          ".grid{stroke:#d0d7de;stroke-width:0.6}.line{fill:none;stroke-width:1.4;stroke-linejoin:round}"
          ".thick{stroke-width:2.6}\n",
          file);
    put_colours(file, 0);
    fputs("\n@media (prefers-color-scheme: dark){text{fill:#e6edf3}.tick{fill:#9da7b1}.grid{stroke:#3d444d}\n", file);
    put_colours(file, 1);
    fputs("}\n</style>\n", file);
}

static void dash_attribute(const struct tti_plot_style *style, char *text, size_t capacity)
{
    text[0] = '\0';
    if (style->dash > 0) {
        snprintf(text, capacity, " stroke-dasharray=\"%s\"", dashes[style->dash]);
    }
}

/* ---- the legend ---- */

static double legend_width(const struct tti_plot_style *style)
{
    return 30 + LETTER * (double)strlen(style->name) + 14;
}

/* Places the entries in lines; writes them unless `file` is NULL. The height of all. */
static double legend(const struct tti_plot *plot, double width, double top, FILE *file)
{
    double x = MARGIN;
    double y = top;
    for (int i = 0; i < plot->style_count; i++) {
        const struct tti_plot_style *style = &plot->styles[i];
        char dash[48];
        if (x > MARGIN && x + legend_width(style) > width - MARGIN) {
            x = MARGIN;
            y += LEGEND_LINE;
        }
        if (file) {
            dash_attribute(style, dash, sizeof(dash));
            fprintf(file, "<path class=\"line k%d%s\"%s d=\"M%.1f %.1fh24\"/>", style->colour,
                    style->thick ? " thick" : "", dash, x, y - 4);
            put_label(file, x + 29, y, "", style->name);
        }
        x += legend_width(style);
    }
    return y - top + LEGEND_LINE;
}

/* ---- axes ---- */

static void include(struct range *range, double value)
{
    range->low = value < range->low ? value : range->low;
    range->high = value > range->high ? value : range->high;
}

/* False if the sizes are not several: then there is no axis to draw. */
static bool set_ranges(const struct tti_plot_panel *panel, struct area *area)
{
    area->x = (struct range){INFINITY, -INFINITY};
    area->y = (struct range){INFINITY, -INFINITY};
    for (int i = 0; i < panel->count; i++) {
        for (int j = 0; j < panel->lines[i].count; j++) {
            const struct tti_plot_point *point = &panel->lines[i].points[j];
            include(&area->x, point->bytes > 0 ? log2((double)point->bytes) : 0);
            include(&area->y, log10(point->us));
        }
    }
    area->y.low = floor(area->y.low + 1e-9);
    area->y.high = ceil(area->y.high - 1e-9);
    if (area->y.high <= area->y.low) {
        area->y.high = area->y.low + 1;
    }
    return area->x.high > area->x.low;
}

static double x_of(const struct area *area, double log_bytes)
{
    return area->left + (log_bytes - area->x.low) / (area->x.high - area->x.low) * area->width;
}

static double y_of(const struct area *area, double log_us)
{
    return area->top + (area->y.high - log_us) / (area->y.high - area->y.low) * area->height;
}

static void time_text(double us, char *text, size_t capacity)
{
    if (us >= 1e6) {
        snprintf(text, capacity, "%g s", us / 1e6);
    } else if (us >= 1e3) {
        snprintf(text, capacity, "%g ms", us / 1e3);
    } else if (us >= 1) {
        snprintf(text, capacity, "%g us", us);
    } else {
        snprintf(text, capacity, "%g ns", us * 1e3);
    }
}

static void size_text(int exponent, char *text, size_t capacity)
{
    static const char *const units[] = {"", "K", "M", "G", "T", "P"};
    snprintf(text, capacity, "%d%s", 1 << exponent % 10, units[exponent / 10 < 6 ? exponent / 10 : 5]);
}

static void put_axes(FILE *file, const struct area *area)
{
    char text[32];
    const int decades = (int)(area->y.high - area->y.low);
    for (int i = 0; i <= decades; i++) {
        const double y = y_of(area, area->y.low + i);
        fprintf(file, "<path class=\"grid\" d=\"M%.1f %.1fh%.1f\"/>", area->left, y, area->width);
        if (decades <= 6 || i % 2 == 0) {
            time_text(pow(10, area->y.low + i), text, sizeof(text));
            put_label(file, area->left - 5, y + 3.5, " class=\"tick\" text-anchor=\"end\"", text);
        }
    }
    const int first = (int)ceil(area->x.low - 1e-9);
    const int last = (int)floor(area->x.high + 1e-9);
    const int step = (last - first) / 5 + 1;
    for (int exponent = first; exponent <= last; exponent += step) {
        const double x = x_of(area, exponent);
        fprintf(file, "<path class=\"grid\" d=\"M%.1f %.1fv%.1f\"/>", x, area->top, area->height);
        size_text(exponent, text, sizeof(text));
        put_label(file, x, area->top + area->height + 14, " class=\"tick\" text-anchor=\"middle\"", text);
    }
}

/* ---- lines ---- */

struct end_label {
    double y;
    double wanted;
    const struct tti_plot_style *style;
};

static int by_height(const void *a, const void *b)
{
    const struct end_label *x = a;
    const struct end_label *y = b;
    return (x->wanted > y->wanted) - (x->wanted < y->wanted);
}

/* Moves labels that would overlap apart; false if they do not fit beside the panel. */
static bool spread(struct end_label *labels, int count, const struct area *area)
{
    const double bottom = area->top + area->height + 4;
    if (count == 0 || LABEL_APART * count > area->height) {
        return false;
    }
    qsort(labels, (size_t)count, sizeof(*labels), by_height);
    for (int i = 0; i < count; i++) {
        const double least = i > 0 ? labels[i - 1].y + LABEL_APART : area->top;
        labels[i].y = labels[i].wanted > least ? labels[i].wanted : least;
    }
    for (int i = count - 1; i >= 0; i--) {
        const double most = i < count - 1 ? labels[i + 1].y - LABEL_APART : bottom;
        labels[i].y = labels[i].y < most ? labels[i].y : most;
    }
    return true;
}

static void put_line(FILE *file, const struct area *area, const struct tti_plot_line *line)
{
    const struct tti_plot_style *style = line->style;
    char dash[48];
    dash_attribute(style, dash, sizeof(dash));
    fprintf(file, "<path class=\"line k%d%s\"%s d=\"", style->colour, style->thick ? " thick" : "", dash);
    for (int i = 0; i < line->count; i++) {
        fprintf(file, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x_of(area, log2((double)line->points[i].bytes)),
                y_of(area, log10(line->points[i].us)));
    }
    fputs("\"/>", file);
    for (int i = 0; i < line->count; i++) {
        fprintf(file, "<circle class=\"f%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"/>", style->colour,
                x_of(area, log2((double)line->points[i].bytes)), y_of(area, log10(line->points[i].us)),
                style->thick ? "2.4" : "1.6");
    }
    fputc('\n', file);
}

static void put_lines(FILE *file, const struct area *area, const struct tti_plot_panel *panel)
{
    struct end_label labels[LABELS];
    int count = 0;
    /* the first line is the most important one: it is drawn last, above the others */
    for (int i = panel->count - 1; i >= 0; i--) {
        const struct tti_plot_line *line = &panel->lines[i];
        if (line->count == 0) {
            continue;
        }
        put_line(file, area, line);
        if (count < LABELS) {
            const double y = y_of(area, log10(line->points[line->count - 1].us)) + 3;
            labels[count++] = (struct end_label){y, y, line->style};
        }
    }
    if (spread(labels, count, area)) {
        for (int i = 0; i < count; i++) {
            char attributes[48];
            snprintf(attributes, sizeof(attributes), " class=\"name f%d\"", labels[i].style->colour);
            put_label(file, area->left + area->width + 6, labels[i].y, attributes, labels[i].style->name);
        }
    }
}

/* One size only, as a barrier has it: a bar for each contender, longer by the logarithm of its time. */
static void put_bars(FILE *file, const struct area *area, const struct tti_plot_panel *panel, double right)
{
    int count = 0;
    for (int i = 0; i < panel->count; i++) {
        count += panel->lines[i].count > 0;
    }
    const double step = count > 0 && area->height / count < 20 ? area->height / count : 20;
    const double name = 74;
    const double value = 52;
    const double width = right - area->left - name - value + LEFT;
    double y = area->top;
    for (int i = 0; i < panel->count; i++) {
        const struct tti_plot_line *line = &panel->lines[i];
        char text[32];
        if (line->count == 0) {
            continue;
        }
        const double part = (log10(line->points[0].us) - area->y.low) / (area->y.high - area->y.low);
        const double length = width * (part > 0.02 ? part : 0.02);
        const double x = area->left - LEFT + name;
        put_label(file, x - 5, y + step / 2 + 3.5, " class=\"tick\" text-anchor=\"end\"", line->style->name);
        fprintf(file, "<rect class=\"f%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\"%s/>\n",
                line->style->colour, x, y + step * 0.15, length, step * 0.7,
                line->style->dash > 0 ? " fill-opacity=\"0.6\"" : "");
        snprintf(text, sizeof(text), "%.3g us", line->points[0].us);
        put_label(file, x + length + 5, y + step / 2 + 3.5, " class=\"tick\"", text);
        y += step;
    }
}

/* ---- the whole ---- */

static double names_width(const struct tti_plot *plot)
{
    size_t longest = 0;
    for (int i = 0; i < plot->style_count; i++) {
        longest = strlen(plot->styles[i].name) > longest ? strlen(plot->styles[i].name) : longest;
    }
    const double width = 12 + LETTER * 0.82 * (double)longest;
    return width < 110 ? width : 110;
}

bool tti_plot_write(const struct tti_plot *plot, FILE *file)
{
    const int columns = plot->panel_count < 3 ? plot->panel_count > 0 ? plot->panel_count : 1 : 3;
    const int rows = plot->panel_count > 0 ? (plot->panel_count - 1) / columns + 1 : 0;
    const double total = columns == 1 ? 760 : 1000;
    const double panel_width = (total - 2 * MARGIN) / columns;
    const double panel_height = columns == 1 ? 420 : columns == 2 ? 320 : 260;
    const double head = 34 + legend(plot, total, 0, NULL) + 8;
    const double height = head + rows * panel_height + MARGIN / 2;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
            "role=\"img\">\n<title>",
            total, height, total, height);
    put_text(file, plot->title);
    fputs("</title>\n", file);
    put_style(file);
    put_label(file, MARGIN, 22, " class=\"title\"", plot->title);
    legend(plot, total, 44, file);
    for (int i = 0; i < plot->panel_count; i++) {
        const struct tti_plot_panel *panel = &plot->panels[i];
        const double left = MARGIN + i % columns * panel_width;
        const int row = i / columns;
        struct area area = {.left = left + LEFT,
                            .top = head + row * panel_height + TOP,
                            .width = panel_width - LEFT - names_width(plot) - 8,
                            .height = panel_height - TOP - BOTTOM};
        put_label(file, area.left, area.top - 9, " class=\"panel\"", panel->title);
        if (set_ranges(panel, &area)) {
            put_axes(file, &area);
            put_lines(file, &area, panel);
        } else if (isfinite(area.y.low)) {
            area.y.low -= 0.5; /* the shortest bar is one, too */
            put_bars(file, &area, panel, left + panel_width - LEFT);
        }
    }
    fputs("</svg>\n", file);
    const bool good = fflush(file) == 0 && !ferror(file);
    return fclose(file) == 0 && good;
}
