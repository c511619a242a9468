/* SPDX-License-Identifier: BSD-3-Clause */
/* What people see during a long computation: a bar on a terminal, some of its lines anywhere else. */
#ifndef EXAMPLES_COMMON_PROGRESS_H
#define EXAMPLES_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdio.h>

typedef struct progress {
    FILE *terminal; /* NULL: no bar */
    bool silent;    /* ranks other than 0 show nothing */
    const char *label;
    double drawn; /* when the bar was last drawn */
} progress;

/* `terminal` names a device for the bar; NULL takes standard output if it is a terminal. `label` opens every line. */
void progress_begin(progress *p, const char *terminal, bool silent, const char *label);

/* Draws the bar, `done` of 0..1 full, with the text, ten times a second at most. With `keep` it is drawn in any case,
 * the next one begins a new line, and without a terminal the text goes to standard output. */
__attribute__((format(printf, 4, 5))) void progress_show(progress *p, double done, bool keep, const char *format, ...);

void progress_end(progress *p);

#endif
