/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores past the caches (non-temporal). An ordinary store first reads the line that it replaces, and evicts another
 * one. So a large output that is not read soon costs one transfer less past the caches. Only whole lines are written,
 * because partial ones cost more. aarch64 has only a hint (STNP), which the compiler does not offer: there this file is
 * empty.
 */
#include "kernels/isa/packs.h"

#if defined(__x86_64__)

TTI_INLINE void stream_pack(any_pack *to, u8_pack pack)
{
#if TTI_PACK == 64
    _mm512_stream_si512((void *)to, (__m512i)pack);
#elif TTI_PACK == 32
    _mm256_stream_si256((void *)to, (__m256i)pack);
#else
    _mm_stream_si128((void *)to, (__m128i)pack);
#endif
}

void TTI_ISA_NAME(tti_stream)(void *dst, const void *src, size_t lines)
{
    any_pack *to = dst;
    const any_pack *from = src;
    const size_t packs = TTI_STREAM_LINE / TTI_PACK;
    for (size_t i = 0; i < lines * packs; i += packs) {
        for (size_t j = 0; j < packs; j++) {
            stream_pack(&to[i + j], from[i + j]);
        }
    }
}

#endif
