/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers in text, for which strtoll accepts too much (leading blanks, a plus sign, trailing text). */
#ifndef TTI_BASE_NUMBER_H
#define TTI_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* All of `text` is a decimal integer in minimum..maximum. False leaves *value untouched. */
bool tti_parse_integer(const char *text, int64_t minimum, int64_t maximum, int64_t *value);

/* All of `text` is a number of bytes in minimum..maximum, with an optional unit K, M or G (of 1024), as in "64K". False
 * leaves *bytes untouched. */
bool tti_parse_bytes(const char *text, int64_t minimum, int64_t maximum, int64_t *bytes);

#endif
