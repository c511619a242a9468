/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers from command lines and from /proc: all of the text must be the number, within the given bounds. */
#ifndef TTI_TOOLS_NUMBER_H
#define TTI_TOOLS_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* A decimal integer in minimum..maximum; false leaves *value untouched. */
bool tti_parse_integer(const char *text, int64_t minimum, int64_t maximum, int64_t *value);

/* A number of bytes in minimum..maximum, with an optional unit K, M or G (of 1024), as in "64K"; false leaves *bytes
 * untouched. */
bool tti_parse_bytes(const char *text, int64_t minimum, int64_t maximum, int64_t *bytes);

/* Seconds with an optional fraction and an optional unit s, m or h ("0.5", "90", "2h"), as milliseconds rounded up. At
 * most 365 days; false leaves *ms untouched. */
bool tti_parse_duration(const char *text, int64_t *ms);

#endif
