/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hashes that every rank computes alike, for tables and for names. Texts and bytes: FNV-1a, 64 bits (Fowler, Noll, Vo;
 * RFC 9923). None of them resists a collision that is made on purpose.
 */
#ifndef TTI_BASE_HASH_H
#define TTI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define TTI_HASH_EMPTY UINT64_C(0xcbf29ce484222325)

static inline uint64_t tti_hash_byte(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

static inline uint64_t tti_hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        hash = tti_hash_byte(hash, ((const unsigned char *)bytes)[i]);
    }
    return hash;
}

static inline uint64_t tti_hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++) {
        hash = tti_hash_byte(hash, (unsigned char)*text);
    }
    return hash;
}

/* The golden ratio spreads small numbers over all bits (Knuth, The Art of Computer Programming, volume 3, 6.4). */
static inline uint64_t tti_hash_number(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Both halves in one. */
static inline uint32_t tti_hash_fold(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

#endif
