/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creating communicators below MPI_THREAD_MULTIPLE. The calls that create them keep the lock of the library until all
 * members have arrived. Two threads that create different groups of the same ranks could each hold the lock of one rank
 * and wait for the other's. So each process has a creation mutex, and the members of a group lock theirs one after the
 * other, in the order of MPI_COMM_WORLD. That order is the same for all groups, so there is no deadlock (ordered
 * resources; Havender, 1968). When the last member holds its mutex, all members are about to make the call.
 *
 * Cost: two steps through the rendezvous for each member, one member after the other.
 */
#include "backends/mpi/plugin/creation_lock.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"

static pthread_mutex_t creation_mutex = PTHREAD_MUTEX_INITIALIZER;

static tutti_status await(const tutti_open_info *info, int rank, int64_t deadline_ns, tutti_error *error)
{
    const tutti_rendezvous *rv = info->rendezvous;
    char key[32];
    char value;
    size_t length = 0;
    snprintf(key, sizeof(key), "creation/%d", rank);
    tutti_status status = rv->get(rv->self, key, &value, sizeof(value), &length, tti_remaining_ms(deadline_ns), error);
    if (status == TUTTI_TIMEOUT) {
        status = tti_error_set(
            error, TUTTI_TIMEOUT,
            "rank %d waited %lld ms for rank %d to create the group's communicators; another thread of its "
            "process, or of an earlier member's, is still creating another group",
            info->rank, (long long)info->timeout_ms, rank);
        if (error) {
            error->suspect = rank;
        }
    }
    return status;
}

static tutti_status take(const tutti_open_info *info, int64_t deadline_ns, tutti_error *error)
{
    const struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                                   .tv_nsec = (long)(deadline_ns % 1000000000)};
    if (deadline_ns == TTI_NEVER) {
        pthread_mutex_lock(&creation_mutex);
    } else if (pthread_mutex_clocklock(&creation_mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT) {
        return tti_error_set(
            error, TUTTI_TIMEOUT,
            "rank %d waited %lld ms for another thread of its process, which is still creating another "
            "group",
            info->rank, (long long)info->timeout_ms);
    }
    return TUTTI_OK;
}

tutti_status tti_mpi_creation_lock(const tutti_open_info *info, const int32_t *world_ranks, tutti_error *error)
{
    const tutti_rendezvous *rv = info->rendezvous;
    const int32_t own = world_ranks[info->rank];
    const int64_t deadline_ns = tti_deadline_ns(tti_now_ns(), info->timeout_ms);
    int before = -1;
    int last = info->rank;
    for (int r = 0; r < info->world_size; r++) {
        if (world_ranks[r] < own && (before < 0 || world_ranks[r] > world_ranks[before])) {
            before = r;
        }
        last = world_ranks[r] > world_ranks[last] ? r : last;
    }
    tutti_status status = before >= 0 ? await(info, before, deadline_ns, error) : TUTTI_OK;
    if (status != TUTTI_OK || (status = take(info, deadline_ns, error)) != TUTTI_OK) {
        return status;
    }
    char key[32];
    snprintf(key, sizeof(key), "creation/%d", info->rank);
    status = rv->set(rv->self, key, "", 1, error);
    if (status == TUTTI_OK && last != info->rank) {
        status = await(info, last, deadline_ns, error);
    }
    if (status != TUTTI_OK) {
        tti_mpi_creation_unlock();
    }
    return status;
}

void tti_mpi_creation_unlock(void)
{
    pthread_mutex_unlock(&creation_mutex);
}
