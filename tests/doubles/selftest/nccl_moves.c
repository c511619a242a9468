/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that only copy: each byte encodes its rank, block and offset. */
#include <string.h>

#include "nccl.h"
#include "nccl_cases.h"

static unsigned char byte_at(int rank, int block, size_t index)
{
    return (unsigned char)((size_t)rank * 67 + (size_t)block * 29 + index * 7 + (index >> 8) + 1);
}

/* `blocks` of the rank's bytes. */
static void write_blocks(struct rank *t, void *memory, int rank, int blocks, size_t bytes)
{
    unsigned char *host = malloc((size_t)blocks * bytes);
    for (int block = 0; block < blocks; block++) {
        for (size_t i = 0; i < bytes; i++) {
            host[(size_t)block * bytes + i] = byte_at(rank, block, i);
        }
    }
    device_put(t, memory, host, (size_t)blocks * bytes);
    free(host);
}

static bool is_block(struct rank *t, const void *memory, int rank, int block, size_t bytes)
{
    unsigned char *host = malloc(bytes);
    bool right = true;
    device_get(t, host, memory, bytes);
    for (size_t i = 0; i < bytes; i++) {
        right = right && host[i] == byte_at(rank, block, i);
    }
    free(host);
    return right;
}

static unsigned char *at(void *memory, int block, size_t bytes)
{
    return (unsigned char *)memory + (size_t)block * bytes;
}

static void broadcast(struct rank *t, ncclComm_t comm, void *in, void *out, size_t bytes)
{
    for (int root = 0; root < t->ranks; root++) {
        write_blocks(t, in, t->rank, 1, bytes);
        CHECK(t->Broadcast(in, out, bytes, ncclInt8, root, comm, t->stream) == ncclSuccess);
        CHECK(is_block(t, out, root, 0, bytes));
        const void *send = t->rank == root ? in : NULL; /* not checked on other ranks */
        CHECK(t->Broadcast(send, in, bytes, ncclUint8, root, comm, t->stream) == ncclSuccess);
        CHECK(is_block(t, in, root, 0, bytes));
    }
}

static void all_gather(struct rank *t, ncclComm_t comm, void *in, void *out, size_t bytes)
{
    write_blocks(t, in, t->rank, 1, bytes);
    CHECK(t->AllGather(in, out, bytes, ncclInt8, comm, t->stream) == ncclSuccess);
    for (int rank = 0; rank < t->ranks; rank++) {
        CHECK(is_block(t, at(out, rank, bytes), rank, 0, bytes));
    }
    write_blocks(t, at(out, t->rank, bytes), t->rank, 1, bytes);
    CHECK(t->AllGather(at(out, t->rank, bytes), out, bytes, ncclInt8, comm, t->stream) == ncclSuccess);
    for (int rank = 0; rank < t->ranks; rank++) {
        CHECK(is_block(t, at(out, rank, bytes), rank, 0, bytes));
    }
}

static void gather_scatter(struct rank *t, ncclComm_t comm, void *in, void *out, size_t bytes)
{
    const int root = t->ranks / 2;
    write_blocks(t, in, t->rank, 1, bytes);
    CHECK(t->Gather(in, t->rank == root ? out : NULL, bytes, ncclInt8, root, comm, t->stream) == ncclSuccess);
    for (int rank = 0; rank < t->ranks && t->rank == root; rank++) {
        CHECK(is_block(t, at(out, rank, bytes), rank, 0, bytes));
    }
    write_blocks(t, in, t->rank, t->ranks, bytes);
    CHECK(t->Scatter(t->rank == root ? in : NULL, out, bytes, ncclInt8, root, comm, t->stream) == ncclSuccess);
    CHECK(is_block(t, out, root, t->rank, bytes));
}

static void all_to_all(struct rank *t, ncclComm_t comm, void *in, void *out, size_t bytes)
{
    __typeof__(t->AlltoAll) function = t->AlltoAll ? t->AlltoAll : t->AllToAll;
    if (!function || (t->rccl && t->version >= 22707 && t->ranks == 1)) {
        return; /* the latter hangs */
    }
    write_blocks(t, in, t->rank, t->ranks, bytes);
    CHECK(function(in, out, bytes, ncclInt8, comm, t->stream) == ncclSuccess);
    for (int rank = 0; rank < t->ranks; rank++) {
        CHECK(is_block(t, at(out, rank, bytes), rank, t->rank, bytes));
    }
    CHECK(function(in, in, bytes, ncclInt8, comm, t->stream) == ncclInvalidArgument);
}

/* Rank r sends (r + s) % 3 blocks to rank s: none, too. */
static void all_to_all_v(struct rank *t, ncclComm_t comm, void *in, void *out, size_t bytes)
{
    size_t send_counts[MAX_RANKS];
    size_t recv_counts[MAX_RANKS];
    size_t offsets[MAX_RANKS];
    for (int rank = 0; rank < t->ranks; rank++) {
        send_counts[rank] = bytes * (size_t)((t->rank + rank) % 3) / 2;
        recv_counts[rank] = send_counts[rank];
        offsets[rank] = bytes * (size_t)rank;
    }
    write_blocks(t, in, t->rank, t->ranks, bytes);
    CHECK(t->AllToAllv(in, send_counts, offsets, out, recv_counts, offsets, ncclInt8, comm, t->stream) == ncclSuccess);
    for (int rank = 0; rank < t->ranks; rank++) {
        CHECK(is_block(t, at(out, rank, bytes), rank, t->rank, recv_counts[rank]));
    }
}

void case_collectives(struct rank *t)
{
    static const size_t sizes[] = {1, 1000, 150000};
    ncclComm_t comm = comm_blocking(t);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *in = device_alloc(t, sizes[i] * MAX_RANKS);
        void *out = device_alloc(t, sizes[i] * MAX_RANKS);
        broadcast(t, comm, in, out, sizes[i]);
        all_gather(t, comm, in, out, sizes[i]);
        all_to_all(t, comm, in, out, sizes[i]);
        if (t->Gather) {
            gather_scatter(t, comm, in, out, sizes[i]);
        }
        if (t->AllToAllv) {
            all_to_all_v(t, comm, in, out, sizes[i]);
        }
        device_free(t, in);
        device_free(t, out);
    }
    CHECK(t->CommDestroy(comm) == ncclSuccess);
}

/* ---- messages ---- */

/* Each rank sends two messages of different lengths to each rank, also itself: all in one group, in no order. */
static void exchange(struct rank *t, ncclComm_t comm)
{
    const size_t bytes = 50000;
    void *in = device_alloc(t, bytes * MAX_RANKS * 2);
    void *out = device_alloc(t, bytes * MAX_RANKS * 2);
    write_blocks(t, in, t->rank, 2 * t->ranks, bytes);
    CHECK(t->GroupStart() == ncclSuccess);
    for (int number = 0; number < 2; number++) {
        for (int step = 0; step < t->ranks; step++) {
            const int to = (t->rank + 2 * t->ranks - step) % t->ranks;
            const int from = (t->rank + step * (t->ranks - 1)) % t->ranks;
            const size_t length = number ? bytes : 17;
            CHECK(t->Send(at(in, 2 * to + number, bytes), length, ncclInt8, to, comm, t->stream) == ncclSuccess);
            CHECK(t->Recv(at(out, 2 * from + number, bytes), length, ncclInt8, from, comm, t->stream) == ncclSuccess);
        }
    }
    CHECK(t->GroupEnd() == ncclSuccess);
    for (int from = 0; from < t->ranks; from++) {
        CHECK(is_block(t, at(out, 2 * from, bytes), from, 2 * t->rank, 17));
        CHECK(is_block(t, at(out, 2 * from + 1, bytes), from, 2 * t->rank + 1, bytes));
    }
    device_free(t, in);
    device_free(t, out);
}

/* Around the ring, each rank waiting for the one before it; an empty message comes first. */
static void ring(struct rank *t, ncclComm_t comm)
{
    const size_t bytes = 40000;
    const int next = (t->rank + 1) % t->ranks;
    const int before = (t->rank + t->ranks - 1) % t->ranks;
    void *memory = device_alloc(t, bytes);
    if (t->rank == 0) {
        write_blocks(t, memory, 0, 1, bytes);
        CHECK(t->Send(NULL, 0, ncclFloat32, next, comm, t->stream) == ncclSuccess);
        CHECK(t->Send(memory, bytes / 4, ncclFloat32, next, comm, t->stream) == ncclSuccess);
    }
    CHECK(t->Recv(NULL, 0, ncclFloat32, before, comm, t->stream) == ncclSuccess);
    CHECK(t->Recv(memory, bytes, ncclInt8, before, comm, t->stream) == ncclSuccess);
    if (t->rank != 0) {
        CHECK(t->Send(NULL, 0, ncclFloat32, next, comm, t->stream) == ncclSuccess);
        CHECK(t->Send(memory, bytes, ncclInt8, next, comm, t->stream) == ncclSuccess);
    }
    CHECK(is_block(t, memory, 0, 0, bytes));
    device_free(t, memory);
}

/* Two streams in one group: the kernel is queued on both, so later work of either stream runs after it. */
static void two_streams(struct rank *t, ncclComm_t comm)
{
    const size_t bytes = 30000;
    const int peer = t->rank ^ 1;
    void *other = device_use(t, t->rank);
    void *in = device_alloc(t, bytes);
    void *out = device_alloc(t, bytes);
    write_blocks(t, in, t->rank, 1, bytes);
    CHECK(t->GroupStart() == ncclSuccess);
    CHECK(t->Send(in, bytes, ncclInt8, peer, comm, t->stream) == ncclSuccess);
    CHECK(t->Recv(out, bytes, ncclInt8, peer, comm, other) == ncclSuccess);
    CHECK(t->GroupEnd() == ncclSuccess);
    CHECK(is_block(t, out, peer, 0, bytes)); /* reads in t->stream */
    /* Without a group, too, operations of one communicator run one after the other, whatever their streams. */
    unsigned char *host = malloc(bytes);
    CHECK(t->AllReduce(in, in, bytes, ncclUint8, ncclMax, comm, other) == ncclSuccess);
    CHECK(t->Broadcast(in, out, bytes, ncclInt8, 0, comm, t->stream) == ncclSuccess);
    device_get(t, host, out, bytes);
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char a = byte_at(0, 0, i);
        const unsigned char b = byte_at(1, 0, i);
        CHECK(host[i] == (a > b ? a : b));
    }
    free(host);
    device_wait(t, other);
    device_free(t, in);
    device_free(t, out);
}

void case_messages(struct rank *t)
{
    ncclComm_t comm = comm_blocking(t);
    exchange(t, comm);
    if (t->ranks > 1) {
        ring(t, comm);
    }
    if (t->ranks == 2) {
        two_streams(t, comm);
    }
    void *memory = device_alloc(t, 8);
    CHECK(t->Send(memory, 8, ncclInt8, t->rank, comm, t->stream) == ncclInvalidUsage);
    CHECK(t->Recv(memory, 8, ncclInt8, t->rank, comm, t->stream) == ncclInvalidUsage);
    device_free(t, memory);
    CHECK(t->CommDestroy(comm) == ncclSuccess);
}
