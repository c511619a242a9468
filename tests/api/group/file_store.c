/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=3 timeout=120 trees=release,debug,address,undefined */
/*
 * Jobs in a directory that earlier jobs have left their keys in: of other sizes, after ranks that were killed, and
 * after ranks whose end cannot be seen. A rank whose place is not known to be free is refused.
 */
#include "init_processes.h"

#include <stdbool.h>

#include "remove_folder.h"

static char url[160];

struct job {
    int32_t size;
    bool is_killed; /* in the group */
    int ready[2];   /* a byte from each rank that stays */
    int leave[2];   /* closed by the parent: the ranks may end */
    bool stays;     /* until then */
    bool stays_in;  /* without destroying the group */
};

static void run(int32_t rank, void *user)
{
    const struct job *job = user;
    tutti_group *g = NULL;
    tutti_error e;
    char byte = 0;
    EXPECT_ERROR(
        &e, TUTTI_OK, "",
        tutti_init(TUTTI_CONFIG(.rank = rank, .world_size = job->size, .store = url, .timeout_ms = LONG_MS), &g, &e));
    if (!g) {
        return;
    }
    EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.error = &e)));
    if (job->is_killed) {
        _exit(test_result());
    }
    if (!job->stays_in) {
        EXPECT_OK(tutti_group_destroy(g, &e));
    }
    if (job->stays) {
        EXPECT(write(job->ready[1], "", 1) == 1);
        EXPECT(read(job->leave[0], &byte, 1) == 0);
    }
}

static void run_job(int32_t size, bool is_killed)
{
    struct job job = {.size = size, .is_killed = is_killed};
    test_processes("a job", size, run, &job);
}

static void refused(int32_t rank, void *user)
{
    tutti_group *g = NULL;
    tutti_error e;
    (void)user;
    EXPECT_ERROR(&e, TUTTI_RANK_TAKEN, "name a new directory",
                 tutti_init(TUTTI_CONFIG(.rank = rank, .world_size = 2, .store = url, .timeout_ms = LONG_MS), &g, &e));
}

/* The ranks of a job live on, as if on a machine that the next job cannot see, while `next` runs in the directory. */
static void beside(bool stays_in, process_function next, void *user)
{
    struct job job = {.size = 2, .stays = true, .stays_in = stays_in};
    char bytes[2];
    EXPECT(pipe(job.ready) == 0 && pipe(job.leave) == 0);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        close(job.leave[1]);
        test_processes("a job that stays", job.size, run, &job);
        _exit(test_result());
    }
    close(job.ready[1]);
    for (size_t got = 0; got < sizeof(bytes); got++) {
        EXPECT(read(job.ready[0], bytes, 1) == 1);
    }
    test_processes("a job beside", 2, next, user);
    close(job.leave[1]);
    int status = -1;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    close(job.ready[0]);
    close(job.leave[0]);
}

int main(void)
{
    char path[128];
    const char *temporary = getenv("TMPDIR");
    test_stand_alone();
    snprintf(path, sizeof(path), "%.100s/tutti-store-XXXXXX", temporary ? temporary : "/tmp");
    EXPECT(mkdtemp(path) != NULL);
    snprintf(url, sizeof(url), "file:%s", path);
    run_job(2, false);
    run_job(3, false);
    run_job(2, true);
    run_job(4, true);
    run_job(3, false);
    struct job next = {.size = 2};
    beside(false, run, &next);
    beside(true, refused, NULL);
    run_job(2, false); /* all have ended */
    remove_folder(path);
    return test_result();
}
