/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the chunks of messages cost, as this rank measures it for one in TIMED_EVERY: far ranks choose between the ring
 * and the kernel by it (p2p/large/single_copy.c).
 *
 * And how far away the writer of the chunks is. On some CPUs the chunks to a far receiver go past the caches: its
 * copies of the lines are dropped without a transfer, and it finds the new ones in memory (docs/decisions/0054). Lines
 * in memory do not show where their writer is. So the receiver measures one record in SAMPLED_EVERY, whose chunk the
 * sender stores in the ordinary way.
 */
#include "engine/p2p/rings/chunk_times.h"

#include "base/host/cpu_ticks.h"
#include "engine/p2p/large/single_copy.h"
#include "engine/wait/publish.h"

#define LARGE         8192u /* bytes of a chunk: shorter ones are not measured, and not streamed */
#define TIMED_EVERY   16u   /* of those that do not begin a message, which are not read cold, or that are written */
#define SAMPLED_EVERY 16u   /* records, on average */
#define FAR_NS        90.0  /* to read a line that the sender has just written: near 25 to 65, far 110 to 350 */
#define HYSTERESIS    1.1

static bool distance_matters(const struct tti_engine *e)
{
    return tti_p2p_compares_costs(e) || e->tuning.stream_to_far != 0;
}

/* By a hash (Fibonacci hashing), so that no pattern of records keeps the large ones out. */
static bool is_sample(uint64_t number)
{
    return number * UINT64_C(0x9E3779B97F4A7C15) < UINT64_MAX / SAMPLED_EVERY;
}

bool tti_p2p_streams_chunk(const struct tti_engine *e, int peer, uint64_t number, size_t bytes)
{
    return e->tuning.stream_to_far != 0 && bytes >= LARGE && !is_sample(number) && tti_p2p_is_far_from(e, peer);
}

/* Measures how long it takes to read one line; the speed of many depends on other users of the core, too. The first
 * line of its page is read before, so that the TLB has the page; it is far enough away that the prefetcher does not
 * bring the measured line. */
void tti_p2p_sample_distance(struct tti_engine *e, int peer, const unsigned char *chunk, size_t bytes)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    if (!distance_matters(e) || bytes < LARGE || !is_sample(p->read + 1)) {
        return;
    }
    const uintptr_t middle = (uintptr_t)(chunk + bytes / 2);
    /* relaxed: the sender is known to have written them, and only the time counts */
    const _Atomic unsigned char *page = (const _Atomic unsigned char *)(chunk + bytes / 2 - middle % TTI_PAGE);
    (void)atomic_load_explicit(page, memory_order_relaxed);
    const uint64_t before = tti_ticks_after_stores();
    (void)atomic_load_explicit(page + TTI_PAGE / 2, memory_order_relaxed);
    tti_average(&p->line_ticks, (double)(tti_ticks() - before));
    const double ns = p->line_ticks / e->ticks_per_ns; /* below 0: not known */
    const bool was_far = p->far;
    p->far = ns > (was_far ? FAR_NS / HYSTERESIS : FAR_NS * HYSTERESIS);
    if (p->far != was_far) {
        tti_p2p_publish_costs(e, peer);
    }
}

/* 0: this copy is not measured. */
static uint64_t begin(const struct tti_engine *e, size_t bytes, uint32_t *chunks)
{
    const bool measures = tti_p2p_compares_costs(e) && bytes >= LARGE && (*chunks)++ % TIMED_EVERY == TIMED_EVERY / 2;
    return measures ? tti_ticks() : 0;
}

static void note_time(double *ticks_a_byte, uint64_t begun, size_t bytes)
{
    tti_average(ticks_a_byte, (double)(tti_ticks() - begun) / (double)bytes);
}

uint64_t tti_p2p_read_begin(struct tti_engine *e, int peer, size_t bytes)
{
    return begin(e, bytes, &e->p2p->peers[peer].chunks_read);
}

void tti_p2p_read_end(struct tti_engine *e, int peer, uint64_t begun, size_t bytes)
{
    note_time(&e->p2p->peers[peer].read_ticks, begun, bytes);
    tti_p2p_publish_costs(e, peer);
}

uint64_t tti_p2p_write_begin(struct tti_engine *e, int peer, size_t bytes)
{
    return begin(e, bytes, &e->p2p->peers[peer].chunks_written);
}

void tti_p2p_write_end(struct tti_engine *e, int peer, uint64_t begun, size_t bytes)
{
    note_time(&e->p2p->peers[peer].write_ticks, begun, bytes);
}
