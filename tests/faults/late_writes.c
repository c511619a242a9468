/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,3 timeout=300 trees=release,debug,address,undefined */
/*
 * No rank touches memory whose owner has returned. The last rank is caught in the middle of touching rank 0's tensor: a
 * page of it is taken away in that rank's page table, so the very instruction that touches it faults, and the handler
 * of that signal holds the rank there. Meanwhile the deadline of the other ranks passes.
 *
 *   processes  The handler stops the process. The others return, fill their memory with a pattern, and only then it
 *              goes on, with that very instruction. The pattern has to stay.
 *   threads    The handler waits. Rank 0 must not return before it goes on; then it fills its memory, and that has to
 *              stay.
 *   PRIVATE    The kernel copies, so no page can be taken away. A second thread stops the process at some moment of the
 *              call, which may miss the copy.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

#define PAGE    ((size_t)4096)
#define COUNT   ((int64_t)1 << 20) /* elements: 4 MiB */
#define BYTES   ((size_t)COUNT * sizeof(float))
#define HELD_AT (BYTES - 64 * PAGE) /* the page: in the last rank's part, and late in a message */
#define LIMIT   500                 /* ms, of the calls of the ranks that return; more on a slow machine */
#define TRIES   7
#define PATTERN 0x5a

/* The operation, and the memory of rank 0's tensor that the last rank touches. */
#define CASES(X)                                                                                                       \
    X(HEAP, "all_reduce in the heap")                                                                                  \
    X(REGISTERED, "all_reduce in registered memory")                                                                   \
    X(REDUCE, "reduce in the heap")                                                                                    \
    X(GATHER, "gather in the heap")                                                                                    \
    X(BROADCAST, "broadcast in the heap")                                                                              \
    X(RECEIVE, "message into the heap")                                                                                \
    X(PRIVATE, "all_reduce in private memory")                                                                         \
    X(THREADS, "all_reduce of threads")                                                                                \
    X(THREADS_READ, "message between threads")
#define ENUM_CASE(name, text) CASE_##name,
#define TEXT_CASE(name, text) text,
enum touch { CASES(ENUM_CASE) CASE_COUNT };
static const char *const case_names[] = {CASES(TEXT_CASE)};

struct shared {
    enum touch what;
    int32_t size;
    int32_t limit_ms;
    char store[64];
    _Atomic int32_t held;     /* the last rank touches, and does not go on */
    _Atomic int32_t released; /* it goes on */
    _Atomic int32_t returned; /* others that have returned and filled their memory */
    _Atomic int32_t over;     /* the last rank has returned, too */
    pid_t pids[RANKS_MOST];
    struct seen seen[RANKS_MOST];
};

static struct shared *shared;

/* ---- holding a rank ---------------------------------------------------------------------------------------------- */

static unsigned char *held_page;
static _Thread_local bool is_toucher; /* the last rank: threads have one page table, so others may fault as well */

static void hold(int number, siginfo_t *info, void *context)
{
    (void)context;
    unsigned char *at = info->si_addr;
    if (at < held_page || at >= held_page + PAGE) {
        signal(number, SIG_DFL);
        return;
    }
    if (!is_toucher) { /* it has returned from its call before the last rank was held: that try does not count */
        mprotect(held_page, PAGE, PROT_READ | PROT_WRITE);
        return;
    }
    atomic_store(&shared->held, 1);
    if (shared->what < CASE_THREADS) {
        raise(SIGSTOP);
    }
    while (!atomic_load(&shared->released)) {
        const struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    mprotect(held_page, PAGE, PROT_READ | PROT_WRITE);
}

static void take_away(unsigned char *page)
{
    const struct sigaction action = {.sa_sigaction = hold, .sa_flags = SA_SIGINFO};
    held_page = page;
    if (sigaction(SIGSEGV, &action, NULL) != 0 || mprotect(page, PAGE, PROT_NONE) != 0) {
        abort();
    }
}

struct region {
    unsigned long begin, end, offset, inode;
};

static bool next_region(FILE *maps, const char *name, struct region *found)
{
    char line[1024];
    while (fgets(line, sizeof(line), maps)) {
        if (strstr(line, name) &&
            sscanf(line, "%lx-%lx %*s %lx %*s %lu", &found->begin, &found->end, &found->offset, &found->inode) == 4) {
            return true;
        }
    }
    return false;
}

#define REGIONS 64
#define MARK    12345.0f /* what rank 0 has written into its page */

static bool has_mark(const unsigned char *tensor)
{
    return ((const float *)(const void *)tensor)[HELD_AT / sizeof(float)] == MARK;
}

/* Where this rank sees rank 0's tensor: in another memory file of the same name, at the same offset as `own` in this
 * rank's file. Ranks that allocate alike find it there. */
static unsigned char *seen_here(const char *name, const void *own)
{
    const unsigned long at = (unsigned long)(uintptr_t)own;
    struct region all[REGIONS];
    int count = 0;
    int mine = -1;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && count < REGIONS && next_region(maps, name, &all[count])) {
        mine = at >= all[count].begin && at < all[count].end ? count : mine;
        count++;
    }
    if (maps) {
        fclose(maps);
    }
    for (int i = 0; mine >= 0 && i < count; i++) {
        const unsigned long place = at - all[mine].begin + all[mine].offset;
        unsigned char *there = (unsigned char *)(uintptr_t)(all[i].begin + place - all[i].offset);
        if (all[i].inode != all[mine].inode && place >= all[i].offset &&
            place + BYTES <= all[i].offset + (all[i].end - all[i].begin) && has_mark(there)) {
            return there;
        }
    }
    return NULL;
}

/* ---- the ranks --------------------------------------------------------------------------------------------------- */

static tutti_status call(tutti_group *g, float *in, float *out, int64_t limit_ms, tutti_error *error)
{
    const int64_t count = COUNT;
    const int32_t last = tutti_group_size(g) - 1;
    DLTensor source = tutti_tensor_1d(in, &count, TUTTI_F32);
    DLTensor result = tutti_tensor_1d(out, &count, TUTTI_F32);
    const tutti_call *options = TUTTI_CALL(.timeout_ms = limit_ms, .error = error);
    const bool is_root = tutti_group_rank(g) == 0;
    switch (shared->what) {
    case CASE_REDUCE:
        return tutti_reduce(g, &source, is_root ? &result : NULL, TUTTI_SUM, 0, options);
    case CASE_GATHER: {
        const int64_t each = count / shared->size;
        const int64_t total = each * shared->size;
        DLTensor part = tutti_tensor_1d(in, &each, TUTTI_F32);
        DLTensor all = tutti_tensor_1d(out, &total, TUTTI_F32);
        return tutti_gather(g, &part, is_root ? &all : NULL, 0, 0, options);
    }
    case CASE_BROADCAST:
        return tutti_broadcast(g, &result, last, options);
    case CASE_RECEIVE:
        return is_root                       ? tutti_recv(g, &result, last, 7, options, NULL)
               : tutti_group_rank(g) == last ? tutti_send(g, &source, 0, 7, options)
                                             : TUTTI_TIMEOUT; /* a rank between them takes no part */
    case CASE_THREADS_READ:                                   /* the last rank takes what rank 0 has */
        return is_root                       ? tutti_send(g, &source, last, 7, options)
               : tutti_group_rank(g) == last ? tutti_recv(g, &result, 0, 7, options, NULL)
                                             : TUTTI_TIMEOUT;
    default:
        return tutti_all_reduce(g, &source, &result, TUTTI_SUM, options);
    }
}

static bool has_pattern(const void *memory)
{
    const unsigned char *at = memory;
    return at[0] == PATTERN && memcmp(at, at + 1, BYTES - 1) == 0;
}

static void await(const _Atomic int32_t *word, int32_t value, struct seen *own, const char *what)
{
    const int64_t until = now_ns() + (int64_t)LIMIT_S * 1000000000;
    while (atomic_load(word) < value) {
        if (now_ns() > until) {
            fault(own, "waited in vain for %s", what);
            return;
        }
        pause_us(1000);
    }
}

/* A rank whose memory is touched; when its call has returned, all of it is its own again. */
static void own_memory(tutti_group *g, float *in, float *out, struct seen *own)
{
    do {
        own->status = call(g, in, out, shared->limit_ms, &own->error);
    } while (own->status == TUTTI_OK); /* a rank that is to be stopped may be late */
    if (shared->what >= CASE_THREADS && tutti_group_rank(g) == 0 && !atomic_load(&shared->released)) {
        fault(own, "it has returned while its memory was being touched");
    }
    memset(in, PATTERN, BYTES);
    memset(out, PATTERN, BYTES);
    atomic_fetch_add(&shared->returned, 1);
    await(&shared->over, 1, own, "the one that was held");
    /* the first rank to abort fails the group; a third one may come so late that it finds that */
    const bool may_be_late = (shared->what == CASE_PRIVATE || shared->what == CASE_GATHER) && shared->size > 2;
    if (own->status != TUTTI_TIMEOUT && !(may_be_late && own->status == TUTTI_REVOKED)) {
        fault(own, "%s \"%s\"", tutti_status_name(own->status), own->error.message);
    }
    if (!has_pattern(in) || !has_pattern(out)) {
        fault(own, "its memory was written after it had returned");
    }
}

/* The rank that is held. Its own deadline lies far behind. */
static void touch_memory(tutti_group *g, float *in, float *out, unsigned char *page, struct seen *own)
{
    is_toucher = true;
    if (page) {
        take_away(page);
    }
    do {
        own->status = call(g, in, out, LONG_MS, &own->error);
    } while (own->status == TUTTI_OK);
    atomic_store(&shared->over, 1);
    if (!atomic_load(&shared->held)) {
        fault(own, "it has not been held: %s \"%s\"", tutti_status_name(own->status), own->error.message);
    } else if (own->status != TUTTI_REVOKED && own->status != TUTTI_TIMEOUT) {
        fault(own, "when it went on: %s \"%s\"", tutti_status_name(own->status), own->error.message);
    }
    if (tutti_barrier(g, NULL) != TUTTI_REVOKED) {
        fault(own, "its next call is not REVOKED");
    }
}

/* Stops where it is, at some moment of the call. */
static void *stop_soon(void *unused)
{
    (void)unused;
    pause_us(400);
    atomic_store(&shared->held, 1);
    raise(SIGSTOP);
    return NULL;
}

static float *fresh_memory(void)
{
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    return memset(memory, 0, BYTES);
}

static float *memory_of_case(tutti_group *g, struct seen *own)
{
    tutti_error e;
    void *memory = NULL;
    if (shared->what == CASE_PRIVATE || (shared->what == CASE_RECEIVE && tutti_group_rank(g) != 0)) {
        memory = fresh_memory();
    } else if (shared->what == CASE_REGISTERED) {
        memory = fresh_memory();
        if (tutti_register(g, memory, BYTES, &e) != TUTTI_OK) {
            fault(own, "register: %s", e.message);
        }
    }
    return memory;
}

/* Allocation is collective: all ranks do it, also those that use other memory. */
static float *allocate(tutti_group *g, struct seen *own)
{
    tutti_error e;
    void *memory = NULL;
    if (tutti_alloc(g, BYTES, &memory, &e) != TUTTI_OK) {
        fault(own, "alloc: %s", e.message);
        _exit(1);
    }
    return memset(memory, 0, BYTES);
}

/* Of two ranks with a CPU each, the root of a broadcast writes a part of the leaf's tensor. */
static bool root_writes(tutti_group *g, struct seen *own)
{
    static const char before[] = "processes; "; /* ranks per CPU */
    char text[4096] = "";
    size_t needed;
    tutti_group_describe(g, text, sizeof(text), &needed, NULL);
    const char *at = strstr(text, before);
    if (!at) {
        fault(own, "the description of the group does not say how many ranks have a CPU");
    }
    return shared->size == 2 && at && strtod(at + strlen(before), NULL) <= 1;
}

static void run_rank(tutti_group *g, struct seen *own)
{
    if (shared->what == CASE_BROADCAST && !root_writes(g, own)) {
        atomic_store(&shared->held, 1);
        atomic_store(&shared->over, 1);
        atomic_fetch_add(&shared->returned, 1);
        return;
    }
    float *const shared_in = allocate(g, own);
    float *const shared_out = allocate(g, own);
    float *const private_in = memory_of_case(g, own);
    float *const private_out = memory_of_case(g, own);
    float *const in = private_in ? private_in : shared_in;
    float *const out = private_out ? private_out : shared_out;
    const bool registered = shared->what == CASE_REGISTERED;
    const bool is_last = tutti_group_rank(g) == shared->size - 1;
    tutti_error e;
    out[HELD_AT / sizeof(float)] = tutti_group_rank(g) == 0 ? MARK : 0;
    if (tutti_barrier(g, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
        fault(own, "barrier: %s", e.message);
    } else if (!is_last) {
        own_memory(g, in, out, own);
    } else if (shared->what == CASE_PRIVATE) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, stop_soon, NULL) != 0) {
            abort();
        }
        touch_memory(g, in, out, NULL, own);
        pthread_join(thread, NULL);
    } else {
        unsigned char *theirs = registered ? seen_here("tutti-registered", out) : seen_here("tutti-heap", shared_out);
        if (!theirs) {
            fault(own, "it does not find the others' memory");
        }
        touch_memory(g, in, out, theirs ? theirs + HELD_AT : NULL, own);
    }
}

static const char *const settings[] = {"engine.zero_copy_bytes=64K", NULL};

static void be_process(int32_t rank)
{
    struct seen *own = &shared->seen[rank];
    tutti_group *g = NULL;
    tutti_error e;
    if (tutti_init(TUTTI_CONFIG(.backend = "shm", .rank = rank, .world_size = shared->size, .store = shared->store,
                                .settings = settings, .timeout_ms = LONG_MS),
                   &g, &e) != TUTTI_OK) {
        fault(own, "init: %s", e.message);
        _exit(1);
    }
    run_rank(g, own);
    tutti_group_destroy(g, NULL);
    tutti_finalize(NULL);
    atomic_store(&own->finished, 1);
    _exit(0);
}

static float *of_thread_0[2];

static tutti_status be_thread(tutti_group *g, void *unused)
{
    (void)unused;
    const int32_t rank = tutti_group_rank(g);
    struct seen *own = &shared->seen[rank];
    float *in = fresh_memory();
    float *out = fresh_memory();
    if (rank == 0) {
        of_thread_0[0] = in;
        of_thread_0[1] = out;
    }
    tutti_barrier(g, NULL);
    if (rank == shared->size - 1) {
        float *theirs = of_thread_0[shared->what == CASE_THREADS];
        touch_memory(g, in, out, (unsigned char *)theirs + HELD_AT, own);
    } else {
        own_memory(g, in, out, own);
    }
    atomic_store(&own->finished, 1);
    return TUTTI_OK;
}

static void be_threads(void)
{
    tutti_error e;
    if (tutti_run_threads(shared->size, be_thread, NULL, &e) != TUTTI_OK) {
        fault(&shared->seen[0], "threads: %s", e.message);
    }
    _exit(0);
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

static void start(void)
{
    const bool threads = shared->what >= CASE_THREADS;
    fflush(NULL);
    for (int32_t rank = 0; rank < (threads ? 1 : shared->size); rank++) {
        const pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(2 * LIMIT_S);
            if (threads) {
                be_threads();
            }
            be_process(rank);
        }
        shared->pids[rank] = pid;
    }
}

/* Lets the held rank go on after the other ranks have returned; with threads, after they would have. */
static void release_held_rank(struct seen *own)
{
    const bool threads = shared->what >= CASE_THREADS;
    int64_t until = now_ns() + (int64_t)LIMIT_S * 1000000000;
    while (!atomic_load(&shared->held) && !atomic_load(&shared->over) && now_ns() < until) {
        pause_us(1000);
    }
    if (threads) {
        pause_us((shared->limit_ms + 500) * 1000);
    } else if (atomic_load(&shared->held)) {
        await(&shared->returned, shared->size - 1, own, "the others to return");
    }
    atomic_store(&shared->released, 1);
    until = now_ns() + (int64_t)LIMIT_S * 1000000000; /* again: it must get SIGCONT even if the others did not return */
    while (!threads && !atomic_load(&shared->over) && now_ns() < until) {
        kill(shared->pids[shared->size - 1], SIGCONT);
        pause_us(1000);
    }
}

/* The number of faults; -1 if no rank was held before the deadline. */
static int run(enum touch what, int32_t size, int32_t limit_ms, bool last)
{
    int failures = 0;
    struct seen own = {.finished = 1};
    memset(shared, 0, sizeof(*shared));
    shared->what = what;
    shared->size = size;
    shared->limit_ms = limit_ms;
    snprintf(shared->store, sizeof(shared->store), "unix:late-writes-%d-%d-%d", (int)getpid(), (int)what,
             (int)limit_ms);
    start();
    release_held_rank(&own);
    for (int32_t i = 0; i < size; i++) {
        if (shared->pids[i] > 0) {
            waitpid(shared->pids[i], NULL, 0);
        }
    }
    if (!atomic_load(&shared->held) && !last) {
        return -1;
    }
    for (int32_t i = 0; i < size; i++) {
        const struct seen *seen = &shared->seen[i];
        if (!atomic_load(&seen->finished) || seen->faults[0]) {
            fprintf(stderr, "%s, rank %d of %d: %s%s\n", case_names[what], i, size, seen->faults,
                    atomic_load(&seen->finished) ? "" : "did not come to its end");
            failures++;
        }
    }
    if (own.faults[0]) {
        fprintf(stderr, "%s: %s\n", case_names[what], own.faults);
        failures++;
    }
    return failures;
}

int main(int argc, char **argv)
{
    const int32_t size = argc > 1 ? atoi(argv[1]) : 2;
    int failures = 0;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    for (enum touch what = 0; what < CASE_COUNT; what++) {
        int found = -1;
        for (int i = 0; found < 0 && i < TRIES; i++) {
            found = run(what, size, LIMIT << i, i == TRIES - 1);
        }
        failures += found;
    }
    return failures != 0;
}
