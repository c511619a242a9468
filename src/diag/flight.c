/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writing side. Each process has one memory, made with its first group: the one inherited from a launcher, if no
 * other living process owns it (a rank may be a script that starts several programs); else a file in the folder of
 * TUTTI_TRACE_DIR; else a memory file.
 *
 * When the process has no group, it unmaps its own memory. The addresses stay reserved: threads may remember tallies
 * there, and no later memory may have the same addresses.
 *
 * After a fork the groups are not the child's, so the child records nothing until its own first group makes a new
 * memory.
 */
#include "diag/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process/fork.h"
#include "base/process/proc.h"
#include "diag/file.h"

static struct tti_fork_mutex lock = TTI_FORK_MUTEX_INIT; /* of groups, tallies, and the memory itself */
static unsigned char *_Atomic memory; /* release in open_memory, acquire in memory_now; NULL = none */
static bool tried;
static int own_fd = -1;  /* of a memory that this process has made */
static atomic_bool full; /* relaxed: a setting */
static uint32_t next_slot;
static uint32_t next_tally;

static struct tti_flight_head *head_of(unsigned char *m)
{
    return (struct tti_flight_head *)m;
}

static struct tti_flight_group *group_at(unsigned char *m, uint32_t slot)
{
    return (struct tti_flight_group *)(m + TTI_FLIGHT_AT_GROUPS) + slot;
}

static struct tti_flight_tally *tally_at(unsigned char *m, uint32_t index)
{
    return (struct tti_flight_tally *)(m + TTI_FLIGHT_AT_TALLIES) + index;
}

static struct tti_flight_entry *entry_of(unsigned char *m, uint64_t number)
{
    return (struct tti_flight_entry *)(m + TTI_FLIGHT_AT_RING) + (number - 1) % TTI_FLIGHT_RING;
}

static unsigned char *memory_now(void)
{
    return atomic_load_explicit(&memory, memory_order_acquire);
}

/* ---- making the memory ---------------------------------------------------------------------------------------- */

static unsigned char *map(int fd)
{
    void *m = mmap(NULL, TTI_FLIGHT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return m == MAP_FAILED ? NULL : m;
}

static void fill_head(struct tti_flight_head *h, const struct tti_proc_id *own)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    h->started = own->started;
    h->space = own->space;
    h->begun_ns = tti_now_ns();
    h->realtime_offset_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - h->begun_ns;
}

static void count_bytes(unsigned char *m, unsigned kind, uint64_t calls, uint64_t bytes)
{
    struct tti_flight_counter *c = &head_of(m)->counters[kind % TTI_FLIGHT_KINDS];
    /* relaxed, all: statistics */
    atomic_fetch_add_explicit(&c->calls, calls, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->bytes, bytes, memory_order_relaxed);
}

static void count(unsigned char *m, const struct tti_flight_op *what, uint64_t calls)
{
    count_bytes(m, what->kind, calls, calls * what->bytes);
}

static void count_failures(unsigned char *m, unsigned kind, uint64_t failures)
{
    atomic_fetch_add_explicit(&head_of(m)->counters[kind % TTI_FLIGHT_KINDS].failures, failures, memory_order_relaxed);
}

/* Removes what the rank's previous program has left, except the counters. */
static void clear(unsigned char *m)
{
    for (uint32_t i = 0; i < TTI_FLIGHT_TALLIES; i++) {
        const struct tti_flight_tally *t = tally_at(m, i);
        if (t->used) {
            count(m, &t->what, t->ended);
        }
    }
    memset(m + TTI_FLIGHT_AT_GROUPS, 0, TTI_FLIGHT_BYTES - TTI_FLIGHT_AT_GROUPS);
    atomic_store_explicit(&head_of(m)->next, 0, memory_order_relaxed);
    atomic_store_explicit(&head_of(m)->unrecorded, 0, memory_order_relaxed);
}

/* Serializes the programs of a rank that claim the memory. Without locks in the file system it succeeds. */
static bool lock_file(int fd, short type)
{
    struct flock first_byte = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};
    return fcntl(fd, F_SETLK, &first_byte) == 0 || (errno != EAGAIN && errno != EACCES);
}

/* Makes the process the owner, unless the owner is another living process. */
static bool claim(unsigned char *m, int fd, const struct tti_proc_id *own)
{
    struct tti_flight_head *h = head_of(m);
    if (!lock_file(fd, F_WRLCK)) {
        return false;
    }
    /* relaxed, all: the lock orders them */
    uint32_t owner = atomic_load_explicit(&h->owner, memory_order_relaxed);
    const struct tti_proc_id other = {.pid = owner, .started = h->started, .space = h->space};
    const enum tti_proc_state state = owner == 0 ? TTI_PROC_GONE : tti_proc_query(&other).state;
    const bool ours = state == TTI_PROC_GONE || state == TTI_PROC_ZOMBIE;
    if (ours && owner != 0) {
        clear(m);
    }
    if (ours) {
        fill_head(h, own);
        atomic_store_explicit(&h->owner, own->pid, memory_order_relaxed);
    }
    lock_file(fd, F_UNLCK);
    return ours;
}

static unsigned char *inherit(const struct tti_proc_id *own)
{
    const char *text = getenv(TTI_FLIGHT_VARIABLE);
    char *end = NULL;
    const long fd = text ? strtol(text, &end, 10) : -1;
    if (fd < 0 || fd > INT32_MAX || *end != '\0' || end == text || !tti_flight_is((int)fd)) {
        return NULL;
    }
    unsigned char *m = map((int)fd);
    if (m && !claim(m, (int)fd, own)) {
        munmap(m, TTI_FLIGHT_BYTES);
        return NULL;
    }
    if (m) {
        fcntl((int)fd, F_SETFD, FD_CLOEXEC); /* programs that this one starts do not record there */
    }
    return m;
}

static unsigned char *make(const struct tti_proc_id *own)
{
    static unsigned made; /* under the lock */
    const char *folder = getenv("TUTTI_TRACE_DIR");
    char name[512] = "";
    if (folder && *folder) {
        mkdir(folder, 0777); /* often it is there; any other failure shows when the file is made */
        char host[64] = "";
        gethostname(host, sizeof(host) - 1);
        snprintf(name, sizeof(name), "%.380s/%s.%u.%llu.%u.flight", folder, host, own->pid,
                 (unsigned long long)own->started, made++);
    }
    const char *job = getenv("TUTTI_JOB");
    int fd = *name ? tti_flight_make(name, job, -1, 0) : -1;
    fd = fd >= 0 ? fd : tti_flight_make(NULL, job, -1, 0);
    unsigned char *m = fd >= 0 ? map(fd) : NULL;
    if (!m || !claim(m, fd, own)) {
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    own_fd = fd; /* stays open: `tutti trace` finds it in /proc */
    return m;
}

static void after_fork_in_child(void)
{
    atomic_store_explicit(&memory, NULL, memory_order_release);
    tried = false;
    if (own_fd >= 0) {
        close(own_fd);
    }
    own_fd = -1;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* The caller holds the lock. */
static unsigned char *open_memory(void)
{
    unsigned char *m = memory_now();
    if (m || tried) {
        return m;
    }
    struct tti_proc_id own;
    tried = true;
    tti_proc_self(&own);
    m = inherit(&own);
    m = m ? m : make(&own);
    if (m) {
        atomic_store_explicit(&memory, m, memory_order_release);
    }
    return m;
}

/* ---- groups --------------------------------------------------------------------------------------------------- */

static bool is_used(struct tti_flight_group *g)
{
    const uint32_t state = atomic_load_explicit(&g->state, memory_order_relaxed); /* changes under the lock */
    return state == TTI_FLIGHT_ALIVE || state == TTI_FLIGHT_OPENING;
}

static bool any_used(unsigned char *m)
{
    for (uint32_t slot = 0; slot < TTI_FLIGHT_GROUPS; slot++) {
        if (is_used(group_at(m, slot))) {
            return true;
        }
    }
    return false;
}

/* The next slot without a living group; NULL: all are in use. */
static struct tti_flight_group *free_slot(unsigned char *m)
{
    for (uint32_t tries = 0; tries < TTI_FLIGHT_GROUPS; tries++) {
        const uint32_t slot = next_slot++ % TTI_FLIGHT_GROUPS;
        struct tti_flight_group *g = group_at(m, slot);
        if (!is_used(g)) {
            const uint32_t id = (g->id + TTI_FLIGHT_GROUPS) & 0xffffu;
            memset(g, 0, sizeof(*g));
            g->id = id - TTI_FLIGHT_SLOT(id) + slot;
            return g;
        }
    }
    return NULL;
}

struct tti_flight_group *tti_flight_join(const struct tti_flight_member *member, enum tti_flight_mode mode)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (mode == TTI_FLIGHT_OFF) {
        return NULL;
    }
    pthread_once(&once, watch_forks);
    tti_fork_mutex_lock(&lock);
    unsigned char *m = open_memory();
    const bool first = m && !any_used(m);
    struct tti_flight_group *g = m ? free_slot(m) : NULL;
    if (g) {
        struct tti_flight_head *h = head_of(m);
        if (first || mode == TTI_FLIGHT_FULL) { /* for all groups of the process */
            atomic_store_explicit(&full, mode == TTI_FLIGHT_FULL, memory_order_relaxed);
            h->full = mode == TTI_FLIGHT_FULL;
        }
        if (member->is_world && h->world_size <= 0) { /* unless a launcher or an earlier world has set it */
            h->rank = member->rank;
            h->world_size = member->size;
        }
        g->rank = member->rank;
        g->size = member->size;
        g->world_rank = member->world_rank;
        g->lanes = member->lanes;
        g->opened_by = (uint32_t)member->opened_by;
        g->opened_ns = tti_now_ns();
        snprintf(g->name, sizeof(g->name), "%s", member->name);
        /* release: readers see the fields above when they see the state */
        atomic_store_explicit(&g->state, TTI_FLIGHT_OPENING, memory_order_release);
    } else if (m) {
        atomic_fetch_add_explicit(&head_of(m)->unrecorded, 1, memory_order_relaxed); /* a statistic */
    }
    tti_fork_mutex_unlock(&lock);
    return g;
}

void tti_flight_open(struct tti_flight_group *group, const char *backend)
{
    if (group) {
        tti_fork_mutex_lock(&lock);
        if (memory_now()) {
            snprintf(group->backend, sizeof(group->backend), "%s", backend);
            atomic_store_explicit(&group->state, TTI_FLIGHT_ALIVE, memory_order_release); /* as in tti_flight_join */
        }
        tti_fork_mutex_unlock(&lock);
    }
}

void tti_flight_leave(struct tti_flight_group *group)
{
    if (group) {
        tti_fork_mutex_lock(&lock);
        if (memory_now()) {
            const bool was_open = atomic_load_explicit(&group->state, memory_order_relaxed) == TTI_FLIGHT_ALIVE;
            atomic_store_explicit(&group->state, was_open ? TTI_FLIGHT_ENDED : TTI_FLIGHT_FREE, memory_order_release);
        }
        tti_fork_mutex_unlock(&lock);
    }
}

void tti_flight_finish(void)
{
    tti_fork_mutex_lock(&lock);
    unsigned char *m = memory_now();
    if (m && own_fd >= 0 && !any_used(m)) {
        atomic_store_explicit(&memory, NULL, memory_order_release);
        (void)mmap(m, TTI_FLIGHT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        close(own_fd);
        own_fd = -1;
        tried = false;
    }
    tti_fork_mutex_unlock(&lock);
}

/* ---- operations ----------------------------------------------------------------------------------------------- */

size_t tti_flight_timed_from(void)
{
    return atomic_load_explicit(&full, memory_order_relaxed) ? 0 : TTI_FLIGHT_TIMED;
}

static uint64_t reserve(unsigned char *m, uint64_t count)
{
    /* relaxed: a number; entry->number is stored last */
    return atomic_fetch_add_explicit(&head_of(m)->next, count, memory_order_relaxed) + 1;
}

static inline __attribute__((always_inline)) struct tti_flight_entry *put(unsigned char *m, uint64_t number,
                                                                          const struct tti_flight_entry *entry)
{
    struct tti_flight_entry *e = entry_of(m, number);
    const struct tti_flight_op *what = &entry->what;
    atomic_store_explicit(&e->number, 0, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* only a help: readers detect a torn entry */
    /* Put together here: to load a word that has just been stored field by field takes long. */
    const uint64_t words[] = {(uint64_t)entry->begun_ns,
                              (uint64_t)entry->ended_ns,
                              entry->sequence,
                              what->count,
                              what->bytes,
                              what->kind | (uint64_t)what->dtype << 8 | (uint64_t)what->redop << 16 |
                                  (uint64_t)what->lane << 24 | (uint64_t)(uint32_t)what->root << 32,
                              entry->group | (uint64_t)(uint16_t)entry->status << 16 |
                                  (uint64_t)(uint32_t)entry->tag << 32};
    static_assert(sizeof(e->number) + sizeof(words) == sizeof(*e) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "");
    /* relaxed, all: the thread of the operation 4096 numbers ago may still write here */
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        atomic_store_explicit((_Atomic uint64_t *)e + 1 + i, words[i], memory_order_relaxed);
    }
    /* release: pairs with a reader's load of the number */
    atomic_store_explicit(&e->number, number, memory_order_release);
    return e;
}

static uint64_t add_entry(unsigned char *m, const struct tti_flight_entry *entry)
{
    const uint64_t number = reserve(m, 1);
    put(m, number, entry);
    return number;
}

uint64_t tti_flight_begin(struct tti_flight_group *group, const struct tti_flight_op *what, int32_t tag,
                          int64_t begun_ns)
{
    unsigned char *m = group ? memory_now() : NULL;
    if (!m) {
        return 0;
    }
    const struct tti_flight_entry entry = {.begun_ns = begun_ns == 0 && tti_flight_is_timed(what->bytes) ? tti_now_ns()
                                                                                                         : begun_ns,
                                           .what = *what,
                                           .group = (uint16_t)group->id,
                                           .status = TTI_FLIGHT_RUNNING,
                                           .tag = tag};
    return add_entry(m, &entry);
}

/* NULL if 4096 later operations have begun. */
static struct tti_flight_entry *find(unsigned char *m, uint64_t number)
{
    struct tti_flight_entry *e = m && number != 0 ? entry_of(m, number) : NULL;
    return e && atomic_load_explicit(&e->number, memory_order_relaxed) == number ? e : NULL;
}

int64_t *tti_flight_waits_since(uint64_t number)
{
    struct tti_flight_entry *e = find(memory_now(), number);
    /* relaxed, as in add_entry */
    return e && atomic_load_explicit((_Atomic int64_t *)&e->begun_ns, memory_order_relaxed) == 0 ? &e->begun_ns : NULL;
}

void tti_flight_arrived(uint64_t number, int64_t sequence)
{
    struct tti_flight_entry *e = find(memory_now(), number);
    if (e) { /* relaxed, as in add_entry */
        atomic_store_explicit((_Atomic uint64_t *)&e->sequence, (uint64_t)sequence, memory_order_relaxed);
    }
}

static bool is_message(const struct tti_flight_op *what)
{
    return what->kind == TUTTI_OP_SEND || what->kind == TUTTI_OP_RECV;
}

void tti_flight_end(struct tti_flight_group *group, uint64_t number, const struct tti_flight_op *what, int64_t sequence,
                    tutti_status status)
{
    unsigned char *m = number != 0 ? memory_now() : NULL;
    if (!m) {
        return;
    }
    struct tti_flight_entry *e = find(m, number);
    if (e) { /* relaxed, as in add_entry */
        const int64_t ended_ns = tti_flight_is_timed(what->bytes) ? tti_now_ns() : 0;
        atomic_store_explicit((_Atomic int64_t *)&e->ended_ns, ended_ns, memory_order_relaxed);
        atomic_store_explicit((_Atomic uint64_t *)&e->sequence, (uint64_t)sequence, memory_order_relaxed);
        atomic_store_explicit((_Atomic int16_t *)&e->status, (int16_t)status, memory_order_relaxed);
    }
    count(m, what, 1);
    if (status != TUTTI_OK) {
        count_failures(m, what->kind, 1);
    }
    if (!is_message(what) && sequence > 0) {
        atomic_store_explicit(&group->last[what->lane % TTI_FLIGHT_LANES], (uint64_t)sequence, memory_order_relaxed);
    }
}

uint64_t tti_flight_reserve(const struct tti_flight_group *group, uint64_t count)
{
    unsigned char *m = group ? memory_now() : NULL;
    return m ? reserve(m, count) : 0;
}

int64_t *tti_flight_put(const struct tti_flight_group *group, uint64_t number, const tutti_op *op, size_t bytes,
                        int64_t begun_ns)
{
    unsigned char *m = memory_now();
    const struct tti_flight_entry entry = {.begun_ns = begun_ns,
                                           .what = tti_flight_op_of(op, bytes),
                                           .group = (uint16_t)group->id,
                                           .status = TTI_FLIGHT_RUNNING,
                                           .tag = op->p2p_tag};
    struct tti_flight_entry *e = m ? put(m, number, &entry) : NULL;
    return e && begun_ns == 0 ? &e->begun_ns : NULL;
}

void tti_flight_settle(uint64_t number, int64_t sequence, tutti_status status, int64_t ended_ns)
{
    struct tti_flight_entry *e = find(memory_now(), number);
    if (e) { /* relaxed, as in add_entry */
        atomic_store_explicit((_Atomic int64_t *)&e->ended_ns, ended_ns, memory_order_relaxed);
        atomic_store_explicit((_Atomic uint64_t *)&e->sequence, (uint64_t)sequence, memory_order_relaxed);
        atomic_store_explicit((_Atomic int16_t *)&e->status, (int16_t)status, memory_order_relaxed);
    }
}

void tti_flight_count(tutti_operation kind, uint64_t calls, uint64_t bytes, uint64_t failures)
{
    unsigned char *m = memory_now();
    if (m && calls > 0) {
        count_bytes(m, kind, calls, bytes);
    }
    if (m && failures > 0) {
        count_failures(m, kind, failures);
    }
}

/* ---- tallies -------------------------------------------------------------------------------------------------- */

struct tti_flight_tally *tti_flight_tally_take(const struct tti_flight_group *group, const struct tti_flight_op *what,
                                               int32_t tag)
{
    struct tti_flight_tally *found = NULL;
    tti_fork_mutex_lock(&lock);
    unsigned char *m = group ? memory_now() : NULL;
    for (uint32_t tries = 0; m && !found && tries < TTI_FLIGHT_TALLIES; tries++) {
        struct tti_flight_tally *t = tally_at(m, next_tally++ % TTI_FLIGHT_TALLIES);
        if (!t->used) {
            *t = (struct tti_flight_tally){.what = *what, .group = (uint16_t)group->id, .used = 1, .tag = tag};
            found = t;
        }
    }
    tti_fork_mutex_unlock(&lock);
    return found;
}

static bool is_ours(const unsigned char *m, const struct tti_flight_tally *tally)
{
    const uintptr_t from = (uintptr_t)m + TTI_FLIGHT_AT_TALLIES;
    return m && (uintptr_t)tally >= from && (uintptr_t)tally < (uintptr_t)m + TTI_FLIGHT_AT_RING;
}

void tti_flight_tally_give(struct tti_flight_tally *tally)
{
    tti_fork_mutex_lock(&lock);
    unsigned char *m = memory_now();
    if (!is_ours(m, tally)) { /* NULL, of an earlier memory, or of the parent process */
        tti_fork_mutex_unlock(&lock);
        return;
    }
    struct tti_flight_group *g = group_at(m, TTI_FLIGHT_SLOT(tally->group));
    _Atomic uint64_t *last = &g->last[tally->what.lane % TTI_FLIGHT_LANES];
    const bool message = is_message(&tally->what);
    if (g->id == tally->group && !message && atomic_load_explicit(last, memory_order_relaxed) < tally->last) {
        atomic_store_explicit(last, tally->last, memory_order_relaxed);
    }
    count(m, &tally->what, tally->ended);
    if (tally->ended > 0) {
        const struct tti_flight_entry entry = {.sequence = tally->last,
                                               .what = tally->what,
                                               .group = tally->group,
                                               .tag = message                    ? tally->tag
                                                      : tally->ended < INT32_MAX ? (int32_t)tally->ended
                                                                                 : INT32_MAX};
        add_entry(m, &entry);
    }
    tally->used = 0;
    tti_fork_mutex_unlock(&lock);
}

void tti_flight_call_failed(struct tti_flight_tally *tally, tutti_status status)
{
    unsigned char *m = memory_now();
    if (!is_ours(m, tally)) {
        return;
    }
    tally->begun--; /* first, so that no reader sees it running */
    tally->ended--;
    const uint64_t sequence = tally->last;
    tally->last -= sequence > 0 ? 1 : 0; /* an estimate: the call before may have used another tally */
    const struct tti_flight_entry entry = {
        .sequence = sequence, .what = tally->what, .group = tally->group, .status = (int16_t)status, .tag = tally->tag};
    add_entry(m, &entry);
    count(m, &tally->what, 1);
    count_failures(m, tally->what.kind, 1);
}
