/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line. A mistake in it is no end of the program here: all ranks find the same one, and rank 0 prints it. */
#ifndef GPT_OPTIONS_H
#define GPT_OPTIONS_H

#include "model/shape.h"

struct options {
    const char *command;
    struct shape shape;
    int32_t tensor; /* tensor-parallel ranks; 0: all */
    bool sequence;
    int32_t steps; /* 0: what the command takes for usual */
    int32_t batch; /* sequences a step, of all ranks */
    double rate;
    uint64_t seed;
    const char *backend;
    const char *text;
    const char *terminal;
    bool help;
    char why[256]; /* the first mistake; empty: none */
};

void options_parse(struct options *o, int argc, char **argv);
void options_print_help(void);

#endif
