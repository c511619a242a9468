/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handle of a communicator: when which thread may use it, and the result of CommGetAsyncError. Handles are never
 * freed, so a use after the end is found in the list and does not hit other memory.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "double.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *list;
static int made;

/* Its address identifies the thread. */
static _Thread_local char this_thread;

struct ncclComm *tti_comm_new(int rank, int ranks, bool blocking)
{
    struct ncclComm *comm = calloc(1, sizeof(*comm));
    if (!comm) {
        return NULL;
    }
    comm->abort_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (comm->abort_fd < 0) {
        free(comm);
        return NULL;
    }
    comm->rank = rank;
    comm->ranks = ranks;
    comm->blocking = blocking;
    comm->last_task = &comm->tasks;
    pthread_mutex_init(&comm->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&comm->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    atomic_store(&comm->state, TTI_COMM_LIVE);
    pthread_mutex_lock(&list_lock);
    comm->ordinal = made++;
    comm->chain = list;
    list = comm;
    pthread_mutex_unlock(&list_lock);
    return comm;
}

void tti_comm_empty(struct ncclComm *comm)
{
    atomic_store(&comm->state, TTI_COMM_DESTROYED);
    if (comm->shared) {
        munmap(comm->shared, tti_shared_bytes(comm->ranks));
    }
    close(comm->abort_fd);
    while (comm->ops) {
        struct tti_custom_op *op = comm->ops;
        comm->ops = op->next;
        free(op);
    }
    while (comm->registrations) {
        struct tti_registration *registration = comm->registrations;
        comm->registrations = registration->next;
        free(registration);
    }
}

static bool is_known(const struct ncclComm *comm)
{
    pthread_mutex_lock(&list_lock);
    const struct ncclComm *found = list;
    while (found && found != comm) {
        found = found->chain;
    }
    pthread_mutex_unlock(&list_lock);
    return found != NULL;
}

ncclResult_t tti_comm_enter(struct ncclComm *comm, const char *function)
{
    uintptr_t no_thread = 0;
    if (!comm) {
        return tti_refuse(ncclInvalidArgument, "%s : comm argument is NULL", function);
    }
    if (!is_known(comm)) {
        tti_misused("%s was called with %p, which is no communicator.", function, (void *)comm);
    }
    if (atomic_load(&comm->state) != TTI_COMM_LIVE) {
        tti_misused("%s was called with communicator %d after its end.", function, comm->ordinal);
    }
    if (!atomic_compare_exchange_strong(&comm->inside, &no_thread, (uintptr_t)&this_thread)) {
        tti_misused("%s was called with communicator %d (rank %d) while another thread was inside a call of it.",
                    function, comm->ordinal, comm->rank);
    }
    return ncclSuccess;
}

void tti_comm_leave(struct ncclComm *comm)
{
    atomic_store(&comm->inside, 0);
}

ncclResult_t tti_comm_result(struct ncclComm *comm)
{
    const ncclResult_t result = (ncclResult_t)atomic_load(&comm->result);
    if (result != ncclSuccess) {
        return result;
    }
    pthread_mutex_lock(&comm->lock);
    const struct tti_shared *shared = comm->shared;
    pthread_mutex_unlock(&comm->lock);
    return shared && !comm->revoked && atomic_load(&shared->broken) ? ncclRemoteError : ncclSuccess;
}

void tti_comm_set_result(struct ncclComm *comm, ncclResult_t result)
{
    atomic_store(&comm->result, (uint32_t)result);
}

ncclResult_t tti_comm_ready(struct ncclComm *comm)
{
    const ncclResult_t result = tti_comm_result(comm);
    if (result == ncclInProgress) {
        return tti_refuse(ncclInvalidArgument,
                          "Attempt to use communicator before the previous operation returned ncclSuccess");
    }
    return result;
}

void tti_comm_drain(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->lock);
    while (comm->pending > 0) {
        pthread_cond_wait(&comm->changed, &comm->lock);
    }
    pthread_mutex_unlock(&comm->lock);
}

/* ---- ncclConfig_t ---- */

/* As in 2.28; older versions have the beginning of it. */
struct config {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
    int traffic_class;
};

static size_t known_bytes(void)
{
    if (tti_version() < 21700) {
        return offsetof(struct config, cga_cluster_size) + 4; /* and padding */
    }
    return tti_version() < 21800 ? offsetof(struct config, split_share) : sizeof(struct config);
}

static bool is_flag(int value)
{
    return value == INT_MIN || value == 0 || value == 1;
}

ncclResult_t tti_config_read(const ncclConfig_t *config, bool *blocking)
{
    struct config c = {.blocking = INT_MIN,
                       .cga_cluster_size = INT_MIN,
                       .min_ctas = INT_MIN,
                       .max_ctas = INT_MIN,
                       .split_share = INT_MIN};
    size_t size;
    memcpy(&size, config, sizeof(size));
    memcpy(&c, config, size < known_bytes() ? size : known_bytes());
    if (c.magic != 0xcafebeef) {
        return tti_refuse(ncclInvalidArgument, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
    }
    /* Fields that the caller's version did not have are not read. */
    if (c.version < 21400) {
        c.blocking = INT_MIN;
    }
    if (c.version < 21700) {
        c.cga_cluster_size = c.min_ctas = c.max_ctas = INT_MIN;
    }
    if (!is_flag(c.blocking)) {
        return tti_refuse(ncclInvalidArgument, "Invalid config blocking attribute value %d", c.blocking);
    }
    if (c.cga_cluster_size != INT_MIN && c.cga_cluster_size < 0) {
        return tti_refuse(ncclInvalidArgument, "Invalid config cgaClusterSize attribute value %d", c.cga_cluster_size);
    }
    if ((c.min_ctas != INT_MIN && c.min_ctas <= 0) || (c.max_ctas != INT_MIN && c.max_ctas <= 0) ||
        c.min_ctas > c.max_ctas) {
        return tti_refuse(ncclInvalidArgument, "Invalid config min/max channels attribute value %d/%d", c.min_ctas,
                          c.max_ctas);
    }
    if (!is_flag(c.split_share)) {
        return tti_refuse(ncclInvalidArgument, "Invalid config splitShare attribute value %d", c.split_share);
    }
    if (c.blocking != INT_MIN) {
        *blocking = c.blocking == 1;
    }
    return ncclSuccess;
}
