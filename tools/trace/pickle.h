/* SPDX-License-Identifier: BSD-3-Clause */
/* Python's pickle protocol 2, as far as it builds dictionaries, lists, pairs, texts and numbers; nothing that a loader
 * would have to run. */
#ifndef TTI_TOOLS_TRACE_PICKLE_H
#define TTI_TOOLS_TRACE_PICKLE_H

#include <stdio.h>

#define TTI_PICKLE_BEGIN "\x80\x02"
#define TTI_PICKLE_END   "."

/*
 * Writes values, one for each character of `format`: s text, i int64_t, f double, b bool, n None. { and } enclose a
 * dictionary, in which a value follows each key, [ and ] a list; they may come in different calls. 2 makes a pair of the
 * two values before it.
 */
void tti_pickle(FILE *out, const char *format, ...);

#endif
