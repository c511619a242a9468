/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hop: ranks 0 and 1 store into a line of their own and wait for the other's, again and again, as the smallest
 * all_reduce of two ranks would. The time of one exchange shows where the two run: virtual CPUs may be threads of one
 * core in one minute and lie far apart in the next, and times of both states must not be compared.
 */
#include "bench/roofline/roofline.h"

#include <assert.h>
#include <sched.h>

#include "base/clock.h"
#include "bench/measure/agree.h"

#define LINE       128 /* two cache lines, which some CPUs fetch together */
#define TRIALS     16
#define EXCHANGES  32                  /* in a trial */
#define BUDGET_NS  INT64_C(1000000)    /* for all of them: ranks that share a CPU take microseconds for each */
#define TIMEOUT_NS INT64_C(2000000000) /* ns; then the other rank counts as gone */
#define YIELD      256                 /* readings of the other's line between two yields: it may need this CPU ... */
#define ASK_CLOCK  4096                /* ... and between two readings of the clock */

struct tti_hop_page {
    struct {
        _Alignas(LINE) _Atomic(uint64_t) word; /* release by its rank, acquire by the other */
    } lines[2];
};

/* The value that a rank stores: the number of the exchange, and whether it is rank 0's last one. */
static uint64_t word_of(uint64_t sequence, bool last)
{
    return sequence * 2 + last;
}

void tti_hop_open(const struct tti_bench *b, const struct tti_bench_page *page, struct tti_hop *hop)
{
    *hop = (struct tti_hop){.page = (struct tti_hop_page *)page->memory, .known = page->memory && b->size > 1};
    static_assert(sizeof(struct tti_hop_page) <= TTI_BENCH_PAGE, "one page holds both lines");
}

/* The other rank's value, once it has reached that exchange; 0 if the other rank does not arrive. */
static uint64_t wait_for(const struct tti_bench *b, const _Atomic(uint64_t) *other, uint64_t sequence)
{
    int64_t since = 0;
    for (uint64_t polls = 1;; polls++) {
        const uint64_t word = atomic_load_explicit(other, memory_order_acquire);
        if (word >= word_of(sequence, false)) {
            return word;
        }
        if (b->shares_cpu || polls % YIELD == 0) {
            sched_yield();
        }
        if (polls % ASK_CLOCK == 0) {
            const int64_t now = tti_now_ns();
            since = since == 0 ? now : since;
            if (now - since > TIMEOUT_NS) {
                return 0;
            }
        }
    }
}

/*
 * The fastest of a few trials, in picoseconds; INT64_MAX if the other rank does not arrive. Rank 0 decides which
 * exchange is the last. Rank 1 may read that value one exchange early, but never more: rank 0 waits for rank 1 in each
 * exchange.
 */
static int64_t run_trials(const struct tti_bench *b, struct tti_hop *hop)
{
    _Atomic(uint64_t) *mine = &hop->page->lines[b->rank].word;
    const _Atomic(uint64_t) *other = &hop->page->lines[1 - b->rank].word;
    const int64_t begin = tti_now_ns();
    int64_t best = INT64_MAX - 1;
    int64_t start = begin;
    uint64_t last = UINT64_MAX;
    for (int done = 1; hop->sequence != last; done++) {
        const bool enough = done == TRIALS * EXCHANGES || (done % EXCHANGES == 0 && start - begin > BUDGET_NS);
        hop->sequence++;
        last = b->rank == 0 && enough ? hop->sequence : last;
        atomic_store_explicit(mine, word_of(hop->sequence, b->rank == 0 && enough), memory_order_release);
        const uint64_t word = wait_for(b, other, hop->sequence);
        if (word == 0) {
            return INT64_MAX;
        }
        last = word % 2 == 1 ? word / 2 : last;
        if (done % EXCHANGES == 0) {
            const int64_t now = tti_now_ns();
            const int64_t each = (now - start) * 1000 / EXCHANGES;
            best = each < best ? each : best;
            start = now;
        }
    }
    return best;
}

bool tti_hop_measure(struct tti_bench *b, struct tti_hop *hop, double *ns)
{
    *ns = 0;
    if (!hop->known) {
        return true;
    }
    int64_t start;
    if (!tti_bench_barrier(b, &start, false)) {
        return false;
    }
    int64_t each = b->rank < 2 ? run_trials(b, hop) : 0;
    const bool good = tti_bench_agree(b, &each, 1, TUTTI_MAX);
    hop->known = good && each != INT64_MAX;
    *ns = hop->known ? (double)each / 1000 : 0;
    return good;
}
