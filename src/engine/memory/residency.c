/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store fetches its line first. If that comes from memory, a store past the caches takes less time; if it comes from
 * a cache, more. Sizes do not tell: a program that uses many tensors in turn, or another library between two calls,
 * finds its outputs in memory although they would fit the caches. So a rank takes a few lines of the output before it
 * copies there. Cost: one locked operation after the other, 20 to 90 ns each if the line lies under the own
 * third-level cache, 120 to 600 if it does not (docs/decisions/0056).
 *
 * A result that went past the caches is cold in the next call, too, unless the program has read it. So one call in
 * CALLS has ordinary stores again, and the times in the call after it decide alone.
 */
#include "engine/memory/residency.h"

#include <stdatomic.h>

#include "base/host/cpu_ticks.h"

#define COLD_NS  110.0 /* a cold line takes so long at least */
#define FAULT_NS 700.0 /* and so long at most: else an interrupt came, or the page is new, as are all its lines */
#define WEIGHT   0.125 /* so small that one call of six in which a hot output seems cold changes nothing */
#define HOT      0.25  /* an output with fewer cold lines is hot, whatever the ones before were */
#define CALLS    16    /* so many that the one with ordinary stores costs little */

uint64_t tti_residency_pick(struct tti_residency *r, uint64_t bound)
{
    r->random = r->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407); /* of Knuth's MMIX */
    const uint64_t high = r->random >> 32;
    return high * (bound >> 32) + (high * (bound & UINT32_MAX) >> 32);
}

double tti_residency_measure(unsigned char *const *bytes, size_t count, double ticks_per_ns)
{
    size_t cold = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned char nothing = 0;
        __asm__("" : "+r"(nothing)); /* if Clang knew that it is 0, it would only load */
        const uint64_t before = tti_ticks_after_stores();
        /* takes the line as a store does, and is waited for as a load is; relaxed: no peer uses these bytes yet */
        atomic_fetch_add_explicit((_Atomic unsigned char *)bytes[i], nothing, memory_order_relaxed);
        const double ticks = (double)(tti_ticks() - before);
        cold += ticks >= COLD_NS * ticks_per_ns && ticks < FAULT_NS * ticks_per_ns;
    }
    return (double)cold / (double)count;
}

bool tti_residency_decide(struct tti_residency *r, double share, double enough)
{
    if (r->calls_left == 0) {
        r->cold = r->was_ordinary ? share : r->cold + WEIGHT * (share - r->cold);
        r->was_ordinary = false;
        if (r->cold < enough) {
            return false;
        }
        r->calls_left = CALLS;
    }
    r->calls_left--;
    r->was_ordinary = r->calls_left == 0;
    return !r->was_ordinary && share >= HOT;
}
