/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives, chunk by chunk: every rank publishes its part of the chunk in its slot, waits until all have, and reads
 * what it needs. Two slots per rank are enough: a rank that publishes chunk i + 2 has seen that all ranks have
 * published chunk i + 1, so all have read chunk i.
 *
 * With each chunk a rank publishes its operation. If ranks run different operations, they stop there for ever: the real
 * library would wait for data that never come, or use wrong data.
 */
#include <string.h>

#include "double.h"

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
        /* NCCL copies bytes here, for every type. */
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
struct transfer {
    struct ncclComm *comm;
    const struct tti_task *task;
    struct tti_reduction reduction;
    const unsigned char *send; /* shadows; NULL where the rank has none */
    unsigned char *recv;
    size_t size;  /* of an element */
    size_t parts; /* that a rank publishes of each chunk: one for every rank, or one */
};

static bool sends(const struct transfer *transfer)
{
    return transfer->task->kind != TTI_BROADCAST || transfer->comm->rank == transfer->task->root;
}

static bool receives(const struct transfer *transfer)
{
    return transfer->task->kind != TTI_REDUCE || transfer->comm->rank == transfer->task->root;
}

static void publish(const struct transfer *transfer, size_t half, size_t done, size_t count)
{
    unsigned char *chunk = transfer->comm->shared->place[transfer->comm->rank].chunk[half];
    for (size_t part = 0; part < transfer->parts && sends(transfer); part++) {
        tti_reduce_before(&transfer->reduction, transfer->task->type, chunk + part * count * transfer->size,
                          transfer->send + (part * transfer->task->count + done) * transfer->size, count);
    }
}

/* Every rank's elements of this rank's part, added. */
static void reduce(const struct transfer *transfer, size_t half, size_t done, size_t count)
{
    const size_t part = transfer->parts > 1 ? (size_t)transfer->comm->rank : 0;
    unsigned char *out = transfer->recv + done * transfer->size;
    for (int rank = 0; rank < transfer->comm->ranks; rank++) {
        const unsigned char *in = transfer->comm->shared->place[rank].chunk[half] + part * count * transfer->size;
        if (rank == 0) {
            memcpy(out, in, count * transfer->size);
        } else {
            tti_reduce_next(&transfer->reduction, transfer->task->type, out, in, count);
        }
    }
    tti_reduce_last(&transfer->reduction, transfer->task->type, out, count);
}

static void take(const struct transfer *transfer, size_t half, size_t done, size_t count)
{
    const struct tti_task *task = transfer->task;
    const struct tti_rank_slot *places = transfer->comm->shared->place;
    if (!receives(transfer)) {
        return;
    }
    if (task->kind == TTI_BROADCAST) {
        memcpy(transfer->recv + done * transfer->size, places[task->root].chunk[half], count * transfer->size);
    } else if (task->kind == TTI_ALL_GATHER) {
        for (int rank = 0; rank < transfer->comm->ranks; rank++) {
            memcpy(transfer->recv + ((size_t)rank * task->count + done) * transfer->size, places[rank].chunk[half],
                   count * transfer->size);
        }
    } else {
        reduce(transfer, half, done, count);
    }
}

static bool run_chunk(const struct transfer *transfer, const struct tti_heading *heading, size_t done, size_t count)
{
    struct tti_rank_slot *place = &transfer->comm->shared->place[transfer->comm->rank];
    struct round round = {transfer->comm, atomic_load(&place->published) + 1};
    const size_t half = round.number % 2;
    publish(transfer, half, done, count);
    place->heading[half] = *heading;
    atomic_store(&place->published, round.number); /* the chunk before it; all_published reads it */
    tti_doorbell_raise_all(transfer->comm);
    if (!tti_await(transfer->comm, all_published, &round)) {
        return false;
    }
    if (!all_agree(transfer->comm, heading, half)) {
        return tti_await(transfer->comm, never, NULL);
    }
    take(transfer, half, done, count);
    return true;
}

static void find_memory(struct transfer *transfer)
{
    const struct tti_task *task = transfer->task;
    const size_t ranks = (size_t)transfer->comm->ranks;
    const size_t bytes = task->count * transfer->size;
    if (sends(transfer)) {
        transfer->send = shadow_of(transfer->comm, task->send, bytes * transfer->parts);
    }
    if (receives(transfer)) {
        transfer->recv = shadow_of(transfer->comm, task->recv, task->kind == TTI_ALL_GATHER ? bytes * ranks : bytes);
    }
    if (task->reduction.device_scalar) {
        memcpy(transfer->reduction.scalar, shadow_of(transfer->comm, task->reduction.device_scalar, transfer->size),
               transfer->size);
    }
}

bool tti_run_collective(struct ncclComm *comm, const struct tti_task *task)
{
    const struct tti_heading heading = heading_of(task);
    struct transfer transfer = {.comm = comm,
                                .task = task,
                                .reduction = task->reduction,
                                .size = tti_type_size(task->type),
                                .parts = task->kind == TTI_REDUCE_SCATTER ? (size_t)comm->ranks : 1};
    const size_t at_once = TTI_CHUNK_BYTES / (transfer.size * transfer.parts);
    find_memory(&transfer);
    for (size_t done = 0; done < task->count; done += at_once) {
        const size_t left = task->count - done;
        if (!run_chunk(&transfer, &heading, done, left < at_once ? left : at_once)) {
            return false;
        }
    }
    return true;
}
