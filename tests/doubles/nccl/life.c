/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How communicators begin and end. Making one, splitting, finalising and destroying wait for other ranks, and are jobs
 * for that reason; an abort waits only for what this rank itself has on its streams, which the abort ends.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "double.h"
#include "life.h"

static struct tti_job *new_job(struct ncclComm *comm, ncclResult_t (*run)(struct tti_job *job), bool blocking)
{
    struct tti_job *job = calloc(1, sizeof(*job));
    if (job) {
        *job = (struct tti_job){.comm = comm, .run = run, .blocking = blocking};
    } else {
        tti_misused("there is no memory for a job.");
    }
    return job;
}

/* ---- the beginning ---- */

static ncclResult_t run_init(struct tti_job *job)
{
    const ncclResult_t result = tti_id_join(job->comm, &job->id);
    if (result != ncclSuccess) {
        tti_comm_set_result(job->comm, result); /* the handle can only be aborted */
    }
    return result;
}

ncclResult_t tti_lifecycle_init(struct ncclComm **place, int ranks, const ncclUniqueId *id, int rank,
                                const ncclConfig_t *config, bool with_config)
{
    bool blocking = true;
    ncclResult_t result = tti_driver_open();
    if (result != ncclSuccess) {
        return result;
    }
    if (!place || (with_config && !config)) {
        return tti_refuse(ncclInvalidArgument, "CommInitRank : %s argument is NULL", place ? "config" : "newcomm");
    }
    *place = NULL;
    if (ranks < 1 || ranks > TTI_MAX_RANKS || rank < 0 || rank >= ranks) {
        return tti_refuse(ncclInvalidArgument, "Invalid rank requested : %d/%d", rank, ranks);
    }
    if (with_config) {
        result = tti_config_read(config, &blocking);
    }
    if (result != ncclSuccess) {
        return result;
    }
    struct ncclComm *comm = tti_comm_new(rank, ranks, blocking);
    if (!comm) {
        return tti_refuse(ncclSystemError, "CommInitRank : no memory");
    }
    result = tti_driver_current(&comm->device, &comm->context);
    if (result != ncclSuccess) {
        tti_comm_empty(comm);
        return result;
    }
    struct tti_job *job = new_job(comm, run_init, blocking);
    job->id = *id;
    *place = comm;
    return tti_group_add_job(job);
}

/* ---- a split ---- */

struct split_request {
    int32_t color;
    int32_t key;
};

/* This rank's number among the ranks of its colour, by key and then by rank, and the first of them. */
static void rank_in_split(const struct ncclComm *parent, const struct split_request *split_requests,
                          struct ncclComm *child, int *first)
{
    const struct split_request *mine = &split_requests[parent->rank];
    *first = -1;
    for (int rank = 0; rank < parent->ranks; rank++) {
        const struct split_request *other = &split_requests[rank];
        if (other->color != mine->color) {
            continue;
        }
        child->ranks++;
        if (other->key < mine->key || (other->key == mine->key && rank < parent->rank)) {
            child->rank++;
        }
        if (*first < 0 || other->key < split_requests[*first].key) {
            *first = rank;
        }
    }
}

/* The first rank of each colour makes an id; then it is as at the beginning. */
static ncclResult_t split(struct ncclComm *parent, struct ncclComm *child, struct split_request mine)
{
    struct split_request split_requests[TTI_MAX_RANKS];
    int first = -1;
    ncclUniqueId id = {{0}};
    ncclResult_t result = ncclSuccess;
    if (!tti_comm_exchange_all(parent, &mine, sizeof(mine), split_requests)) {
        return tti_refuse(ncclInternalError, "CommSplit : the communicator was aborted");
    }
    if (child) {
        rank_in_split(parent, split_requests, child, &first);
    }
    if (first == parent->rank) {
        result = tti_id_create(&id);
    }
    ncclUniqueId *ids = malloc((size_t)parent->ranks * sizeof(*ids));
    if (!ids) {
        return tti_refuse(ncclSystemError, "CommSplit : no memory");
    }
    if (!tti_comm_exchange_all(parent, &id, sizeof(id), ids)) {
        result = tti_refuse(ncclInternalError, "CommSplit : the communicator was aborted");
    } else if (child && result == ncclSuccess) {
        result = tti_id_join(child, &ids[first]);
    }
    free(ids);
    return result;
}

static void set_child(struct ncclComm *comm, struct ncclComm *child)
{
    pthread_mutex_lock(&comm->lock);
    comm->child = child;
    pthread_mutex_unlock(&comm->lock);
}

static ncclResult_t run_split(struct tti_job *job)
{
    const ncclResult_t result = split(job->comm, job->made, (struct split_request){job->color, job->key});
    set_child(job->comm, NULL);
    if (job->made) {
        tti_comm_set_result(job->made, result);
    }
    /* The caller reads NULL before this store. Release: the caller reads the result of the parent first. */
    __atomic_store_n(job->place, job->made, __ATOMIC_RELEASE);
    return result;
}

ncclResult_t tti_lifecycle_split(struct ncclComm *comm, int color, int key, struct ncclComm **place,
                                 const ncclConfig_t *config)
{
    bool blocking = comm->blocking;
    ncclResult_t result =
        place ? tti_comm_ready(comm) : tti_refuse(ncclInvalidArgument, "CommSplit : newcomm argument is NULL");
    if (result == ncclSuccess && config) {
        result = tti_config_read(config, &blocking);
    }
    if (result == ncclSuccess && comm->finalized && !comm->revoked) {
        result = tti_refuse(ncclInvalidUsage, "CommSplit : the communicator was finalized");
    }
    if (result != ncclSuccess) {
        return result;
    }
    *place = NULL;
    struct tti_job *job = new_job(comm, run_split, comm->blocking);
    if (color >= 0) {
        job->made = tti_comm_new(0, 0, blocking);
        if (!job->made) {
            tti_misused("there is no memory for a communicator.");
        }
        job->made->device = comm->device;
        job->made->context = comm->context;
        set_child(comm, job->made);
    }
    job->place = place;
    job->color = color;
    job->key = key;
    return tti_group_add_job(job);
}

/* ---- the end ---- */

static ncclResult_t run_finalize(struct tti_job *job)
{
    tti_comm_drain(job->comm);
    tti_await_ends(job->comm);
    return ncclSuccess;
}

ncclResult_t tti_lifecycle_finalize(struct ncclComm *comm)
{
    ncclResult_t result = tti_comm_ready(comm);
    if (result == ncclSuccess && comm->finalized) {
        result = tti_refuse(ncclInvalidArgument, "CommFinalize : was called before for this communicator");
    }
    if (result != ncclSuccess) {
        return result;
    }
    comm->finalized = true;
    return tti_group_add_job(new_job(comm, run_finalize, comm->blocking));
}

static ncclResult_t run_destroy(struct tti_job *job)
{
    tti_comm_drain(job->comm);
    if (atomic_load(&job->comm->shared->place[job->comm->rank].end) == TTI_PRESENT) {
        tti_await_ends(job->comm);
    }
    tti_comm_empty(job->comm);
    return ncclSuccess;
}

/* Even a communicator that is not blocking is destroyed in the call. */
ncclResult_t tti_lifecycle_destroy(struct ncclComm *comm)
{
    const ncclResult_t result = tti_comm_ready(comm);
    if (result != ncclSuccess) {
        return result;
    }
    return tti_group_add_job(new_job(comm, run_destroy, true));
}

/* Nothing of the library works for the communicator any more, and nothing of it is on a stream. */
static void quiesce(struct ncclComm *comm)
{
    tti_set_aborted(comm);
    pthread_mutex_lock(&comm->lock);
    while (comm->busy > 0) {
        pthread_cond_wait(&comm->changed, &comm->lock);
    }
    pthread_mutex_unlock(&comm->lock);
    tti_comm_drain(comm);
}

static ncclResult_t run_abort(struct tti_job *job)
{
    struct ncclComm *comm = job->comm;
    if (tti_abort_hangs(comm->rank)) {
        for (;;) {
            pause();
        }
    }
    quiesce(comm);
    if (comm->shared) {
        atomic_store(&comm->shared->place[comm->rank].end, TTI_ABORTED);
        tti_doorbell_raise_all(comm);
    }
    tti_comm_empty(comm);
    return ncclSuccess;
}

ncclResult_t tti_lifecycle_abort(struct ncclComm *comm)
{
    return tti_group_add_job(new_job(comm, run_abort, true));
}

/* Ends running operations on this rank only. Afterwards the communicator can only be split or destroyed. */
static ncclResult_t run_revoke(struct tti_job *job)
{
    uint64_t count;
    tti_comm_drain(job->comm);
    if (read(job->comm->abort_fd, &count, sizeof(count)) != sizeof(count)) {
        tti_misused("an eventfd cannot be read (%s).", strerror(errno));
    }
    atomic_store(&job->comm->aborted, 0);
    tti_comm_set_result(job->comm, job->comm->blocking ? ncclSuccess : ncclInProgress);
    return ncclSuccess;
}

ncclResult_t tti_lifecycle_revoke(struct ncclComm *comm, int flags)
{
    if (flags != 0 || comm->finalized || comm->revoked) {
        return tti_refuse(ncclInvalidArgument, "CommRevoke : %s",
                          flags != 0 ? "unknown flags" : "the communicator was finalized or revoked before");
    }
    comm->finalized = true;
    comm->revoked = true;
    tti_set_aborted(comm);
    pthread_mutex_lock(&comm->lock);
    while (comm->busy > 0) {
        pthread_cond_wait(&comm->changed, &comm->lock);
    }
    pthread_mutex_unlock(&comm->lock);
    return tti_group_add_job(new_job(comm, run_revoke, comm->blocking));
}
