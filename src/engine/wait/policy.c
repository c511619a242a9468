/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a waiting rank spins and yields before it sleeps. The measure is ranks per CPU: the ranks, divided by the
 * CPUs in all ranks' affinity masks together. The hardware threads of one core count as CPUs.
 *
 * With a CPU per rank, a spin of tens of microseconds is cheaper than any wake-up. With fewer CPUs the awaited rank may
 * need this very CPU. A yield then costs less than 1 us, a wake-up 2 us, and 10 to 20 us across CPUs. So a waiting rank
 * yields, for longer than most waits take, unless its yields let no other rank run (src/base/wait/yielding.c).
 *
 * A step inside a host that waits for a step between hosts takes a network's time. A rank that spins meanwhile may take
 * the CPU of the rank that makes that step, or of a thread that receives for it. So it yields, for about two trips.
 *
 * Control groups may grant less time than the CPUs have. Then a waiting rank must not use up the time that the awaited
 * rank needs: it spins and yields about as long as a sleep and a wake-up take (the classic competitive bound for
 * spinning, Karlin et al., 1991).
 */
#include "engine/wait/policy.h"

#include "base/host/cpu_ticks.h"
#include "base/wait/backoff.h"
#include "engine/wait/wait.h"

#define SPIN_NS             40000 /* with a CPU per rank */
#define YIELD_NS            20000
#define SHARED_YIELD_NS     1000000 /* with fewer CPUs; the spin is TTI_SHARED_SPIN_NS */
#define GRANTED_SPIN_NS     10000   /* at most, if control groups grant less */
#define GRANTED_YIELD_NS    100000
#define BACKGROUND_SPIN_NS  500
#define BACKGROUND_YIELD_NS 20000
#define NETWORK_YIELD_NS    200000 /* about two trips over a network */

/* Measures e->pause_ns, the nanoseconds of one pause, since CPUs differ, from 5 to 60; and e->ticks_per_ns. */
static void measure_pause(struct tti_engine *e)
{
    int64_t best = INT64_MAX;
    const int64_t begun_ns = tti_now_ns();
    const uint64_t begun = tti_ticks();
    for (int round = 0; round < 4; round++) {
        int64_t start = tti_now_ns();
        for (int i = 0; i < 256; i++) {
            tti_backoff();
        }
        int64_t took = tti_now_ns() - start;
        best = took < best ? took : best;
    }
    const int64_t all = tti_now_ns() - begun_ns;
    e->ticks_per_ns = all > 0 ? (double)(tti_ticks() - begun) / (double)all : 1;
    e->pause_ns = best > 0 ? (double)best / 256 : 1;
}

static double ranks_per_cpu(const struct tti_engine *e)
{
    uint64_t cpus[TTI_CPU_WORDS] = {0};
    int count = 0;
    for (int r = 0; r < e->size; r++) {
        for (int i = 0; i < TTI_CPU_WORDS; i++) {
            cpus[i] |= tti_home(e, r)->cpus[i];
        }
    }
    for (int i = 0; i < TTI_CPU_WORDS; i++) {
        if (cpus[i] != 0) { /* most are 0 */
            count += __builtin_popcountll(cpus[i]);
        }
    }
    return (double)e->size / (count > 0 ? count : 1);
}

static bool share_limit(const struct tti_engine *e, int a, int b)
{
    const struct tti_segment_header *one = tti_home(e, a);
    const struct tti_segment_header *other = tti_home(e, b);
    return one->cpu_limit != 0 && other->cpu_limit != 0 && one->cpu_group == other->cpu_group;
}

/* Ranks per granted CPU, in the control group with the least. 0 = no group has a limit. */
static double ranks_per_granted_cpu(const struct tti_engine *e)
{
    double most = 0;
    for (int r = 0; r < e->size; r++) {
        const uint32_t limit = tti_home(e, r)->cpu_limit; /* read once: its owner can write it at any time */
        bool counted = limit == 0;
        for (int i = 0; i < r && !counted; i++) {
            counted = share_limit(e, i, r);
        }
        int sharers = 0;
        for (int i = r; i < e->size && !counted; i++) {
            sharers += share_limit(e, i, r);
        }
        const double here = counted ? 0 : sharers * 1000.0 / limit;
        most = here > most ? here : most;
    }
    return most;
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

void tti_wait_policy(struct tti_engine *e, int64_t spin_ns, int64_t yield_ns)
{
    const double by_cpus = ranks_per_cpu(e);
    const double by_quota = ranks_per_granted_cpu(e);
    const bool granted = by_quota > 1;
    e->ranks_per_cpu = by_quota > by_cpus ? by_quota : by_cpus;
    if (spin_ns < 0) {
        spin_ns = by_cpus <= 1 ? SPIN_NS : TTI_SHARED_SPIN_NS;
        spin_ns = granted ? at_most(spin_ns, GRANTED_SPIN_NS) : spin_ns;
    }
    if (yield_ns < 0) {
        yield_ns = by_cpus <= 1 ? YIELD_NS : SHARED_YIELD_NS;
        yield_ns = granted ? at_most(yield_ns, GRANTED_YIELD_NS) : yield_ns;
    }
    /* Ranks that share CPUs sleep in the middle of calls. There, barriers on other CPUs cost sleepers more than
     * exchanges cost publishers. All ranks read the same headers, so all decide alike. */
    e->barriers = e->barriers && e->ranks_per_cpu <= 1;
    e->publishes_unfenced = e->barriers && e->size <= 64;
    if (e->pause_ns == 0) {
        measure_pause(e);
    }
    const double pause = e->pause_ns;
    const double polls = (double)spin_ns / pause;
    e->spin_polls = polls > 1e9 ? 1000000000u : (unsigned)polls;
    e->background_polls = e->ranks_per_cpu <= 0.5 ? e->spin_polls : (unsigned)(BACKGROUND_SPIN_NS / pause);
    e->yield_ns = yield_ns;
}

void tti_wait_begin(struct tti_lane *lane)
{
    const struct tti_engine *e = lane->engine;
    bool background = lane->op->background != 0;
    lane->background = lane->op->background;
    lane->spin_polls = background ? e->background_polls : e->spin_polls;
    lane->yield_ns = background ? at_most(e->yield_ns, BACKGROUND_YIELD_NS) : e->yield_ns;
    if (lane->op->background == TUTTI_BESIDE_NETWORK) {
        lane->yield_ns = e->yield_ns > 0 && e->yield_ns < NETWORK_YIELD_NS ? NETWORK_YIELD_NS : e->yield_ns;
    }
}
