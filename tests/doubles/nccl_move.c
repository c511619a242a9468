/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives, piece by piece: every rank publishes its part of the piece in its place, waits until all have, and takes what
 * it needs. Two places per rank are enough: who publishes the next piece but one has seen that all have published the next
 * one, and so have taken this one.
 *
 * With each piece a rank says what it is doing. If ranks do different things, they stop there, for good: the real ones
 * would wait for data that never comes, or take something else for it.
 */
#include <string.h>

#include "nccl_double.h"

struct round {
    struct ncclComm *comm;
    uint64_t number;
};

static bool all_published(void *argument)
{
    const struct round *round = argument;
    for (int rank = 0; rank < round->comm->ranks; rank++) {
        if (atomic_load(&round->comm->shared->place[rank].published) < round->number) {
            return false;
        }
    }
    return true;
}

static bool never(void *argument)
{
    (void)argument;
    return false;
}

static struct tti_heading heading_of(const struct tti_task *task)
{
    struct tti_heading heading = {.count = task->count,
                                  .kind = task->kind,
                                  .type = task->type,
                                  .reduction = (int32_t)task->reduction.function,
                                  .root = task->root};
    if (task->kind == TTI_BROADCAST || task->kind == TTI_ALL_GATHER) {
        /* NCCL moves bytes here, whatever their type. */
        heading.count *= tti_type_size(task->type);
        heading.type = ncclInt8;
    }
    return heading;
}

static bool all_agree(const struct ncclComm *comm, const struct tti_heading *mine, size_t half)
{
    for (int rank = 0; rank < comm->ranks; rank++) {
        if (memcmp(&comm->shared->place[rank].heading[half], mine, sizeof(*mine)) != 0) {
            return false;
        }
    }
    return true;
}

/* The memory of a queued operation may not be freed before it is done. */
static unsigned char *shadow_of(const struct ncclComm *comm, const void *memory, size_t bytes)
{
    int device;
    unsigned char *shadow = tti_driver_shadow(memory, bytes, &device);
    if (!shadow) {
        tti_misused("memory at %p of communicator %d was freed before the operation on it was done.", memory,
                    comm->ordinal);
    }
    return shadow;
}

/* One collective on its way. */
struct move {
    struct ncclComm *comm;
    const struct tti_task *task;
    struct tti_reduction reduction;
    const unsigned char *send; /* shadows; NULL where the rank has none */
    unsigned char *recv;
    size_t size;  /* of an element */
    size_t parts; /* that a rank publishes of each piece: one for every rank, or one */
};

static bool sends(const struct move *move)
{
    return move->task->kind != TTI_BROADCAST || move->comm->rank == move->task->root;
}

static bool receives(const struct move *move)
{
    return move->task->kind != TTI_REDUCE || move->comm->rank == move->task->root;
}

static void publish(const struct move *move, size_t half, size_t done, size_t count)
{
    unsigned char *piece = move->comm->shared->place[move->comm->rank].piece[half];
    for (size_t part = 0; part < move->parts && sends(move); part++) {
        tti_reduce_before(&move->reduction, move->task->type, piece + part * count * move->size,
                          move->send + (part * move->task->count + done) * move->size, count);
    }
}

/* Every rank's elements of this rank's part, added. */
static void reduce(const struct move *move, size_t half, size_t done, size_t count)
{
    const size_t part = move->parts > 1 ? (size_t)move->comm->rank : 0;
    unsigned char *out = move->recv + done * move->size;
    for (int rank = 0; rank < move->comm->ranks; rank++) {
        const unsigned char *in = move->comm->shared->place[rank].piece[half] + part * count * move->size;
        if (rank == 0) {
            memcpy(out, in, count * move->size);
        } else {
            tti_reduce_next(&move->reduction, move->task->type, out, in, count);
        }
    }
    tti_reduce_last(&move->reduction, move->task->type, out, count);
}

static void take(const struct move *move, size_t half, size_t done, size_t count)
{
    const struct tti_task *task = move->task;
    const struct tti_place *places = move->comm->shared->place;
    if (!receives(move)) {
        return;
    }
    if (task->kind == TTI_BROADCAST) {
        memcpy(move->recv + done * move->size, places[task->root].piece[half], count * move->size);
    } else if (task->kind == TTI_ALL_GATHER) {
        for (int rank = 0; rank < move->comm->ranks; rank++) {
            memcpy(move->recv + ((size_t)rank * task->count + done) * move->size, places[rank].piece[half],
                   count * move->size);
        }
    } else {
        reduce(move, half, done, count);
    }
}

static bool run_piece(const struct move *move, const struct tti_heading *heading, size_t done, size_t count)
{
    struct tti_place *place = &move->comm->shared->place[move->comm->rank];
    struct round round = {move->comm, atomic_load(&place->published) + 1};
    const size_t half = round.number % 2;
    publish(move, half, done, count);
    place->heading[half] = *heading;
    atomic_store(&place->published, round.number); /* the piece before it; all_published reads it */
    tti_ring_all(move->comm);
    if (!tti_await(move->comm, all_published, &round)) {
        return false;
    }
    if (!all_agree(move->comm, heading, half)) {
        return tti_await(move->comm, never, NULL);
    }
    take(move, half, done, count);
    return true;
}

static void find_memory(struct move *move)
{
    const struct tti_task *task = move->task;
    const size_t ranks = (size_t)move->comm->ranks;
    const size_t bytes = task->count * move->size;
    if (sends(move)) {
        move->send = shadow_of(move->comm, task->send, bytes * move->parts);
    }
    if (receives(move)) {
        move->recv = shadow_of(move->comm, task->recv, task->kind == TTI_ALL_GATHER ? bytes * ranks : bytes);
    }
    if (task->reduction.device_scalar) {
        memcpy(move->reduction.scalar, shadow_of(move->comm, task->reduction.device_scalar, move->size), move->size);
    }
}

bool tti_run_collective(struct ncclComm *comm, const struct tti_task *task)
{
    const struct tti_heading heading = heading_of(task);
    struct move move = {.comm = comm,
                        .task = task,
                        .reduction = task->reduction,
                        .size = tti_type_size(task->type),
                        .parts = task->kind == TTI_REDUCE_SCATTER ? (size_t)comm->ranks : 1};
    const size_t at_once = TTI_PIECE / (move.size * move.parts);
    find_memory(&move);
    for (size_t done = 0; done < task->count; done += at_once) {
        const size_t left = task->count - done;
        if (!run_piece(&move, &heading, done, left < at_once ? left : at_once)) {
            return false;
        }
    }
    return true;
}
