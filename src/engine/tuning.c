/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/tuning.h"

#include <stddef.h>
#include <unistd.h>

#include "engine/layout.h"

#define KIB UINT64_C(1024)

#define WINDOWS    8   /* of a stage: see TTI_STAGE_SPANS */
#define LEAST_SLOT 128 /* scatter and all_to_all give each rank a slot of a window */

/*
 * The stage is a ring, and it has to be larger than the second-level caches: then a line that is written again has been
 * evicted by its reader meanwhile, and the writer need not take it away from another core. Measured with two ranks, that
 * makes copying in 2 to 10 times faster than reusing a few hot windows. On the other hand the stages of all ranks together
 * should stay inside the third-level cache.
 */
static uint64_t stage_for(int size)
{
    return size <= 8 ? 2048 * KIB : 1024 * KIB;
}

static uint64_t power_of_two(uint64_t least)
{
    uint64_t power = 1;
    while (power < least) {
        power *= 2;
    }
    return power;
}

/* Measured with two ranks: packets win up to some six lines in all wherever the two run, and up to a KiB if these share a
 * third-level cache; beyond they lose to a stage whose lines no other core holds. */
static uint64_t packets_for(int size)
{
    return size <= 64 ? TTI_PAYLOAD + 4 * TTI_PACKET_DATA : 0;
}

static uint64_t one_shot_for(int size)
{
    return size <= 3 ? 32 * KIB : size <= 8 ? 4 * KIB : 512;
}

/* The last-level cache, which the C library knows of x86 only. */
static uint64_t cache_bytes(void)
{
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (uint64_t)bytes : 32 * KIB * KIB;
}

void tti_tuning_make(int size, const struct tti_tuning_wishes *wishes, struct tti_tuning *tuning)
{
    uint64_t stage = wishes->stage > 0 ? (uint64_t)wishes->stage : stage_for(size);
    uint64_t window = wishes->window > 0 ? (uint64_t)wishes->window : stage / WINDOWS;
    uint64_t least = (uint64_t)size * LEAST_SLOT;
    window = window < least ? least : window;
    window =
        (window + 8 * KIB - 1) / (8 * KIB) * (8 * KIB); /* so that TTI_STAGE_SPANS hold of window and slice, in pages */
    if (stage < WINDOWS * window || (wishes->window > 0 && wishes->stage <= 0)) {
        stage = WINDOWS * window;
    }
    stage = power_of_two(stage);
    uint64_t far = wishes->stage > 0 || wishes->window > 0 ? 0 : 4 * stage;
    uint64_t packets = wishes->packets >= 0 ? (uint64_t)wishes->packets : packets_for(size);
    uint64_t one_shot = wishes->one_shot >= 0 ? (uint64_t)wishes->one_shot : one_shot_for(size);
    *tuning = (struct tti_tuning){.stage = stage,
                                  .far = far,
                                  .window = window,
                                  .packets = packets < TTI_INLINE_MOST ? packets : TTI_INLINE_MOST,
                                  .one_shot = one_shot < window ? one_shot : window,
                                  .stream = wishes->stream >= 0 ? (uint64_t)wishes->stream : cache_bytes(),
                                  .zero_copy = wishes->zero_copy >= 0 ? (uint64_t)wishes->zero_copy : 4 * KIB};
}
