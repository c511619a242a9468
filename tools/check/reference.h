/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a reduction should give, computed without the library: the exact left fold that the design prescribes, and beside
 * it the value in long double with an error bound, for engines that promise less.
 */
#ifndef TTI_CHECK_REFERENCE_H
#define TTI_CHECK_REFERENCE_H

#include "check/check.h"

/* ---- reference_float.c: floating-point formats by their definition ---- */

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

uint64_t tti_check_bits_load(const void *from, size_t item);
void tti_check_bits_store(void *to, size_t item, uint64_t bits);

/* ---- reference.c: folds ---- */

#define TTI_CHECK_BLOCK 2048

/* The fold of a block of elements; feed it rank by rank. */
struct tti_check_fold {
    tutti_dtype dtype;
    tutti_reduce_op op;
    int sources; /* so far */
    size_t count;
    union {
        float f32[TTI_CHECK_BLOCK];
        double f64[TTI_CHECK_BLOCK];
        uint64_t u64[TTI_CHECK_BLOCK];
    } accumulator;
    bool drops_nan;                    /* minimum and maximum may leave NaNs out */
    bool bounded;                      /* also keep what follows */
    long double wide[TTI_CHECK_BLOCK]; /* of minimum and maximum: those of the numbers alone */
    long double magnitude[TTI_CHECK_BLOCK];
    long double most[TTI_CHECK_BLOCK];  /* no partial result of what is finite is larger, whatever the order */
    long double least[TTI_CHECK_BLOCK]; /* products: ... or smaller */
};

void tti_check_fold_start(struct tti_check_fold *fold, tutti_dtype dtype, tutti_reduce_op op, size_t count,
                          bool bounded);
void tti_check_fold_add(struct tti_check_fold *fold, const void *source, double scale);
/* The exact result. */
void tti_check_fold_finish(const struct tti_check_fold *fold, void *out);
/* Whether `got` (an element's bits) is within the bound of element i. */
bool tti_check_fold_close(const struct tti_check_fold *fold, size_t i, uint64_t exact, uint64_t got);

#endif
