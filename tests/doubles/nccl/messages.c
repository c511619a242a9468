/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of one group, which make progress beside each other; those with the same peer in the same
 * direction run in order. A message is divided into chunks (packets), of which two may be in flight. A send is done
 * when its last chunk has been read; the real library may be done earlier.
 */
#include <stdlib.h>
#include <string.h>

#include "double.h"

/* ---- connecting ---- */

struct connecting {
    struct ncclComm *comm;
    const struct tti_task *tasks;
};

/* Before 2.22 a communicator was connected for collectives from the beginning. */
static bool needs_all(const struct tti_task *tasks)
{
    for (const struct tti_task *task = tasks; task && tti_version() >= 22200; task = task->next) {
        if (task->kind < TTI_SEND) {
            return true;
        }
    }
    return false;
}

static bool all_connected(void *argument)
{
    const struct connecting *connecting = argument;
    const struct ncclComm *comm = connecting->comm;
    for (int rank = 0; rank < comm->ranks && needs_all(connecting->tasks); rank++) {
        if (!atomic_load(&comm->shared->place[rank].connected)) {
            return false;
        }
    }
    for (const struct tti_task *task = connecting->tasks; task; task = task->next) {
        if (task->kind == TTI_SEND &&
            !atomic_load(&tti_shared_pair(comm->shared, comm->rank, task->root)->receiver_ready)) {
            return false;
        }
        if (task->kind == TTI_RECV &&
            !atomic_load(&tti_shared_pair(comm->shared, task->root, comm->rank)->sender_ready)) {
            return false;
        }
    }
    return true;
}

/* NCCL connects when a communicator needs it first: two ranks for their first message, and since 2.22 all of them for
 * the first collective. The call waits for it. */
void tti_connect_begin(struct ncclComm *comm, const struct tti_task *tasks)
{
    if (needs_all(tasks)) {
        atomic_store(&comm->shared->place[comm->rank].connected, 1);
    }
    for (const struct tti_task *task = tasks; task; task = task->next) {
        if (task->kind == TTI_SEND) {
            atomic_store(&tti_shared_pair(comm->shared, comm->rank, task->root)->sender_ready, 1);
        } else if (task->kind == TTI_RECV) {
            atomic_store(&tti_shared_pair(comm->shared, task->root, comm->rank)->receiver_ready, 1);
        }
    }
    tti_doorbell_raise_all(comm);
}

bool tti_connect_end(struct ncclComm *comm, const struct tti_task *tasks)
{
    struct connecting connecting = {comm, tasks};
    return tti_await(comm, all_connected, &connecting);
}

/* ---- transfers ---- */

struct message {
    struct tti_pair *pair;
    unsigned char *data;
    size_t bytes;
    size_t transferred;
    uint64_t packets; /* written or taken */
    int peer;
    bool send;
    bool done;
    bool wrong;             /* the other side has another length: never done */
    struct message *before; /* the same peer and direction, to be done first */
};

struct message_set {
    struct ncclComm *comm;
    struct message *messages;
    size_t count;
};

static uint64_t packets_of(size_t bytes)
{
    return bytes == 0 ? 1 : (bytes + TTI_PACKET_BYTES - 1) / TTI_PACKET_BYTES;
}

static size_t next_packet_bytes(const struct message *message)
{
    const size_t left = message->bytes - message->transferred;
    return left < TTI_PACKET_BYTES ? left : TTI_PACKET_BYTES;
}

static bool write_packet(struct message *message)
{
    struct tti_pair *pair = message->pair;
    const uint64_t written = atomic_load(&pair->written);
    const uint64_t taken = atomic_load(&pair->taken);
    if (message->packets == packets_of(message->bytes)) {
        message->done = taken == written;
        return message->done;
    }
    if (written - taken == 2) {
        return false;
    }
    const size_t bytes = next_packet_bytes(message);
    if (bytes > 0) {
        memcpy(pair->packet[written % 2], message->data + message->transferred, bytes);
    }
    pair->bytes[written % 2] = message->bytes;
    atomic_store(&pair->written, written + 1); /* the chunk before it; take_packet reads it */
    message->transferred += bytes;
    message->packets++;
    return true;
}

static bool take_packet(struct message *message)
{
    struct tti_pair *pair = message->pair;
    const uint64_t taken = atomic_load(&pair->taken);
    if (atomic_load(&pair->written) == taken) {
        return false;
    }
    if (pair->bytes[taken % 2] != message->bytes) {
        message->wrong = true;
        return false;
    }
    const size_t bytes = next_packet_bytes(message);
    if (bytes > 0) {
        memcpy(message->data + message->transferred, pair->packet[taken % 2], bytes);
    }
    atomic_store(&pair->taken, taken + 1); /* the read before it; write_packet reads it */
    message->transferred += bytes;
    message->packets++;
    message->done = message->packets == packets_of(message->bytes);
    return true;
}

/* Whether it made progress. It is polled; no other thread of this rank transfers messages meanwhile. */
static bool some_progress(void *argument)
{
    const struct message_set *message_set = argument;
    bool progress = false;
    for (size_t i = 0; i < message_set->count; i++) {
        struct message *message = &message_set->messages[i];
        if (message->done || message->wrong || (message->before && !message->before->done)) {
            continue;
        }
        if (message->send ? write_packet(message) : take_packet(message)) {
            tti_doorbell_raise(message_set->comm, message->peer);
            progress = true;
        }
    }
    return progress;
}

static bool all_done(const struct message_set *message_set)
{
    for (size_t i = 0; i < message_set->count; i++) {
        if (!message_set->messages[i].done) {
            return false;
        }
    }
    return true;
}

static void open_message(struct message_set *message_set, const struct tti_task *task)
{
    struct ncclComm *comm = message_set->comm;
    struct message *message = &message_set->messages[message_set->count];
    const bool send = task->kind == TTI_SEND;
    int device;
    *message = (struct message){.pair = send ? tti_shared_pair(comm->shared, comm->rank, task->root)
                                             : tti_shared_pair(comm->shared, task->root, comm->rank),
                                .bytes = task->count * tti_type_size(task->type),
                                .peer = task->root,
                                .send = send};
    if (message->bytes > 0) {
        message->data = tti_driver_shadow(send ? task->send : task->recv, message->bytes, &device);
        if (!message->data) {
            tti_misused("memory at %p of communicator %d was freed before the message was done.",
                        send ? task->send : task->recv, comm->ordinal);
        }
    }
    for (size_t i = message_set->count; i > 0 && !message->before; i--) {
        if (message_set->messages[i - 1].pair == message->pair && message_set->messages[i - 1].send == send) {
            message->before = &message_set->messages[i - 1];
        }
    }
    message_set->count++;
}

bool tti_run_messages(struct ncclComm *comm, struct tti_task *tasks)
{
    struct message_set message_set = {.comm = comm};
    size_t count = 0;
    for (const struct tti_task *task = tasks; task; task = task->next) {
        count += task->kind >= TTI_SEND;
    }
    if (count == 0) {
        return true;
    }
    message_set.messages = calloc(count, sizeof(*message_set.messages));
    if (!message_set.messages) {
        tti_misused("there is no memory for %zu messages.", count);
    }
    for (const struct tti_task *task = tasks; task; task = task->next) {
        if (task->kind >= TTI_SEND) {
            open_message(&message_set, task);
        }
    }
    bool running = true;
    while (running && !all_done(&message_set)) {
        running = tti_await(comm, some_progress, &message_set);
    }
    free(message_set.messages);
    return running;
}
