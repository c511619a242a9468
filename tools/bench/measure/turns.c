/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A yield passes the CPU on only within a scheduling group, and mpiexec may give each rank a session, and so a group,
 * of its own. A rank that has ended its call and yields there in the next library's call can hold up another rank,
 * which has not ended its own, for milliseconds: see docs/bench.md. So a rank sleeps here where its yields are in vain.
 */
#include "bench/measure/turns.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait/yielding.h"
#include "bench/measure/page.h"

#define YIELDS 4
#define NAP_NS 50000 /* timers add as much */
#define MOST   (TTI_BENCH_PAGE / (int)sizeof(_Atomic uint64_t))

struct tti_bench_turns {
    struct tti_bench_page page; /* how many meetings each rank has come to */
    uint64_t met;               /* by this one */
};

bool tti_bench_turns_open(struct tti_bench *b)
{
    struct tti_bench_page page;
    if (!b->shares_cpu || b->lead_ns == 0 || b->size > MOST) {
        return true;
    }
    if (!tti_bench_page_open(b, &page)) {
        return false;
    }
    if (page.memory && !(b->turns = calloc(1, sizeof(*b->turns)))) {
        tti_bench_page_close(&page);
        tti_error_set(&b->error, TUTTI_NO_MEMORY, "no memory for the meetings of the ranks");
        return false;
    }
    if (b->turns) {
        b->turns->page = page;
    }
    return true;
}

void tti_bench_turns_close(struct tti_bench *b)
{
    if (b->turns) {
        tti_bench_page_close(&b->turns->page);
        free(b->turns);
        b->turns = NULL;
    }
}

static _Atomic uint64_t *meetings_of(const struct tti_bench *b, int rank)
{
    return (_Atomic uint64_t *)b->turns->page.memory + rank;
}

static bool are_here(const struct tti_bench *b)
{
    for (int r = 0; r < b->size; r++) {
        /* relaxed: no data depends on it */
        if (atomic_load_explicit(meetings_of(b, r), memory_order_relaxed) < b->turns->met) {
            return false;
        }
    }
    return true;
}

/* Yields a few times; false: no other thread ran on this CPU. Not by tti_yield, whose state belongs to what is
 * measured. */
static bool pass_cpu_on(void)
{
    const long before = tti_changes_of_thread();
    for (int i = 0; i < YIELDS; i++) {
        sched_yield();
    }
    return tti_changes_of_thread() != before;
}

void tti_bench_meet(struct tti_bench *b, int64_t until_ns)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    if (!b->turns) {
        return;
    }
    b->turns->met++;
    atomic_store_explicit(meetings_of(b, b->rank), b->turns->met, memory_order_relaxed); /* as above */
    while (!are_here(b) && tti_now_ns() < until_ns) {
        if (!pass_cpu_on() && tti_now_ns() + 2 * NAP_NS < until_ns) {
            nanosleep(&nap, NULL);
        }
    }
}
