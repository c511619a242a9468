/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communicators of closed groups. A rank closes a group alone, so other ranks may still send to it. MPI gives the
 * context of a freed communicator to the next one, which would receive those messages. So each rank, when it closes a
 * group that has not failed, sends a last message to every other rank. It frees its communicators after it has received
 * the last message of every other rank, and all messages before it.
 *
 * MPI keeps the order of the messages between two ranks on the communicator for messages, so nothing follows there. On
 * the lanes nothing is left either: a collective that has ended well on all ranks has received all that was sent for
 * it, and a rank on which one has not ended well has failed and sends no last message.
 *
 * The communicators of a group stay for good if it has failed on a rank, if a rank keeps it or ends its process without
 * closing it, or if no rank has received the data of a large message. A rank that could not make all communicators of a
 * group closes it in the same way.
 *
 * The last message says how many calls the rank has made on each lane. A rank that waits in a later call would wait in
 * vain, so it polls for these messages, and gets PEER_LEFT. A call that the other rank has made before it closed the
 * group still ends well, in whatever order the messages of different communicators arrive.
 *
 * Cost: n - 1 messages of 8 bytes a lane from each rank.
 */
#include "backends/mpi/plugin/closed_groups.h"

#include <stdlib.h>
#include <string.h>

#include "backends/mpi/plugin/library/library.h"
#include "base/kept_memory.h"

struct closed_group {
    struct closed_group *next;
    int missing; /* last messages of other ranks */
    int count;
    MPI_Comm comms[1 + TUTTI_MAX_LANES]; /* the first one is for messages */
    struct tti_mpi_last_message last;    /* of this rank */
    int size;
    MPI_Request requests[]; /* its sends: one for each rank */
};

enum progress { WAITING, ENDED, STAYS };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct closed_group *groups; /* under the lock */

static void send_empty(const struct tti_mpi_group *g)
{
    tti_mpi_enter();
    for (int r = 0; r < g->size; r++) {
        MPI_Request request;
        if (r != g->rank && MPI_Isend(NULL, 0, MPI_BYTE, r, TTI_MPI_TAG_CLOSED, g->control, &request) == MPI_SUCCESS) {
            MPI_Request_free(&request);
        }
    }
    tti_mpi_leave();
}

static void send_last(const struct tti_mpi_group *g, struct closed_group *c)
{
    for (int i = 0; i < g->lanes; i++) {
        c->last.calls[i] = atomic_load_explicit(&g->lane[i].calls, memory_order_relaxed); /* no call is in progress */
    }
    tti_mpi_enter();
    for (int r = 0; r < g->size; r++) {
        if (r == g->rank || MPI_Isend(&c->last, g->lanes * (int)sizeof(c->last.calls[0]), MPI_BYTE, r,
                                      TTI_MPI_TAG_CLOSED, g->control, &c->requests[r]) != MPI_SUCCESS) {
            c->requests[r] = MPI_REQUEST_NULL;
        }
    }
    tti_mpi_leave();
}

void tti_mpi_keep_closed(const struct tti_mpi_group *g)
{
    struct closed_group *c = malloc(sizeof(*c) + (size_t)g->size * sizeof(c->requests[0]));
    if (!c) {
        send_empty(g);
        return; /* then they stay for good */
    }
    c->size = g->size;
    send_last(g, c);
    c->missing = g->size - 1 - g->closed_count;
    c->count = 0;
    c->comms[c->count++] = g->control;
    for (int i = 0; i < g->lanes; i++) {
        if (g->lane[i].comm != MPI_COMM_NULL) { /* else the group has failed to open */
            c->comms[c->count++] = g->lane[i].comm;
        }
    }
    pthread_mutex_lock(&lock);
    c->next = groups;
    groups = c;
    pthread_mutex_unlock(&lock);
}

/* Whether MPI has completed this rank's last messages. */
static bool is_sent(struct closed_group *c)
{
    int done = 1;
    for (int r = 0; r < c->size && done; r++) {
        if (c->requests[r] != MPI_REQUEST_NULL && MPI_Test(&c->requests[r], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            done = 0;
        }
    }
    return done;
}

/* Receives what has arrived. */
static enum progress drain(struct closed_group *c)
{
    union {
        struct tti_mpi_envelope_head head;
        unsigned char bytes[sizeof(struct tti_mpi_envelope_head) + TUTTI_MAX_NDIM * sizeof(int64_t) + TTI_MPI_EAGER];
    } envelope = {0};
    while (c->missing > 0) {
        int found = 0;
        MPI_Status s;
        int code = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->comms[0], &found, &s);
        if (code == MPI_SUCCESS && !found) {
            return WAITING;
        }
        if (code != MPI_SUCCESS || (s.MPI_TAG != TTI_MPI_TAG_CLOSED && s.MPI_TAG != TTI_MPI_TAG_ENVELOPE)) {
            return STAYS; /* a failure notice, or data: if they were received here, their send would end well */
        }
        code = MPI_Recv(&envelope, (int)sizeof(envelope), MPI_BYTE, s.MPI_SOURCE, s.MPI_TAG, c->comms[0],
                        MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || (s.MPI_TAG == TTI_MPI_TAG_ENVELOPE && envelope.head.data_tag == TTI_MPI_RANK_LEFT)) {
            return STAYS;
        }
        c->missing -= s.MPI_TAG == TTI_MPI_TAG_CLOSED;
    }
    return is_sent(c) ? ENDED : WAITING;
}

void tti_mpi_receive_closed(struct tti_mpi_group *g)
{
    struct tti_mpi_last_message last;
    int found = 0;
    do {
        MPI_Message message;
        MPI_Status s;
        int bytes = 0;
        tti_mpi_enter();
        int code = MPI_Improbe(MPI_ANY_SOURCE, TTI_MPI_TAG_CLOSED, g->control, &found, &message, &s);
        found = found && code == MPI_SUCCESS;
        if (found) {
            MPI_Get_count(&s, MPI_BYTE, &bytes);
            code = MPI_Mrecv(&last, (int)sizeof(last), MPI_BYTE, &message, MPI_STATUS_IGNORE);
        }
        tti_mpi_leave();
        if (found) {
            pthread_mutex_lock(&g->lock);
            g->closed_count++;
            if (code == MPI_SUCCESS) {
                memcpy(&g->last[s.MPI_SOURCE], &last, (size_t)bytes);
            }
            pthread_mutex_unlock(&g->lock);
        }
    } while (found);
}

bool tti_mpi_free_closed(void)
{
    pthread_mutex_lock(&lock);
    for (struct closed_group **link = &groups, *c; (c = *link) != NULL;) {
        tti_mpi_enter();
        const enum progress progress = drain(c);
        for (int i = 0; i < c->count && progress == ENDED; i++) {
            MPI_Comm_free(&c->comms[i]);
        }
        const bool keeps = progress == STAYS && !is_sent(c);
        tti_mpi_leave();
        if (progress == WAITING) {
            link = &c->next;
        } else {
            *link = c->next;
            tti_memory_free_or_keep(c, keeps);
        }
    }
    const bool all = groups == NULL;
    pthread_mutex_unlock(&lock);
    return all;
}
