/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One round: some processes form a group and repeat an operation, and something happens to one rank, the victim, at a
 * given point. If the victim ends, the call that fails must name it, and later calls must return REVOKED. If the victim
 * is only disturbed, every call must succeed, or name the resource that was missing. In either case nothing may be left
 * behind. A rank that makes no progress for more than a minute hangs.
 *
 * The ranks write their results into memory that they share with the test, since a rank may end at any moment.
 */
#ifndef TESTS_FAULTS_SUPPORT_ROUND_H
#define TESTS_FAULTS_SUPPORT_ROUND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <tutti/tutti.h>

#include "clock.h"
#include "time_limits.h"

#define RANKS_MOST 8
#define STOPPED_MS 8000 /* of calls that wait for a rank that is stopped; the others arrive sooner on a busy machine */

/* Where the victim is when it happens. */
#define POINTS(X)                                                                                                      \
    X(BEFORE_INIT, "before init")                                                                                      \
    X(INIT, "in init")                                                                                                 \
    X(BETWEEN, "between calls")                                                                                        \
    X(WAITING, "waiting for others")                                                                                   \
    X(INSIDE, "inside a call")                                                                                         \
    X(BEFORE_DESTROY, "before destroy")

/* What happens to the victim. Up to STOP the other ranks lose it; otherwise it goes on. */
#define DISTURBANCES(X)                                                                                                \
    X(KILL, "SIGKILL")                                                                                                 \
    X(SEGV, "SIGSEGV")                                                                                                 \
    X(DUMP, "core dump")                                                                                               \
    X(QUICK_EXIT, "_exit")                                                                                             \
    X(EXIT, "exit")                                                                                                    \
    X(EXEC, "exec")                                                                                                    \
    X(STOP, "SIGSTOP")                                                                                                 \
    X(PAUSE, "SIGSTOP and SIGCONT")                                                                                    \
    X(MAIN_EXIT, "end of the main thread")                                                                             \
    X(CALLER_EXIT, "end of each calling thread")                                                                       \
    X(STORM, "storm of signals")                                                                                       \
    X(NO_MEMORY, "no memory")                                                                                          \
    X(NO_DESCRIPTORS, "no descriptors")

/* The operation that the ranks repeat. */
#define WORKS(X)                                                                                                       \
    X(BARRIER, "barrier")                                                                                              \
    X(SMALL, "small all_reduce")                                                                                       \
    X(LARGE_REDUCE, "large all_reduce")                                                                                \
    X(HEAP, "all_reduce in the heap")                                                                                  \
    X(BROADCAST, "broadcast")                                                                                          \
    X(ROOTED, "reduce, gather, scatter")                                                                               \
    X(PARTS, "all_gather, reduce_scatter, all_to_all")                                                                 \
    X(MESSAGES, "messages")                                                                                            \
    X(ASYNC, "asynchronous all_reduce")                                                                                \
    X(LANES, "all_reduce on three lanes")                                                                              \
    X(GROUPS, "groups made and destroyed")                                                                             \
    X(PERSISTENT, "a persistent list")

/* Places in the library: its system calls. Between two places the library only touches memory; points in time (TIME:
 * after a delay) test those stretches. */
#define PLACES(X)                                                                                                      \
    X(TIME, "")                                                                                                        \
    X(MEMORY, "allocation")                                                                                            \
    X(MAP, "mmap")                                                                                                     \
    X(UNMAP, "munmap")                                                                                                 \
    X(COMMIT, "fallocate")                                                                                             \
    X(FILE, "memory file")                                                                                             \
    X(THREAD, "thread start")                                                                                          \
    X(YIELD, "yield")                                                                                                  \
    X(SLEEP, "sleep on a futex")                                                                                       \
    X(WAKE, "wake-up")                                                                                                 \
    X(BARRIER, "membarrier")                                                                                           \
    X(CLOCK, "look at the clock")                                                                                      \
    X(SEND, "send")                                                                                                    \
    X(RECEIVE, "receive")                                                                                              \
    X(CONNECT, "connect or accept")                                                                                    \
    X(POLL, "poll")                                                                                                    \
    X(CLOSE, "close")

#define ENUM_POINT(name, text)       POINT_##name,
#define ENUM_DISTURBANCE(name, text) DISTURBANCE_##name,
#define ENUM_WORK(name, text)        WORK_##name,
#define ENUM_PLACE(name, text)       PLACE_##name,
enum point { POINTS(ENUM_POINT) POINT_COUNT };
enum disturbance { DISTURBANCES(ENUM_DISTURBANCE) DISTURBANCE_COUNT };
enum work { WORKS(ENUM_WORK) WORK_COUNT };
enum place { PLACES(ENUM_PLACE) PLACE_COUNT };
extern const char *const point_names[];
extern const char *const disturbance_names[];
extern const char *const work_names[];
extern const char *const place_names[];

/* System calls that kernels of earlier years do not have, or that containers may refuse: refused to all ranks. */
enum {
    MISSING_ROBUST_LISTS = 1,
    MISSING_WAITV = 2,
    MISSING_PIDFD = 4,
    MISSING_MEMBARRIER = 8,
    MISSING_PROCESS_READ = 16
};

struct round {
    int32_t size;
    int32_t victim;
    enum point point;
    enum disturbance disturbance;
    enum work work;
    enum place place;   /* of POINT_INIT and POINT_INSIDE */
    int32_t occurrence; /* from 1: which visit of the place; else the end of the call */
    int32_t calls;      /* that go well before the one in which it happens */
    int32_t delay_us;   /* from the point to what happens */
    int32_t pause_us;   /* from SIGSTOP to SIGCONT */
    int32_t init_ms;    /* deadline of init */
    int32_t call_ms;    /* and of calls */
    unsigned missing;   /* MISSING_*, of the kernel */
    size_t resident;    /* bytes that the victim touches before */
};

#define AFTERWARDS 3 /* calls behind the one that was disturbed */

struct seen {
    _Atomic int32_t at; /* calls that have begun; -1 = in init, -2 = before init */
    int64_t began_ns;   /* the last of them, or init */
    int64_t returned_ns;
    tutti_status init;   /* how init went */
    tutti_status status; /* the first error of a call */
    tutti_status next;   /* and the call after it */
    tutti_error error;
    char faults[600];         /* what the rank itself found wrong */
    _Atomic int32_t finished; /* the rank has finished */
};

struct round_state {
    struct round round;
    char store[64];
    _Atomic int32_t happened; /* it has happened, or is about to */
    _Atomic int32_t reached;  /* at its place */
    int64_t happened_ns;
    int64_t control_late_ns; /* how much too long the control process's first sleep after it took; 0: there was none */
    pid_t pids[RANKS_MOST];
    struct seen seen[RANKS_MOST];
};

/* ---- round_state.c: starts and watches a round ---- */

struct round_state *round_state_make(void);
/* Runs a round; false if a rank hung. Ranks that remained have been killed. */
bool run_round(struct round_state *s, const struct round *r);

/* A process of a test that runs no rounds: it ends with this one, or after LIMIT_S. `actor` does not return. */
pid_t start_actor(void (*actor)(int32_t number), int32_t number);

/* The reason why crashing processes leave no core file in their working directory; NULL if they do. */
const char *no_core_files(void);
void print_round(const struct round *r, FILE *to);

/* ---- check_round.c: checks what the ranks returned ---- */

#define COMPLAINT 4096 /* bytes */

/* Runs the round and checks its results: *text is empty if all is as it must be. A round whose ranks had no CPU until a
 * deadline is repeated with twice the time. As run_round. */
bool run_checked_round(struct round_state *s, const struct round *r, char text[COMPLAINT]);
/* Runs the round and checks its results. Prints a complaint; returns the number of them, 0 or 1. */
int check_round(struct round_state *s, const struct round *r);
/* Whether a rank had to wait for the victim when it happened, and got an error that names it. */
bool has_waited(const struct round_state *s, int32_t rank);

static inline bool is_end(enum disturbance disturbance)
{
    return disturbance <= DISTURBANCE_STOP;
}

/* The resource is available again after the call. */
static inline bool is_resource_error(enum disturbance disturbance)
{
    return disturbance == DISTURBANCE_NO_MEMORY || disturbance == DISTURBANCE_NO_DESCRIPTORS;
}

static inline bool happens_in_init(const struct round *r)
{
    return r->point == POINT_INIT || r->point == POINT_BEFORE_INIT;
}

/* ---- rank.c: a rank's life ---- */

_Noreturn void be_rank(struct round_state *s, int32_t rank);

void pause_us(int64_t us);

/* Folders of this process. Of the thread and not of the process: where the main thread has ended, those of the process
 * are empty. */
#define DESCRIPTORS "/proc/thread-self/fd"
#define THREADS     "/proc/self/task"

/* Entries of one of them, including the descriptor that reads it. */
int entries(const char *path);
/* The same, once the number has dropped that far or a while has passed: the kernel still lists a joined thread for a
 * moment, and a store's server runs until all clients have gone. */
int settles(const char *path, int wanted);
/* Segments and doorbells that are mapped. */
int mappings(void);

__attribute__((format(printf, 2, 3))) void fault(struct seen *s, const char *format, ...);

/* ---- works.c: the operations, with their right results ---- */

/* The memory of a rank's tensors. */
struct ground {
    tutti_group *group;
    const struct round *round;
    float *in;
    float *out;
};

/* Memory for a group's operations; those of the heap are allocated together. */
tutti_status ground_open(struct ground *ground, tutti_group *group, const struct round *r, tutti_error *error);
/* Returns INTERNAL for a wrong result. `apart`: runs in a thread that ends. */
tutti_status operate(const struct ground *ground, int32_t step, bool apart, tutti_error *error);

/* ---- places.c: the labelled places ---- */

/* From now on `happen` is called when the place is reached for this number of times. Or every call of it fails from
 * that one on. */
void place_arm(enum place place, int32_t occurrence, void (*happen)(void *user), void *user);
void place_fail(enum place place, int32_t occurrence);
void place_disarm(void);
/* Whether places of this kind are seen in this build: sanitizers have allocators of their own. */
bool place_is_seen(enum place place);

/* ---- old_kernel.c: older kernels ---- */

/* This process and its children are refused these system calls (MISSING_*). False if the system does not allow that. */
bool refuse(unsigned missing);

#endif
