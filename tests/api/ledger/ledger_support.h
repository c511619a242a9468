/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the ledger_*.c programs, which prove the rows of docs/requirements.md. A program uses the functions of a
 * row so that it fails if one of them only returns OK. scripts/check_ledger.py does that replacement.
 *
 * The ranks are threads on backend local. Under tests/api/on_backend they are the processes of a job on another
 * backend, and run the same checks. Each program prints the backends of its groups.
 */
#ifndef TESTS_API_LEDGER_LEDGER_SUPPORT_H
#define TESTS_API_LEDGER_LEDGER_SUPPORT_H

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <tutti/backend.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "api/job.h"
#include "clock.h"
#include "time_limits.h"

static atomic_int ledger_failures;

static inline void ledger_expect(bool good, const char *what, const char *file, int line)
{
    if (!good) {
        printf("%s:%d: failed: %s\n", file, line, what);
        atomic_fetch_add_explicit(&ledger_failures, 1, memory_order_relaxed); /* read after the threads are joined */
        fflush(stdout);
    }
}
#define EXPECT(condition) ledger_expect((condition), #condition, __FILE__, __LINE__)

static inline DLTensor ledger_tensor(void *data, const int64_t *count, tutti_dtype dtype)
{
    /* Written out, so that the collectives are proved independently of tutti_tensor_1d. */
    static const DLDataType types[TUTTI_DTYPE_COUNT] = {
        [TUTTI_F64] = {kDLFloat, 64, 1}, [TUTTI_F32] = {kDLFloat, 32, 1}, [TUTTI_I32] = {kDLInt, 32, 1},
        [TUTTI_I64] = {kDLInt, 64, 1},   [TUTTI_U8] = {kDLUInt, 8, 1},
    };
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = types[dtype], .shape = (int64_t *)(uintptr_t)count};
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* Memory that the ranks share: a file that on_backend has made and TUTTI_LEDGER_SHARED names, or memory of this
 * process. */
enum { LEDGER_FLAGS = 16 };
struct ledger_shared {
    atomic_int ranks_run;
    atomic_int flags[LEDGER_FLAGS];
};

static inline struct ledger_shared *ledger_share(void)
{
    static struct ledger_shared own;
    static struct ledger_shared *shared;
    const char *path = getenv("TUTTI_LEDGER_SHARED");
    if (!shared && path) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        void *memory = mmap(NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd < 0 || memory == MAP_FAILED) {
            perror(path);
            exit(2);
        }
        close(fd);
        shared = memory;
    }
    return shared ? shared : &own;
}

/* Flag `number` of this program, which all ranks see; 0 at first. A program uses each for one purpose. */
static inline atomic_int *ledger_flag(int number)
{
    return &ledger_share()->flags[number];
}

static inline void ledger_ran(void)
{
    atomic_fetch_add_explicit(&ledger_share()->ranks_run, 1, memory_order_relaxed); /* read behind a join or barrier */
}

struct ledger_ranks {
    tutti_rank_function function;
    void *user;
    _Atomic(const char *) backend;
};

static inline tutti_status ledger_one_rank(tutti_group *group, void *user)
{
    struct ledger_ranks *ranks = user;
    ledger_ran();
    atomic_store(&ranks->backend, tutti_group_backend(group)); /* static storage */
    return ranks->function(group, ranks->user);
}

/* Once for each; scripts/check_ledger.py reads it. */
static inline void ledger_say_backend(const char *backend)
{
    static const char *said;
    if (backend && (!said || strcmp(said, backend) != 0)) {
        printf("on backend %s\n", backend);
        said = backend;
    }
}

static inline void ledger_say(const char *what, tutti_status status, const tutti_error *error)
{
    if (status != TUTTI_OK) {
        printf("%s: %s\n", what, error->message);
    }
    EXPECT(status == TUTTI_OK);
}

/* Where the groups of ledger_on_ranks are. */
static inline const char *ledger_on_backend(void)
{
    return job_backend() ? job_backend() : "local";
}

/* Runs `function` on so many ranks, and checks that it really ran on each and that they are on the backend wanted. */
static inline void ledger_on_ranks(int32_t count, tutti_rank_function function, void *user)
{
    static int expected;
    struct ledger_ranks ranks = {function, user, NULL};
    tutti_error error = {.message = ""};
    if (job_backend()) {
        ledger_say("the job", job_run(count, ledger_one_rank, &ranks, &error), &error);
    } else {
        ledger_say("tutti_run_threads", tutti_run_threads(count, ledger_one_rank, &ranks, &error), &error);
    }
    expected += count;
    EXPECT(atomic_load(&ledger_share()->ranks_run) >= expected);
    const char *backend = atomic_load(&ranks.backend);
    if (backend) { /* this process had a rank in it */
        EXPECT(strcmp(backend, ledger_on_backend()) == 0);
        ledger_say_backend(backend);
    }
}

/* Whether the ranks are processes. */
static inline bool ledger_is_job(void)
{
    return job_backend() != NULL;
}

static inline bool ledger_promises(tutti_group *group, uint64_t capability)
{
    return (tutti_group_capabilities(group) & capability) != 0;
}

/* The flag without which this group cannot cancel a collective. */
static inline uint32_t ledger_cancellable(tutti_group *group)
{
    return ledger_promises(group, TUTTI_CAP_CANCEL) ? 0 : TUTTI_CANCELLABLE;
}

/* Waits for an operation, releases its handle, and sets it to NULL. A start that does nothing then leaves NULL. */
static inline tutti_status ledger_end(tutti_work **work)
{
    tutti_status status = tutti_work_wait(*work, TUTTI_FOREVER);
    EXPECT(tutti_work_release(*work) == TUTTI_OK);
    *work = NULL;
    return status;
}

/*
 * Starts an operation that does not end on rank 0 before the others have joined it, and that cannot be cancelled: on
 * local because it has begun at once, in a job, where it may begin later, because it has a root and lacks
 * TUTTI_CANCELLABLE.
 */
static inline tutti_status ledger_start_held(tutti_group *group, tutti_work **work)
{
    static const int64_t one = 1;
    static int32_t in;
    static int32_t out;
    if (!ledger_is_job()) {
        return tutti_barrier_async(group, NULL, work);
    }
    const DLTensor input = ledger_tensor(&in, &one, TUTTI_I32);
    DLTensor output = ledger_tensor(&out, &one, TUTTI_I32);
    return tutti_reduce_async(group, &input, &output, TUTTI_SUM, 0, NULL, work);
}

static inline int ledger_result(void)
{
    tutti_error error = {.message = ""};
    if (ledger_is_job()) {
        ledger_say("tutti_finalize", tutti_finalize(&error), &error);
    }
    int failures = atomic_load(&ledger_failures);
    printf("%d failed\n", failures);
    return failures == 0 ? 0 : 1;
}

#endif
