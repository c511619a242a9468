/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a measurement. Each is repeated, and the lower quartile of the times counts: interrupts and other
 * programs make some times longer, and the very shortest are rare.
 *
 * For the speed of memory, the chunks are flushed from the caches first. The flush of the copy's cached lines is part
 * of the measured time. So 2 MiB suffice to measure a copy that fits no cache.
 */
#include "engine/tuning/measure_times.h"

#include <assert.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define KIB          ((size_t)1024)
#define TRIALS       16
#define EXCHANGES    32
#define SWITCHES     8
#define CHUNK        (64 * KIB)
#define INNER        (64 * KIB) /* of each array inside the second-level cache */
#define INNER_TIMES  4
#define OUTER        (1024 * KIB)
#define OUTER_TRIALS 3
#define YIELDS       16
#define ASLEEP_NS    30000 /* until a thread sleeps and its CPU is idle */

static_assert(2 * OUTER + CHUNK <= TTI_MEASUREMENT_MEMORY && TTI_MEASUREMENT_CHUNKS * CHUNK <= 2 * OUTER,
              "the memory of a measurement holds all its chunks");

bool tti_measurement_pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

struct trials {
    int64_t times[TRIALS];
    int count;
};

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

/* ---- both threads ------------------------------------------------------------------------------------------------ */

/* The time of one exchange, in ns. */
static bool run_exchanges(struct tti_measurement *m, int me, int trials, int exchanges, bool yields, int64_t *ns)
{
    struct trials t = {.count = 0};
    for (int trial = 0; trial < trials; trial++) {
        const int64_t start = tti_now_ns();
        for (int i = 0; i < exchanges; i++) {
            if (!tti_measurement_exchange(m, me, yields)) {
                return false;
            }
        }
        note_time(&t, tti_now_ns() - start);
    }
    *ns = (lower_quartile(&t) + exchanges / 2) / exchanges;
    return true;
}

/* Thread 0 writes chunks, thread 1 copies each when it is written. */
static bool run_chunks(struct tti_measurement *m, int me, int64_t *mbs)
{
    for (int i = 0; i < TTI_MEASUREMENT_CHUNKS; i++) {
        unsigned char *chunk = m->memory + (size_t)i * CHUNK;
        if (me == 0) {
            memset(chunk, i, CHUNK);
        }
        if (!tti_measurement_exchange(m, me, false)) {
            return false;
        }
        if (me == 1) {
            const int64_t start = tti_now_ns();
            tti_copy_cached(m->memory + 2 * OUTER, chunk, CHUNK);
            m->copied_ns[i] = tti_now_ns() - start;
        }
        if (!tti_measurement_exchange(m, me, false)) {
            return false;
        }
    }
    if (me == 0) {
        struct trials t = {.count = 0};
        for (int i = TTI_MEASUREMENT_CHUNKS / 4; i < TTI_MEASUREMENT_CHUNKS; i++) { /* the first ones warm up */
            note_time(&t, m->copied_ns[i]);
        }
        *mbs = rate(2 * CHUNK, &t);
    }
    return true;
}

bool tti_measurement_partner(struct tti_measurement *m, int me, int partner)
{
    int64_t hop = 0;
    int64_t mbs = 0;
    if (me == 1) {
        m->pinned = tti_measurement_pin(m->cpus[partner]);
    }
    if (!tti_measurement_exchange(m, me, false) || !m->pinned ||
        !run_exchanges(m, me, TRIALS, EXCHANGES, false, &hop) || !run_chunks(m, me, &mbs)) {
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

/* ---- thread 0 alone ------------------------------------------------------------------------------------------ */

static void run_inner(struct tti_measurement *m)
{
    unsigned char *a = m->memory;
    unsigned char *b = a + INNER;
    unsigned char *c = b + INNER;
    const void *sources[] = {a, b};
    const struct tti_fold fold = {.dtype = TUTTI_F32, .op = TUTTI_SUM};
    struct trials copies = {.count = 0};
    struct trials folds = {.count = 0};
    memset(a, 0, 3 * INNER);
    for (int trial = -2; trial < TRIALS && !tti_measurement_over(m); trial++) {
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

/* Equal figures never choose stores past the caches. */
static void assume_memory(struct tti_measurement *m)
{
    m->profile->memory_mbs = tti_profile_built_in.memory_mbs;
    m->profile->stream_mbs = tti_profile_built_in.memory_mbs;
}

#if defined(__x86_64__)

/* The older CLFLUSH waits for each line on Intel's CPUs, 150 ns: a copy would seem 10 times as slow as it is. */
static bool cpu_has_clflushopt(void)
{
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & bit_CLFLUSHOPT);
}

__attribute__((target("clflushopt"))) static void flush(unsigned char *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64) {
        _mm_clflushopt(from + at);
    }
    _mm_mfence();
}

static void run_memory(struct tti_measurement *m)
{
    if (!cpu_has_clflushopt()) {
        assume_memory(m);
        return;
    }
    unsigned char *from = m->memory;
    unsigned char *to = from + OUTER;
    struct trials plain = {.count = 0};
    struct trials past = {.count = 0};
    memset(from, 1, 2 * OUTER);
    for (int trial = 0; trial < OUTER_TRIALS && !tti_measurement_over(m); trial++) {
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

/* There are no stores past the caches here (kernels/isa). */
static void run_memory(struct tti_measurement *m)
{
    assume_memory(m);
}

#endif

static void run_yields(struct tti_measurement *m)
{
    struct trials t = {.count = 0};
    for (int trial = 0; trial < TRIALS && !tti_measurement_over(m); trial++) {
        const int64_t start = tti_now_ns();
        for (int i = 0; i < YIELDS; i++) {
            sched_yield();
        }
        note_time(&t, tti_now_ns() - start);
    }
    m->profile->yield_ns = (lower_quartile(&t) + YIELDS / 2) / YIELDS;
}

void tti_measurement_alone(struct tti_measurement *m)
{
    run_inner(m);
    run_memory(m);
    run_yields(m);
}

/* ---- sleeping and switching ---------------------------------------------------------------------------------- */

/* Sleeps until wake_word is `number`. */
static bool sleep_for(struct tti_measurement *m, uint32_t number)
{
    for (;;) {
        const uint32_t seen = atomic_load_explicit(&m->wake_word, memory_order_acquire);
        if (seen >= number) {
            return true;
        }
        const int64_t left = m->deadline_ns - tti_now_ns();
        if (left <= 0) {
            return false;
        }
        const struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        syscall(SYS_futex, &m->wake_word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, seen, &limit, NULL, 0);
    }
}

static void wake_partner(struct tti_measurement *m, uint32_t number)
{
    atomic_store_explicit(&m->wake_word, number, memory_order_release);
    syscall(SYS_futex, &m->wake_word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

/* wake_word counts up to TTI_MEASUREMENT_WAKES. */
bool tti_measurement_wakes(struct tti_measurement *m, int me)
{
    struct trials t = {.count = 0};
    for (int i = 0; i < TTI_MEASUREMENT_WAKES; i++) {
        int64_t start = tti_now_ns();
        if (me == 0) {
            const int64_t asleep = start + ASLEEP_NS;
            while ((start = tti_now_ns()) < asleep) {
                tti_backoff();
            }
            wake_partner(m, (uint32_t)i + 1);
        } else if (sleep_for(m, (uint32_t)i + 1)) {
            m->woke_ns[i] = tti_now_ns();
        }
        if (!tti_measurement_exchange(m, me, false)) {
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

bool tti_measurement_sleep(struct tti_measurement *m)
{
    return sleep_for(m, 1);
}

void tti_measurement_rouse(struct tti_measurement *m)
{
    wake_partner(m, 1);
}

void tti_measurement_switches(struct tti_measurement *m, int me)
{
    int64_t both = 0;
    if (me == 1) {
        m->pinned = tti_measurement_pin(m->cpus[0]);
    }
    if (tti_measurement_exchange(m, me, true) && m->pinned && run_exchanges(m, me, SWITCHES, EXCHANGES, true, &both) &&
        me == 0) {
        m->profile->switch_ns = both / 2;
    }
}
