/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include "common.h"

#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 24

void progress_begin(progress *p, const char *terminal, bool silent, const char *label, int epochs)
{
    memset(p, 0, sizeof(*p));
    p->silent = silent;
    p->label = label;
    p->epochs = epochs;
    if (!silent && terminal) {
        p->terminal = fopen(terminal, "w");
    } else if (!silent && isatty(STDOUT_FILENO)) {
        p->terminal = fdopen(dup(STDOUT_FILENO), "w");
    }
}

static void print_numbers(FILE *out, const progress *p, const progress_state *s)
{
    fprintf(out, "%sepoch %d/%d", p->label, s->epoch, p->epochs);
    if (p->terminal) {
        char bar[BAR_WIDTH + 1];
        int filled = (int)(s->done * BAR_WIDTH);
        memset(bar, '#', sizeof(bar));
        memset(bar + filled, '.', (size_t)(BAR_WIDTH - filled));
        bar[BAR_WIDTH] = '\0';
        fprintf(out, " [%s] %3.0f%%", bar, 100 * s->done);
    }
    fprintf(out, "  loss %.4f  %6.0f images/s  %4.1f%% waiting", s->loss, s->images_per_second, 100 * s->waiting);
}

void progress_show(progress *p, const progress_state *s)
{
    bool complete = s->done >= 1;
    double now = seconds_now();
    if (p->silent || (!complete && (!p->terminal || now - p->drawn < 0.1))) {
        return;
    }
    p->drawn = now;
    FILE *out = p->terminal ? p->terminal : stdout;
    fputs(p->terminal ? "\r\033[K" : "", out);
    print_numbers(out, p, s);
    fputs(complete ? "\n" : "", out);
    fflush(out);
}

void progress_end(progress *p)
{
    if (p->terminal) {
        fclose(p->terminal);
        p->terminal = NULL;
    }
}
