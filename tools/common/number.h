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

#endif
