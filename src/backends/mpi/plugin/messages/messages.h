/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a group. MPI carries bytes; matching is done here, because Tutti's messages carry a dtype and a shape,
 * a receive that does not fit must leave its message, and tags may be larger than MPI's.
 *
 * A message is a letter: one MPI message with a fixed head, the shape, and the data if they are few. Larger data
 * follow in a second MPI message whose tag the letter names, straight from the sender's tensor into the receiver's.
 * Letters of a pair arrive in the order of their sending, as MPI promises for one tag.
 */
#ifndef TTI_BACKENDS_MPI_PLUGIN_MESSAGES_H
#define TTI_BACKENDS_MPI_PLUGIN_MESSAGES_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tutti/backend.h>

/* Up to so many bytes of data travel in the letter. */
#define TTI_MPI_EAGER 2048u

struct tti_mpi_envelope_head {
    uint64_t bytes;
    int32_t tag;
    int32_t dtype;
    int32_t ndim;
    int32_t data_tag; /* of the second MPI message; -1: the data are in the letter; TTI_MPI_RANK_LEFT */
};

#define TTI_MPI_RANK_LEFT (-2) /* the last letter of a rank: it has ended its process */

/* A letter that has come, behind it the rest of it. */
struct tti_mpi_envelope {
    struct tti_mpi_envelope *next;
    int source;
    size_t length; /* of all of it, as MPI tells */
    struct tti_mpi_envelope_head head;
    unsigned char rest[];
};

struct tti_mpi_posting;

/* A send or a receive. */
struct tti_mpi_request {
    tutti_op *op;
    struct tti_mpi_posting *posting;
    struct tti_mpi_request *next;      /* in the list of receives without a letter, or of those that MPI works on */
    struct tti_mpi_envelope *envelope; /* send: what is being sent; recv: what came */
    MPI_Request envelope_request;
    MPI_Request *chunks; /* of the data, in pieces that MPI can count; NULL if there are none */
    size_t chunk_count;
    MPI_Request one_chunk;
    tutti_message came;
    tutti_status status;
    bool done;
};

/* Requests that were posted together. */
struct tti_mpi_posting {
    struct tti_mpi_posting *next_idle;
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
    struct tti_mpi_envelope *envelopes; /* that nobody has wanted yet, oldest first */
    struct tti_mpi_envelope *envelopes_end;
    struct tti_mpi_request *waiting; /* receives that have no letter, in the order of posting */
    struct tti_mpi_request *waiting_end;
    struct tti_mpi_request *moving; /* MPI works on them */
    int64_t sequence;
    size_t open; /* requests that are not done */
    bool *left;  /* for each rank: its process has ended */
    int32_t left_count;
    int32_t next_tag;
    _Atomic uint32_t changes; /* grows when something has ended, or somebody is to look again */
    uint32_t changes_seen;    /* by the worker, which alone attends to no batch: those before it looked at its works */
};

/* False: no memory, and tti_mpi_messages_free is due all the same. */
bool tti_mpi_messages_init(struct tti_mpi_messages *m, int size);
void tti_mpi_messages_free(struct tti_mpi_messages *m);

tutti_status tti_mpi_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
tutti_status tti_mpi_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                           tutti_error *error);
tutti_status tti_mpi_post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                              tutti_error *error);
int32_t tti_mpi_test_p2p(void *state, void *batch);
void tti_mpi_attend_p2p(void *state, void *batch, int64_t until_ns);
void tti_mpi_wake_p2p(void *state);
int32_t tti_mpi_cancel_p2p(void *state, void *batch);
tutti_status tti_mpi_end_p2p(void *state, void *batch, tutti_error *error);

#endif
