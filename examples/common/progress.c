/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include "common.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 24

void progress_begin(progress *p, const char *terminal, bool silent, const char *label)
{
    memset(p, 0, sizeof(*p));
    p->silent = silent;
    p->label = label;
    if (!silent && terminal) {
        p->terminal = fopen(terminal, "w");
    } else if (!silent && isatty(STDOUT_FILENO)) {
        p->terminal = fdopen(dup(STDOUT_FILENO), "w");
    }
}

static void draw_bar(FILE *out, double done)
{
    char bar[BAR_WIDTH + 1];
    const int filled = (int)(done * BAR_WIDTH);
    memset(bar, '#', sizeof(bar));
    memset(bar + filled, '.', (size_t)(BAR_WIDTH - filled));
    bar[BAR_WIDTH] = '\0';
    fprintf(out, "[%s] %3.0f%%  ", bar, 100 * done);
}

void progress_show(progress *p, double done, bool keep, const char *format, ...)
{
    const double now = seconds_now();
    if (p->silent || (!keep && (!p->terminal || now - p->drawn < 0.1))) {
        return;
    }
    p->drawn = now;
    FILE *out = p->terminal ? p->terminal : stdout;
    fputs(p->terminal ? "\r\033[K" : "", out);
    fputs(p->label, out);
    if (p->terminal) {
        draw_bar(out, done);
    }
    va_list args;
    va_start(args, format);
    vfprintf(out, format, args);
    va_end(args);
    fputs(keep ? "\n" : "", out);
    fflush(out);
}

void progress_end(progress *p)
{
    if (p->terminal) {
        fclose(p->terminal);
        p->terminal = NULL;
    }
}
