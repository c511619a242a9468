/* SPDX-License-Identifier: BSD-3-Clause */
/* What TUTTI_DOUBLE_NCCL orders, and the misuses that end the process. */
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "nccl.h"
#include "nccl_cases.h"

static ncclResult_t move_byte(struct rank *t, void *memory, ncclComm_t comm)
{
    return t->AllReduce(memory, memory, 1, ncclInt8, ncclMax, comm, t->stream);
}

static ncclResult_t state_of(struct rank *t, ncclComm_t comm)
{
    ncclResult_t state;
    CHECK(t->CommGetAsyncError(comm, &state) == ncclSuccess);
    return state;
}

/* "rank=1 async_error=3:2" */
void case_async_error(struct rank *t)
{
    ncclComm_t comm = comm_blocking(t);
    void *memory = device_alloc(t, 1);
    CHECK(move_byte(t, memory, comm) == ncclSuccess && move_byte(t, memory, comm) == ncclSuccess);
    device_wait(t, t->stream);
    CHECK(state_of(t, comm) == ncclSuccess);
    barrier(t);
    const ncclResult_t third = move_byte(t, memory, comm);
    CHECK(third == ncclSuccess || (t->rank != 1 && third == ncclRemoteError)); /* the late rank has the error already */
    while (state_of(t, comm) == ncclSuccess) {
    }
    CHECK(state_of(t, comm) == (t->rank == 1 ? ncclSystemError : ncclRemoteError));
    CHECK(device_done(t, t->stream) == (third != ncclSuccess));
    CHECK(move_byte(t, memory, comm) == (t->rank == 1 ? ncclSystemError : ncclRemoteError));
    CHECK(t->CommDestroy(comm) != ncclSuccess);
    barrier(t);
    CHECK(t->CommAbort(comm) == ncclSuccess);
    device_wait(t, t->stream);
}

/* "hang=2" on rank 0 */
void case_hang(struct rank *t)
{
    const struct timespec pause = {.tv_nsec = 30000000};
    ncclComm_t comm = comm_blocking(t);
    void *memory = device_alloc(t, 1);
    CHECK(move_byte(t, memory, comm) == ncclSuccess);
    device_wait(t, t->stream);
    CHECK(move_byte(t, memory, comm) == ncclSuccess);
    nanosleep(&pause, NULL);
    CHECK(!device_done(t, t->stream) && state_of(t, comm) == ncclSuccess);
    barrier(t);
    CHECK(t->CommAbort(comm) == ncclSuccess);
    device_wait(t, t->stream);
}

/* "fail=AllReduce:2=1,fail=GroupEnd:1=3,fail=AllReduce:4=5": the call that fails counts, too */
void case_fail(struct rank *t)
{
    ncclComm_t comm = comm_blocking(t);
    void *memory = device_alloc(t, 1);
    CHECK(move_byte(t, memory, comm) == ncclSuccess);
    CHECK(move_byte(t, memory, comm) == ncclUnhandledCudaError);
    CHECK(move_byte(t, memory, comm) == ncclSuccess);
    CHECK(move_byte(t, memory, comm) == ncclInvalidUsage);
    CHECK(t->GroupStart() == ncclSuccess && t->GroupEnd() == ncclInternalError);
    CHECK(t->GroupStart() == ncclSuccess && t->GroupEnd() == ncclSuccess);
    device_wait(t, t->stream);
    CHECK(t->CommDestroy(comm) == ncclSuccess);
}

/* "init_hang" on one of them */
void case_init_hang(struct rank *t)
{
    const ncclUniqueId id = share_id(t);
    const struct timespec pause = {.tv_nsec = 1000000};
    struct old_config config = config_undefined();
    ncclComm_t comm;
    config.blocking = 0;
    CHECK(t->CommInitRankConfig(&comm, t->ranks, id, t->rank, (ncclConfig_t *)(void *)&config) == ncclInProgress);
    for (int i = 0; i < 30; i++) {
        CHECK(state_of(t, comm) == ncclInProgress);
        nanosleep(&pause, NULL);
    }
    CHECK(t->CommAbort(comm) == ncclSuccess);
}

static void *abort_comm(void *argument)
{
    struct rank *t = argument;
    ncclComm_t comm;
    memcpy(&comm, t->board->notes[0], sizeof(comm));
    (void)t->CommAbort(comm);
    t->board->notes[1][0] = 1; /* never */
    return NULL;
}

/* "abort_hang" */
void case_abort_hang(struct rank *t)
{
    const struct timespec pause = {.tv_nsec = 30000000};
    ncclComm_t comm = comm_blocking(t);
    pthread_t thread;
    memcpy(t->board->notes[0], &comm, sizeof(comm));
    CHECK(pthread_create(&thread, NULL, abort_comm, t) == 0);
    nanosleep(&pause, NULL);
    CHECK(t->board->notes[1][0] == 0);
    _exit(0); /* the thread cannot be joined */
}

/* "unique_id_fails" */
void case_unique_id_fails(struct rank *t)
{
    ncclUniqueId id;
    CHECK(t->GetUniqueId(&id) == ncclSystemError);
}

/* "log=FILE", where FILE is a name in the working directory. */
void case_log(struct rank *t)
{
    char text[4096] = {0};
    ncclComm_t comm = comm_blocking(t);
    void *memory = device_alloc(t, 12);
    CHECK(t->Broadcast(memory, memory, 3, ncclFloat32, 0, comm, t->stream) == ncclSuccess);
    device_wait(t, t->stream);
    CHECK(t->CommDestroy(comm) == ncclSuccess);
    FILE *file = fopen("selftest_nccl.log", "r");
    CHECK(file);
    const size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    CHECK(length > 0 && unlink("selftest_nccl.log") == 0);
    CHECK(strstr(text, "CommInitRank rank=0 ranks=1\n"));
    CHECK(strstr(text, "Broadcast rank=0 count=3 type=7 op=0 root=0 comm=0\n"));
    CHECK(strstr(text, "CommDestroy rank=0 comm=0\n"));
}

/* ---- misuses: each ends with SIGABRT ---- */

static ncclComm_t lonely_comm(struct rank *t)
{
    const struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    return comm_blocking(t);
}

void case_use_after_destroy(struct rank *t)
{
    ncclComm_t comm = lonely_comm(t);
    void *memory = device_alloc(t, 1);
    CHECK(t->CommDestroy(comm) == ncclSuccess);
    (void)move_byte(t, memory, comm);
}

void case_destroy_twice(struct rank *t)
{
    ncclComm_t comm = lonely_comm(t);
    CHECK(t->CommAbort(comm) == ncclSuccess);
    (void)t->CommDestroy(comm);
}

void case_no_comm(struct rank *t)
{
    (void)lonely_comm(t);
    (void)t->CommDestroy((ncclComm_t)(void *)t);
}

void case_freed_memory(struct rank *t)
{
    ncclComm_t comm = lonely_comm(t);
    void *memory = device_alloc(t, 1);
    CHECK(t->GroupStart() == ncclSuccess);
    CHECK(move_byte(t, memory, comm) == ncclSuccess);
    device_free(t, memory);
    CHECK(t->GroupEnd() == ncclSuccess);
    device_wait(t, t->stream);
}

/* Two threads use one communicator: one splits and waits for the other rank; the other thread polls. */
static void *split_comm(void *argument)
{
    struct rank *t = argument;
    ncclComm_t comm;
    ncclComm_t part;
    memcpy(&comm, t->board->notes[0], sizeof(comm));
    (void)t->CommSplit(comm, 0, 0, &part, NULL);
    return NULL;
}

void case_two_threads(struct rank *t)
{
    ncclComm_t comm = lonely_comm(t);
    pthread_t thread;
    if (t->rank == 0) {
        memcpy(t->board->notes[0], &comm, sizeof(comm));
        CHECK(pthread_create(&thread, NULL, split_comm, t) == 0);
        for (;;) {
            (void)state_of(t, comm);
        }
    }
    abort(); /* never splits; ends as the other one shall */
}

void case_unknown_word(struct rank *t)
{
    (void)lonely_comm(t);
}
