/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that yields gives up the rest of its slice, and its place for the next one (EEVDF, Linux 6.6 and newer). If
 * the other threads of the CPU only wait, each has its turn within microseconds. Beside a thread that computes, in the
 * same session or control group, a yield takes as long as the slices of all such threads, and so does every further
 * yield. A thread that sleeps keeps its place, and runs soon after it was woken.
 *
 * One yield that takes LONG_NS shows nothing: the kernel may have run another control group for its share of the time.
 * After two in a row a wait sleeps, and the next waits of the process sleep at once: one, after the next long yield
 * three, then seven, up to 63. Each short yield halves that number.
 *
 * A yield may also be in vain. It passes the CPU on within a session or control group only, and launchers give each
 * rank a session of its own (MPICH's mpiexec, torchrun). There the kernel first lets the rank catch up that has had
 * less time than the others of its CPU. It yields in vain for milliseconds, and the rank that it awaits gets no time. A
 * thread that sleeps passes the CPU on to any other.
 */
#include "base/wait/yielding.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/clock.h"

#define LONG_NS     1000000 /* less than the slice of a thread that computes, more than turns of hundreds of ranks */
#define SKIP_MOST   63u
#define COUNT_EVERY 4u /* yields: 1.6 us, if no other thread runs, where counting takes 0.2 */

/* Relaxed, all: hints. If threads race, some waits more or fewer yield. */
static _Atomic unsigned skips; /* waits that sleep at once after a long yield */
static _Atomic unsigned left;  /* of these, still to come                      */
static _Atomic bool was_long;  /* the last yield                               */

bool tti_yield_pays(void)
{
    const unsigned now = atomic_load_explicit(&left, memory_order_relaxed);
    if (now == 0) {
        return true;
    }
    atomic_store_explicit(&left, now - 1, memory_order_relaxed);
    return false;
}

static void count_long(void)
{
    const unsigned n = atomic_load_explicit(&skips, memory_order_relaxed);
    const unsigned more = n < SKIP_MOST ? 2 * n + 1 : SKIP_MOST;
    atomic_store_explicit(&skips, more, memory_order_relaxed);
    atomic_store_explicit(&left, more, memory_order_relaxed);
}

static void count_short(void)
{
    const unsigned n = atomic_load_explicit(&skips, memory_order_relaxed);
    if (n != 0) {
        atomic_store_explicit(&skips, n / 2, memory_order_relaxed);
    }
}

long tti_changes_of_thread(void)
{
    struct rusage used;
    return getrusage(RUSAGE_THREAD, &used) == 0 ? used.ru_nvcsw + used.ru_nivcsw : -1;
}

static void count_changes(struct tti_yields *y)
{
    const long changes = tti_changes_of_thread();
    y->vain = changes >= 0 && y->count > COUNT_EVERY && changes == y->changes;
    y->changes = changes;
}

bool tti_yield(struct tti_yields *y)
{
    const int64_t before = y->now_ns;
    sched_yield();
    y->now_ns = tti_now_ns();
    if (++y->count % COUNT_EVERY == 0) {
        count_changes(y);
    }
    const bool is_long = y->now_ns - before >= LONG_NS;
    const bool last = atomic_load_explicit(&was_long, memory_order_relaxed);
    if (is_long != last) {
        atomic_store_explicit(&was_long, is_long, memory_order_relaxed);
    }
    if (is_long && last) {
        count_long();
    } else if (!is_long) {
        count_short();
    }
    return !is_long || !last;
}
