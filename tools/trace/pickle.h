/* SPDX-License-Identifier: BSD-3-Clause */
/* Python's pickle protocol 2, as far as it builds dictionaries, lists, pairs, texts and numbers; nothing that a loader
 * would have to run. */
#ifndef TTI_TOOLS_TRACE_PICKLE_H
#define TTI_TOOLS_TRACE_PICKLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A dictionary takes a key, then its value. Lists and dictionaries need a call that closes them. */
static inline void tti_pickle_dictionary(FILE *out)
{
    fputs("}(", out);
}

static inline void tti_pickle_dictionary_end(FILE *out)
{
    fputc('u', out);
}

static inline void tti_pickle_list(FILE *out)
{
    fputs("](", out);
}

static inline void tti_pickle_list_end(FILE *out)
{
    fputc('e', out);
}

static inline void tti_pickle_text(FILE *out, const char *string)
{
    const uint32_t length = (uint32_t)strlen(string);
    fputc('X', out);
    for (int i = 0; i < 4; i++) {
        fputc((int)(length >> (8 * i) & 0xff), out);
    }
    fwrite(string, 1, length, out);
}

static inline void tti_pickle_number(FILE *out, int64_t value)
{
    fputs("\x8a\x08", out);
    for (int i = 0; i < 8; i++) {
        fputc((int)((uint64_t)value >> (8 * i) & 0xff), out);
    }
}

static inline void tti_pickle_real(FILE *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    fputc('G', out);
    for (int i = 7; i >= 0; i--) {
        fputc((int)(bits >> (8 * i) & 0xff), out);
    }
}

static inline void tti_pickle_truth(FILE *out, bool value)
{
    fputc(value ? '\x88' : '\x89', out);
}

static inline void tti_pickle_none(FILE *out)
{
    fputc('N', out);
}

/* After two values: makes a pair of them. */
static inline void tti_pickle_pair(FILE *out)
{
    fputc('\x86', out);
}

static inline void tti_pickle_begin(FILE *out)
{
    fputs("\x80\x02", out);
}

static inline void tti_pickle_end(FILE *out)
{
    fputc('.', out);
}

#endif
