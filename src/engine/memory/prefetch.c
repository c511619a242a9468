/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requesting the lines of the next span. The lines that a call writes into the small ring lie in the caches of their
 * last readers. Stores become visible in order, so the arrival waits until the writer has taken all of them back: for
 * 4 KiB that takes longer than everything else in the call. So at its end a rank requests the lines that the next call
 * will write, and they arrive while the program computes (docs/decisions/0046).
 *
 * A call that follows at once gains nothing and pays for the requests, so a rank makes them only if the program has
 * paused for PAUSE_NS before the call. Far readers gain nothing either, and virtual CPUs move: the rank times one write
 * in SAMPLE_EVERY calls. The requests are hints. A reader that still reads the lines fetches them again.
 */
#include "engine/memory/prefetch.h"

#include "base/host/cpu_prefetch.h"
#include "base/host/cpu_ticks.h"
#include "engine/memory/stage.h"
#include "engine/wait/publish.h"

#define PAUSE_NS     1000.0
#define NEAR_NS      100.0 /* a write to a line that near readers have: 30 to 60 here; far 150 to 190 */
#define SAMPLE_EVERY 64
#define SAMPLED      4 /* calls ago: all readers have seen that arrival, and still have its line */

void tti_prefetch_note_pause(struct tti_lane *lane)
{
    struct tti_stage *s = lane->stage;
    s->paused = (double)(tti_ticks_about() - s->ended) >= PAUSE_NS * lane->engine->ticks_per_ns;
}

static void sample_distance(struct tti_lane *lane)
{
    struct tti_arrival *arrival = tti_arrival_of(lane, lane->engine->rank, lane->call - SAMPLED);
    uint64_t nothing = 0;
    __asm__("" : "+r"(nothing)); /* if Clang knew that it is 0, it would only load */
    const uint64_t before = tti_ticks_after_stores();
    /* relaxed: the value stays, so no reader can tell */
    atomic_fetch_add_explicit(&arrival->sequence, nothing, memory_order_relaxed);
    tti_average(&lane->publish_ticks, (double)(tti_ticks() - before));
}

static bool readers_are_near(const struct tti_lane *lane)
{
    return lane->publish_ticks > 0 && lane->publish_ticks < NEAR_NS * lane->engine->ticks_per_ns;
}

void tti_prefetch_request(struct tti_lane *lane, size_t bytes)
{
    struct tti_stage *s = lane->stage;
    if (lane->publications++ % SAMPLE_EVERY == 0 && lane->call > SAMPLED) {
        sample_distance(lane);
    }
    s->requested = NULL;
    s->requested_end = NULL;
    if (s->paused && readers_are_near(lane)) {
        size_t most;
        s->requested = tti_stage_next(lane, &most);
        s->requested_end = s->requested + (bytes < most ? bytes : most);
        for (const unsigned char *line = s->requested; line < s->requested_end; line += 64) {
            tti_prefetch_to_write(line);
        }
    }
    s->ended = tti_ticks_about();
}
