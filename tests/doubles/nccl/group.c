/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: every call opens one for itself, GroupStart one around several calls. At the end of the outermost group the
 * collected work runs: jobs (communicators made, finalised, destroyed), then one batch per communicator. A batch is one
 * kernel: it is queued on all its streams, begins when all of them have reached it, and batches of a communicator run
 * one after another.
 *
 * For non-blocking communicators a thread does this, and the calls return ncclInProgress before any work is on a
 * stream. To expose callers that do not wait, the thread waits a short time for the first CommGetAsyncError.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "double.h"

enum { UNDECIDED = -1 };

/* The collected work of one group. */
struct group {
    struct tti_job *jobs;
    struct tti_job **last_job;
    struct ncclComm *comms; /* with tasks */
    int blocking;           /* UNDECIDED, or the mode of the first communicator */
    ncclResult_t error;
};

static _Thread_local int depth;
static _Thread_local struct group open_group;

/* A kernel on all streams that its tasks name. */
struct batch {
    struct ncclComm *comm;
    struct tti_task *tasks;
    uint64_t ticket;
    int streams;
    int arrived; /* under comm->lock, as are the next ones */
    int left;
    bool done;
    bool failed; /* on some stream it is not run, because the device has an error */
};

/* ---- on the streams ---- */

static bool run_tasks(struct ncclComm *comm, struct tti_task *tasks)
{
    for (const struct tti_task *task = tasks; task; task = task->next) {
        if (task->fault < 0) {
            continue;
        }
        if (task->fault > 0) {
            tti_comm_set_result(comm, (ncclResult_t)task->fault);
            atomic_store(&comm->shared->broken, (uint32_t)comm->rank + 1);
        }
        pthread_mutex_lock(&comm->lock);
        while (!atomic_load(&comm->aborted)) {
            pthread_cond_wait(&comm->changed, &comm->lock);
        }
        pthread_mutex_unlock(&comm->lock);
        return false;
    }
    for (const struct tti_task *task = tasks; task; task = task->next) {
        if (task->kind < TTI_SEND && !tti_run_collective(comm, task)) {
            return false;
        }
    }
    return tti_run_messages(comm, tasks);
}

/* With comm->lock. */
static bool may_begin(const struct batch *batch)
{
    return batch->arrived == batch->streams && batch->comm->served == batch->ticket;
}

static void free_tasks(struct tti_task *tasks)
{
    while (tasks) {
        struct tti_task *next = tasks->next;
        free(tasks);
        tasks = next;
    }
}

/* Called once on each stream. The last stream to arrive does the work, the other ones wait for it. */
static int run_batch(void *data, int code)
{
    struct batch *batch = data;
    struct ncclComm *comm = batch->comm;
    pthread_mutex_lock(&comm->lock);
    batch->failed = batch->failed || code != 0;
    if (++batch->arrived == batch->streams) {
        while (!may_begin(batch) && !atomic_load(&comm->aborted)) {
            pthread_cond_wait(&comm->changed, &comm->lock);
        }
        const bool run = !batch->failed && !atomic_load(&comm->aborted);
        pthread_mutex_unlock(&comm->lock);
        if (run) {
            (void)run_tasks(comm, batch->tasks);
        }
        pthread_mutex_lock(&comm->lock);
        if (comm->served <= batch->ticket) {
            comm->served = batch->ticket + 1;
        }
        batch->done = true;
        pthread_cond_broadcast(&comm->changed);
    }
    while (!batch->done && !atomic_load(&comm->aborted)) {
        pthread_cond_wait(&comm->changed, &comm->lock);
    }
    const bool last = ++batch->left == batch->streams;
    struct tti_task *tasks = last ? batch->tasks : NULL;
    if (last) {
        free(batch);
    }
    free_tasks(tasks);
    /* After the lock the communicator is not used any more: a thread that drains it may empty it. */
    comm->pending--;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    return 0;
}

/* ---- at the end of a group ---- */

/* The streams of the tasks, each once; returns how many. */
static int streams_of(const struct tti_task *tasks, void **streams)
{
    int count = 0;
    for (const struct tti_task *task = tasks; task; task = task->next) {
        int i = 0;
        while (i < count && streams[i] != task->stream) {
            i++;
        }
        if (i == count) {
            streams[count++] = task->stream;
        }
    }
    return count;
}

/* If a later stream of several refuses, the earlier ones wait for the abort: as with the real one, the communicator is
 * lost. */
static ncclResult_t launch_on(struct ncclComm *comm, struct batch *batch, void **streams)
{
    const int count = batch->streams; /* the batch is freed when all streams have ended it */
    for (int i = 0; i < count; i++) {
        pthread_mutex_lock(&comm->lock);
        comm->pending++;
        pthread_mutex_unlock(&comm->lock);
        const ncclResult_t result = tti_driver_launch(streams[i], run_batch, batch);
        if (result != ncclSuccess) {
            pthread_mutex_lock(&comm->lock);
            comm->pending--;
            comm->launched -= i == 0;
            batch->streams = i;
            pthread_mutex_unlock(&comm->lock);
            if (i == 0) {
                free_tasks(batch->tasks);
                free(batch);
            }
            return result;
        }
    }
    return ncclSuccess;
}

static ncclResult_t launch(struct ncclComm *comm, struct tti_task *tasks)
{
    int count = 0;
    for (const struct tti_task *task = tasks; task; task = task->next) {
        count++;
    }
    struct batch *batch = calloc(1, sizeof(*batch));
    void **streams = calloc((size_t)count, sizeof(*streams));
    if (!batch || !streams) {
        free(batch);
        free(streams);
        free_tasks(tasks);
        return tti_refuse(ncclSystemError, "a group of %d operations : no memory", count);
    }
    *batch = (struct batch){.comm = comm, .tasks = tasks, .streams = streams_of(tasks, streams)};
    void *before;
    ncclResult_t result = tti_driver_enter(comm, &before);
    if (result == ncclSuccess) {
        pthread_mutex_lock(&comm->lock);
        batch->ticket = comm->launched++;
        pthread_mutex_unlock(&comm->lock);
        result = launch_on(comm, batch, streams);
        tti_driver_leave(comm, before);
    } else {
        free_tasks(tasks);
        free(batch);
    }
    free(streams);
    return result;
}

static ncclResult_t check_self(const struct ncclComm *comm, const struct tti_task *tasks)
{
    int sends = 0;
    int receives = 0;
    for (const struct tti_task *task = tasks; task; task = task->next) {
        sends += task->kind == TTI_SEND && task->root == comm->rank;
        receives += task->kind == TTI_RECV && task->root == comm->rank;
    }
    if (sends > receives) {
        return tti_refuse(ncclInvalidUsage, "Trying to send to self without a matching recv");
    }
    if (receives > sends) {
        return tti_refuse(ncclInvalidUsage, "Trying to recv to self without a matching send");
    }
    return ncclSuccess;
}

/* Takes the tasks out of the communicator, and puts them on the streams unless there was an error. */
static ncclResult_t launch_tasks(struct ncclComm *comm, ncclResult_t error)
{
    struct tti_task *tasks = comm->tasks;
    comm->tasks = NULL;
    comm->last_task = &comm->tasks;
    comm->in_group = false;
    if (error == ncclSuccess && !tti_connect_end(comm, tasks)) {
        error = tti_refuse(ncclInternalError, "the communicator was aborted while it connected to its peers");
    }
    if (error != ncclSuccess) {
        free_tasks(tasks);
        return error;
    }
    return launch(comm, tasks);
}

static void *run_job(void *argument)
{
    struct tti_job *job = argument;
    if (!job->blocking) { /* "in progress" keeps others out */
        job->result = job->run(job);
        return NULL;
    }
    job->result = tti_comm_enter(job->comm, "GroupEnd");
    if (job->result == ncclSuccess) {
        job->result = job->run(job);
        tti_comm_leave(job->comm);
    }
    return NULL;
}

/* All at the same time, since they may wait for each other. */
static ncclResult_t run_jobs(struct tti_job *jobs)
{
    ncclResult_t result = ncclSuccess;
    for (struct tti_job *job = jobs; job; job = job->next) {
        if (job->next == NULL) {
            run_job(job);
        } else if (pthread_create(&job->thread, NULL, run_job, job) != 0) {
            tti_misused("there is no thread for a job in a group.");
        }
    }
    while (jobs) {
        struct tti_job *job = jobs;
        jobs = job->next;
        if (jobs) {
            pthread_join(job->thread, NULL);
        }
        result = result == ncclSuccess ? job->result : result;
        free(job);
    }
    return result;
}

/* All communicators of the group connect at the same time: some may be each other's peers. */
static ncclResult_t run_group(struct group *group)
{
    ncclResult_t result = run_jobs(group->jobs);
    struct ncclComm *next;
    for (struct ncclComm *comm = group->comms; comm; comm = comm->next_in_group) {
        if (comm->blocking && tti_comm_enter(comm, "GroupEnd") != ncclSuccess) {
            tti_misused("a group has an operation without a communicator.");
        }
        if (result == ncclSuccess) {
            result = check_self(comm, comm->tasks);
        }
        if (result == ncclSuccess) {
            tti_connect_begin(comm, comm->tasks);
        }
    }
    for (struct ncclComm *comm = group->comms; comm; comm = next) {
        next = comm->next_in_group;
        result = launch_tasks(comm, result);
        if (comm->blocking) {
            tti_comm_leave(comm);
        }
    }
    return result;
}

/* ---- not blocking ---- */

struct background {
    struct group group;
    struct ncclComm **comms; /* all whose result is in progress */
    size_t count;
};

static void await_poll(struct ncclComm *comm)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 200000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&comm->lock);
    while (comm->polls == 0 && !atomic_load(&comm->aborted) &&
           pthread_cond_timedwait(&comm->changed, &comm->lock, &until) == 0) {
    }
    pthread_mutex_unlock(&comm->lock);
}

static void *run_background(void *argument)
{
    struct background *background = argument;
    await_poll(background->comms[0]);
    const ncclResult_t result = run_group(&background->group);
    for (size_t i = 0; i < background->count; i++) {
        struct ncclComm *comm = background->comms[i];
        uint32_t in_progress = ncclInProgress;
        /* A kernel may have left another one meanwhile. */
        (void)atomic_compare_exchange_strong(&comm->result, &in_progress, (uint32_t)result);
        pthread_mutex_lock(&comm->lock);
        comm->busy--;
        pthread_cond_broadcast(&comm->changed);
        pthread_mutex_unlock(&comm->lock);
    }
    free(background->comms);
    free(background);
    return NULL;
}

static void mark_busy(struct background *background, struct ncclComm *comm)
{
    for (size_t i = 0; i < background->count; i++) {
        if (background->comms[i] == comm) {
            return;
        }
    }
    background->comms[background->count++] = comm;
    tti_comm_set_result(comm, ncclInProgress);
    pthread_mutex_lock(&comm->lock);
    comm->busy++;
    comm->polls = 0;
    pthread_mutex_unlock(&comm->lock);
}

static ncclResult_t start_background(const struct group *group)
{
    size_t count = 0;
    for (const struct tti_job *job = group->jobs; job; job = job->next) {
        count++;
    }
    for (const struct ncclComm *comm = group->comms; comm; comm = comm->next_in_group) {
        count++;
    }
    struct background *background = calloc(1, sizeof(*background));
    struct ncclComm **comms = calloc(count, sizeof(struct ncclComm *));
    if (!background || !comms) {
        tti_misused("there is no memory for a group.");
    }
    background->group = *group;
    background->comms = comms;
    for (const struct tti_job *job = group->jobs; job; job = job->next) {
        mark_busy(background, job->comm);
    }
    for (struct ncclComm *comm = group->comms; comm; comm = comm->next_in_group) {
        mark_busy(background, comm);
    }
    pthread_attr_t detached;
    pthread_t thread;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &detached, run_background, background) != 0) {
        tti_misused("there is no thread for a group.");
    }
    pthread_attr_destroy(&detached);
    return ncclInProgress;
}

/* ---- the open group of this thread ---- */

void tti_group_start(void)
{
    if (depth++ == 0) {
        open_group = (struct group){.blocking = UNDECIDED};
        open_group.last_job = &open_group.jobs;
    }
}

ncclResult_t tti_group_check(ncclResult_t result)
{
    if (depth > 0 && result != ncclSuccess && result != ncclInProgress) {
        open_group.error = result;
    }
    return result;
}

static ncclResult_t join_group(struct group *group, bool blocking)
{
    if (group->blocking == UNDECIDED) {
        group->blocking = blocking;
    }
    if (group->blocking != (int)blocking) {
        return tti_refuse(ncclInvalidArgument,
                          "Blocking and nonblocking communicators are not allowed in the same group.");
    }
    return ncclSuccess;
}

ncclResult_t tti_group_add_task(struct ncclComm *comm, struct tti_task *task)
{
    struct group *group = &open_group;
    const ncclResult_t result = join_group(group, comm->blocking);
    if (result != ncclSuccess) {
        free(task);
        return result;
    }
    if (!comm->in_group) {
        comm->in_group = true;
        comm->next_in_group = group->comms;
        group->comms = comm;
    }
    task->next = NULL;
    *comm->last_task = task;
    comm->last_task = &task->next;
    return ncclSuccess;
}

ncclResult_t tti_group_add_job(struct tti_job *job)
{
    struct group *group = &open_group;
    const ncclResult_t result = join_group(group, job->blocking);
    if (result != ncclSuccess) {
        free(job);
        return result;
    }
    job->next = NULL;
    *group->last_job = job;
    group->last_job = &job->next;
    return ncclSuccess;
}

/* Nothing of it happens. Communicators that are not blocking keep the error. */
static void drop_group(const struct group *group)
{
    struct ncclComm *next;
    for (struct ncclComm *comm = group->comms; comm; comm = next) {
        next = comm->next_in_group;
        (void)launch_tasks(comm, group->error);
        if (!comm->blocking) {
            tti_comm_set_result(comm, group->error);
        }
    }
    struct tti_job *jobs = group->jobs;
    while (jobs) {
        struct tti_job *job = jobs;
        jobs = job->next;
        if (!job->blocking) {
            tti_comm_set_result(job->comm, group->error);
        }
        free(job);
    }
}

ncclResult_t tti_group_end(void)
{
    if (depth == 0) {
        return tti_refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
    }
    if (--depth > 0) {
        return ncclSuccess;
    }
    struct group group = open_group;
    if (group.error != ncclSuccess) {
        drop_group(&group);
        return group.error;
    }
    if (!group.jobs && !group.comms) {
        return ncclSuccess;
    }
    return group.blocking ? run_group(&group) : start_background(&group);
}
