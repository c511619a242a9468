/* SPDX-License-Identifier: BSD-3-Clause */
/* Comparing names of dtypes and reduce ops, in ASCII: in some locales "INT8" does not match "int8". */
#ifndef TTI_TENSOR_NAME_H
#define TTI_TENSOR_NAME_H

#include <stdbool.h>

static inline char tti_ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether both are equal apart from case. */
static inline bool tti_same_name(const char *a, const char *b)
{
    while (*a && tti_ascii_lower(*a) == tti_ascii_lower(*b)) {
        a++;
        b++;
    }
    return tti_ascii_lower(*a) == tti_ascii_lower(*b);
}

#endif
