/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers from command lines and from /proc. */
#ifndef TTI_TOOLS_NUMBER_H
#define TTI_TOOLS_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/number.h"

/* Seconds with an optional fraction and an optional unit s, m or h ("0.5", "90", "2h"), as milliseconds rounded up. At
 * most 365 days; false leaves *ms untouched. */
bool tti_parse_duration(const char *text, int64_t *ms);

/* The number that `option` of a command line has; ends the program if `text` is no number within the bounds. */
struct argp_state;
int64_t tti_number_option(struct argp_state *state, const char *option, const char *text, int64_t minimum,
                          int64_t maximum);

#endif
