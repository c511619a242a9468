/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of every fold, written once. A template: a file includes it once per dtype with these names defined
 *
 *     FOLD_TYPE                  prefix of what is defined here, e.g. bf16
 *     FOLD_ELEMENT               type of one element in memory; any alignment, may alias anything
 *     FOLD_VALUE                 type that accumulates
 *     FOLD_LOAD(element)         element -> value, exact
 *     FOLD_STORE(value)          value -> element: the one rounding, canonical NaN
 *     FOLD_COMBINE(op, a, x)     one step of the left fold
 *     FOLD_FACTOR(double)        a factor of PREMUL_SUM, or the divisor of AVG, as a value
 *     FOLD_OPS(X)                the reduce ops to define functions for: X(SUM) X(MIN) ...; may be left out
 *
 * It defines bf16_run(), which folds elements first..count-1 by a constant op, and bf16_SUM(), ... of type
 * tti_fold_function for each of FOLD_OPS; and undefines the names.
 *
 * Up to four sources are folded in registers: memory is read once and written once. More go through a tile of
 * accumulators that stays in the first-level cache, so memory is still read once, and code size does not grow with the
 * number of ranks. All loops are vectorised by the compiler. TTI_INDEPENDENT is true because dst may be a source, but
 * only exactly: element i of dst is written after element i of every source was read, and no iteration reads another's.
 */
#define FOLD_NAME(name) TTI_JOIN(FOLD_TYPE, name)

TTI_INLINE FOLD_VALUE FOLD_NAME(fetch)(const FOLD_ELEMENT *p, const tutti_reduce_op op, FOLD_VALUE scale)
{
    FOLD_VALUE value = FOLD_LOAD(*p);
    return op == TUTTI_PREMUL_SUM ? FOLD_COMBINE(TUTTI_PRODUCT, value, scale) : value;
}

/* The factor of source k; only PREMUL_SUM has factors. */
TTI_INLINE FOLD_VALUE FOLD_NAME(source_factor)(const tutti_reduce_op op, const double *scales, size_t k)
{
    return FOLD_FACTOR(op == TUTTI_PREMUL_SUM ? scales[k] : 1.0);
}

TTI_INLINE FOLD_ELEMENT FOLD_NAME(finish)(const tutti_reduce_op op, FOLD_VALUE value, size_t n)
{
    if (op == TUTTI_AVG) {
        value = (FOLD_VALUE)(value / FOLD_FACTOR((double)n));
    }
    return FOLD_STORE(value);
}

/* Elements first..count-1 of n <= 4 sources; n is a constant. */
TTI_INLINE void FOLD_NAME(direct)(FOLD_ELEMENT *dst, const void *const *src, const size_t n, size_t first, size_t count,
                                  const tutti_reduce_op op, const double *scales)
{
    const FOLD_ELEMENT *from[4];
    FOLD_VALUE scale[4];
    for (size_t k = 0; k < n; k++) {
        from[k] = src[k];
        scale[k] = FOLD_NAME(source_factor)(op, scales, k);
    }
    TTI_INDEPENDENT
    for (size_t i = first; i < count; i++) {
        FOLD_VALUE value = FOLD_NAME(fetch)(&from[0][i], op, scale[0]);
        for (size_t k = 1; k < n; k++) {
            value = FOLD_COMBINE(op, value, FOLD_NAME(fetch)(&from[k][i], op, scale[k]));
        }
        dst[i] = FOLD_NAME(finish)(op, value, n);
    }
}

/* Elements first..count-1 of any number of sources. */
TTI_INLINE void FOLD_NAME(tiled)(FOLD_ELEMENT *dst, const void *const *src, size_t n, size_t first, size_t count,
                                 const tutti_reduce_op op, const double *scales)
{
    FOLD_VALUE tile[4096 / sizeof(FOLD_VALUE)];
    const size_t size = sizeof(tile) / sizeof(tile[0]);
    for (size_t done = first; done < count; done += size) {
        const size_t part = count - done < size ? count - done : size;
        const FOLD_ELEMENT *from = (const FOLD_ELEMENT *)src[0] + done;
        FOLD_VALUE scale = FOLD_NAME(source_factor)(op, scales, 0);
        TTI_INDEPENDENT
        for (size_t i = 0; i < part; i++) {
            tile[i] = FOLD_NAME(fetch)(&from[i], op, scale);
        }
        for (size_t k = 1; k < n; k++) {
            from = (const FOLD_ELEMENT *)src[k] + done;
            /* Emits nothing, but hides where `from` comes from: GCC would else fuse the loops of two sources
             * (unroll-and-jam) into one that it does not vectorise, which is five times slower. */
            __asm__ volatile("" : "+r"(from));
            scale = FOLD_NAME(source_factor)(op, scales, k);
            TTI_INDEPENDENT
            for (size_t i = 0; i < part; i++) {
                tile[i] = FOLD_COMBINE(op, tile[i], FOLD_NAME(fetch)(&from[i], op, scale));
            }
        }
        TTI_INDEPENDENT
        for (size_t i = 0; i < part; i++) {
            dst[done + i] = FOLD_NAME(finish)(op, tile[i], n);
        }
    }
}

TTI_INLINE void FOLD_NAME(run)(void *dst, const void *const *src, size_t n, size_t first, size_t count,
                               const tutti_reduce_op op, const double *scales)
{
    switch (n) {
    case 2:
        FOLD_NAME(direct)(dst, src, 2, first, count, op, scales);
        break;
    case 3:
        FOLD_NAME(direct)(dst, src, 3, first, count, op, scales);
        break;
    case 4:
        FOLD_NAME(direct)(dst, src, 4, first, count, op, scales);
        break;
    default:
        FOLD_NAME(tiled)(dst, src, n, first, count, op, scales);
    }
}

#ifdef FOLD_OPS
#define FOLD_FUNCTION(op)                                                                                              \
    static void FOLD_NAME(op)(void *dst, const void *const *src, size_t n, size_t count, const double *scales)         \
    {                                                                                                                  \
        FOLD_NAME(run)(dst, src, n, 0, count, TUTTI_##op, scales);                                                     \
    }
FOLD_OPS(FOLD_FUNCTION)
#undef FOLD_FUNCTION
#undef FOLD_OPS
#endif

#undef FOLD_NAME
#undef FOLD_TYPE
#undef FOLD_ELEMENT
#undef FOLD_VALUE
#undef FOLD_LOAD
#undef FOLD_STORE
#undef FOLD_COMBINE
#undef FOLD_FACTOR
