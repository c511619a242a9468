/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each process has one word in its own segment of the root on which the others sleep. It grows with each step that the
 * process takes in forming a group, whichever group that is. Cost: a system call for each sleep, and one for each step
 * for which ranks sleep.
 */
#include "backends/shm/await.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/wait/backoff.h"
#include "base/wait/yielding.h"
#include "engine/lane.h"
#include "engine/wait/wait.h"

/* At least. Ranks that make groups in a loop would otherwise send each other to sleep in turn, where a wake-up takes
 * longer than the engine's own limit. */
#define YIELD_NS 200000

void tti_shm_notify(struct tti_root *root)
{
    _Atomic uint32_t *word = &tti_root_header(root, root->rank)->formations;
    /* Both seq_cst, as in sleep_unless(): either a rank that goes to sleep is counted, or it sees the step. The first
     * one comes after the step. */
    atomic_fetch_add_explicit(word, 1, memory_order_seq_cst);
    if (atomic_load_explicit(tti_root_sleepers(root, root->rank), memory_order_seq_cst) != 0) {
        syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    }
}

/* Sleeps until the next step of the rank, unless is_over is true; returns that. tests/models/formation.pml checks the
 * protocol. */
static bool sleep_unless(const struct tti_root *root, int rank, bool (*is_over)(void *user), void *user,
                         int64_t until_ns)
{
    _Atomic uint32_t *word = &tti_root_header(root, rank)->formations;
    _Atomic uint32_t *sleepers = tti_root_sleepers(root, rank);
    atomic_fetch_add_explicit(sleepers, 1, memory_order_seq_cst); /* this and the next: see tti_shm_notify */
    const uint32_t seen = atomic_load_explicit(word, memory_order_seq_cst);
    const bool over = is_over(user);
    const int64_t left = until_ns - tti_now_ns();
    if (!over && left > 0) {
        const struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, NULL, 0);
    }
    atomic_fetch_sub_explicit(sleepers, 1, memory_order_relaxed); /* a count that stays too large costs system calls */
    return over;
}

void tti_shm_await(const struct tti_root *root, int rank, const struct tti_engine *e, bool (*is_over)(void *user),
                   void *user, int64_t until_ns)
{
    if (is_over(user)) {
        return;
    }
    struct tti_spin *spin = &root->engine->lanes[0].spins[rank];
    const unsigned polls = tti_spin_polls(spin, e->spin_polls);
    bool over = false;
    for (unsigned i = 0; i < polls; i++) {
        tti_backoff();
        if (is_over(user)) {
            tti_spin_succeeded(spin, polls == e->spin_polls);
            return;
        }
    }
    int64_t now = tti_now_ns();
    struct tti_yields yields = {.now_ns = now};
    int64_t yield_until = tti_yield_pays() ? now + (e->yield_ns > YIELD_NS ? e->yield_ns : YIELD_NS) : now;
    while (!over && now < until_ns) {
        if (now >= yield_until) {
            over = sleep_unless(root, rank, is_over, user, until_ns);
            now = tti_now_ns();
        } else {
            yield_until = tti_yield_to_ranks(root->engine, &yields) ? yield_until : now;
            now = yields.now_ns;
            over = is_over(user);
            if (over && yields.count <= TTI_SPIN_YIELDS) {
                tti_spin_failed(spin);
            }
        }
    }
}
