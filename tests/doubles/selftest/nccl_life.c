/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Beginning, waiting, hanging and ending. The tests show a hang by an exchange between the other processes, or by a
 * missing effect after every opportunity for it, and never by elapsed time.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "nccl.h"
#include "nccl_cases.h"

enum { COUNT = 1000 };

static float *ones(struct rank *t)
{
    float host[COUNT];
    for (int i = 0; i < COUNT; i++) {
        host[i] = 1;
    }
    float *memory = device_alloc(t, sizeof(host));
    device_put(t, memory, host, sizeof(host));
    return memory;
}

static ncclResult_t sum(struct rank *t, float *memory, ncclComm_t comm)
{
    return t->AllReduce(memory, memory, COUNT, ncclFloat32, ncclSum, comm, t->stream);
}

static bool holds(struct rank *t, float *memory, float value)
{
    float host[COUNT];
    bool right = true;
    device_get(t, host, memory, sizeof(host));
    for (int i = 0; i < COUNT; i++) {
        right = right && host[i] == value;
    }
    return right;
}

static void sleep_ms(int ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static int64_t asked; /* when the operation was */

/* Until the first CommGetAsyncError, or for 200 ms, it is not on the stream, so a caller that does not poll fails. */
static bool unseen(struct rank *t, float *memory)
{
    sleep_ms(20);
    const bool done = device_done(t, t->stream) && holds(t, memory, 1);
    return done || now_ms() - asked >= 200; /* this process got no CPU for so long */
}

void case_nonblocking(struct rank *t)
{
    ncclComm_t comm = comm_nonblocking(t);
    ncclResult_t state;
    float *memory = ones(t);
    asked = now_ms();
    CHECK(sum(t, memory, comm) == ncclInProgress);
    CHECK(unseen(t, memory));
    CHECK(t->CommGetAsyncError(comm, &state) == ncclSuccess);
    CHECK(comm_await(t, comm) == ncclSuccess);
    CHECK(holds(t, memory, (float)t->ranks));
    CHECK(t->GroupStart() == ncclSuccess);
    CHECK(t->Broadcast(memory, memory, COUNT, ncclFloat32, 0, comm, t->stream) == ncclSuccess);
    CHECK(sum(t, memory, comm) == ncclSuccess);
    CHECK(t->GroupEnd() == ncclInProgress);
    CHECK(comm_await(t, comm) == ncclSuccess);
    CHECK(holds(t, memory, (float)(t->ranks * t->ranks)));
    CHECK(t->CommFinalize(comm) == ncclInProgress);
    CHECK(comm_await(t, comm) == ncclSuccess);
    CHECK(t->CommFinalize(comm) == ncclInvalidArgument);
    CHECK(t->CommAbort(comm) == ncclSuccess);
    /* Used while in progress: refused, and the communicator is lost. */
    comm = comm_nonblocking(t);
    CHECK(sum(t, memory, comm) == ncclInProgress);
    CHECK(sum(t, memory, comm) == ncclInvalidArgument);
    CHECK(comm_await(t, comm) == ncclInvalidArgument);
    CHECK(t->CommDestroy(comm) == ncclInvalidArgument);
    CHECK(t->CommAbort(comm) == ncclSuccess);
    /* So does a wrong argument. */
    comm = comm_nonblocking(t);
    CHECK(t->Broadcast(memory, memory, COUNT, ncclFloat32, 99, comm, t->stream) == ncclInvalidArgument);
    CHECK(comm_await(t, comm) == ncclInvalidArgument);
    CHECK(t->CommAbort(comm) == ncclSuccess);
    /* Both kinds in one group. */
    comm = comm_nonblocking(t);
    ncclComm_t blocking = comm_blocking(t);
    CHECK(t->GroupStart() == ncclSuccess);
    CHECK(sum(t, memory, comm) == ncclSuccess);
    CHECK(sum(t, memory, blocking) == ncclInvalidArgument);
    CHECK(t->GroupEnd() == ncclInvalidArgument);
    CHECK(t->CommAbort(comm) == ncclSuccess && t->CommAbort(blocking) == ncclSuccess);
    /* Destroyed without being finalised: in the call. */
    comm = comm_nonblocking(t);
    CHECK(t->CommDestroy(comm) == ncclSuccess);
}

/* The last rank never calls the second operation; the other ranks abort. */
void case_missing_rank(struct rank *t)
{
    ncclComm_t comm = comm_blocking(t);
    float *memory = ones(t);
    float *other = ones(t);
    CHECK(sum(t, memory, comm) == ncclSuccess);
    CHECK(holds(t, memory, (float)t->ranks));
    if (t->rank < t->ranks - 1) {
        CHECK(sum(t, memory, comm) == ncclSuccess);
        sleep_ms(50);
        CHECK(!device_done(t, t->stream));
        barrier(t);
        CHECK(t->CommAbort(comm) == ncclSuccess);
        device_wait(t, t->stream); /* it has ended, with any result; the stream continues */
        CHECK(holds(t, other, 1));
    } else {
        barrier(t);
        CHECK(t->CommAbort(comm) == ncclSuccess);
    }
}

/* Ranks that make different calls wait for each other for ever. */
static void differ(struct rank *t, void (*call)(struct rank *t, ncclComm_t comm, float *memory))
{
    ncclComm_t comm = comm_blocking(t);
    float *memory = ones(t);
    CHECK(sum(t, memory, comm) == ncclSuccess);
    device_wait(t, t->stream);
    call(t, comm, memory);
    sleep_ms(30);
    CHECK(!device_done(t, t->stream));
    barrier(t);
    CHECK(t->CommAbort(comm) == ncclSuccess);
    device_wait(t, t->stream);
    device_free(t, memory);
}

static void differ_in_operation(struct rank *t, ncclComm_t comm, float *memory)
{
    CHECK((t->rank == 0 ? sum(t, memory, comm)
                        : t->Broadcast(memory, memory, COUNT, ncclFloat32, 0, comm, t->stream)) == ncclSuccess);
}

static void differ_in_count(struct rank *t, ncclComm_t comm, float *memory)
{
    CHECK(t->AllReduce(memory, memory, COUNT - (size_t)t->rank, ncclFloat32, ncclSum, comm, t->stream) == ncclSuccess);
}

static void differ_in_root(struct rank *t, ncclComm_t comm, float *memory)
{
    CHECK(t->Broadcast(memory, memory, COUNT, ncclFloat32, t->rank, comm, t->stream) == ncclSuccess);
}

static void differ_in_type(struct rank *t, ncclComm_t comm, float *memory)
{
    CHECK(t->AllReduce(memory, memory, COUNT, t->rank ? ncclFloat32 : ncclInt32, ncclSum, comm, t->stream) ==
          ncclSuccess);
}

static void differ_in_op(struct rank *t, ncclComm_t comm, float *memory)
{
    CHECK(t->AllReduce(memory, memory, COUNT, ncclFloat32, t->rank ? ncclMax : ncclMin, comm, t->stream) ==
          ncclSuccess);
}

static void differ_in_length(struct rank *t, ncclComm_t comm, float *memory)
{
    CHECK((t->rank ? t->Send(memory, 8, ncclFloat32, 0, comm, t->stream)
                   : t->Recv(memory, 9, ncclFloat32, 1, comm, t->stream)) == ncclSuccess);
}

void case_different_calls(struct rank *t)
{
    differ(t, differ_in_operation);
    differ(t, differ_in_count);
    differ(t, differ_in_root);
    differ(t, differ_in_type);
    differ(t, differ_in_op);
    differ(t, differ_in_length);
}

/* The first use of a communicator connects. Without the other ranks it stays in progress and can be aborted, and so
 * does the making of one. */
void case_lonely(struct rank *t)
{
    ncclComm_t comm = comm_nonblocking(t);
    float *memory = ones(t);
    ncclResult_t state;
    if (t->rank == 0) {
        CHECK((t->version >= 22200 ? sum(t, memory, comm) : t->Send(memory, 1, ncclInt8, 1, comm, t->stream)) ==
              ncclInProgress);
        for (int i = 0; i < 30; i++) {
            sleep_ms(1);
            CHECK(t->CommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress);
        }
        CHECK(device_done(t, t->stream)); /* nothing is there */
    }
    barrier(t);
    CHECK(t->CommAbort(comm) == ncclSuccess);
    /* First without rank 1, which comes when rank 0 has aborted. */
    const ncclUniqueId id = share_id(t);
    struct old_config config = config_undefined();
    config.blocking = 0;
    if (t->rank == 1) {
        barrier(t);
    }
    CHECK(t->CommInitRankConfig(&comm, t->ranks, id, t->rank, (ncclConfig_t *)(void *)&config) == ncclInProgress);
    for (int i = 0; i < 30; i++) {
        sleep_ms(1);
        CHECK(t->CommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress);
    }
    CHECK(sum(t, memory, comm) == ncclInvalidArgument);
    CHECK(t->CommAbort(comm) == ncclSuccess);
    if (t->rank == 0) {
        barrier(t);
    }
    barrier(t); /* the process that made the id stays */
}

void case_split(struct rank *t)
{
    ncclComm_t comm = comm_blocking(t);
    ncclComm_t part = NULL;
    float *memory = ones(t);
    /* Odd and even, in the opposite order; the last rank goes without. */
    const bool without = t->rank == t->ranks - 1;
    CHECK(t->CommSplit(comm, without ? -1 : t->rank % 2, -t->rank, &part, NULL) == ncclSuccess);
    CHECK((part == NULL) == without);
    if (part) {
        const int members = (t->ranks - 1 - t->rank % 2 + 1) / 2;
        float host = (float)t->rank;
        CHECK(sum(t, memory, part) == ncclSuccess);
        CHECK(holds(t, memory, (float)members));
        /* The keys are the negative ranks, so the highest rank becomes rank 0. */
        device_put(t, memory, &host, sizeof(host));
        CHECK(t->Broadcast(memory, memory, 1, ncclFloat32, 0, part, t->stream) == ncclSuccess);
        device_get(t, &host, memory, sizeof(host));
        CHECK((int)host == t->rank % 2 + 2 * (members - 1));
        CHECK(t->CommDestroy(part) == ncclSuccess);
    }
    /* Not blocking: the place is empty until the parent is ready. */
    ncclComm_t parent = comm_nonblocking(t);
    part = comm;
    CHECK(t->CommSplit(parent, 0, t->rank, &part, NULL) == ncclSuccess);
    CHECK(comm_await(t, parent) == ncclSuccess);
    CHECK(part && comm_await(t, part) == ncclSuccess);
    CHECK(sum(t, memory, part) == ncclInProgress);
    CHECK(comm_await(t, part) == ncclSuccess);
    CHECK(t->CommFinalize(part) == ncclInProgress);
    CHECK(comm_await(t, part) == ncclSuccess);
    CHECK(t->CommDestroy(part) == ncclSuccess);
    /* Not by all: waits, until the parent is aborted. */
    if (t->rank > 0) {
        CHECK(t->CommSplit(parent, 0, 0, &part, NULL) == ncclSuccess);
        sleep_ms(20);
        ncclResult_t state;
        CHECK(t->CommGetAsyncError(parent, &state) == ncclSuccess && state == ncclInProgress);
    }
    CHECK(t->CommAbort(parent) == ncclSuccess);
    if (t->rank > 0) {
        CHECK(part && comm_await(t, part) != ncclSuccess);
        CHECK(t->CommAbort(part) == ncclSuccess);
    }
    CHECK(t->CommSplit(comm, 0, 0, NULL, NULL) == ncclInvalidArgument);
    CHECK(t->CommDestroy(comm) == ncclSuccess);
}

/* Destroying waits for the other ranks, but not for dead ones. */
void case_ends_together(struct rank *t)
{
    ncclComm_t comm = comm_blocking(t);
    ncclComm_t second = comm_blocking(t);
    uint32_t *notes = (uint32_t *)(void *)t->board->notes[0];
    if (t->rank == 0) {
        sleep_ms(30);
        __atomic_store_n(notes, 7, __ATOMIC_SEQ_CST);
        CHECK(t->CommDestroy(comm) == ncclSuccess);
        exit(0); /* second is never destroyed here */
    }
    CHECK(t->CommDestroy(comm) == ncclSuccess);
    CHECK(__atomic_load_n(notes, __ATOMIC_SEQ_CST) == 7);
    CHECK(t->CommDestroy(second) == ncclSuccess);
}

/* Two ranks in one process, by one thread, which makes and ends them in groups or one after the other. */
void case_one_thread(struct rank *t)
{
    enum { RANKS = 2 };
    ncclComm_t comms[RANKS];
    void *streams[RANKS];
    float *memory[RANKS];
    ncclUniqueId id;
    CHECK(t->GetUniqueId(&id) == ncclSuccess);
    CHECK(t->GroupStart() == ncclSuccess);
    for (int rank = 0; rank < RANKS; rank++) {
        streams[rank] = device_use(t, rank);
        t->stream = streams[rank];
        memory[rank] = ones(t);
        CHECK(t->CommInitRank(&comms[rank], RANKS, id, rank) == ncclSuccess);
    }
    CHECK(t->GroupEnd() == ncclSuccess);
    CHECK(t->GroupStart() == ncclSuccess);
    for (int rank = 0; rank < RANKS; rank++) {
        CHECK(t->AllReduce(memory[rank], memory[rank], COUNT, ncclFloat32, ncclSum, comms[rank], streams[rank]) ==
              ncclSuccess);
    }
    CHECK(t->GroupEnd() == ncclSuccess);
    for (int rank = 0; rank < RANKS; rank++) {
        t->stream = streams[rank];
        (void)device_use(t, rank);
        CHECK(holds(t, memory[rank], RANKS));
        CHECK(t->CommDestroy(comms[rank]) == ncclSuccess);
    }
}

struct member {
    struct rank t;
    ncclUniqueId id;
};

static void *be_member(void *argument)
{
    struct member *member = argument;
    struct rank *t = &member->t;
    ncclComm_t comm;
    t->stream = device_use(t, t->rank);
    float *memory = ones(t);
    CHECK(t->CommInitRank(&comm, t->ranks, member->id, t->rank) == ncclSuccess);
    for (int i = 0; i < 20; i++) {
        CHECK(sum(t, memory, comm) == ncclSuccess);
    }
    CHECK(t->Broadcast(memory, memory, COUNT, ncclFloat32, t->ranks - 1, comm, t->stream) == ncclSuccess);
    CHECK(holds(t, memory, 3486784401.0F)); /* 3 to the 20th, rounded to f32 on both sides */
    CHECK(t->CommDestroy(comm) == ncclSuccess);
    return NULL;
}

/* Ranks that are threads. */
void case_threads(struct rank *t)
{
    enum { RANKS = 3 };
    pthread_t threads[RANKS];
    struct member members[RANKS];
    ncclUniqueId id;
    CHECK(t->GetUniqueId(&id) == ncclSuccess);
    for (int rank = 0; rank < RANKS; rank++) {
        members[rank] = (struct member){.t = *t, .id = id};
        members[rank].t.rank = rank;
        members[rank].t.ranks = RANKS;
        CHECK(pthread_create(&threads[rank], NULL, be_member, &members[rank]) == 0);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        CHECK(pthread_join(threads[rank], NULL) == 0);
    }
}

void case_revoke(struct rank *t)
{
    if (t->version < 22807) { /* RCCL's newest double has not got that far */
        return;
    }
    ncclComm_t comm = comm_nonblocking(t);
    ncclComm_t part = NULL;
    float *memory = ones(t);
    CHECK(sum(t, memory, comm) == ncclInProgress && comm_await(t, comm) == ncclSuccess);
    device_wait(t, t->stream);
    if (t->rank > 0) { /* waits for rank 0 */
        CHECK(sum(t, memory, comm) == ncclInProgress && comm_await(t, comm) == ncclSuccess);
        sleep_ms(10);
        CHECK(!device_done(t, t->stream));
    }
    barrier(t);
    CHECK(t->CommRevoke(comm, 1) == ncclInvalidArgument);
    CHECK(comm_await(t, comm) == ncclInvalidArgument);
    CHECK(t->CommAbort(comm) == ncclSuccess);
    device_wait(t, t->stream);
    comm = comm_nonblocking(t);
    if (t->rank > 0) {
        CHECK(sum(t, memory, comm) == ncclInProgress);
    }
    barrier(t);
    CHECK(t->CommRevoke(comm, 0) == ncclInProgress);
    CHECK(comm_await(t, comm) == ncclSuccess);
    device_wait(t, t->stream);
    CHECK(t->CommSplit(comm, 0, t->rank, &part, NULL) == ncclSuccess);
    CHECK(comm_await(t, comm) == ncclSuccess);
    CHECK(sum(t, memory, part) == ncclInProgress);
    CHECK(comm_await(t, part) == ncclSuccess);
    device_wait(t, t->stream);
    CHECK(sum(t, memory, comm) == ncclInvalidUsage);
    CHECK(t->CommAbort(comm) == ncclSuccess);
    CHECK(t->CommDestroy(part) == ncclSuccess);
}
