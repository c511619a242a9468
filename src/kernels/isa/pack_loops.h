/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of folds that go by packs, written once. A template: a file includes it once per dtype with these names
 * defined
 *
 *     PACK_TYPE                  prefix of the names defined here, e.g. bf16
 *     PACK_SIZE                  bytes of an element
 *     PACK_VALUE                 type that accumulates the elements of a pack
 *     PACK_LOAD(op, pack)        pack -> value, exact
 *     PACK_STORE(op, value)      value -> pack: the one rounding, canonical NaN
 *     PACK_COMBINE(op, a, x)     one step of the left fold
 *     PACK_FACTOR(double)        a factor of PREMUL_SUM as a value
 *     PACK_DIVIDE(value, n)      AVG's division by the number of sources
 *     PACK_OPS(X)                the reduce ops to define functions for: X(SUM) X(MIN) ...
 *     PACK_GROUP                 packs whose values fit into the registers together
 *
 * It defines bf16_SUM(), ... of type tti_fold_function for each of PACK_OPS, and undefines the names.
 *
 * All sources are folded in registers; memory is read once and written once. For some numbers of sources, up to eight,
 * the loop over them is unrolled. For others it covers a group of packs. A rest shorter than a pack is part of the last
 * whole pack, which overlaps the one before. That pack is folded first, while the sources still have their elements,
 * because dst may be a source; it is stored last.
 */
#define PACK_NAME(name) TTI_JOIN(PACK_TYPE, name)

TTI_INLINE PACK_VALUE PACK_NAME(fetch)(u8_pack pack, const tutti_reduce_op op, const double *scales, size_t k)
{
    PACK_VALUE value = PACK_LOAD(op, pack);
    return op == TUTTI_PREMUL_SUM ? PACK_COMBINE(TUTTI_PRODUCT, value, PACK_FACTOR(scales[k])) : value;
}

TTI_INLINE u8_pack PACK_NAME(finish)(PACK_VALUE value, const tutti_reduce_op op, size_t n)
{
    if (op == TUTTI_AVG) {
        value = PACK_DIVIDE(value, n);
    }
    return PACK_STORE(op, value);
}

/* The pack at `offset` bytes of n sources. */
TTI_INLINE u8_pack PACK_NAME(one)(const void *const *src, size_t n, size_t offset, const tutti_reduce_op op,
                                  const double *scales)
{
    PACK_VALUE value = PACK_NAME(fetch)(*(const any_pack *)((const char *)src[0] + offset), op, scales, 0);
    for (size_t k = 1; k < n; k++) {
        const any_pack *const from = (const any_pack *)((const char *)src[k] + offset);
        value = PACK_COMBINE(op, value, PACK_NAME(fetch)(*from, op, scales, k));
    }
    return PACK_NAME(finish)(value, op, n);
}

/* PACK_GROUP packs at `offset` bytes of n sources. */
TTI_INLINE void PACK_NAME(group)(char *dst, const void *const *src, size_t n, size_t offset, const tutti_reduce_op op,
                                 const double *scales)
{
    PACK_VALUE value[PACK_GROUP];
    const any_pack *from = (const any_pack *)((const char *)src[0] + offset);
#pragma GCC unroll 4
    for (int i = 0; i < PACK_GROUP; i++) {
        value[i] = PACK_NAME(fetch)(from[i], op, scales, 0);
    }
    for (size_t k = 1; k < n; k++) {
        from = (const any_pack *)((const char *)src[k] + offset);
#pragma GCC unroll 4
        for (int i = 0; i < PACK_GROUP; i++) {
            value[i] = PACK_COMBINE(op, value[i], PACK_NAME(fetch)(from[i], op, scales, k));
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < PACK_GROUP; i++) {
        ((any_pack *)(dst + offset))[i] = PACK_NAME(finish)(value[i], op, n);
    }
}

/* Whole packs of any number of sources. */
TTI_INLINE void PACK_NAME(grouped)(char *dst, const void *const *src, size_t n, size_t bytes, const tutti_reduce_op op,
                                   const double *scales)
{
    const size_t size = PACK_GROUP * sizeof(any_pack);
    size_t done = 0;
    for (; bytes - done >= size; done += size) {
        PACK_NAME(group)(dst, src, n, done, op, scales);
    }
    for (; done < bytes; done += TTI_PACK) {
        *(any_pack *)(dst + done) = PACK_NAME(one)(src, n, done, op, scales);
    }
}

/* Fewer bytes than a pack. */
TTI_INLINE void PACK_NAME(part)(char *dst, const void *const *src, size_t n, size_t bytes, const tutti_reduce_op op,
                                const double *scales)
{
    PACK_VALUE value = PACK_NAME(fetch)(load_part(src[0], bytes), op, scales, 0);
    for (size_t k = 1; k < n; k++) {
        value = PACK_COMBINE(op, value, PACK_NAME(fetch)(load_part(src[k], bytes), op, scales, k));
    }
    store_part(dst, PACK_NAME(finish)(value, op, n), bytes);
}

/* Whole packs of n <= 8 sources; n is a constant. */
TTI_INLINE void PACK_NAME(direct)(char *dst, const void *const *src, const size_t n, size_t bytes,
                                  const tutti_reduce_op op, const double *scales)
{
    const char *from[8];
    PACK_VALUE factor[8];
    for (size_t k = 0; k < n; k++) {
        from[k] = src[k];
        factor[k] = PACK_FACTOR(op == TUTTI_PREMUL_SUM ? scales[k] : 1.0);
    }
    for (size_t i = 0; i < bytes; i += TTI_PACK) {
        PACK_VALUE value;
        for (size_t k = 0; k < n; k++) {
            PACK_VALUE x = PACK_LOAD(op, *(const any_pack *)(from[k] + i));
            if (op == TUTTI_PREMUL_SUM) {
                x = PACK_COMBINE(TUTTI_PRODUCT, x, factor[k]);
            }
            value = k == 0 ? x : PACK_COMBINE(op, value, x);
        }
        *(any_pack *)(dst + i) = PACK_NAME(finish)(value, op, n);
    }
}

/* At least a pack, or a part of one that is not 8 bytes. */
TTI_INLINE void PACK_NAME(run)(char *dst, const void *const *src, size_t n, size_t bytes, const tutti_reduce_op op,
                               const double *scales)
{
    if (bytes < TTI_PACK) {
        PACK_NAME(part)(dst, src, n, bytes, op, scales);
        return;
    }
    const size_t whole = bytes - bytes % TTI_PACK;
    u8_pack last = {0};
    if (whole < bytes) {
        last = PACK_NAME(one)(src, n, bytes - TTI_PACK, op, scales);
    }
    switch (n) {
    case 2:
        PACK_NAME(direct)(dst, src, 2, whole, op, scales);
        break;
    case 3:
        PACK_NAME(direct)(dst, src, 3, whole, op, scales);
        break;
    case 4:
        PACK_NAME(direct)(dst, src, 4, whole, op, scales);
        break;
    case 8:
        PACK_NAME(direct)(dst, src, 8, whole, op, scales);
        break;
    default:
        PACK_NAME(grouped)(dst, src, n, whole, op, scales);
    }
    if (whole < bytes) {
        *(any_pack *)(dst + bytes - TTI_PACK) = last;
    }
}

/* Eight bytes are the most frequent small size: this function has no loops and saves no registers. */
#define PACK_FUNCTION(op)                                                                                              \
    __attribute__((noinline)) static void PACK_NAME(op##_run)(void *dst, const void *const *src, size_t n,             \
                                                              size_t bytes, const double *scales)                      \
    {                                                                                                                  \
        PACK_NAME(run)(dst, src, n, bytes, TUTTI_##op, scales);                                                        \
    }                                                                                                                  \
    static void PACK_NAME(op)(void *dst, const void *const *src, size_t n, size_t count, const double *scales)         \
    {                                                                                                                  \
        if (PACK_SIZE * count == 8) {                                                                                  \
            PACK_NAME(part)(dst, src, n, 8, TUTTI_##op, scales);                                                       \
        } else {                                                                                                       \
            PACK_NAME(op##_run)(dst, src, n, PACK_SIZE * count, scales);                                               \
        }                                                                                                              \
    }
PACK_OPS(PACK_FUNCTION)
#undef PACK_FUNCTION

#undef PACK_NAME
#undef PACK_TYPE
#undef PACK_SIZE
#undef PACK_VALUE
#undef PACK_LOAD
#undef PACK_STORE
#undef PACK_COMBINE
#undef PACK_FACTOR
#undef PACK_DIVIDE
#undef PACK_OPS
#undef PACK_GROUP
