/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communicators of closed groups. A rank closes a group alone, so other ranks may still send to it. MPI gives the
 * context of a freed communicator to the next one, which would receive those messages. So each rank, when it closes a
 * group that has not failed, sends a last, empty message to every other rank. It frees its communicators after it has
 * received the last message of every other rank, and all messages before it.
 *
 * MPI keeps the order of the messages between two ranks on the communicator for messages, so nothing follows there. On
 * the lanes nothing is left either: a collective that has ended well on all ranks has received all that was sent for
 * it, and a rank on which one has not ended well has failed and sends no last message.
 *
 * The communicators of a group stay for good if it has failed on a rank, if a rank keeps it or ends its process without
 * closing it, or if no rank has received the data of a large message. A rank that could not make all communicators of a
 * group closes it in the same way.
 *
 * Cost: n - 1 empty messages from each rank.
 */
#include "backends/mpi/plugin/closed_groups.h"

#include <stdlib.h>

#include "backends/mpi/plugin/library/library.h"

struct closed_group {
    struct closed_group *next;
    int missing; /* last messages of other ranks */
    int count;
    MPI_Comm comms[1 + TUTTI_MAX_LANES]; /* the first one is for messages */
};

enum progress { WAITING, ENDED, STAYS };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct closed_group *groups; /* under the lock */

static void send_last(const struct tti_mpi_group *g)
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

void tti_mpi_keep_closed(const struct tti_mpi_group *g)
{
    struct closed_group *c = malloc(sizeof(*c));
    send_last(g);
    if (!c) {
        return; /* then they stay for good */
    }
    c->missing = g->size - 1;
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
    return ENDED;
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
        tti_mpi_leave();
        if (progress == WAITING) {
            link = &c->next;
        } else {
            *link = c->next;
            free(c);
        }
    }
    const bool all = groups == NULL;
    pthread_mutex_unlock(&lock);
    return all;
}
