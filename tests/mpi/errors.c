/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures in MPI, and calls that do not end: what happens to the group, its calls and its other ranks. For two ranks
 * under double.c, which makes the third (failure) or first (stuck) all_reduce fail on rank 1. The program does not use
 * MPI itself.
 *
 *   failure       the other rank's call ends, also if a rank has no memory; afterwards the process ends as usual
 *   stuck FILE    blocking calls that cannot be ended: FILE gets rank 0's stderr. Rank 1 reads it, creates FILE.seen
 *   and
 *                 calls exit(0), whose wait is bounded; its stderr goes to FILE.end
 *   inside FILE   rank 0 calls exit(0) while a thread of its own is in such a call; FILE gets its stderr
 */
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/backend.h>
#include <tutti/tutti.h>

#include "time_limits.h"

#define LATE_MS 3000

static const int32_t both[] = {0, 1};
static int32_t rank;
static bool has_no_memory;

/* A program's own definition comes before libc's, also for the plug-in, which takes its scratch memory by this one. */
void *aligned_alloc(size_t alignment, size_t bytes)
{
    return has_no_memory ? NULL : memalign(alignment, bytes);
}

static void fail(const char *what, const tutti_error *error)
{
    fprintf(stderr, "FAILED: rank %d: %s: %s: %s\n", rank, what, error ? tutti_status_name(error->status) : "",
            error ? error->message : "");
    fprintf(stdout, "FAILED: rank %d: %s: %s: %s\n", rank, what, error ? tutti_status_name(error->status) : "",
            error ? error->message : "");
    fflush(stdout);
    exit(1);
}

static void expect(int holds, const char *what, const tutti_error *error)
{
    if (!holds) {
        fail(what, error);
    }
}

static void nap(void)
{
    const struct timespec time = {.tv_nsec = 10000000};
    nanosleep(&time, NULL);
}

static tutti_group *part_of(tutti_group *world, const char *setting, int64_t timeout_ms)
{
    tutti_group *g = NULL;
    tutti_error error;
    const char *const settings[] = {setting, NULL};
    expect(tutti_barrier(world, TUTTI_CALL(.error = &error)) == TUTTI_OK, "the world works", &error);
    expect(tutti_group_create(world, both, 2, TUTTI_CONFIG(.timeout_ms = timeout_ms, .settings = settings), &g,
                              &error) == TUTTI_OK,
           "group_create", &error);
    return g;
}

static tutti_status sum(tutti_group *g, tutti_error *error)
{
    static int32_t values[70000]; /* too many to be sent with the call record */
    const int64_t count = sizeof(values) / sizeof(values[0]);
    for (int64_t i = 0; i < count; i++) {
        values[i] = rank + 1;
    }
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_I32);
    const tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = error));
    expect(status != TUTTI_OK || (values[0] == 3 && values[count - 1] == 3), "the sum is right", error);
    return status;
}

static void expect_two_sums(tutti_group *g)
{
    tutti_error error;
    expect(sum(g, &error) == TUTTI_OK, "the first call", &error);
    expect(sum(g, &error) == TUTTI_OK, "the second call", &error);
}

/* The failure of a call on rank 1, as rank 1 sees it. */
static void expect_own_failure(tutti_group *g, const char *function)
{
    tutti_error error;
    char word[80];
    expect(sum(g, &error) == TUTTI_BACKEND && error.status == TUTTI_BACKEND, "MPI's failure is reported", &error);
    expect(error.vendor_code != 0 && error.scope == TUTTI_SCOPE_GROUP, "with MPI's code", &error);
    snprintf(word, sizeof(word), "code %lld: ", (long long)error.vendor_code);
    expect(strstr(error.message, function) && strstr(error.message, "error class ") && strstr(error.message, word),
           "with function, class and code", &error);
    expect(strstr(error.message, "the switch has melted") != NULL, "with MPI's own text", &error);
    expect(strcmp(error.backend, "mpi") == 0 && error.rank == 1 && error.operation == TUTTI_OP_ALL_REDUCE,
           "with what was called where", &error);
}

/* Every later call on a group that has failed on rank 1, or on rank 0 for another reason. */
static void expect_revoked(tutti_group *g, const char *why)
{
    tutti_error error;
    tutti_work *w = NULL;
    int32_t value = 0;
    const int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    expect(sum(g, &error) == TUTTI_REVOKED && strstr(error.message, why), "later calls are revoked", &error);
    expect(tutti_send(g, &t, 1 - rank, 0, TUTTI_CALL(.error = &error)) == TUTTI_REVOKED, "messages too", &error);
    tutti_status status = tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error), &w);
    if (status == TUTTI_OK) {
        status = tutti_work_wait(w, 1000 * LIMIT_S);
        tutti_work_release(w);
    }
    expect(status == TUTTI_REVOKED, "asynchronous ones too", &error);
}

/* Waits until this rank knows of the failure. */
static void await_failure(tutti_group *g, tutti_error *details)
{
    const time_t limit = time(NULL) + LIMIT_S;
    details->status = TUTTI_OK;
    while (tutti_group_error(g, details) == TUTTI_OK && details->status == TUTTI_OK && time(NULL) < limit) {
        nap();
    }
    expect(details->status != TUTTI_OK, "the failure becomes known", details);
}

/* Tutti does not use MPI's own recovery, so recovery must return at once. */
static void expect_no_recovery(tutti_group *g)
{
    tutti_error error;
    tutti_group *other = NULL;
    uint64_t flags = 0;
    int32_t count = 0;
    expect(!(tutti_group_capabilities(g) & (TUTTI_CAP_RECOVER | TUTTI_CAP_GROW)), "no recovery is promised", NULL);
    expect(tutti_group_revoke(g, &error) == TUTTI_UNSUPPORTED, "revoke", &error);
    expect(tutti_group_failed(g, NULL, 0, &count, &error) == TUTTI_UNSUPPORTED, "failed ranks", &error);
    expect(tutti_group_agree(g, &flags, NULL, 0, &count, -1, &error) == TUTTI_UNSUPPORTED, "agree", &error);
    expect(tutti_group_shrink(g, -1, &other, &error) == TUTTI_UNSUPPORTED, "shrink", &error);
    expect(tutti_group_grow(g, "unix:nowhere", 1, -1, &other, &error) == TUTTI_UNSUPPORTED, "grow", &error);
}

static void blocking_failure(tutti_group *world)
{
    tutti_error error;
    tutti_group *g = part_of(world, "mpi.blocking=always", 0);
    expect(!(tutti_group_capabilities(g) & TUTTI_CAP_CHECKS_CALLS), "blocking calls are not compared", NULL);
    expect_two_sums(g);
    expect_no_recovery(g);
    if (rank == 1) {
        expect_own_failure(g, "MPI_Allreduce");
    } else {
        expect(sum(g, &error) == TUTTI_OK, "the other rank's call ends", &error);
    }
    await_failure(g, &error);
    expect(error.status == TUTTI_BACKEND && strstr(error.message, "the switch has melted"), "the cause", &error);
    expect(rank == 1 || error.suspect == 1, "whose it is", &error);
    expect_revoked(g, "the switch has melted");
    expect(tutti_group_destroy(g, &error) == TUTTI_OK, "destroy", &error);
}

static void timed_failure(tutti_group *world)
{
    tutti_error error;
    tutti_group *g = part_of(world, "mpi.blocking=never", 1000 * LIMIT_S);
    expect((tutti_group_capabilities(g) & TUTTI_CAP_CHECKS_CALLS) != 0, "timed calls are compared", NULL);
    expect_two_sums(g);
    if (rank == 1) {
        expect_own_failure(g, "MPI_Isend");
    } else {
        expect(sum(g, &error) == TUTTI_REVOKED && error.suspect == 1, "the other rank's call ends too", &error);
        expect(strstr(error.message, "the switch has melted") != NULL, "it says why", &error);
    }
    expect_revoked(g, "the switch has melted");
    expect(tutti_group_destroy(g, &error) == TUTTI_OK, "destroy", &error);
}

/* Rank 1 does not enter an all_reduce. The deadline of a second one, queued behind it, passes, and the core aborts the
 * group. */
static void abort_group(tutti_group *g, tutti_work **first, tutti_work **second)
{
    static int32_t values[2];
    static const int64_t one = 1;
    tutti_error error;
    DLTensor a = tutti_tensor_1d(&values[0], &one, TUTTI_I32);
    DLTensor b = tutti_tensor_1d(&values[1], &one, TUTTI_I32);
    expect(tutti_all_reduce_async(g, &a, &a, TUTTI_SUM, TUTTI_CALL(.error = &error), first) == TUTTI_OK, "the first",
           &error);
    expect(tutti_all_reduce_async(g, &b, &b, TUTTI_SUM, TUTTI_CALL(.error = &error, .timeout_ms = 200), second) ==
               TUTTI_OK,
           "the one behind it", &error);
    await_failure(g, &error);
    expect(error.status == TUTTI_TIMEOUT, "the deadline passes in the queue", &error);
}

static void timed_abort(tutti_group *world)
{
    tutti_error error;
    tutti_work *first = NULL;
    tutti_work *second = NULL;
    tutti_group *g = part_of(world, "mpi.blocking=never", 1000 * LIMIT_S);
    if (rank == 0) {
        abort_group(g, &first, &second);
        expect(tutti_work_wait(first, 1000 * LIMIT_S) == TUTTI_REVOKED, "the call under way ends", NULL);
        const tutti_status status = tutti_work_wait(second, 1000 * LIMIT_S);
        expect(status == TUTTI_TIMEOUT || status == TUTTI_REVOKED, "the one behind it too", NULL);
        tutti_work_release(first);
        tutti_work_release(second);
    }
    await_failure(g, &error);
    expect_revoked(g, "deadline");
    expect(tutti_group_destroy(g, &error) == TUTTI_OK, "destroy", &error);
}

/* A message may be lost with an error of MPI, so the group fails also if a probe meets it. */
static void probe_failure(tutti_group *world)
{
    tutti_error error;
    int32_t found = 0;
    tutti_group *g = part_of(world, "mpi.blocking=never", 1000 * LIMIT_S);
    if (rank == 1) {
        setenv("DOUBLE_FAIL_PROBE", "1", 1);
        expect(tutti_probe(g, 0, 0, &found, NULL, &error) == TUTTI_BACKEND, "a probe", &error);
        expect(strstr(error.message, "MPI_Improbe") != NULL, "the probe names MPI's function", &error);
        unsetenv("DOUBLE_FAIL_PROBE");
    }
    await_failure(g, &error);
    expect(error.status == TUTTI_BACKEND && strstr(error.message, "the switch has melted"), "the cause", &error);
    expect_revoked(g, "the switch has melted");
    expect(tutti_group_destroy(g, &error) == TUTTI_OK, "destroy", &error);
}

/* A rank has no scratch memory after the entry barrier. The other rank is in the call already, so the group fails. */
static void no_memory(tutti_group *world)
{
    tutti_error error;
    tutti_group *g = part_of(world, "mpi.blocking=never", 1000 * LIMIT_S);
    has_no_memory = rank == 1;
    const tutti_status status = sum(g, &error);
    has_no_memory = false;
    expect(status == (rank == 1 ? TUTTI_NO_MEMORY : TUTTI_REVOKED), "no scratch memory", &error);
    expect(strstr(error.message, "rank 1 has no memory for ") != NULL, "it says where", &error);
    expect(error.suspect == 1 && error.scope == TUTTI_SCOPE_GROUP, "whose failure it is, and of what", &error);
    expect_revoked(g, "rank 1 has no memory for ");
    expect(tutti_group_destroy(g, &error) == TUTTI_OK, "destroy", &error);
}

/* ---- blocking calls that do not end ------------------------------------------------------------------------------ */

static int is_in(const char *path, const char *words)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    text[length] = '\0';
    if (file) {
        fclose(file);
    }
    return strstr(text, words) != NULL;
}

static void await_line(const char *path, const char *words)
{
    const time_t limit = time(NULL) + LIMIT_S;
    while (!is_in(path, words)) {
        expect(time(NULL) < limit, words, NULL);
        nap();
    }
}

static void redirect_stderr(const char *path)
{
    expect(freopen(path, "w", stderr) && setvbuf(stderr, NULL, _IOLBF, BUFSIZ) == 0, path, NULL);
}

static void stuck(tutti_group *world, const char *path)
{
    tutti_error error;
    tutti_work *first = NULL;
    tutti_work *second = NULL;
    char other[4096];
    snprintf(other, sizeof(other), "%s.end", path);
    redirect_stderr(rank == 0 ? path : other);
    tutti_group *late = part_of(world, "mpi.blocking=always", LATE_MS);
    tutti_group *aborted = part_of(world, "mpi.blocking=always", LATE_MS);
    if (rank == 0) {
        abort_group(aborted, &first, &second);
    } else {
        await_failure(aborted, &error);
        expect(error.suspect == 0, "the rank that aborted", &error);
        expect_revoked(aborted, "deadline");
    }
    if (rank == 1) {
        await_line(path, "tutti: all_reduce: rank 0 of 2 has been in call 1 of lane 0 for 3 s; a blocking call of MPI");
        expect_own_failure(late, "MPI_Allreduce");
        await_line(path, " s; the group has failed: MPI_Allreduce failed with MPI's error class ");
        snprintf(other, sizeof(other), "%s.seen", path); /* a launcher may lose the last output of a job that fails */
        FILE *file = fopen(other, "w");
        expect(file && fclose(file) == 0, other, NULL);
    } else {
        sum(late, &error);
        fail("this call cannot end", &error);
    }
    exit(0);
}

/* The end of a process with a thread in such a call. */
static void inside(tutti_group *world, const char *path)
{
    tutti_error error;
    tutti_work *first = NULL;
    tutti_work *second = NULL;
    if (rank == 0) {
        redirect_stderr(path);
    }
    tutti_group *g = part_of(world, "mpi.blocking=always", 1000L * LIMIT_S);
    if (rank == 0) {
        abort_group(g, &first, &second);
    } else {
        await_failure(g, &error);
    }
    exit(0);
}

int main(int argc, char **argv)
{
    static const char *const settings[] = {"mpi.blocking=never", NULL};
    tutti_group *world = NULL;
    tutti_error error;
    expect(argc > 1, "a mode", NULL);
    expect(tutti_init(TUTTI_CONFIG(.backend = "mpi", .settings = settings), &world, &error) == TUTTI_OK, "init",
           &error);
    rank = tutti_group_rank(world);
    if (strcmp(argv[1], "stuck") == 0 && argc > 2) {
        stuck(world, argv[2]);
    } else if (strcmp(argv[1], "inside") == 0 && argc > 2) {
        inside(world, argv[2]);
    }
    blocking_failure(world);
    timed_failure(world);
    timed_abort(world);
    probe_failure(world);
    no_memory(world);
    expect(tutti_barrier(world, TUTTI_CALL(.error = &error)) == TUTTI_OK, "the world still works", &error);
    expect(tutti_group_destroy(world, &error) == TUTTI_OK, "destroy", &error);
    tutti_finalize(NULL);
    return 0;
}
