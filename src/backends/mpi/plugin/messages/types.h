/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of a group. MPI carries bytes; matching is done here, because Tutti's messages carry a dtype and a
 * shape, a receive that does not fit must leave its message, and tags may be larger than MPI's.
 *
 * A message is an envelope: one MPI message with a fixed head, the shape, and the data if they are small (the eager
 * protocol). Larger data follow in a second MPI message, whose tag the envelope names, from the sender's tensor
 * straight into the receiver's (rendezvous). MPI keeps the envelopes of a pair of ranks in the order of sending, as
 * they have one tag.
 */
#ifndef TTI_BACKENDS_MPI_PLUGIN_MESSAGES_TYPES_H
#define TTI_BACKENDS_MPI_PLUGIN_MESSAGES_TYPES_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tutti/backend.h>

/* The most bytes of data that are sent in the envelope. */
#define TTI_MPI_EAGER 2048u

struct tti_mpi_envelope_head {
    uint64_t bytes;
    int32_t tag;
    int32_t dtype;
    int32_t ndim;
    int32_t data_tag; /* of the second MPI message; -1: the data are in the envelope; TTI_MPI_RANK_LEFT */
};

#define TTI_MPI_RANK_LEFT (-2) /* the last envelope of a rank: it has ended its process */

/* An envelope and the bytes behind its head. */
struct tti_mpi_envelope {
    struct tti_mpi_envelope *next;
    int source;
    size_t length; /* of head and rest, as MPI reports it */
    struct tti_mpi_envelope_head head;
    unsigned char rest[];
};

struct tti_mpi_posting;

/* A send or a receive. */
struct tti_mpi_request {
    tutti_op *op;
    struct tti_mpi_posting *posting;
    struct tti_mpi_request *next;      /* in the list of posted receives, or of active requests */
    struct tti_mpi_envelope *envelope; /* send: in the hands of MPI; recv: matched */
    MPI_Request envelope_request;
    MPI_Request *chunks; /* of the data, each within MPI's int counts; NULL if there are none */
    size_t chunk_count;
    MPI_Request one_chunk;
    tutti_message info; /* recv: of the matched message */
    tutti_status status;
    bool done;
};

/* Requests that were posted together. */
struct tti_mpi_posting {
    size_t count;
    size_t open; /* requests that are not done */
    int64_t begun_ns;
    int64_t timeout_ms;
    int64_t deadline_ns;
    tutti_status status; /* of the group, if that ended it */
    tutti_error error;
    struct tti_mpi_request *requests;
    struct tti_mpi_request few[2];
};

struct tti_mpi_messages {
    pthread_mutex_t lock;
    struct tti_mpi_profile *profile;    /* the group's, or NULL */
    struct tti_mpi_envelope *envelopes; /* unexpected: no receive has matched them yet; oldest first */
    struct tti_mpi_envelope *envelopes_end;
    struct tti_mpi_request *posted; /* receives without an envelope, in the order of posting */
    struct tti_mpi_request *posted_end;
    struct tti_mpi_request *active; /* in the hands of MPI */
    int64_t sequence;
    bool *left; /* for each rank: its process has ended */
    int32_t left_count;
    int32_t next_tag;
    _Atomic uint32_t changes; /* event counter: grows when a request ends, and when a thread is to poll again */
    uint32_t changes_seen;    /* by the worker thread, which polls for all postings together */
};

#endif
