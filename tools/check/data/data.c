/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data by counter: a stream of bytes of which word j is a mix of (key, j), cut into elements and then shaped to the
 * pattern. So any rank knows any other rank's data, from any element on, without keeping it.
 *
 * Shaping keeps as many random bits as the pattern allows, because every bit that is the same on all ranks is a bit in
 * which a wrong result may look right.
 */
#include "check/data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/reference/float_format.h"
#include "check/watchdog.h"

#define GOLDEN 0x9e3779b97f4a7c15u

uint64_t tti_check_mix(uint64_t key, uint64_t counter)
{
    /* splitmix64: good enough to make neighbours unlike each other, and cheap */
    uint64_t z = key + (counter + 1) * GOLDEN;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t tti_check_hash(const void *data, size_t bytes, uint64_t key)
{
    const unsigned char *p = data;
    uint64_t hash = tti_check_mix(key, bytes);
    while (bytes >= 8) {
        uint64_t word;
        memcpy(&word, p, sizeof(word));
        hash = (hash ^ word) * GOLDEN;
        hash ^= hash >> 29;
        p += 8;
        bytes -= 8;
    }
    uint64_t rest = 0;
    if (bytes > 0) {
        memcpy(&rest, p, bytes);
    }
    return tti_check_mix(hash ^ rest, 0);
}

uint64_t tti_check_rank_key(const struct tti_check *c, int rank)
{
    return tti_check_mix(c->key, (uint64_t)rank);
}

void *tti_check_memory(size_t bytes)
{
    void *memory = NULL;
    int errnum = posix_memalign(&memory, 64, bytes > 0 ? bytes : 1);
    if (errnum != 0) {
        fprintf(stderr, "tutti check: no memory for %zu bytes of test data\n", bytes);
        exit(1);
    }
    return memory;
}

static void raw_bytes(unsigned char *out, uint64_t key, uint64_t first, size_t bytes)
{
    uint64_t word_index = first / 8;
    const size_t skip = (size_t)(first % 8);
    if (skip > 0) {
        const uint64_t word = tti_check_mix(key, word_index++);
        const size_t n = bytes < 8 - skip ? bytes : 8 - skip;
        memcpy(out, (const unsigned char *)&word + skip, n);
        out += n;
        bytes -= n;
    }
    for (; bytes >= 8; bytes -= 8, out += 8) {
        const uint64_t word = tti_check_mix(key, word_index++);
        memcpy(out, &word, 8);
    }
    const uint64_t word = tti_check_mix(key, word_index);
    memcpy(out, &word, bytes);
}

/* Sign and mantissa stay random; the exponent becomes base + (a random number below 2^spread). */
static uint64_t with_exponent(const struct tti_check_format *f, uint64_t raw, uint64_t base, int spread)
{
    const uint64_t mask = ((uint64_t)1 << f->exponent) - 1;
    const uint64_t random = (raw >> f->mantissa) & (((uint64_t)1 << spread) - 1);
    return (raw & ~(mask << f->mantissa)) | (base + random) << f->mantissa;
}

static uint64_t special_float(const struct tti_check_format *f, uint64_t raw, uint64_t index)
{
    const uint64_t sign = (raw & 1) << (f->mantissa + f->exponent);
    const uint64_t least_normal = (uint64_t)1 << f->mantissa;
    const uint64_t choice = (raw >> 1) & 7;
    /* By index, so that all ranks have the same kind there: one NaN among eight ranks would hide everything else. */
    switch (index % 5) {
    case 0: /* zeros, sometimes -0 everywhere */
        return index % 3 == 0 ? (uint64_t)1 << (f->mantissa + f->exponent) : sign;
    case 1: /* around the smallest values */
        return sign | (choice < 3 ? raw & (least_normal - 1) : choice < 5 ? 1 : choice < 7 ? least_normal : 0);
    case 2: /* around the largest values */
        return sign | (choice < 5 ? tti_check_format_max(f) : least_normal + (raw & (least_normal - 1)));
    case 3: /* infinities (where there are any), mostly of one sign */
        if (choice < 2) {
            const uint64_t s = index % 2 == 0 ? sign : 0;
            return s | (f->infinity ? tti_check_format_infinity(f) : tti_check_format_max(f));
        }
        return with_exponent(f, raw, (uint64_t)1 << (f->exponent - 1), 1);
    default: /* anything, NaNs with payloads included */
        return choice < 1 ? sign | tti_check_format_nan(f) | (f->infinity ? raw & (least_normal - 1) : 0) : raw;
    }
}

static uint64_t shape_float(const struct tti_check_format *f, tutti_dtype dtype, enum tti_check_pattern pattern,
                            uint64_t raw, uint64_t index)
{
    const uint64_t bias = ((uint64_t)1 << (f->exponent - 1)) - 1;
    switch (pattern) {
    case TTI_CHECK_PLAIN:
        return with_exponent(f, raw, bias - 4, 3);
    case TTI_CHECK_FACTORS:
        return with_exponent(f, raw, bias - 1, 1);
    case TTI_CHECK_SPECIAL:
        return special_float(f, raw, index);
    case TTI_CHECK_LARGE: {
        /* The sum must fit the accumulator, which is f32 for the narrow ones: they may be as large as they can. */
        const bool own_accumulator = dtype == TUTTI_F64 || dtype == TUTTI_F32 || dtype == TUTTI_BF16;
        const uint64_t top = ((uint64_t)1 << f->exponent) - (f->infinity ? 2 : 1);
        const uint64_t mantissa = raw & (((uint64_t)1 << f->mantissa) - 1);
        const uint64_t value = (own_accumulator ? top - 12 : top) << f->mantissa | mantissa;
        return value > tti_check_format_max(f) ? tti_check_format_max(f) : value;
    }
    default:
        return raw;
    }
}

static uint64_t shape_integer(tutti_dtype dtype, size_t item, enum tti_check_pattern pattern, uint64_t raw,
                              uint64_t index)
{
    const bool is_signed = dtype >= TUTTI_I8 && dtype <= TUTTI_I64;
    const uint64_t all = item == 8 ? ~(uint64_t)0 : ((uint64_t)1 << (8 * item)) - 1;
    switch (pattern) {
    case TTI_CHECK_FACTORS:
        return index % 7 == 0 ? raw : raw | 1;
    case TTI_CHECK_LOGICAL: {
        /* mostly zero at one index in two, mostly not at the others; the sign bit must not matter */
        const bool rare = ((raw >> 3) & 7) == 0;
        const bool zero = index % 2 == 0 ? !rare : rare;
        return zero ? 0 : raw == 0 ? 1 : raw;
    }
    case TTI_CHECK_SMALL:
        if (item < 8) {
            return raw;
        }
        /* 12 bits of head room: the sum of up to 4096 ranks fits 64 bits */
        return is_signed ? (uint64_t)((int64_t)raw >> 12) : raw >> 12;
    case TTI_CHECK_SPECIAL: {
        const uint64_t least = is_signed ? (uint64_t)1 << (8 * item - 1) : 0;
        const uint64_t extremes[4] = {least, ~least & all, 0, all};
        return (raw & 7) < 6 ? extremes[(raw >> 3) & 3] : raw;
    }
    case TTI_CHECK_LARGE:
        if (item == 8) {
            return raw >> 12; /* head room, as above */
        }
        /* The upper bits are set, so that a few summands overflow; the random bits are below the highest 4. */
        return is_signed ? (raw & (all >> 4)) | (all >> 1 & ~(all >> 4)) : raw | (all & ~(all >> 4));
    default:
        return raw;
    }
}

void tti_check_generate(void *out, tutti_dtype dtype, enum tti_check_pattern pattern, uint64_t key, uint64_t first,
                        size_t count)
{
    const size_t item = tutti_dtype_size(dtype);
    unsigned char *bytes = out;
    tti_check_watchdog_step();
    raw_bytes(bytes, key, first * item, count * item);
    if (dtype == TUTTI_BOOL) {
        for (size_t i = 0; i < count; i++) {
            const uint64_t shaped = shape_integer(dtype, 1, TTI_CHECK_LOGICAL, bytes[i], first + i);
            bytes[i] = pattern == TTI_CHECK_LOGICAL ? shaped != 0 : bytes[i] & 1;
        }
        return;
    }
    if (pattern == TTI_CHECK_RAW) {
        return;
    }
    const struct tti_check_format *f = tti_check_format_of(dtype);
    if (dtype == TUTTI_F32 && pattern == TTI_CHECK_PLAIN) {
        /* the same as below, faster: for tens of MiB */
        for (size_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, bytes + 4 * i, 4);
            bits = (bits & 0x807fffffu) | ((127u - 4u + ((bits >> 23) & 7u)) << 23);
            memcpy(bytes + 4 * i, &bits, 4);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t raw = tti_check_bits_load(bytes + i * item, item);
        tti_check_bits_store(bytes + i * item, item,
                             f ? shape_float(f, dtype, pattern, raw, first + i)
                               : shape_integer(dtype, item, pattern, raw, first + i));
    }
}
