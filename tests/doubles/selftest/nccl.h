/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The test of the doubles of NCCL and RCCL. The program starts itself, once for every rank of a case; a rank loads both
 * doubles and calls them as a backend would. Ranks exchange values over a board, memory that they share.
 */
#ifndef TESTS_DOUBLES_SELFTEST_NCCL_H
#define TESTS_DOUBLES_SELFTEST_NCCL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../nccl/abi.h"

enum { MAX_RANKS = 4, NOTE = 256 };

struct board {
    pthread_barrier_t barrier; /* of all ranks of the case */
    unsigned char notes[MAX_RANKS][NOTE];
};

/* clang-format finds no end with this list. */
/* clang-format off */
#define NCCL_FUNCTIONS(X) \
    X(GetVersion) X(GetUniqueId) X(CommInitRank) X(CommDestroy) X(CommAbort) X(CommGetAsyncError) \
    X(GetErrorString) X(AllReduce) X(Reduce) X(Broadcast) X(AllGather) X(ReduceScatter) X(Send) X(Recv) \
    X(GroupStart) X(GroupEnd) X(RedOpCreatePreMulSum) X(RedOpDestroy) X(GetLastError) X(CommInitRankConfig) \
    X(CommFinalize) X(CommSplit) X(MemAlloc) X(MemFree) X(CommRegister) X(CommDeregister) X(AlltoAll) \
    X(Gather) X(Scatter) X(CommRevoke) X(AllToAll) X(AllToAllv)
/* clang-format on */

/* The environment of a rank. */
struct rank {
    int rank;
    int ranks;
    struct board *board;
    void *stream;
    bool rccl;
    int version;
#define MEMBER(name) __typeof__(&nccl##name) name;
    NCCL_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Ends the process with a message and its place. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d: %s:%d: %s\n", t->rank, __FILE__, __LINE__, #condition);                          \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- nccl_rank.c ---- */

struct rank rank_begin(char **arguments);
/* Makes a device current on this thread; a stream of it. */
void *device_use(struct rank *t, int device);
void *device_alloc(struct rank *t, size_t bytes);
void device_free(struct rank *t, void *memory);
void device_put(struct rank *t, void *memory, const void *from, size_t bytes);
void device_get(struct rank *t, void *to, const void *memory, size_t bytes);
void device_wait(struct rank *t, void *stream);
/* Whether all that was put on the stream is done. */
bool device_done(struct rank *t, void *stream);

void barrier(struct rank *t);
/* Every rank gets rank 0's bytes. */
void share(struct rank *t, void *bytes, size_t count);
/* An id of rank 0. */
ncclUniqueId share_id(struct rank *t);
/* A communicator of all ranks. */
ncclComm_t comm_blocking(struct rank *t);
ncclComm_t comm_nonblocking(struct rank *t);
/* Asks until it is not in progress any more. */
ncclResult_t comm_await(struct rank *t, ncclComm_t comm);
/* A configuration as version 2.18 had it, everything undefined. */
struct old_config {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
};
struct old_config config_undefined(void);

#endif
