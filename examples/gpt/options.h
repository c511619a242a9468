/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line. A mistake in it is no end of the program here: all ranks find the same one, and rank 0 prints
 * it. */
#ifndef EXAMPLES_GPT_OPTIONS_H
#define EXAMPLES_GPT_OPTIONS_H

#include "model/shape.h"

struct options {
    const char *command;
    struct shape shape;
    const char *shape_name;
    bool shape_given; /* on the command line, by name or by a size */
    int32_t tensor;   /* tensor-parallel ranks; 0: all */
    bool sequence;
    int32_t steps; /* 0: what the command takes for usual; so for tokens */
    int32_t batch; /* sequences a step, of all ranks */
    double rate;
    int64_t seed;
    const char *backend, *wire;
    const char *text;
    const char *terminal;

    const char *checkpoint;
    int32_t save_every; /* steps */
    bool resume;
    bool survive;
    int32_t kill, at; /* that rank of the world kills itself in that step; -1: none */

    const char *prompt;
    int32_t tokens;
    double temperature;
    const char *weights; /* "f32" or "bf16" */
    bool check;

    const char *engines;
    int32_t rounds, position;
    bool csv;

    bool help;
    char why[512]; /* the first mistake; empty: none */
};

void options_parse(struct options *o, int argc, char **argv);
void options_print_help(void);

#endif
