/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting: a rank spins, then yields, then sleeps, on a word in the publisher's segment (read-only mappings accept
 * FUTEX_WAIT). policy.c sets how long. After a few milliseconds every waiting rank sleeps, and wakes every 5 ms only to
 * check for failures.
 *
 * Each lane adapts its spin to each publisher (spin.h).
 *
 * The sleeping protocol; publish.c has the other side, and explains why it works:
 *   waiter     fetch_or its bit into the publisher's mask; barrier on all CPUs, unless publishers exchange; read word
 *              and alarm again; futex_waitv on both, at most 5 ms
 *   publisher  store the word; load its mask; wake all if any bit is set
 * If the wake comes before the waiter sleeps, the kernel finds the word changed and returns at once. The masks are
 * hints in shared memory, as is the number of those that sleep on the alarm: a corrupted one costs 5 ms at most.
 * tests/models/sleep.pml checks the protocol.
 */
#include "engine/wait/wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/failure_checks.h"
#include "base/wait/backoff.h"
#include "base/wait/futex_waitv.h"
#include "engine/wait/publish.h"

#define SLEEP_BLIND_NS   500000 /* bound of a sleep on one word (no futex_waitv): it does not see the alarm */
#define POLLS_PER_CHECK  64     /* polls of the word for one check of the alarm */
#define POLLS_PER_CLOCK  4096   /* polls for one read of the clock; some 0.1 ms */
#define YIELDS_PER_CHECK 8      /* yields for one check of failures and of the time */

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a futex sits on the low half of a 64-bit word");

/* With a CPU for each rank, every yield is in vain. */
bool tti_yield_to_ranks(const struct tti_engine *e, struct tti_yields *yields)
{
    return tti_yield(yields) && (e->ranks_per_cpu <= 1 || !yields->vain);
}

static void sleep_on(const struct tti_engine *e, struct tti_waitv *entries, unsigned count, int64_t until_ns)
{
    static _Atomic int no_waitv; /* relaxed: a property of the kernel, so threads that race find the same */
    if (!atomic_load_explicit(&no_waitv, memory_order_relaxed)) {
        long r = tti_waitv(entries, count, until_ns);
        if (r >= 0 || errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR) {
            return;
        }
        if (tti_waitv_is_missing(errno)) {
            atomic_store_explicit(&no_waitv, 1, memory_order_relaxed);
        }
    }
    int64_t left = until_ns - tti_now_ns();
    left = left > SLEEP_BLIND_NS ? SLEEP_BLIND_NS : left;
    if (left > 0) {
        struct timespec limit = {.tv_nsec = left};
        syscall(SYS_futex, (void *)(uintptr_t)entries[0].address, FUTEX_WAIT | e->futex_private, entries[0].value,
                &limit, NULL, 0);
    }
}

/* A lane has one waiting thread per rank. Messages may have several, which share the rank's bits. Then the last thread
 * to wake clears them, under a lock: a bit cleared while another thread sleeps would cost that thread the whole
 * bound. */
static void raise_bits(struct tti_engine *e, int channel, const struct tti_awaited *awaited, int count)
{
    bool shared = channel == e->layout.lanes;
    if (shared) {
        pthread_mutex_lock(&e->sleep_lock);
        e->message_sleepers++;
    }
    for (int i = 0; i < count; i++) {
        /* seq_cst: see the protocol above */
        atomic_fetch_or_explicit(&tti_sleepers(e, awaited[i].publisher, channel)[e->rank / 64],
                                 UINT64_C(1) << (e->rank % 64), memory_order_seq_cst);
    }
    if (shared) {
        pthread_mutex_unlock(&e->sleep_lock);
    }
}

static void clear_bits(struct tti_engine *e, int channel, const struct tti_awaited *awaited, int count)
{
    bool shared = channel == e->layout.lanes;
    bool last = true;
    if (shared) {
        pthread_mutex_lock(&e->sleep_lock);
        last = --e->message_sleepers == 0;
        count = e->size;
    }
    for (int i = 0; last && i < count; i++) {
        /* relaxed: a stale bit costs the publisher one needless wake */
        atomic_fetch_and_explicit(&tti_sleepers(e, shared ? i : awaited[i].publisher, channel)[e->rank / 64],
                                  ~(UINT64_C(1) << (e->rank % 64)), memory_order_relaxed);
    }
    if (shared) {
        pthread_mutex_unlock(&e->sleep_lock);
    }
}

void tti_sleep(struct tti_engine *e, int channel, const struct tti_awaited *awaited, const uint64_t *seen, int count,
               uint32_t alarm_seen, _Atomic uint32_t *own, uint32_t own_seen, int64_t until_ns)
{
    struct tti_waitv entries[TTI_WAITV_MAX];
    unsigned n = 0;
    uint32_t flags = TTI_WAITV_U32 | (uint32_t)e->futex_private;
    bool changed = false;
    raise_bits(e, channel, awaited, count);
    atomic_fetch_add_explicit(tti_alarm_sleepers(e), 1, memory_order_seq_cst); /* see tti_raise_alarm */
    tti_membarrier(e);
    for (int i = 0; i < count; i++) {
        uint64_t now = atomic_load_explicit(awaited[i].word, memory_order_seq_cst);
        changed = changed || now != seen[i];
        /* The kernel takes 128 words: a change of a further one is seen when the sleep ends, after e->sleep_ns at
         * most. */
        if (n < TTI_WAITV_MAX - 2) {
            entries[n++] =
                (struct tti_waitv){.value = (uint32_t)seen[i], .address = (uintptr_t)awaited[i].word, .flags = flags};
        }
    }
    if (own) {
        entries[n++] = (struct tti_waitv){.value = own_seen, .address = (uintptr_t)own, .flags = flags};
    }
    entries[n++] = (struct tti_waitv){.value = alarm_seen, .address = (uintptr_t)tti_alarm(e), .flags = flags};
    changed = changed || atomic_load_explicit(tti_alarm(e), memory_order_seq_cst) != alarm_seen;
    if (!changed) {
        int64_t bound = tti_now_ns() + e->sleep_ns;
        sleep_on(e, entries, n, bound < until_ns ? bound : until_ns);
    }
    atomic_fetch_sub_explicit(tti_alarm_sleepers(e), 1, memory_order_relaxed); /* as in clear_bits */
    clear_bits(e, channel, awaited, count);
}

/* The word has not reached the target: checks the alarm, and whether the publisher has left. */
static tutti_status check_failures(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t target, int publisher)
{
    struct tti_engine *e = lane->engine;
    if (!TTI_FAULT_CHECKS) {
        return TUTTI_OK;
    }
    /* acquire: pairs with tti_raise_alarm; the record of the rank that raised it is visible after */
    uint32_t alarm = atomic_load_explicit(tti_alarm(e), memory_order_acquire);
    bool left = tti_has_left(e, publisher);
    if (alarm == lane->alarm_seen && !left) {
        return TUTTI_OK;
    }
    /* The publisher may have stored this word before it failed or left: then the call goes on. acquire: pairs with the
     * release in tti_publish_for */
    if (atomic_load_explicit(word, memory_order_acquire) >= target) {
        return TUTTI_OK;
    }
    /* `left` was read before the last read of the word, so the word will not change. */
    tutti_status status = e->upcalls->check(e, lane, left ? publisher : -1, lane->error);
    if (status == TUTTI_OK) {
        lane->alarm_seen = alarm;
    }
    return status;
}

/* For readers of the flight recorder: since when this rank waits. */
static void publish_wait_start(const struct tti_lane *lane, int64_t since_ns)
{
    if (lane->op->waits_since) {
        /* relaxed: only other processes read it. The place may belong to another operation by then */
        atomic_store_explicit((_Atomic int64_t *)lane->op->waits_since, since_ns, memory_order_relaxed);
    }
}

static tutti_status yield_and_sleep(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t target, int publisher,
                                    int64_t now)
{
    struct tti_engine *e = lane->engine;
    tutti_status status;
    int64_t yield_until = lane->yield_ns > 0 && tti_yield_pays() ? now + lane->yield_ns : now;
    int64_t next_check_ns = now + TTI_LIVENESS_CHECK_NS;
    struct tti_yields yields = {.now_ns = now};
    bool slept = false;
    for (unsigned i = 1;; i++) {
        /* acquire: pairs with the release in tti_publish_for */
        uint64_t seen = atomic_load_explicit(word, memory_order_acquire);
        if (seen >= target) {
            if (i > 1 && i <= 1 + TTI_SPIN_YIELDS && !slept) {
                tti_spin_failed(&lane->spins[publisher]);
            }
            return TUTTI_OK;
        }
        if (now < yield_until) {
            if (!tti_yield_to_ranks(e, &yields)) {
                yield_until = now;
            } else if (i % YIELDS_PER_CHECK != 0) {
                continue;
            }
        } else {
            /* the publisher may have left before this call read the alarm for the first time */
            if (!slept && (status = check_failures(lane, word, target, publisher)) != TUTTI_OK) {
                return status;
            }
            struct tti_awaited awaited = {.word = word, .publisher = publisher};
            slept = true;
            tti_sleep(e, lane->index, &awaited, &seen, 1, lane->alarm_seen, NULL, 0, lane->deadline_ns);
        }
        if ((status = check_failures(lane, word, target, publisher)) != TUTTI_OK) {
            return status;
        }
        now = tti_now_ns();
        const bool over = now >= lane->deadline_ns;
        if ((over || now >= next_check_ns) &&
            (status = e->upcalls->check_awaited(lane, word, seen, target, publisher)) != TUTTI_OK) {
            return status;
        }
        if (now >= next_check_ns) {
            next_check_ns = now + TTI_LIVENESS_CHECK_NS;
            e->upcalls->check_peer(e, publisher); /* a death raises the alarm */
        }
        if (over) {
            /* acquire: as above */
            if (atomic_load_explicit(word, memory_order_acquire) >= target) {
                return TUTTI_OK;
            }
            return e->upcalls->timeout(lane, publisher);
        }
    }
}

/* Sets the deadline, once in a call. Returns the time now. */
static int64_t set_deadline(struct tti_lane *lane)
{
    const int64_t now = tti_now_ns();
    if (lane->deadline_ns == 0) {
        lane->started_ns = lane->started_ns == 0 ? now : lane->started_ns;
        lane->deadline_ns = tti_deadline_ns(lane->started_ns, lane->op->timeout_ms);
    }
    return now;
}

/* Waits for the word. The spin polls `ahead` first, which the publisher stores before the word. */
static tutti_status wait_long(struct tti_lane *lane, _Atomic uint64_t *ahead, _Atomic uint64_t *word, uint64_t target,
                              int publisher)
{
    tutti_status status;
    struct tti_spin *spin = &lane->spins[publisher];
    const unsigned polls = tti_spin_polls(spin, lane->spin_polls);
    _Atomic uint64_t *polled = ahead;
    for (unsigned i = 1; i <= polls; i++) {
        tti_backoff();
        /* acquire: pairs with the release in tti_publish_for */
        if (atomic_load_explicit(polled, memory_order_acquire) >= target) {
            if (polled == word) {
                tti_spin_succeeded(spin, polls == lane->spin_polls);
                return TUTTI_OK;
            }
            polled = word;
        }
        if (i % POLLS_PER_CHECK == 0) {
            polled = word; /* a publisher that runs another call does not store `ahead` */
            if ((status = check_failures(lane, word, target, publisher)) != TUTTI_OK) {
                return status;
            }
            if (i % POLLS_PER_CLOCK == 0 && set_deadline(lane) >= lane->deadline_ns) {
                break;
            }
        }
    }
    const int64_t now = set_deadline(lane);
    publish_wait_start(lane, lane->started_ns); /* set with the deadline */
    status = yield_and_sleep(lane, word, target, publisher, now);
    publish_wait_start(lane, 0);
    return status;
}

tutti_status tti_lane_wait_slow(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t target, int publisher)
{
    return wait_long(lane, word, word, target, publisher);
}

tutti_status tti_lane_wait_behind(struct tti_lane *lane, _Atomic uint64_t *ahead, _Atomic uint64_t *word,
                                  uint64_t target, int publisher)
{
    /* acquire: pairs with the release of the publisher's store */
    return atomic_load_explicit(ahead, memory_order_acquire) >= target
               ? tti_lane_wait(lane, word, target, publisher)
               : wait_long(lane, ahead, word, target, publisher);
}
