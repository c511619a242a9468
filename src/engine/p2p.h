/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between ranks, private to p2p*.c.
 *
 * For every ordered pair the sender's segment has a ring of envelopes and a ring of data chunks. A small message travels
 * inside its envelope. A large one is announced; the receiver matches it and grants the transfer (one at a time and pair);
 * the sender then streams chunks, the receiver copies them out. Each side writes only its own segment and bumps one
 * activity word per peer, on which that peer sleeps.
 *
 * Receivers copy envelopes out as soon as they look, into lists of unexpected messages, so that a full ring never keeps
 * a message with another tag from being seen. Cost of a small message: one line of hops; of a large one: 4n bytes (copied
 * in, copied out) and two more hops for the grant.
 */
#ifndef TTI_ENGINE_P2P_H
#define TTI_ENGINE_P2P_H

#include "engine/internal.h"

/* One send or recv that this rank has posted; part of a posting. */
struct tti_request {
    struct tti_request *next;
    tutti_op *op;
    tutti_status status;
    _Atomic bool done;  /* release by whoever ends it, acquire by the thread that waits; then status is valid */
    bool posted;        /* send: its envelope is out    */
    uint64_t number;    /* send: of its envelope        */
    uint64_t bytes;     /* of the message               */
    uint64_t moved;     /* bytes copied so far          */
    bool orphan;        /* its peer had left before the last round began */
    tutti_message came; /* recv: what was matched     */
};

#define TTI_POSTING_FEW 4

/* Requests that were posted together; see p2p.c. One thread at a time attends to it. */
struct tti_posting {
    struct tti_posting *next_idle;
    struct tti_engine *e;
    struct tti_request *requests; /* few, or of their own memory */
    size_t count;
    int64_t timeout_ms;
    int64_t started_ns; /* 0 until the first look at the clock */
    int64_t deadline_ns;
    uint32_t alarm_seen;
    uint32_t wakes_seen;
    bool over; /* with this status, if it is not OK, and else each request's own */
    tutti_status status;
    tutti_error error;
    struct tti_request few[TTI_POSTING_FEW];
};

/* A message that has arrived or been announced, and is not received yet. */
struct tti_incoming {
    struct tti_incoming *next;
    uint64_t number;
    uint64_t bytes;
    int64_t order; /* of becoming known, over all peers: ANY_SOURCE takes the oldest */
    int32_t tag;
    tutti_dtype dtype;
    int32_t ndim;
    bool eager;
    struct tti_request *request; /* the recv that has taken it and waits for the transfer */
    int64_t shape[TUTTI_MAX_NDIM];
    unsigned char data[TTI_ENVELOPE];
};

struct tti_peer {
    struct tti_request *sends; /* in order of posting; removed when done */
    struct tti_request *sends_tail;
    struct tti_incoming *messages; /* in order of sending */
    struct tti_incoming *messages_tail;
    struct tti_incoming *transfer; /* granted, being received */
    bool committed;                /* the rings towards this peer may be written */
    /* own counters towards the peer, as published */
    uint64_t posted;
    uint64_t taken;
    uint64_t granted;
    uint64_t sent;
    uint64_t pulled;
    uint64_t grants_seen;          /* of the peer's grants */
    struct tti_request *streaming; /* the send that the peer has granted */
};

struct tti_p2p {
    pthread_mutex_t lock;      /* everything below; never held while waiting */
    struct tti_request *recvs; /* posted and not matched, in order of posting */
    struct tti_request *recvs_tail;
    int64_t order;
    int64_t sequence;
    _Atomic uint32_t alarm_clean; /* relaxed: the last value of the alarm word that meant no harm */
    _Atomic uint32_t completed;   /* bumped when a request of another thread has ended: what that thread sleeps on */
    _Atomic uint32_t wakes;       /* bumped to make those who attend return */
    uint32_t worker_wakes_seen;   /* by tti_p2p_attend_any, which one thread calls; and what it saw of the rest */
    uint32_t worker_alarm_seen;
    uint32_t worker_completed_seen;
    struct tti_posting *idle; /* for the next asynchronous messages */
    struct tti_peer *peers;
};

/* What one rank tells another, and its rings towards it. */
static inline struct tti_pair_control *tti_pair(const struct tti_engine *e, int owner, int peer)
{
    return (struct tti_pair_control *)(e->segments[owner] + e->layout.pairs + (size_t)peer * TTI_LINE);
}

static inline unsigned char *tti_rings(const struct tti_engine *e, int owner, int peer)
{
    return e->segments[owner] + e->layout.rings + (size_t)peer * e->layout.ring_stride;
}

static inline struct tti_envelope *tti_envelope(const struct tti_engine *e, int owner, int peer, uint64_t number)
{
    return (struct tti_envelope *)(tti_rings(e, owner, peer) + (size_t)(number % TTI_ENVELOPES) * TTI_ENVELOPE);
}

static inline unsigned char *tti_chunk(const struct tti_engine *e, int owner, int peer, uint64_t number)
{
    return tti_rings(e, owner, peer) + TTI_ENVELOPES * TTI_ENVELOPE + (size_t)(number % TTI_CHUNKS) * TTI_CHUNK;
}

/* p2p_match.c, with the lock held */

/* Copies new envelopes of a peer into its list. PEER_CORRUPT for impossible ones. */
tutti_status tti_p2p_drain(struct tti_engine *e, int peer, tutti_error *error);
/* The oldest unmatched message for (source, tag); NULL if there is none. *peer gets its sender. */
struct tti_incoming *tti_p2p_find(struct tti_engine *e, int32_t source, int32_t tag, int *peer);
/* Pairs posted receives with messages, in order; starts transfers. True if anything moved. */
bool tti_p2p_match(struct tti_engine *e);
/* Removes a message that has been received. */
void tti_p2p_forget(struct tti_peer *p, struct tti_incoming *m);
void tti_p2p_fill(const struct tti_incoming *m, int peer, tutti_message *message);
void tti_p2p_finish(struct tti_p2p *p, struct tti_request *request, tutti_status status);

/* p2p_move.c, with the lock held: one round over all peers. True if anything moved. */
bool tti_p2p_progress(struct tti_engine *e, tutti_error *error, tutti_status *status);

/* p2p.c: takes an unfinished request out of everything that points to it; with the lock held */
void tti_p2p_withdraw(struct tti_engine *e, struct tti_request *request, tutti_status status);

/* p2p_wait.c */

/* Moves everybody's messages as far as they go. An error has failed the group. */
tutti_status tti_p2p_move(struct tti_engine *e, tutti_error *error);
/* The same, then looks whether the posting is over. */
bool tti_p2p_test(struct tti_posting *p);
/* Waits until it is over: true; false at until_ns or when tti_engine_wake_p2p was called since the last test. */
bool tti_p2p_attend(struct tti_posting *p, int64_t until_ns);
/* Waits until any message may have moved. */
void tti_p2p_attend_any(struct tti_engine *e, int64_t until_ns);
/* "recv from rank 1, tag 7" */
void tti_p2p_describe(const tutti_op *op, char *text, size_t capacity);

#endif
