/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measurement: two threads of our own, each on a CPU of its own, for a few milliseconds.
 *
 *   together   an exchange of one line, and copying what the other one has just written; with a second partner CPU, if the
 *              system says that some do not share a third-level cache
 *   thread 0   while thread 1 sleeps: copying and folding inside the second-level cache, from memory and past the caches;
 *              yielding with nobody to yield to
 *   together   waking the sleeper; then, both on one CPU, yielding to each other
 *
 * Everything is done often, and the lower quartile of the times counts: an interrupt, a neighbour or another program makes
 * some of them longer, none shorter; and the very shortest are luck, too. Virtual CPUs that share a cache in one minute and
 * not in the next give one of the two hops; the other may be known from before (calibrate_cache.c).
 *
 * Memory is copied between pieces that were flushed out of the caches, and what a plain copy leaves there is flushed again,
 * within its time: so it costs what it costs when nothing fits the caches any more, without touching tens of megabytes.
 *
 * Whoever waits gives up when the time is over, and so does the other one: what is known then, stands.
 */
#include "engine/calibrate.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define LINE  128u /* two cache lines, which some CPUs fetch together */
#define KIB   ((size_t)1024)
#define STACK (256 * KIB)

#define TRIALS       16
#define EXCHANGES    32
#define SWITCHES     8
#define PIECES       16
#define PIECE        (64 * KIB)
#define INNER        (64 * KIB) /* of each array inside the second-level cache */
#define INNER_TIMES  4
#define OUTER        (1024 * KIB)
#define OUTER_TRIALS 3
#define YIELDS       16
#define WAKES        8
#define ASLEEP_NS    30000 /* what a thread needs to fall asleep, and its CPU to become idle */
#define LOOKS        256   /* between two looks at the clock */

/* Where the time of a measurement is written down. */
struct trials {
    int64_t times[TRIALS];
    int count;
};

struct meeting {
    struct {
        _Alignas(LINE) _Atomic uint64_t word; /* release by its thread, acquire by the other */
    } lines[2];
    _Alignas(LINE) _Atomic uint32_t baton;     /* thread 1 sleeps on it; release by thread 0, acquire by thread 1 */
    _Alignas(LINE) _Atomic int stop;           /* relaxed: the time is over */
    _Alignas(LINE) uint64_t numbers[LINE / 8]; /* of exchanges, one each, by its thread */
    int64_t woke_ns[WAKES];                    /* written by thread 1 before an exchange, read by thread 0 after it */
    int64_t copied_ns[PIECES];                 /* likewise */
    int64_t deadline_ns;
    int cpus[TTI_CALIBRATE_CPUS];
    int partners; /* 0, 1 or 2 of cpus[1], cpus[2] */
    bool pinned;
    unsigned char *memory;       /* 4 * OUTER */
    struct tti_profile *profile; /* thread 0's until both have ended */
};

#define MEMORY (4 * OUTER)

static int64_t lower_quartile(struct trials *t)
{
    for (int i = 1; i < t->count; i++) { /* few: by insertion */
        const int64_t time = t->times[i];
        int at = i;
        for (; at > 0 && t->times[at - 1] > time; at--) {
            t->times[at] = t->times[at - 1];
        }
        t->times[at] = time;
    }
    return t->count > 0 ? t->times[(t->count - 1) / 4] : 0;
}

static void note_time(struct trials *t, int64_t ns)
{
    if (t->count < TRIALS) {
        t->times[t->count++] = ns > 0 ? ns : 1;
    }
}

/* Bytes in a time, in 1e6 a second. */
static int64_t rate(size_t bytes, struct trials *t)
{
    const int64_t ns = lower_quartile(t);
    return ns > 0 ? (int64_t)(bytes * 1000 / (size_t)ns) : 0;
}

static bool over(struct meeting *m)
{
    if (atomic_load_explicit(&m->stop, memory_order_relaxed) != 0) {
        return true;
    }
    if (tti_now_ns() >= m->deadline_ns) {
        atomic_store_explicit(&m->stop, 1, memory_order_relaxed);
        return true;
    }
    return false;
}

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits until the other thread has come to exchange `number`; false when the time is over. */
static bool await(struct meeting *m, int other, uint64_t number, bool yields)
{
    for (unsigned looks = 1; atomic_load_explicit(&m->lines[other].word, memory_order_acquire) < number; looks++) {
        if (yields) {
            sched_yield();
        } else {
            pause_cpu();
        }
        if (looks % (yields ? 8 : LOOKS) == 0 && over(m)) {
            return false;
        }
    }
    return true;
}

static bool exchange(struct meeting *m, int me, bool yields)
{
    const uint64_t number = ++m->numbers[(size_t)me * 8];
    atomic_store_explicit(&m->lines[me].word, number, memory_order_release);
    return await(m, 1 - me, number, yields);
}

static bool pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/* ---- together --------------------------------------------------------------------------------------------------------- */

/* The time of one exchange, in ns. */
static bool run_exchanges(struct meeting *m, int me, int trials, int exchanges, bool yields, int64_t *ns)
{
    struct trials t = {.count = 0};
    for (int trial = 0; trial < trials; trial++) {
        const int64_t start = tti_now_ns();
        for (int i = 0; i < exchanges; i++) {
            if (!exchange(m, me, yields)) {
                return false;
            }
        }
        note_time(&t, tti_now_ns() - start);
    }
    *ns = (lower_quartile(&t) + exchanges / 2) / exchanges;
    return true;
}

/* Thread 0 writes pieces, thread 1 copies each as soon as it is there. */
static bool run_pieces(struct meeting *m, int me, int64_t *mbs)
{
    for (int i = 0; i < PIECES; i++) {
        unsigned char *piece = m->memory + (size_t)i * PIECE;
        if (me == 0) {
            memset(piece, i, PIECE);
        }
        if (!exchange(m, me, false)) {
            return false;
        }
        if (me == 1) {
            const int64_t start = tti_now_ns();
            tti_copy_cached(m->memory + 2 * OUTER, piece, PIECE);
            m->copied_ns[i] = tti_now_ns() - start;
        }
        if (!exchange(m, me, false)) {
            return false;
        }
    }
    if (me == 0) {
        struct trials t = {.count = 0};
        for (int i = PIECES / 4; i < PIECES; i++) { /* the first ones warm up */
            note_time(&t, m->copied_ns[i]);
        }
        *mbs = rate(2 * PIECE, &t);
    }
    return true;
}

static bool meet_partner(struct meeting *m, int me, int partner)
{
    int64_t hop = 0;
    int64_t mbs = 0;
    if (me == 1) {
        m->pinned = pin(m->cpus[partner]);
    }
    if (!exchange(m, me, false) || !m->pinned || !run_exchanges(m, me, TRIALS, EXCHANGES, false, &hop) ||
        !run_pieces(m, me, &mbs)) {
        return false;
    }
    if (me == 0 && hop < TTI_NEAR_NS) {
        m->profile->near_ns = hop;
        m->profile->near_mbs = mbs;
    } else if (me == 0) {
        m->profile->far_ns = hop;
        m->profile->far_mbs = mbs;
    }
    return true;
}

/* ---- thread 0 alone --------------------------------------------------------------------------------------------------- */

static void run_inner(struct meeting *m)
{
    unsigned char *a = m->memory;
    unsigned char *b = a + INNER;
    unsigned char *c = b + INNER;
    const void *sources[] = {a, b};
    const struct tti_fold fold = {.dtype = TUTTI_F32, .op = TUTTI_SUM};
    struct trials copies = {.count = 0};
    struct trials folds = {.count = 0};
    memset(a, 0, 3 * INNER);
    for (int trial = -2; trial < TRIALS && !over(m); trial++) {
        const int64_t start = tti_now_ns();
        for (int i = 0; i < INNER_TIMES; i++) {
            tti_copy_cached(c, i % 2 ? a : b, INNER);
        }
        const int64_t middle = tti_now_ns();
        for (int i = 0; i < INNER_TIMES; i++) {
            tti_fold(c, sources, 2, INNER / sizeof(float), &fold);
        }
        const int64_t end = tti_now_ns();
        if (trial >= 0) {
            note_time(&copies, middle - start);
            note_time(&folds, end - middle);
        }
    }
    m->profile->copy_mbs = rate(2 * INNER * INNER_TIMES, &copies);
    m->profile->fold_mbs = rate(3 * INNER * INNER_TIMES, &folds);
}

#if defined(__x86_64__)

static void flush(unsigned char *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64) {
        _mm_clflush(from + at);
    }
    _mm_mfence();
}

static void run_memory(struct meeting *m)
{
    unsigned char *from = m->memory;
    unsigned char *to = from + OUTER;
    struct trials plain = {.count = 0};
    struct trials past = {.count = 0};
    memset(from, 1, 2 * OUTER);
    for (int trial = 0; trial < OUTER_TRIALS && !over(m); trial++) {
        flush(from, 2 * OUTER);
        const int64_t start = tti_now_ns();
        tti_copy_cached(to, from, OUTER);
        flush(to, OUTER);
        note_time(&plain, tti_now_ns() - start);
        flush(from, OUTER);
        const int64_t again = tti_now_ns();
        tti_copy_stream(to, from, OUTER);
        note_time(&past, tti_now_ns() - again);
    }
    m->profile->memory_mbs = rate(2 * OUTER, &plain);
    m->profile->stream_mbs = rate(2 * OUTER, &past);
}

#else

/* There are no stores past the caches here (kernels/isa), so it is enough that one is not faster than the other. */
static void run_memory(struct meeting *m)
{
    m->profile->memory_mbs = tti_profile_built_in.memory_mbs;
    m->profile->stream_mbs = tti_profile_built_in.memory_mbs;
}

#endif

static void run_yields(struct meeting *m)
{
    struct trials t = {.count = 0};
    for (int trial = 0; trial < TRIALS && !over(m); trial++) {
        const int64_t start = tti_now_ns();
        for (int i = 0; i < YIELDS; i++) {
            sched_yield();
        }
        note_time(&t, tti_now_ns() - start);
    }
    m->profile->yield_ns = (lower_quartile(&t) + YIELDS / 2) / YIELDS;
}

/* ---- sleeping and switching ------------------------------------------------------------------------------------------- */

/* Sleeps until the baton has come to `number`. */
static bool sleep_for(struct meeting *m, uint32_t number)
{
    for (;;) {
        const uint32_t seen = atomic_load_explicit(&m->baton, memory_order_acquire);
        if (seen >= number) {
            return true;
        }
        const int64_t left = m->deadline_ns - tti_now_ns();
        if (left <= 0) {
            return false;
        }
        const struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        syscall(SYS_futex, &m->baton, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, seen, &limit, NULL, 0);
    }
}

static void pass_baton(struct meeting *m, uint32_t number)
{
    atomic_store_explicit(&m->baton, number, memory_order_release);
    syscall(SYS_futex, &m->baton, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

/* The baton goes from 1 to WAKES; thread 1 is asleep already for the first. */
static bool run_wakes(struct meeting *m, int me)
{
    struct trials t = {.count = 0};
    for (int i = 0; i < WAKES; i++) {
        int64_t start = tti_now_ns();
        if (me == 0) {
            const int64_t asleep = start + ASLEEP_NS;
            while ((start = tti_now_ns()) < asleep) {
                pause_cpu();
            }
            pass_baton(m, (uint32_t)i + 1);
        } else if (sleep_for(m, (uint32_t)i + 1)) {
            m->woke_ns[i] = tti_now_ns();
        }
        if (!exchange(m, me, false)) {
            return false;
        }
        if (me == 0) {
            note_time(&t, m->woke_ns[i] - start);
        }
    }
    if (me == 0) {
        m->profile->wake_ns = lower_quartile(&t);
    }
    return true;
}

static void run_switches(struct meeting *m, int me)
{
    int64_t both = 0;
    if (me == 1) {
        m->pinned = pin(m->cpus[0]);
    }
    if (exchange(m, me, true) && m->pinned && run_exchanges(m, me, SWITCHES, EXCHANGES, true, &both) && me == 0) {
        m->profile->switch_ns = both / 2;
    }
}

/* ---- the two threads -------------------------------------------------------------------------------------------------- */

static void run_pair(struct meeting *m, int me)
{
    for (int partner = 1; partner <= m->partners; partner++) {
        if (!meet_partner(m, me, partner)) {
            return;
        }
    }
    if (me == 0) {
        run_inner(m);
        run_memory(m);
        run_yields(m);
    }
    if (m->partners == 0 || run_wakes(m, me)) {
        run_switches(m, me);
    }
}

static void *thread_0(void *meeting)
{
    struct meeting *m = meeting;
    if (!pin(m->cpus[0])) { /* then nothing can be said of two CPUs */
        atomic_store_explicit(&m->stop, 1, memory_order_relaxed);
        return NULL;
    }
    if (m->partners == 0) { /* thread 1 would run on this CPU, too */
        run_inner(m);
        run_memory(m);
        run_yields(m);
        run_switches(m, 0);
        return NULL;
    }
    run_pair(m, 0);
    return NULL;
}

static void *thread_1(void *meeting)
{
    struct meeting *m = meeting;
    if (m->partners == 0) {
        run_switches(m, 1);
    } else {
        run_pair(m, 1);
    }
    return NULL;
}

/* The caller's signals are none of these threads' business. */
static bool run_threads(struct meeting *m)
{
    pthread_attr_t attributes;
    pthread_t threads[2];
    sigset_t all;
    sigset_t before;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool first = pthread_create(&threads[0], &attributes, thread_0, m) == 0;
    const bool second = first && pthread_create(&threads[1], &attributes, thread_1, m) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (first && !second) {
        atomic_store_explicit(&m->stop, 1, memory_order_relaxed);
    }
    if (first) {
        pthread_join(threads[0], NULL);
    }
    if (second) {
        pthread_join(threads[1], NULL);
    }
    return first;
}

/* What is out of bounds was disturbed. */
static void drop_nonsense(struct tti_profile *p)
{
    for (int i = 0; i < TTI_PROFILE_FIELDS; i++) {
        const int64_t value = tti_profile_value(p, i);
        if (value < tti_profile_fields[i].least || value > tti_profile_fields[i].most) {
            tti_profile_set(p, i, 0);
        }
    }
}

bool tti_calibrate_measure(struct tti_profile *profile)
{
    memset(profile, 0, sizeof(*profile));
    struct meeting *m = NULL;
    if (posix_memalign((void **)&m, LINE, sizeof(*m)) != 0) {
        return false;
    }
    memset(m, 0, sizeof(*m));
    m->partners = tti_calibrate_cpus(m->cpus) - 1;
    m->partners = m->partners < 0 ? 0 : m->partners;
    m->profile = profile;
    m->pinned = true;
    m->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    m->deadline_ns = tti_now_ns() + INT64_C(1000000) * TTI_CALIBRATE_LIMIT_MS;
    const bool good = m->memory != MAP_FAILED && run_threads(m);
    if (m->memory != MAP_FAILED) {
        munmap(m->memory, MEMORY);
    }
    tti_calibrate_topology(m->cpus[0], profile);
    free(m);
    profile->measured_s = (int64_t)time(NULL);
    drop_nonsense(profile);
    return good;
}
