/* SPDX-License-Identifier: BSD-3-Clause */
/* What people see while it trains: a bar on a terminal, a line per epoch anywhere else. */
#ifndef EXAMPLE_PROGRESS_H
#define EXAMPLE_PROGRESS_H

#include <stdbool.h>
#include <stdio.h>

typedef struct progress {
    FILE *terminal; /* NULL: no bar; a line per epoch on standard output */
    bool silent;    /* ranks other than 0 show nothing                   */
    const char *label;
    int epochs;
    double drawn; /* when the bar was last drawn */
} progress;

/* The state of the current epoch. */
typedef struct progress_state {
    int epoch;   /* from 1                   */
    double done; /* 0..1                     */
    double loss; /* mean of the epoch so far */
    double images_per_second;
    double waiting; /* share of the time, 0..1 */
} progress_state;

/* `terminal` names a device for the bar; NULL takes standard output if it is a terminal. `label` opens every line. */
void progress_begin(progress *p, const char *terminal, bool silent, const char *label, int epochs);

/* Draws the bar, ten times a second at most; at the end of an epoch (done == 1) always. */
void progress_show(progress *p, const progress_state *s);

void progress_end(progress *p);

#endif
