/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of folds of integers, written once; those of floats are in pack_loops.h. A template: a file includes it
 * once per dtype with these names defined
 *
 *     FOLD_TYPE                  prefix of the names defined here, e.g. u8
 *     FOLD_ELEMENT               type of one element in memory; any alignment, may alias anything
 *     FOLD_VALUE                 type that accumulates
 *     FOLD_LOAD(element)         element -> value
 *     FOLD_STORE(value)          value -> element
 *     FOLD_COMBINE(op, a, x)     one step of the left fold
 *     FOLD_FACTOR(double)        a factor of PREMUL_SUM, or the divisor of AVG, as a value
 *     FOLD_OPS(X)                the reduce ops to define functions for: X(SUM) X(MIN) ...
 *
 * It defines u8_SUM(), ... of type tti_fold_function for each of FOLD_OPS, and undefines the names.
 *
 * Up to four sources are folded in registers: memory is read once and written once. More sources are folded four at a
 * time in a tile of accumulators in the first-level cache, so memory is still read once, and the code does not grow
 * with the number of ranks. The compiler vectorises all loops. TTI_INDEPENDENT holds because dst is a source only
 * exactly: element i of dst is written after element i of every source was read, and no iteration reads another's
 * element.
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

/* All elements of n <= 4 sources; n is a constant. */
TTI_INLINE void FOLD_NAME(direct)(FOLD_ELEMENT *dst, const void *const *src, const size_t n, size_t count,
                                  const tutti_reduce_op op, const double *scales)
{
    const FOLD_ELEMENT *from[4];
    FOLD_VALUE scale[4];
    for (size_t k = 0; k < n; k++) {
        from[k] = src[k];
        scale[k] = FOLD_NAME(source_factor)(op, scales, k);
    }
    TTI_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        FOLD_VALUE value = FOLD_NAME(fetch)(&from[0][i], op, scale[0]);
        for (size_t k = 1; k < n; k++) {
            value = FOLD_COMBINE(op, value, FOLD_NAME(fetch)(&from[k][i], op, scale[k]));
        }
        dst[i] = FOLD_NAME(finish)(op, value, n);
    }
}

/* tile[i] = the fold of `step` sources from source k on; unless k is the first one, of itself before them. `step` and
 * `first` are constants. */
TTI_INLINE void FOLD_NAME(onto_tile)(FOLD_VALUE *tile, const void *const *src, size_t k, const size_t step,
                                     const bool first, size_t from, size_t count, const tutti_reduce_op op,
                                     const double *scales)
{
    const FOLD_ELEMENT *source[4];
    FOLD_VALUE scale[4];
    for (size_t j = 0; j < step; j++) {
        source[j] = (const FOLD_ELEMENT *)src[k + j] + from;
        /* Emits nothing, but hides the pointer's origin: GCC else fuses the loops of two calls (unroll-and-jam) into
         * one that it does not vectorise, five times slower. */
        __asm__ volatile("" : "+r"(source[j]));
        scale[j] = FOLD_NAME(source_factor)(op, scales, k + j);
    }
    TTI_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        FOLD_VALUE value = first ? FOLD_NAME(fetch)(&source[0][i], op, scale[0]) : tile[i];
        for (size_t j = first; j < step; j++) {
            value = FOLD_COMBINE(op, value, FOLD_NAME(fetch)(&source[j][i], op, scale[j]));
        }
        tile[i] = value;
    }
}

/* All elements of n > 4 sources. */
TTI_INLINE void FOLD_NAME(tiled)(FOLD_ELEMENT *dst, const void *const *src, size_t n, size_t count,
                                 const tutti_reduce_op op, const double *scales)
{
    FOLD_VALUE tile[4096 / sizeof(FOLD_VALUE)];
    const size_t size = sizeof(tile) / sizeof(tile[0]);
    for (size_t done = 0; done < count; done += size) {
        const size_t part = count - done < size ? count - done : size;
        size_t k = 4;
        FOLD_NAME(onto_tile)(tile, src, 0, 4, true, done, part, op, scales);
        for (; k + 4 <= n; k += 4) {
            FOLD_NAME(onto_tile)(tile, src, k, 4, false, done, part, op, scales);
        }
        for (; k < n; k++) {
            FOLD_NAME(onto_tile)(tile, src, k, 1, false, done, part, op, scales);
        }
        TTI_INDEPENDENT
        for (size_t i = 0; i < part; i++) {
            dst[done + i] = FOLD_NAME(finish)(op, tile[i], n);
        }
    }
}

TTI_INLINE void FOLD_NAME(run)(void *dst, const void *const *src, size_t n, size_t count, const tutti_reduce_op op,
                               const double *scales)
{
    switch (n) {
    case 1:
        FOLD_NAME(direct)(dst, src, 1, count, op, scales);
        break;
    case 2:
        FOLD_NAME(direct)(dst, src, 2, count, op, scales);
        break;
    case 3:
        FOLD_NAME(direct)(dst, src, 3, count, op, scales);
        break;
    case 4:
        FOLD_NAME(direct)(dst, src, 4, count, op, scales);
        break;
    default:
        FOLD_NAME(tiled)(dst, src, n, count, op, scales);
    }
}

#define FOLD_FUNCTION(op)                                                                                              \
    static void FOLD_NAME(op)(void *dst, const void *const *src, size_t n, size_t count, const double *scales)         \
    {                                                                                                                  \
        FOLD_NAME(run)(dst, src, n, count, TUTTI_##op, scales);                                                        \
    }
FOLD_OPS(FOLD_FUNCTION)
#undef FOLD_FUNCTION
#undef FOLD_OPS

#undef FOLD_NAME
#undef FOLD_TYPE
#undef FOLD_ELEMENT
#undef FOLD_VALUE
#undef FOLD_LOAD
#undef FOLD_STORE
#undef FOLD_COMBINE
#undef FOLD_FACTOR
