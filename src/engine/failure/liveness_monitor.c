/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notices the death of a peer's process, in well under a millisecond, however much memory the process had.
 *
 * The kernel frees a process's memory before it closes its descriptors. So the end of a socket or a pidfd comes later
 * by that time, 300 ms for 4 GiB. Even before that, the kernel walks the list of robust futexes of each thread that
 * ends (get_robust_list(2)). It marks each futex that the thread owns with FUTEX_OWNER_DIED, and wakes one sleeper.
 *
 * So every process has a thread, the monitor, that lives as long as its groups. It owns one word in each segment of its
 * process. This file builds the list, not the C library: the kernel needs a head, links, and one distance from link to
 * word. The mark also comes on exec, when the process goes on without its groups. It does not come when only the main
 * thread ends.
 *
 * The monitor also sleeps on the words of all peers with futex_waitv; read-only mappings suffice. When a peer dies, it
 * fails every group of which the peer was a member: fault.c writes the record and raises the alarm. peer_death.c
 * decides what counts as a death. Cost for operations: none.
 *
 * The kernel wakes one sleeper per word. That monitor first wakes the others. If it cannot, because it is stopped or
 * dies, its own word, the alarm, or the bound of the sleep wakes them. Without futex_waitv the bound is short. Where
 * the kernel takes no list (emulators), the words stay 0, and waiting ranks read /proc instead.
 *
 * One lock guards all lists. The monitor holds it except while it sleeps. A word that it sleeps on may be unmapped
 * meanwhile: then the kernel returns EFAULT. The monitor waits for nothing else under the lock, since new groups and
 * exit() wait for it. So it checks every 2 ms whether a process in exit() has ended. tests/models/liveness_monitor.pml
 * checks the protocol.
 */
#include "engine/failure/liveness_monitor.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/host/sched_slice.h"
#include "base/process/fork.h"
#include "base/process/thread.h"
#include "base/wait/futex_waitv.h"
#include "engine/failure/fault.h"
#include "engine/failure/peer_death.h"
#include "engine/failure/peers.h"

#define SLEEP_NS       250000000 /* bound of a sleep: for a wake that another monitor could not pass on */
#define SLEEP_BLIND_NS 5000000   /* the same without futex_waitv */
#define SLEEP_EXIT_NS  2000000   /* the same while a process in exit() is about to end */
#define EXIT_NS        100000000 /* bound of waiting for such a process to free its memory */

/* The kernel's struct robust_list_head. */
struct robust_head {
    _Atomic uintptr_t first;
    long distance;
    uintptr_t pending;
};
static_assert(sizeof(_Atomic uintptr_t) == sizeof(void *), "the kernel follows addresses");

struct monitor {
    struct robust_head owned; /* segments, through life_next; ends at its own address */
    pthread_t thread;
    pthread_cond_t started;
    pid_t process; /* a forked child has no liveness monitor */
    uint32_t tid;  /* 0: the kernel takes no list */
    int users;
    bool ready;
    bool stop;
    _Atomic uint32_t event_count; /* grows when the lists have changed */
};

struct watched {
    struct tti_engine *engine;
    struct watched *next;
    struct watched **link; /* that points here */
    bool covered; /* another watched group has the same processes: this one is looked at when one of them has ended */
    uint64_t known[TTI_MAX_RANKS / 64];  /* ranks whose processes have ended */
    uint64_t ending[TTI_MAX_RANKS / 64]; /* of these: in exit(), and /proc still has the process */
    int64_t ended_ns;                    /* when they count as ended in any case; 0: there are none */
};

static struct tti_fork_mutex lock = TTI_FORK_MUTEX_INIT;
static struct monitor *current; /* NULL: it has no users */
static struct watched *watching;
static bool exiting; /* in exit() */

static void notify(struct monitor *k)
{
    /* release: pairs with the acquire in monitor_main() */
    atomic_fetch_add_explicit(&k->event_count, 1, memory_order_release);
    syscall(SYS_futex, &k->event_count, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- watching --------------------------------------------------------------------------------------------------- */

static bool is_in(const uint64_t *ranks, int rank)
{
    return (ranks[rank / 64] >> (rank % 64) & 1) != 0;
}

/* A peer is marked: it is dead, or about to leave. */
static void record_end(struct watched *w, int rank)
{
    const uint64_t bit = UINT64_C(1) << (rank % 64);
    w->known[rank / 64] |= bit;
    if (tti_peer_end(w->engine, rank, true) == TTI_PEER_DEAD) {
        tti_fault_death(w->engine, rank);
    } else if (!tti_has_left(w->engine, rank)) { /* it is in exit() */
        w->ending[rank / 64] |= bit;
        w->ended_ns = tti_now_ns() + EXIT_NS;
    }
}

/* Whether the process has ended so far that its pidfd is readable; true, too, if there is no pidfd. */
static bool is_reaped(const struct tti_engine *e, int rank)
{
    const struct tti_proc_id id = tti_peer_id(e, rank);
    const int fd = tti_proc_descriptor(&id);
    if (fd < 0) {
        return true;
    }
    const bool ended = poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) > 0;
    close(fd);
    return ended;
}

/* Ranks in exit() leave when their processes have ended. True if some have not. */
static bool poll_for_exits(struct watched *w)
{
    const bool over = tti_now_ns() >= w->ended_ns;
    bool more = false;
    for (int r = 0; r < w->engine->size; r++) {
        if (is_in(w->ending, r)) {
            if (over || is_reaped(w->engine, r)) {
                w->ending[r / 64] &= ~(UINT64_C(1) << (r % 64));
                tti_fault_left(w->engine, r);
            } else {
                more = true;
            }
        }
    }
    w->ended_ns = more ? w->ended_ns : 0;
    return more;
}

/* The kernel marks one segment after the other: a process that has ended in one group has ended in all. */
static void record_end_everywhere(const struct tti_engine *e, int rank)
{
    const struct tti_proc_id dead = tti_peer_id(e, rank);
    for (struct watched *w = watching; w; w = w->next) {
        for (int r = 0; r < w->engine->size; r++) {
            const struct tti_proc_id id = tti_peer_id(w->engine, r);
            const bool is_it = tti_proc_same(&id, &dead) || (w->engine == e && r == rank);
            if (is_it && r != w->engine->rank && !is_in(w->known, r)) {
                record_end(w, r);
            }
        }
    }
}

static void poll_for_deaths(void)
{
    for (struct watched *w = watching; w; w = w->next) {
        for (int r = 0; r < w->engine->size && !w->covered; r++) {
            struct tti_segment_header *h = tti_home(w->engine, r);
            if (r != w->engine->rank && !is_in(w->known, r) && tti_segment_is_marked(h)) {
                /* the kernel has woken one sleeper at most: wake the others */
                syscall(SYS_futex, &h->life, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
                record_end_everywhere(w->engine, r);
            }
        }
    }
}

struct words {
    unsigned count;
    struct tti_waitv entries[TTI_WAITV_MAX];
    struct tti_proc_id of[TTI_WAITV_MAX];
};

static bool has(const struct words *all, const struct tti_proc_id *id)
{
    for (unsigned i = 1; i < all->count; i++) {
        if (tti_proc_same(&all->of[i], id)) {
            return true;
        }
    }
    return false;
}

/* One word of each process. If there are more than the kernel takes, every rank begins with the next rank. So each
 * process is watched by some monitors, and those wake the others. */
static void add_peers(struct words *all, const struct watched *w)
{
    const struct tti_engine *e = w->engine;
    for (int i = 1; i < e->size && all->count < TTI_WAITV_MAX && !w->covered; i++) {
        const int r = (e->rank + i) % e->size;
        struct tti_segment_header *h = tti_home(e, r);
        const struct tti_proc_id id = tti_peer_id(e, r);
        /* relaxed: the kernel compares it once more */
        const uint32_t life = atomic_load_explicit(&h->life, memory_order_relaxed);
        if (life == 0 || is_in(w->known, r) || (!e->covers && tti_has_left(e, r)) || has(all, &id)) {
            continue;
        }
        all->of[all->count] = id;
        /* a mark since the load ends the sleep at once */
        all->entries[all->count++] = (struct tti_waitv){
            .value = life & ~FUTEX_OWNER_DIED, .address = (uintptr_t)&h->life, .flags = TTI_WAITV_U32};
    }
}

static void sleep_on(struct monitor *k, const struct words *all, int64_t most_ns)
{
    static _Atomic bool no_waitv; /* relaxed: a property of the kernel */
    if (!atomic_load_explicit(&no_waitv, memory_order_relaxed)) {
        long r = tti_waitv(all->entries, all->count, tti_now_ns() + most_ns);
        if (r >= 0 || errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR) {
            return;
        }
        if (tti_waitv_is_missing(errno)) {
            atomic_store_explicit(&no_waitv, true, memory_order_relaxed);
        }
    }
    struct timespec limit = {.tv_nsec = most_ns < SLEEP_BLIND_NS ? most_ns : SLEEP_BLIND_NS};
    syscall(SYS_futex, &k->event_count, FUTEX_WAIT_PRIVATE, (uint32_t)all->entries[0].value, &limit, NULL, 0);
}

static void register_robust_list(struct monitor *k)
{
    k->owned = (struct robust_head){.first = (uintptr_t)&k->owned,
                                    .distance = (long)offsetof(struct tti_segment_header, life) -
                                                (long)offsetof(struct tti_segment_header, life_next)};
    if (syscall(SYS_set_robust_list, &k->owned, sizeof(k->owned)) == 0) {
        k->tid = (uint32_t)syscall(SYS_gettid);
    }
    tti_fork_mutex_lock(&lock);
    k->ready = true;
    pthread_cond_broadcast(&k->started);
    tti_fork_mutex_unlock(&lock);
}

static void *monitor_main(void *argument)
{
    struct monitor *k = argument;
    struct words all;
    prctl(PR_SET_NAME, "tutti-monitor", 0, 0, 0);
    tti_request_short_slices();
    register_robust_list(k);
    for (;;) {
        /* acquire: pairs with notify(); a later change ends the sleep at once */
        const uint32_t seen = atomic_load_explicit(&k->event_count, memory_order_acquire);
        all.entries[0] = (struct tti_waitv){
            .value = seen, .address = (uintptr_t)&k->event_count, .flags = TTI_WAITV_U32 | FUTEX_PRIVATE_FLAG};
        all.count = 1;
        tti_fork_mutex_lock(&lock);
        const bool stop = k->stop;
        bool ending = false;
        if (!stop) {
            poll_for_deaths();
            for (struct watched *w = watching; w; w = w->next) {
                ending = (w->ended_ns != 0 && poll_for_exits(w)) || ending;
                add_peers(&all, w);
            }
        }
        tti_fork_mutex_unlock(&lock);
        if (stop) {
            return NULL;
        }
        sleep_on(k, &all, ending ? SLEEP_EXIT_NS : SLEEP_NS);
    }
}

/* With the lock held: what the monitor has seen before it could know of this group. */
static void record_earlier_ends(struct watched *w)
{
    for (int r = 0; r < w->engine->size; r++) {
        if (r != w->engine->rank && tti_segment_is_marked(tti_home(w->engine, r))) {
            record_end(w, r);
        }
    }
}

void tti_liveness_watch(struct tti_engine *e, struct tti_engine *covering)
{
    struct watched *w = calloc(1, sizeof(*w));
    if (!w) {
        return; /* other monitors raise the alarm, and waiting ranks check their peers */
    }
    w->engine = e;
    w->covered = covering != NULL;
    e->watched = w;
    tti_fork_mutex_lock(&lock);
    w->next = watching;
    w->link = &watching;
    if (w->next) {
        w->next->link = &w->next;
    }
    watching = w;
    bool changed = !covering;
    if (covering) {
        changed = !covering->covers;
        covering->covers = true;
        record_earlier_ends(w);
    }
    if (current && changed) {
        notify(current);
    }
    tti_fork_mutex_unlock(&lock);
}

void tti_liveness_unwatch(struct tti_engine *e)
{
    struct watched *w = e->watched;
    if (!w) {
        return;
    }
    e->watched = NULL;
    tti_fork_mutex_lock(&lock);
    *w->link = w->next;
    if (w->next) {
        w->next->link = w->link;
    }
    if (current && !w->covered) {
        notify(current); /* it may sleep on words that will be unmapped */
    }
    tti_fork_mutex_unlock(&lock);
    free(w);
}

/* ---- being watched ---------------------------------------------------------------------------------------------- */

/* With the lock held. In a forked child everything here is the parent's, and the segments are unmapped. */
static void forget_parent(void)
{
    if (!current || current->process == getpid()) {
        return;
    }
    free(current);
    current = NULL;
    while (watching) {
        struct watched *next = watching->next;
        free(watching);
        watching = next;
    }
}

/* With the lock held. */
static struct monitor *start(void)
{
    struct monitor *k = calloc(1, sizeof(*k));
    if (!k) {
        return NULL;
    }
    k->process = getpid();
    pthread_cond_init(&k->started, NULL);
    const int code = tti_thread_create(&k->thread, NULL, monitor_main, k);
    if (code != 0) {
        pthread_cond_destroy(&k->started);
        free(k);
        return NULL;
    }
    current = k;
    return k;
}

static void mark_leaving(struct tti_segment_header *own)
{
    atomic_store_explicit(&own->leaving, 1, memory_order_release); /* pairs with tti_segment_leaves */
}

/* With the lock held. First the word, then the links: the kernel may walk the list at any time. */
static void add(struct monitor *k, struct tti_segment_header *own)
{
    if (exiting) { /* another thread has called exit() */
        mark_leaving(own);
    }
    /* release, all three: the list is complete whenever this process ends */
    atomic_store_explicit(&own->life, k->tid | FUTEX_WAITERS, memory_order_release);
    atomic_store_explicit(&own->life_next, atomic_load_explicit(&k->owned.first, memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(&k->owned.first, (uintptr_t)&own->life_next, memory_order_release);
}

/* With the lock held. */
static void take_out(struct monitor *k, struct tti_segment_header *own)
{
    _Atomic uintptr_t *at = &k->owned.first;
    for (;;) {
        const uintptr_t next = atomic_load_explicit(at, memory_order_relaxed); /* changed under the lock only */
        if (next == (uintptr_t)&k->owned) {
            return;
        }
        if (next == (uintptr_t)&own->life_next) {
            atomic_store_explicit(at, atomic_load_explicit(&own->life_next, memory_order_relaxed),
                                  memory_order_release);
            break;
        }
        at = (_Atomic uintptr_t *)next;
    }
    /* release: `left` comes before. A monitor that sleeps on this word then chooses another one of this process */
    atomic_store_explicit(&own->life, 0, memory_order_release);
    syscall(SYS_futex, &own->life, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

bool tti_liveness_register(struct tti_segment_header *own)
{
    tti_fork_mutex_lock(&lock);
    forget_parent();
    struct monitor *k = current ? current : start();
    if (k) {
        k->users++; /* so it does not end during the wait below */
    }
    while (k && !k->ready) {
        pthread_cond_wait(&k->started, &lock.mutex);
    }
    if (k && k->tid != 0) {
        add(k, own);
    }
    tti_fork_mutex_unlock(&lock);
    return k != NULL;
}

void tti_liveness_unregister(struct tti_segment_header *own)
{
    struct monitor *last = NULL;
    tti_fork_mutex_lock(&lock);
    struct monitor *k = current;
    if (k && k->process == getpid()) {
        take_out(k, own);
        if (--k->users == 0) {
            k->stop = true;
            notify(k);
            current = NULL;
            last = k;
        }
    }
    tti_fork_mutex_unlock(&lock);
    if (last) {
        pthread_join(last->thread, NULL);
        pthread_cond_destroy(&last->started);
        free(last);
    }
}

/*
 * exit() with groups that still exist, or are just being made: their ranks leave, they have not died. Peers see it when
 * the process has ended, not now. Peers that need this rank then fail with errors of their own, and a launcher should
 * see the end of this process first.
 */
__attribute__((destructor)) static void leave_at_exit(void)
{
    tti_fork_mutex_lock(&lock);
    const bool own = current && current->process == getpid();
    for (const struct watched *w = own ? watching : NULL; w; w = w->next) {
        if (atomic_load_explicit(&tti_home(w->engine, w->engine->rank)->life, memory_order_relaxed) == 0) {
            tti_fault_leave(w->engine); /* the kernel will not mark it */
        }
    }
    const uintptr_t end = (uintptr_t)(own ? &current->owned : NULL);
    uintptr_t at = own && current->ready ? atomic_load_explicit(&current->owned.first, memory_order_relaxed) : end;
    while (at != end) { /* under the lock the list stays as it is */
        struct tti_segment_header *h =
            (struct tti_segment_header *)(at - offsetof(struct tti_segment_header, life_next));
        mark_leaving(h);
        at = atomic_load_explicit(&h->life_next, memory_order_relaxed);
    }
    exiting = true;
    tti_fork_mutex_unlock(&lock);
}
