/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making the communicators: collective, and as slow as the slowest rank. From 2.14 on the library makes them in the
 * background, and this thread polls. Before, ncclCommInitRank returns when all ranks have arrived, so it runs in a
 * thread of its own. At the deadline, or if another member fails, that thread is left behind; it aborts its
 * communicator if the function ever returns. Neither form notices a rank that does not come, so both waits poll for
 * failures of other members.
 */
#include "backends/nccl/communicator/connect.h"

#include <stdlib.h>
#include <time.h>

#include "backends/nccl/communicator/backoff.h"
#include "backends/nccl/communicator/communicator.h"
#include "backends/nccl/failure.h"
#include "backends/nccl/library/options.h"
#include "base/clock.h"
#include "base/error.h"

static tutti_status too_late(const struct tti_nccl_group *g, int32_t lane, int64_t started_ns, const char *what,
                             tutti_error *error)
{
    return tti_error_set(error, TUTTI_TIMEOUT,
                         "rank %d of %d has waited %lld ms in nccl%s for the communicator of lane %d: a rank has not "
                         "arrived, or %s cannot connect them; set nccl.debug=info to see more",
                         g->rank, g->size, (long long)((tti_now_ns() - started_ns) / 1000000), what, lane,
                         g->library->display_name);
}

#define POLL_NS 100000000 /* between two polls for failures of other members */

/* At most once every POLL_NS: the failure that another member has reported, or OK. */
static tutti_status poll_failures(const tutti_open_info *info, int64_t *next_ns, tutti_error *error)
{
    const tutti_rendezvous *r = info->rendezvous;
    const int64_t now = tti_now_ns();
    if (now < *next_ns) {
        return TUTTI_OK;
    }
    *next_ns = now + POLL_NS;
    return r->poll_failures ? r->poll_failures(r->self, error) : TUTTI_OK;
}

/* ---- in the background ------------------------------------------------------------------------------------------- */

static tutti_status connect_nonblocking(struct tti_nccl_group *g, int32_t index, const tutti_open_info *info,
                                        tti_nccl_id id, int64_t deadline_ns, tutti_error *error)
{
    const struct tti_nccl_library *library = g->library;
    struct tti_nccl_backoff backoff = {.background = true};
    tti_nccl_config config = tti_nccl_config_of(library, info);
    tti_nccl_comm comm = NULL;
    const int64_t started_ns = tti_now_ns();
    int64_t poll_ns = started_ns + POLL_NS;
    int code = library->CommInitRankConfig(&comm, g->size, id, g->rank, &config);
    g->lane[index].comm = comm; /* without the lock: no other thread has the group yet */
    while (code == TTI_NCCL_IN_PROGRESS && comm) {
        code = tti_nccl_comm_state(library, comm);
        if (code != TTI_NCCL_IN_PROGRESS || !tti_nccl_backoff_step(&backoff)) {
            continue;
        }
        if (tti_now_ns() >= deadline_ns) {
            return too_late(g, index, started_ns, "CommInitRankConfig", error);
        }
        const tutti_status status = poll_failures(info, &poll_ns, error);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    if (code != TTI_NCCL_SUCCESS || !comm) {
        return tti_nccl_error(library, comm, code, "CommInitRankConfig", error);
    }
    return TUTTI_OK;
}

/* ---- in a thread ------------------------------------------------------------------------------------------------- */

/* With copies of the group's fields: the group may end before the thread. */
struct init_thread {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const struct tti_nccl_library *library;
    int32_t index; /* of the device */
    int32_t rank;
    int32_t size;
    tti_nccl_id id;
    /* under the lock */
    tti_nccl_comm comm;
    tutti_status status;
    tutti_error error;
    bool done;
    bool left; /* the caller has stopped waiting: the thread frees this struct */
};

static void init_thread_free(struct init_thread *j)
{
    pthread_cond_destroy(&j->changed);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

static void *join(void *argument)
{
    struct init_thread *j = argument;
    const struct tti_nccl_library *library = j->library;
    const struct tti_device *device = library->device;
    struct tti_device_scope scope;
    tti_nccl_comm comm = NULL;
    tutti_error error;
    tti_error_clear(&error);
    tutti_status status = device->enter(j->index, &scope, &error);
    const bool entered = status == TUTTI_OK;
    if (entered) {
        const int code = library->CommInitRank(&comm, j->size, j->id, j->rank);
        if (code != TTI_NCCL_SUCCESS) {
            status = tti_nccl_error(library, NULL, code, "CommInitRank", &error);
            comm = NULL;
        }
    }
    pthread_mutex_lock(&j->lock);
    j->comm = comm;
    j->status = status;
    j->error = error;
    j->done = true;
    const bool left = j->left;
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->lock);
    if (left) {
        init_thread_free(j);
    } /* else connect_blocking may have freed it by now */
    if (left && comm) {
        library->CommAbort(comm);
    }
    if (entered) {
        device->leave(&scope);
    }
    return NULL;
}

static struct init_thread *init_thread_start(const struct tti_nccl_group *g, tti_nccl_id id)
{
    struct init_thread *j = calloc(1, sizeof(*j));
    pthread_condattr_t clock;
    pthread_attr_t attributes;
    pthread_t thread;
    if (!j) {
        return NULL;
    }
    j->library = g->library;
    j->index = g->index;
    j->rank = g->rank;
    j->size = g->size;
    j->id = id;
    pthread_mutex_init(&j->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&j->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const bool started = pthread_create(&thread, &attributes, join, j) == 0;
    pthread_attr_destroy(&attributes);
    if (!started) {
        init_thread_free(j);
        return NULL;
    }
    return j;
}

/* Waits for the end of the thread until that time. With the lock. */
static void await_thread(struct init_thread *j, int64_t until_ns)
{
    const struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    int waited = 0;
    while (!j->done && waited == 0) {
        waited = pthread_cond_timedwait(&j->changed, &j->lock, &until);
    }
}

static tutti_status connect_blocking(struct tti_nccl_group *g, int32_t index, const tutti_open_info *info,
                                     tti_nccl_id id, int64_t deadline_ns, tutti_error *error)
{
    const int64_t started_ns = tti_now_ns();
    int64_t poll_ns = started_ns + POLL_NS;
    tutti_status failure = TUTTI_OK;
    struct init_thread *j = init_thread_start(g, id);
    if (!j) {
        return tti_error_set(error, TUTTI_NO_RESOURCE, "rank %d cannot start a thread for ncclCommInitRank", g->rank);
    }
    pthread_mutex_lock(&j->lock);
    await_thread(j, poll_ns < deadline_ns ? poll_ns : deadline_ns);
    while (!j->done && failure == TUTTI_OK && tti_now_ns() < deadline_ns) {
        pthread_mutex_unlock(&j->lock);
        failure = poll_failures(info, &poll_ns, error);
        pthread_mutex_lock(&j->lock);
        await_thread(j, failure != TUTTI_OK ? 0 : poll_ns < deadline_ns ? poll_ns : deadline_ns);
    }
    const bool done = j->done;
    const tutti_status status = j->status;
    j->left = !done;
    if (done) {
        g->lane[index].comm = j->comm;
        if (status != TUTTI_OK && error) {
            *error = j->error;
        }
    }
    pthread_mutex_unlock(&j->lock);
    if (!done && failure != TUTTI_OK) {
        return failure;
    }
    if (!done) {
        return too_late(g, index, started_ns, "CommInitRank", error);
    }
    init_thread_free(j);
    return status;
}

tutti_status tti_nccl_connect(struct tti_nccl_group *g, const tutti_open_info *info, const tti_nccl_id *ids,
                              int64_t deadline_ns, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    for (int32_t i = 0; i < g->lanes && status == TUTTI_OK; i++) {
        status = g->nonblocking ? connect_nonblocking(g, i, info, ids[i], deadline_ns, error)
                                : connect_blocking(g, i, info, ids[i], deadline_ns, error);
    }
    return status;
}
