/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks wait for one another, wake one another, and learn that one has failed. */
#ifndef TTI_ENGINE_WAIT_H
#define TTI_ENGINE_WAIT_H

#include "engine/lane.h"

/* ---- publish.c, wait.c: publishing and waiting ----------------------------------------------------------------- */

/* One thing to wait for: a word that `publisher` will change. */
struct tti_awaited {
    _Atomic uint64_t *word;
    int publisher;
};

static inline _Atomic uint32_t *tti_alarm(const struct tti_engine *e)
{
    return (_Atomic uint32_t *)e->doorbell;
}

/* Who sleeps on words of this publisher: a bit for each rank. */
_Atomic uint64_t *tti_sleepers(const struct tti_engine *e, int publisher, int channel);

/* Whether this process can run barriers on other CPUs, and lets others run them here / whether all ranks can / runs one. */
bool tti_membarrier_register(void);
void tti_membarrier_detect(struct tti_engine *e);
void tti_membarrier(const struct tti_engine *e);

/* Looks at a mask of sleepers after `word` has been stored, and wakes them. */
void tti_wake_sleepers(const struct tti_engine *e, const _Atomic uint64_t *sleepers, _Atomic uint64_t *word);

/* Where sleepers run no barriers, or are more than one mask has. */
void tti_publish_fenced(const struct tti_engine *e, const _Atomic uint64_t *sleepers, _Atomic uint64_t *word,
                        uint64_t value);

/* Stores a value that others may wait for, and wakes those who sleep on it: publish.c says why this suffices. */
static inline void tti_publish_for(const struct tti_engine *e, const _Atomic uint64_t *sleepers, _Atomic uint64_t *word,
                                   uint64_t value)
{
    if (__builtin_expect(!e->publishes_unfenced, 0)) {
        tti_publish_fenced(e, sleepers, word, value);
        return;
    }
    /* release: pairs with the waiters' acquire loads */
    atomic_store_explicit(word, value, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* the compiler keeps the order; the CPU is the sleeper's business */
    /* seq_cst: pairs with the fetch_or in tti_sleep, through the sleeper's barrier */
    if (__builtin_expect(atomic_load_explicit(sleepers, memory_order_seq_cst) != 0, 0)) {
        tti_wake_sleepers(e, sleepers, word);
    }
}
void tti_publish(const struct tti_engine *e, int channel, _Atomic uint64_t *word, uint64_t value);

/* The same in a collective; in large calls it also finds out how far away the readers are (lane->publish_ticks). */
void tti_lane_publish_large(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t value);
/* The same where a large call may publish no positions: at the begin of some, each rank reads another one's line, and of others,
 * changes its own. */
void tti_probe_distance(struct tti_lane *lane, size_t bytes);
/* A running average of times, 0 to begin with. One that is far too long was something else; the first one, of memory that nobody
 * has touched, does not count. */
#define TTI_AVERAGE_OPEN (-1.0) /* nothing is known after it */
void tti_average(double *average, double ticks);

static inline void tti_lane_publish(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t value)
{
    if (lane->class == TTI_CLASS_LARGE) {
        tti_lane_publish_large(lane, word, value);
    } else {
        tti_publish_for(lane->engine, lane->sleepers, word, value);
    }
}

/* Waits in a collective until *word >= target: spin, yield, sleep; deadline, alarm and whether the publisher leaves are watched. */
tutti_status tti_lane_wait_slow(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t target, int publisher);

static inline tutti_status tti_lane_wait(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t target, int publisher)
{
    /* acquire: pairs with the release in tti_publish; what the publisher wrote before is visible after */
    if (__builtin_expect(atomic_load_explicit(word, memory_order_acquire) >= target, 1)) {
        return TUTTI_OK;
    }
    return tti_lane_wait_slow(lane, word, target, publisher);
}

/* The same for a word that comes soon after another one, `ahead`: while it spins, it polls that one first. A publisher need not
 * store it. */
tutti_status tti_lane_wait_behind(struct tti_lane *lane, _Atomic uint64_t *ahead, _Atomic uint64_t *word,
                                  uint64_t target, int publisher);

/* Sleeps until one of `count` words may have changed from `seen`, the alarm rings, `own` (may be NULL) changes from
 * own_seen, or a few milliseconds or `until_ns` pass. May return early. */
void tti_sleep(struct tti_engine *e, int channel, const struct tti_awaited *awaited, const uint64_t *seen, int count,
               uint32_t alarm_seen, _Atomic uint32_t *own, uint32_t own_seen, int64_t until_ns);

void tti_raise_alarm(const struct tti_engine *e);
void tti_wake_own(const struct tti_engine *e, _Atomic uint32_t *word);
void tti_backoff(void);

/* ---- policy.c: how long to spin and to yield ------------------------------------------------------------------------ */

/* Decides for the group, from what the segments' headers say and, where not negative, from the settings. */
void tti_wait_policy(struct tti_engine *e, int64_t spin_ns, int64_t yield_ns);

/* How the lane's call is going to wait: a call beside the application's own threads must not keep a CPU from them. */
void tti_wait_begin(struct tti_lane *lane);

/* ---- fault.c: failing, and learning that others have -------------------------------------------------------------- */

/* The group has failed, or a peer that is needed has gone. publisher -1: nobody in particular. OK if all is well. error NULL:
 * nobody is told; somebody will come and ask again. */
tutti_status tti_fault_check(struct tti_engine *e, struct tti_lane *lane, int publisher, tutti_error *error);

/* The same for a lane, if the alarm, which stands at `alarm` now, has rung since the lane looked last. */
tutti_status tti_fault_check_alarm(struct tti_lane *lane, uint32_t alarm);

/* The same for messages that are under way: a death interrupts each of them, whoever was told of it before. */
tutti_status tti_fault_check_messages(struct tti_engine *e, tutti_error *error);

/* Fails the group from this rank: writes the record, rings the alarm, remembers the error, returns `cause`. */
tutti_status tti_fault_raise(struct tti_engine *e, struct tti_lane *lane, const uint64_t *suspects, tutti_error *error);

/* The same with one suspect; -1: there is none. */
tutti_status tti_fault_raise_suspect(struct tti_engine *e, struct tti_lane *lane, int rank, tutti_error *error);

/* A rank's process has died, or is writing a core dump: fails the group. Waiting calls, or the next one, say so. */
void tti_fault_death(struct tti_engine *e, int rank);
/* A rank's process has ended by exit(): for this process the rank has left from now on. */
void tti_fault_left(struct tti_engine *e, int rank);

/* Fails the group because the application wants that: `how` is REVOKE or ABORT. */
void tti_fault_revoke(struct tti_engine *e, tutti_operation how);

/* Looks whether a rank's process is still there, and does that if not. For those that have waited for it for a while: liveness monitors
 * are much quicker, but there may be none, and none sees a core dump. */
#define TTI_LIVENESS_CHECK_NS 100000000
void tti_fault_check_peer(struct tti_engine *e, int rank);

/* Fails the group for a reason that lies outside the engine; adds who has not arrived at the lane's newest call. */
void tti_fault_abort(struct tti_engine *e, int32_t lane, const tutti_error *cause);

/* The deadline of the lane's call has passed: names every laggard and fails the group. */
tutti_status tti_fault_timeout(struct tti_lane *lane, int publisher);

/* ---- corrupt.c: numbers that cannot be ----------------------------------------------------------------------------- */

/* Whether a peer's slot of this call can hold such a number / whether the word can that is awaited to become `target`. */
bool tti_arrival_is_possible(const struct tti_lane *lane, uint64_t held, uint64_t call);
bool tti_awaited_is_possible(const struct tti_lane *lane, const _Atomic uint64_t *word, uint64_t held, uint64_t target,
                             int publisher);

/* A peer has published something that cannot be (`what`): fails the group, and returns PEER_CORRUPT. */
tutti_status tti_fault_corrupt(struct tti_lane *lane, int peer, const char *what, uint64_t value);

#endif
