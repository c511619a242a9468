/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for stores of other ranks in the shared memory. A waiter reads its doorbell, checks its condition, and sleeps
 * unless the doorbell was raised since. A storer stores, raises the doorbell, and wakes the sleepers. All of it is
 * sequentially consistent: either the waiter sees the store, or the storer sees the sleeper.
 *
 * NCCL's kernels do not detect that a process has died, so neither does tti_await. The end of a communicator does.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "double.h"

static bool is_aborted(const struct ncclComm *comm)
{
    return atomic_load(&comm->aborted) != 0;
}

static void sleep_on(struct tti_rank_slot *mine, uint32_t doorbell, const struct timespec *limit)
{
    atomic_fetch_add(&mine->sleepers, 1);
    (void)syscall(SYS_futex, &mine->doorbell, FUTEX_WAIT, doorbell, limit, NULL, 0);
    atomic_fetch_sub(&mine->sleepers, 1);
}

bool tti_await(struct ncclComm *comm, bool (*ready)(void *argument), void *argument)
{
    struct tti_rank_slot *mine = &comm->shared->place[comm->rank];
    for (;;) {
        const uint32_t doorbell = atomic_load(&mine->doorbell);
        if (is_aborted(comm)) {
            return false;
        }
        if (ready(argument)) {
            return true;
        }
        sleep_on(mine, doorbell, NULL);
    }
}

void tti_doorbell_raise(struct ncclComm *comm, int rank)
{
    struct tti_rank_slot *place = &comm->shared->place[rank];
    atomic_fetch_add(&place->doorbell, 1);
    if (atomic_load(&place->sleepers)) {
        (void)syscall(SYS_futex, &place->doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

void tti_doorbell_raise_all(struct ncclComm *comm)
{
    for (int rank = 0; rank < comm->ranks; rank++) {
        tti_doorbell_raise(comm, rank);
    }
}

void tti_set_aborted(struct ncclComm *comm)
{
    const uint64_t one = 1;
    atomic_store(&comm->aborted, 1);
    if (write(comm->abort_fd, &one, sizeof(one)) != sizeof(one)) {
        tti_misused("an eventfd cannot be written (%s).", strerror(errno));
    }
    pthread_mutex_lock(&comm->lock);
    struct tti_shared *shared = comm->shared; /* set under the lock, when the communicator has been made */
    if (comm->child) {
        tti_set_aborted(comm->child);
    }
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    if (shared) {
        tti_doorbell_raise(comm, comm->rank);
    }
}

/* ---- the end ---- */

static bool is_alive(int process)
{
    /* A pidfd is readable when the process has ended, also before its status is read. */
    const int fd = (int)syscall(SYS_pidfd_open, process, 0);
    if (fd < 0) {
        return errno != ESRCH;
    }
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    const bool alive = poll(&ended, 1, 0) == 0;
    close(fd);
    return alive;
}

static bool all_ended(struct ncclComm *comm)
{
    const struct tti_rank_slot *places = comm->shared->place;
    const int process = (int)getpid();
    for (int rank = 0; rank < comm->ranks; rank++) {
        /* A program that ends several ranks of its own, one after the other, does not wait before the last one. */
        if (places[rank].process == process && atomic_load(&places[rank].end) == TTI_PRESENT) {
            return true;
        }
    }
    for (int rank = 0; rank < comm->ranks; rank++) {
        if (atomic_load(&places[rank].end) == TTI_PRESENT && is_alive(places[rank].process)) {
            return false;
        }
    }
    return true;
}

void tti_await_ends(struct ncclComm *comm)
{
    struct tti_rank_slot *mine = &comm->shared->place[comm->rank];
    const struct timespec again = {.tv_nsec = 50000000}; /* a death raises no doorbell */
    atomic_store(&mine->end, TTI_ENDED);
    tti_doorbell_raise_all(comm);
    for (;;) {
        const uint32_t doorbell = atomic_load(&mine->doorbell);
        if (is_aborted(comm) || all_ended(comm)) {
            return;
        }
        sleep_on(mine, doorbell, &again);
    }
}

/* ---- exchanges ---- */

struct exchange {
    const struct ncclComm *comm;
    uint64_t number;
};

static bool all_exchanged(void *argument)
{
    const struct exchange *exchange = argument;
    for (int rank = 0; rank < exchange->comm->ranks; rank++) {
        if (atomic_load(&exchange->comm->shared->place[rank].exchanges) < exchange->number) {
            return false;
        }
    }
    return true;
}

/* Two slots are enough: a rank that publishes value i + 2 has seen value i + 1 of all ranks, so all have read value
 * i. */
bool tti_comm_exchange_all(struct ncclComm *comm, const void *mine, size_t bytes, void *all)
{
    struct tti_rank_slot *place = &comm->shared->place[comm->rank];
    struct exchange exchange = {comm, atomic_load(&place->exchanges) + 1};
    const size_t half = exchange.number % 2;
    if (bytes > 0) {
        memcpy(place->exchanged[half], mine, bytes);
    }
    atomic_store(&place->exchanges, exchange.number);
    tti_doorbell_raise_all(comm);
    if (!tti_await(comm, all_exchanged, &exchange)) {
        return false;
    }
    for (int rank = 0; rank < comm->ranks && bytes > 0; rank++) {
        memcpy((unsigned char *)all + (size_t)rank * bytes, comm->shared->place[rank].exchanged[half], bytes);
    }
    return true;
}
