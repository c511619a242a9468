/* SPDX-License-Identifier: BSD-3-Clause */
/* Comparing names of dtypes and reduce ops. ASCII only and free of the locale, in which "INT8" may not match "int8". */
#ifndef TTI_TENSOR_NAME_H
#define TTI_TENSOR_NAME_H

#include <stdbool.h>

static inline char tti_ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* True if both are equal, but for case. */
static inline bool tti_same_name(const char *a, const char *b)
{
    while (*a && tti_ascii_lower(*a) == tti_ascii_lower(*b)) {
        a++;
        b++;
    }
    return tti_ascii_lower(*a) == tti_ascii_lower(*b);
}

#endif
