/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One round: some processes become the ranks of a group and repeat an operation, and one of them comes to an end at a
 * given point. The others have to hear of it, by name, in the call that it spoils, to get REVOKED from then on, and to
 * leave nothing behind. A rank that hears nothing for a minute hangs.
 *
 * What the ranks have seen lies in memory that they share with the test, since a rank may end at any moment.
 */
#ifndef TESTS_FAULTS_ROUND_H
#define TESTS_FAULTS_ROUND_H

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#define RANKS_MOST 8
#define PATIENCE_S 100 /* far beyond what a slow machine needs */
#define CALL_MS    60000
#define LARGE      (1 << 20) /* elements */

/* Where the victim is when it ends. */
#define POINTS(X)                                                                                                      \
    X(BEFORE_INIT, "before init")                                                                                      \
    X(INIT, "in init")                                                                                                 \
    X(BETWEEN, "between calls")                                                                                        \
    X(WAITING, "waiting for others")                                                                                   \
    X(INSIDE, "inside a call")                                                                                         \
    X(BEFORE_DESTROY, "before destroy")
/* How it ends. */
#define ENDS(X)                                                                                                        \
    X(KILL, "SIGKILL")                                                                                                 \
    X(SEGV, "SIGSEGV")                                                                                                 \
    X(QUICK_EXIT, "_exit")                                                                                             \
    X(EXIT, "exit")                                                                                                    \
    X(EXEC, "exec")                                                                                                    \
    X(STOP, "SIGSTOP")
/* What the ranks do meanwhile. */
#define WORKS(X)                                                                                                       \
    X(BARRIER, "barrier")                                                                                              \
    X(SMALL, "small all_reduce")                                                                                       \
    X(LARGE_REDUCE, "large all_reduce")                                                                                \
    X(BROADCAST, "broadcast")                                                                                          \
    X(MESSAGES, "messages")                                                                                            \
    X(ASYNC, "asynchronous all_reduce")

#define ENUM_POINT(name, text) POINT_##name,
#define ENUM_END(name, text)   END_##name,
#define ENUM_WORK(name, text)  WORK_##name,
#define TEXT_OF(name, text)    text,
enum point { POINTS(ENUM_POINT) POINT_COUNT };
enum end { ENDS(ENUM_END) END_COUNT };
enum work { WORKS(ENUM_WORK) WORK_COUNT };
static const char *const point_names[] = {POINTS(TEXT_OF)};
static const char *const end_names[] = {ENDS(TEXT_OF)};
static const char *const work_names[] = {WORKS(TEXT_OF)};

struct round {
    int32_t size;
    int32_t victim;
    enum point point;
    enum end end;
    enum work work;
    int32_t calls;    /* that go well before the one in which it happens */
    int32_t delay_us; /* from the point to the end */
    int32_t init_ms;  /* deadline of init */
    int32_t call_ms;  /* and of calls */
    size_t resident;  /* bytes that the victim touches before */
};

struct seen {
    _Atomic int32_t at; /* calls that have begun; -1 = in init, -2 = has not come to it */
    int64_t began_ns;   /* the last of them, or init */
    int64_t returned_ns;
    tutti_status init;   /* how init went */
    tutti_status status; /* the first error of a call */
    tutti_status next;   /* and the call after it */
    tutti_error error;
    char faults[600];         /* what the rank itself found wrong */
    _Atomic int32_t finished; /* it came to its end */
};

struct stage {
    struct round round;
    char store[64];
    _Atomic int32_t ended; /* the victim has come to its end, or is about to */
    int64_t ended_ns;
    pid_t pids[RANKS_MOST];
    struct seen seen[RANKS_MOST];
};

static inline int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void pause_us(int64_t us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (nanosleep(&t, &t) != 0) {
    }
}

__attribute__((format(printf, 2, 3))) static inline void fault(struct seen *s, const char *format, ...)
{
    const size_t used = strlen(s->faults);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->faults + used, sizeof(s->faults) - used, format, arguments);
    va_end(arguments);
    strncat(s->faults, "; ", sizeof(s->faults) - strlen(s->faults) - 1);
}

/* Entries of a folder of /proc/self: descriptors, threads. The one that is open for it counts each time. */
static inline int entries(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    while (folder && readdir(folder)) {
        count++;
    }
    if (folder) {
        closedir(folder);
    }
    return count;
}

/* The same, when it has become as few or a while has passed: a thread that has been joined is listed for a moment longer, and
 * who serves the store goes on until all clients have gone. */
static inline int settles(const char *path, int wanted)
{
    const int64_t until = now_ns() + (int64_t)20 * 1000000000;
    while (entries(path) > wanted && now_ns() < until) {
        pause_us(1000);
    }
    return entries(path);
}

/* Segments and bells that are mapped. */
static inline int mappings(void)
{
    int count = 0;
    char line[1024];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps)) {
        count += strstr(line, "memfd:tutti-") != NULL;
    }
    if (maps) {
        fclose(maps);
    }
    return count;
}

/* ---- the ranks ----------------------------------------------------------------------------------------------------- */

static float in[LARGE];
static float out[LARGE];

static inline tutti_status reduce(tutti_group *g, int64_t count, int32_t step, bool async, const tutti_call *call)
{
    const int32_t size = tutti_group_size(g);
    DLTensor source = tutti_tensor_1d(in, &count, TUTTI_F32);
    DLTensor result = tutti_tensor_1d(out, &count, TUTTI_F32);
    in[0] = in[count - 1] = (float)(step + tutti_group_rank(g));
    out[0] = out[count - 1] = -1;
    tutti_status status;
    if (async) {
        tutti_work *work = NULL;
        status = tutti_all_reduce_async(g, &source, &result, TUTTI_SUM, call, &work);
        if (status == TUTTI_OK) {
            status = tutti_work_wait(work, TUTTI_FOREVER);
            tutti_work_error(work, call->error);
            tutti_work_release(work);
        }
    } else {
        status = tutti_all_reduce(g, &source, &result, TUTTI_SUM, call);
    }
    const float sum = (float)(size * step + size * (size - 1) / 2);
    return status == TUTTI_OK && (out[0] != sum || out[count - 1] != sum) ? TUTTI_INTERNAL : status;
}

/* Each rank sends to the next and receives from the one before. */
static inline tutti_status pass(tutti_group *g, int32_t step, const tutti_call *call)
{
    const int32_t size = tutti_group_size(g);
    const int32_t rank = tutti_group_rank(g);
    const int32_t from = (rank + size - 1) % size;
    const int64_t count = step % 2 ? 5 : 30000;
    DLTensor sent = tutti_tensor_1d(in, &count, TUTTI_F32);
    DLTensor got = tutti_tensor_1d(out, &count, TUTTI_F32);
    in[0] = in[count - 1] = (float)(step * size + rank);
    tutti_status status = tutti_sendrecv(g, &sent, (rank + 1) % size, step, &got, from, step, call, NULL);
    const float expected = (float)(step * size + from);
    return status == TUTTI_OK && (out[0] != expected || out[count - 1] != expected) ? TUTTI_INTERNAL : status;
}

static inline tutti_status spread(tutti_group *g, int32_t step, const tutti_call *call)
{
    const int64_t count = step % 2 ? 3 : LARGE / 4;
    DLTensor t = tutti_tensor_1d(out, &count, TUTTI_F32);
    out[0] = out[count - 1] = tutti_group_rank(g) == 0 ? (float)step : -1;
    tutti_status status = tutti_broadcast(g, &t, 0, call);
    return status == TUTTI_OK && (out[0] != (float)step || out[count - 1] != (float)step) ? TUTTI_INTERNAL : status;
}

/* Right results count as part of an operation: INTERNAL stands for a wrong one. */
static inline tutti_status operate(tutti_group *g, enum work work, int32_t step, int32_t call_ms, tutti_error *error)
{
    const tutti_call *call = TUTTI_CALL(.timeout_ms = call_ms, .error = error);
    switch (work) {
    case WORK_BARRIER:
        return tutti_barrier(g, call);
    case WORK_SMALL:
        return reduce(g, 2, step, false, call);
    case WORK_LARGE_REDUCE:
        return reduce(g, LARGE, step, false, call);
    case WORK_BROADCAST:
        return spread(g, step, call);
    case WORK_MESSAGES:
        return pass(g, step, call);
    default:
        return reduce(g, step % 2 ? 4 : 100000, step, true, call);
    }
}

static inline void end_now(struct stage *s)
{
    s->ended_ns = now_ns();
    atomic_store(&s->ended, 1);
    switch (s->round.end) {
    case END_SEGV:
        signal(SIGSEGV, SIG_DFL);
        kill(getpid(), SIGSEGV);
        break;
    case END_QUICK_EXIT:
        _exit(7);
    case END_EXIT:
        exit(7);
    case END_EXEC:
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
        break;
    case END_STOP:
        raise(SIGSTOP);
        return;
    default:
        kill(getpid(), SIGKILL);
    }
    for (;;) {
        pause();
    }
}

/* Ends by itself while the main thread is in a call. */
static inline void *end_soon(void *argument)
{
    struct stage *s = argument;
    pause_us(s->round.delay_us);
    end_now(s);
    return NULL;
}

/* The victim's part before the call or the init (calls == -1) in which it ends. */
static inline void be_victim(struct stage *s)
{
    const struct round *r = &s->round;
    if (r->point == POINT_BETWEEN || r->point == POINT_BEFORE_INIT || r->point == POINT_BEFORE_DESTROY) {
        pause_us(r->delay_us);
        end_now(s);
        return;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_soon, s) != 0) {
        abort();
    }
    pthread_detach(thread);
}

static inline bool ends_in_init(const struct round *r)
{
    return r->point == POINT_INIT || r->point == POINT_BEFORE_INIT;
}

static inline void repeat(struct stage *s, tutti_group *g, int32_t rank)
{
    const struct round *r = &s->round;
    struct seen *own = &s->seen[rank];
    const bool victim = rank == r->victim;
    for (int32_t step = 1; own->status == TUTTI_OK; step++) {
        if (r->point == POINT_BEFORE_DESTROY && step > r->calls) {
            return;
        }
        if (victim && !ends_in_init(r) && step == r->calls + 1) {
            be_victim(s);
        }
        while (!victim && r->point == POINT_WAITING && step == r->calls + 1 && !atomic_load(&s->ended)) {
            pause_us(500);
        }
        own->began_ns = now_ns();
        atomic_store(&own->at, step);
        own->status = operate(g, r->work, step, r->call_ms, &own->error);
        own->returned_ns = now_ns();
    }
    tutti_error error;
    own->next = operate(g, r->work, 1, r->call_ms, &error);
}

static inline void be_rank(struct stage *s, int32_t rank)
{
    const struct round *r = &s->round;
    struct seen *own = &s->seen[rank];
    const bool victim = rank == r->victim;
    if (victim && r->resident > 0) {
        memset(malloc(r->resident), 1, r->resident);
    }
    if (victim && ends_in_init(r)) {
        be_victim(s);
    }
    const int descriptors = entries("/proc/self/fd");
    const int threads = entries("/proc/self/task");
    tutti_group *g = NULL;
    own->began_ns = now_ns();
    atomic_store(&own->at, -1);
    own->init = tutti_init(TUTTI_CONFIG(.backend = "shm", .rank = rank, .world_size = r->size, .store = s->store,
                                        .timeout_ms = r->init_ms),
                           &g, &own->error);
    own->returned_ns = now_ns();
    if (own->init == TUTTI_OK) {
        repeat(s, g, rank);
        if (victim && r->point == POINT_BEFORE_DESTROY) {
            be_victim(s);
        }
        tutti_error error;
        if (tutti_group_destroy(g, &error) != TUTTI_OK) {
            fault(own, "destroy: %s", error.message);
        }
    }
    tutti_finalize(NULL);
#if !defined(__SANITIZE_THREAD__) /* which starts a thread of its own beside the first one of a program */
    if (!victim && r->end != END_STOP && settles("/proc/self/task", threads) > threads) {
        fault(own, "%d threads, %d before", entries("/proc/self/task"), threads);
    }
#else
    (void)threads;
#endif
    /* who has served the store keeps the eventfd of its server until the process ends */
    if (r->end != END_STOP && settles("/proc/self/fd", descriptors + 1) > descriptors + 1) {
        fault(own, "%d descriptors, %d before", entries("/proc/self/fd"), descriptors);
    }
    if (mappings() != 0) {
        fault(own, "%d segments still mapped", mappings());
    }
    atomic_store(&own->finished, 1);
    _exit(0);
}

/* ---- the test ------------------------------------------------------------------------------------------------------ */

static inline struct stage *stage_make(void)
{
    void *memory = mmap(NULL, sizeof(struct stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    return memory;
}

/* Runs a round; false if somebody hung. Whoever is left afterwards has been killed. */
static inline bool run_round(struct stage *s, const struct round *r)
{
    static unsigned rounds;
    const pid_t parent = getpid();
    memset(s, 0, sizeof(*s));
    s->round = *r;
    snprintf(s->store, sizeof(s->store), "unix:round-%d-%u", (int)parent, rounds++);
    fflush(NULL);
    for (int32_t rank = 0; rank < r->size; rank++) {
        s->seen[rank].at = -2;
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) {
                _exit(1);
            }
            be_rank(s, rank);
        }
        s->pids[rank] = pid;
    }
    const int64_t until = now_ns() + (int64_t)PATIENCE_S * 1000000000;
    bool well = true;
    int32_t left = r->size;
    bool open[RANKS_MOST] = {false};
    for (int32_t i = 0; i < r->size; i++) {
        open[i] = true;
    }
    while (left > 0 && well) {
        const int32_t only_victim = left == 1 && open[r->victim];
        if (only_victim && atomic_load(&s->ended) && r->end == END_EXEC) {
            kill(s->pids[r->victim], SIGKILL); /* it is another program now */
        } else if (only_victim && atomic_load(&s->ended) && r->end == END_STOP) {
            kill(s->pids[r->victim], SIGCONT);
        }
        for (int32_t i = 0; i < r->size; i++) {
            int status;
            if (open[i] && waitpid(s->pids[i], &status, WNOHANG) == s->pids[i]) {
                open[i] = false;
                left--;
            }
        }
        pause_us(300);
        well = now_ns() < until;
    }
    for (int32_t i = 0; i < r->size; i++) {
        if (open[i]) {
            kill(s->pids[i], SIGKILL);
            waitpid(s->pids[i], NULL, 0);
        }
    }
    return well;
}

#endif
