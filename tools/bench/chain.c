/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chain: every rank sleeps on a word of its own; rank i wakes rank i + 1, and the last one wakes rank 0. In a round
 * each rank runs once, as it has to in any collective where all wait for all. So much a library needs that only ever
 * sleeps where ranks outnumber CPUs; one that yields can be quicker.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/roofline/roofline.h"

#define TRIALS    16
#define ROUNDS    8                 /* in a trial */
#define BUDGET_NS INT64_C(20000000) /* for all of them */
#define PATIENCE  2                 /* seconds; then the rank before is thought to be gone */

struct tti_chain_line {
    _Alignas(128) _Atomic(uint32_t) word; /* release by the rank before, acquire by its own */
};

/* A word: the number of the round, and whether rank 0 wants no more behind it. */
static uint32_t word_of(uint32_t round, bool last)
{
    return round * 2 + last;
}

void tti_chain_open(const struct tti_bench *b, const struct tti_roofline_page *page, struct tti_chain *chain)
{
    *chain = (struct tti_chain){.mapped = page->mapped, .known = page->memory && b->shares_cpu};
    if (page->memory) {
        chain->lines = (struct tti_chain_line *)(page->memory + TTI_ROOFLINE_HOP);
    }
}

static void wake(const struct tti_chain *chain, int rank, uint32_t word)
{
    atomic_store_explicit(&chain->lines[rank].word, word, memory_order_release);
    syscall(SYS_futex, &chain->lines[rank].word, FUTEX_WAKE | (chain->mapped ? 0 : FUTEX_PRIVATE_FLAG), 1, NULL, NULL,
            0);
}

/* Sleeps until the own word has come as far, and returns it; 0 if it does not come. */
static uint32_t sleep_until(const struct tti_chain *chain, int rank, uint32_t round)
{
    _Atomic(uint32_t) *own = &chain->lines[rank].word;
    const struct timespec patience = {.tv_sec = PATIENCE};
    const int command = FUTEX_WAIT | (chain->mapped ? 0 : FUTEX_PRIVATE_FLAG);
    for (bool late = false;;) {
        const uint32_t word = atomic_load_explicit(own, memory_order_acquire);
        if (word >= word_of(round, false)) {
            return word;
        }
        if (late) {
            return 0;
        }
        late = syscall(SYS_futex, own, command, word, &patience, NULL, 0) != 0 && errno == ETIMEDOUT;
    }
}

/* The quickest of a few trials; INT64_MAX if a rank does not come. */
static int64_t run_first(struct tti_chain *chain)
{
    const int64_t begin = tti_now_ns();
    int64_t best = INT64_MAX;
    int64_t start = begin;
    for (int done = 1;; done++) {
        const bool last = done == TRIALS * ROUNDS || (done % ROUNDS == 0 && start - begin > BUDGET_NS);
        chain->round++;
        wake(chain, 1, word_of(chain->round, last));
        if (sleep_until(chain, 0, chain->round) == 0) {
            return INT64_MAX;
        }
        if (done % ROUNDS == 0) {
            const int64_t now = tti_now_ns();
            best = now - start < best ? now - start : best;
            start = now;
        }
        if (last) {
            return best;
        }
    }
}

/* Passes on what comes. */
static int64_t run_other(const struct tti_bench *b, struct tti_chain *chain)
{
    for (;;) {
        chain->round++;
        const uint32_t word = sleep_until(chain, b->rank, chain->round);
        if (word == 0) {
            return INT64_MAX;
        }
        wake(chain, (b->rank + 1) % b->size, word);
        if (word == word_of(chain->round, true)) {
            return 0;
        }
    }
}

tutti_status tti_chain_measure(struct tti_bench *b, struct tti_chain *chain, double *us)
{
    *us = 0;
    if (!chain->known) {
        return TUTTI_OK;
    }
    int64_t start;
    tutti_status status = tti_bench_barrier(b, &start);
    int64_t best = status != TUTTI_OK ? 0 : b->rank == 0 ? run_first(chain) : run_other(b, chain);
    if (status == TUTTI_OK) {
        status = tti_bench_agree(b, &best, 1, TUTTI_MAX);
    }
    chain->known = status == TUTTI_OK && best != INT64_MAX;
    *us = chain->known ? (double)best / 1000 / ROUNDS : 0;
    return status;
}
