/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that the ranks of a communicator share: a memfd of the process that made the id, sent to each rank. Every
 * counter has one writer and only grows. A rank that waits for another rank's counter sleeps on its own doorbell; a
 * rank that stores raises the doorbells of the ranks that may wait for it.
 */
#ifndef TESTS_DOUBLES_NCCL_SHARED_H
#define TESTS_DOUBLES_NCCL_SHARED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TTI_CHUNK_BYTES = 64 * 1024,  /* bytes of a chunk of a collective */
    TTI_PACKET_BYTES = 16 * 1024, /* bytes of a chunk of a message */
    TTI_EXCHANGE_BYTES = 160,     /* bytes of one exchange */
    TTI_MAX_RANKS = 512
};

enum { TTI_PRESENT = 0, TTI_ENDED = 1, TTI_ABORTED = 2 };

/* The operation that a rank publishes with each chunk: ranks with different operations never continue. */
struct tti_heading {
    uint64_t count;
    int32_t kind;
    int32_t type;
    int32_t reduction;
    int32_t root;
};

struct tti_rank_slot {
    _Alignas(128) _Atomic uint32_t doorbell; /* raised by all ranks */
    _Atomic uint32_t sleepers;               /* on it */
    _Atomic uint32_t end;                    /* TTI_PRESENT, ... */
    _Atomic uint32_t connected;              /* for its first collective */
    int32_t process;                         /* written before any other rank has this memory */
    int32_t device;
    _Alignas(128) _Atomic uint64_t published; /* chunks of collectives */
    struct tti_heading heading[2];            /* of the last two */
    _Alignas(128) _Atomic uint64_t exchanges; /* published so far */
    unsigned char exchanged[2][TTI_EXCHANGE_BYTES];
    _Alignas(128) unsigned char chunk[2][TTI_CHUNK_BYTES];
};

/* From one rank to another. */
struct tti_pair {
    _Alignas(128) _Atomic uint32_t sender_ready; /* to connect */
    _Atomic uint64_t written;                    /* chunks of messages */
    _Alignas(128) _Atomic uint32_t receiver_ready;
    _Atomic uint64_t taken;
    _Alignas(128) uint64_t bytes[2]; /* of the message that the chunk belongs to */
    unsigned char packet[2][TTI_PACKET_BYTES];
};

struct tti_shared {
    int32_t ranks;
    _Atomic uint32_t broken; /* 1 + the first rank with an asynchronous error */
    _Alignas(128) struct tti_rank_slot place[];
};

/* The pairs follow the slots. */
static inline size_t tti_shared_bytes(int ranks)
{
    const size_t n = (size_t)ranks;
    return sizeof(struct tti_shared) + n * sizeof(struct tti_rank_slot) + n * n * sizeof(struct tti_pair);
}

static inline struct tti_pair *tti_shared_pair(struct tti_shared *shared, int from, int to)
{
    struct tti_pair *pairs = (struct tti_pair *)(void *)(shared->place + shared->ranks);
    return pairs + (size_t)from * (size_t)shared->ranks + (size_t)to;
}

#endif
