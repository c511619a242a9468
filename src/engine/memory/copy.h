/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of a call's data. They count the bytes that they load and store (lane->bytes_copied), and choose whether the
 * stores go past the caches. Inline: each call knows its length class.
 */
#ifndef TTI_ENGINE_MEMORY_COPY_H
#define TTI_ENGINE_MEMORY_COPY_H

#include "engine/lane.h"

/* Bytes that are copied twice, or folded and then copied, in one go: they stay in the caches next to the CPU meanwhile.
 * Each copy past the caches ends with a fence, so this is not smaller. */
#define TTI_TWICE_BYTES ((size_t)4 * TTI_PAGE)

/* memcpy uses ordinary stores up to here. Longer copies use string instructions, which gain nothing from lines that the
 * CPU's own caches have. */
#define TTI_PLAIN_BYTES ((size_t)1 << 10)

/* Bytes of a chunk from which on its lines are worth claiming. */
#define TTI_CLAIM_FROM ((size_t)2 * TTI_PAGE)

/* memcpy with a length that GCC does not know. If it knew, it would use rep movsq, which takes as long to begin as the
 * library takes for a kilobyte. */
static inline void tti_memcpy(void *dst, const void *src, size_t n)
{
    __asm__("" : "+r"(n));
    memcpy(dst, src, n);
}

/* Without the slow case that kernels/copy.c describes; shorter copies do not have it. */
static inline void tti_copy(void *dst, const void *src, size_t n)
{
    if (n == 0 || dst == src) {
        return;
    }
    if (n < TTI_PAGE / 2) {
        tti_memcpy(dst, src, n);
    } else {
        tti_copy_cached(dst, src, n);
    }
}

static inline void tti_copy_counted(struct tti_lane *lane, void *dst, const void *src, size_t n)
{
    if (n != 0 && dst != src) {
        tti_copy(dst, src, n);
        lane->bytes_copied += 2 * n;
    }
}

/* Into a tensor of the caller: past the caches if the results of this call leave them (caches.c). */
static inline void tti_copy_to_output(struct tti_lane *lane, void *dst, const void *src, size_t n)
{
    if (lane->streams && n >= TTI_PAGE && dst != src) {
        tti_copy_stream(dst, src, n);
        lane->bytes_copied += 2 * n;
    } else {
        tti_copy_counted(lane, dst, src, n);
    }
}

/* Makes this CPU the only owner of the lines of n bytes that only this rank reads. It stores a byte to each line. Their
 * content is not needed any more. On some CPUs (tuning.claims) a store to a line that another CPU has read takes
 * several times as long as one to a line that another CPU has stored to. So the next writer of these lines gains
 * (docs/decisions/0052). */
static inline void tti_claim_lines(const unsigned char *from, size_t n)
{
    unsigned char *const end = (unsigned char *)(uintptr_t)(from + n);
    for (unsigned char *line = end - n - (uintptr_t)from % 64; line < end; line += 64) {
        /* relaxed: what this rank publishes after its reads is behind this store, too */
        atomic_store_explicit((_Atomic unsigned char *)line, 0, memory_order_relaxed);
    }
}

/* Whether the own caches have these lines of the stage (memory/prefetch.c). */
static inline bool tti_has_lines(const struct tti_lane *lane, const unsigned char *span, size_t n)
{
    return span >= lane->stage->requested && span + n <= lane->stage->requested_end;
}

static inline void tti_copy_plain(unsigned char *dst, const unsigned char *src, size_t n)
{
    for (size_t at = 0; at < n; at += TTI_PLAIN_BYTES) {
        tti_memcpy(dst + at, src + at, n - at < TTI_PLAIN_BYTES ? n - at : TTI_PLAIN_BYTES);
    }
}

/* Into the own stage: past the caches if its readers are far away. */
static inline void tti_copy_to_stage(struct tti_lane *lane, void *span, const void *src, size_t n)
{
    if (tti_has_lines(lane, span, n)) {
        tti_copy_plain(span, src, n);
        lane->bytes_copied += 2 * n;
        return;
    }
    if (tti_stage_is_far(lane) && n >= TTI_PAGE / 2) {
        tti_copy_stream(span, src, n);
        lane->bytes_copied += 2 * n;
    } else {
        tti_copy_counted(lane, span, src, n);
    }
}

#endif
