/* SPDX-License-Identifier: BSD-3-Clause */
/* Floating-point formats by their definition. */
#ifndef TOOLS_CHECK_REFERENCE_FLOAT_FORMAT_H
#define TOOLS_CHECK_REFERENCE_FLOAT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tutti/tutti.h>

struct tti_check_format {
    int mantissa;  /* bits */
    int exponent;  /* bits */
    bool infinity; /* the highest exponent means infinity and NaN; otherwise only its last code is NaN (e4m3) */
};

/* NULL for integers and bool. */
const struct tti_check_format *tti_check_format_of(tutti_dtype dtype);
uint64_t tti_check_format_nan(const struct tti_check_format *f);      /* the canonical one */
uint64_t tti_check_format_infinity(const struct tti_check_format *f); /* NaN where there is none */
uint64_t tti_check_format_max(const struct tti_check_format *f);      /* largest finite value */
bool tti_check_format_is_nan(const struct tti_check_format *f, uint64_t bits);
double tti_check_format_decode(const struct tti_check_format *f, uint64_t bits);
/* Nearest, ties to even; overflow gives infinity, or NaN where there is none. Formats of up to 16 bits. */
uint64_t tti_check_format_encode(const struct tti_check_format *f, double value);

/* An element as bits. The library runs on little-endian machines only. */
/* Half of the suite's time would go into calls of memcpy with a length that the compiler does not know. */
static inline uint64_t tti_check_bits_load(const void *from, size_t item)
{
    uint64_t bits = 0;
    switch (item) {
    case 1:
        memcpy(&bits, from, 1);
        break;
    case 2:
        memcpy(&bits, from, 2);
        break;
    case 4:
        memcpy(&bits, from, 4);
        break;
    default:
        memcpy(&bits, from, 8);
    }
    return bits;
}

static inline void tti_check_bits_store(void *to, size_t item, uint64_t bits)
{
    switch (item) {
    case 1:
        memcpy(to, &bits, 1);
        break;
    case 2:
        memcpy(to, &bits, 2);
        break;
    case 4:
        memcpy(to, &bits, 4);
        break;
    default:
        memcpy(to, &bits, 8);
    }
}

#endif
