/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines. A function ends the program with TTI_EXIT_USAGE if the text is not what the option takes. Which member
 * gets the value stands in a switch of each sub-command: a table of offsets would lose the types. */
#ifndef TOOLS_COMMON_OPTIONS_H
#define TOOLS_COMMON_OPTIONS_H

#include <argp.h>
#include <stdint.h>

/* Reads the whole line; `flags` are those of argp_parse. */
void tti_options_read(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

/* A number within the bounds. */
int64_t tti_number_option(struct argp_state *state, const char *option, const char *text, int64_t minimum,
                          int64_t maximum);

/* Seconds with an optional fraction and an optional unit s, m or h ("0.5", "90", "2h"), as milliseconds rounded up. At
 * most 365 days. */
int64_t tti_duration_option(struct argp_state *state, const char *option, const char *text);

/* The number, from 0, of one of the words that `words` lists ("spin|sleep"). */
int tti_word_option(struct argp_state *state, const char *option, const char *words, const char *text);

/* Loads the backend in a plug-in file. If that fails, prints the reason and ends the program with 1. */
void tti_plugin_option(struct argp_state *state, const char *file);

#endif
