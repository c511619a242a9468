/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a rank's messages. All of it is under tti_p2p.lock, apart from the atomic fields.
 *
 * The first TTI_EAGER bytes of a message are sent at once (eager protocol). The rest waits for the receiver's grant
 * (rendezvous protocol). The receiver grants a message as soon as it has matched it, one message of a sender at a time.
 */
#ifndef TTI_ENGINE_P2P_TYPES_H
#define TTI_ENGINE_P2P_TYPES_H

#include "engine/lane.h"

#define TTI_EAGER  262144u /* bytes of a message that are sent without a grant */
#define TTI_DIRECT 131072u /* bytes of a message that synchronous calls send and receive without a request */
#define TTI_SMALL  16384u  /* the same in a batch of more than TTI_POSTING_FEW; bytes of a message that is one chunk */
static_assert(TTI_DIRECT <= TTI_EAGER, "without a grant");

/* One visit of a peer costs at most TTI_VISIT and a chunk: the bytes of chunks, and TTI_VISIT_CHUNK for each. Then the
 * other direction and the other peers follow. */
#define TTI_VISIT       131072u
#define TTI_VISIT_CHUNK 4096u

/* One send or receive; part of a posting. */
struct tti_request {
    struct tti_request *next;
    tutti_op *op;
    tutti_status status;
    _Atomic bool done; /* release by the thread that ends it, acquire by the waiting thread; never touched after that */
    bool posted;       /* send: its first record is out */
    bool peer_gone;    /* its peer had left before the last round began */
    uint64_t number;   /* send: of that record */
    uint64_t bytes;    /* send: of the message */
    uint64_t bytes_written; /* send: so far */
    uint64_t name;          /* send: of its tensor, if that was offered; else 0 */
    bool writes_direct;     /* send: granted, and written into the peer's tensor */
    tutti_message matched;  /* recv: the message; size 0 = not matched */
};

#define TTI_POSTING_FEW 4

/* Requests that were posted together (p2p.c). One thread at a time tests it or waits for it. */
struct tti_posting {
    struct tti_posting *next_idle;
    struct tti_engine *e;
    struct tti_request *requests; /* few, or memory of their own */
    size_t count;
    int64_t timeout_ms;
    int64_t started_ns; /* 0 before the first read of the clock */
    int64_t deadline_ns;
    int64_t next_check_ns; /* of whether the peers still live; 0 = not set */
    uint32_t alarm_seen;
    uint32_t wakes_seen;
    bool over; /* with this status, if it is not OK, and else each request's own */
    tutti_status status;
    struct tti_request few[TTI_POSTING_FEW];
    tutti_error error; /* valid if the status is not OK */
};

/* A message that has begun to arrive and is not received completely. */
struct tti_incoming {
    struct tti_incoming *next;
    uint64_t number; /* of its first record */
    uint64_t bytes;
    uint64_t count;              /* elements */
    uint64_t arrived;            /* bytes in the tensor of `request` or `begun`, or in `data` */
    int64_t order;               /* of arrival, over all peers: ANY_SOURCE takes the oldest */
    struct tti_request *request; /* the receive that has matched it */
    const tutti_op *begun;       /* the receive about to be posted, whose tensor has what has arrived; or NULL */
    uint64_t name;               /* of the sender's tensor, if that is offered; else 0 */
    bool writes_direct;          /* granted, and the sender knows the receiver's tensor */
    bool dropped;                /* its receive was withdrawn: later bytes are discarded */
    int32_t tag;
    tutti_dtype dtype;
    int32_t ndim;
    int64_t shape[TUTTI_MAX_NDIM];
    unsigned char data[];
};

/* How far a ring of bytes is used. Positions never wrap, and count gaps. */
struct tti_bytes {
    uint64_t head;
    uint64_t freed; /* bytes before this position may be written again */
};

enum { TTI_REST_UNUSED, TTI_REST_USABLE, TTI_REST_NO_MEMORY };

struct tti_peer {
    /* sending to it */
    struct tti_request *sends; /* in order of posting; removed when done */
    struct tti_request *sends_tail;
    struct tti_request *staging;   /* the first of them whose eager part is not out */
    struct tti_request *streaming; /* the one that the peer has granted */
    uint64_t *ends;                /* the position behind each record in flight; NULL = not opened */
    uint8_t rest;                  /* TTI_REST_*: of the ring, behind its window */
    uint64_t posted;               /* records */
    uint64_t taken;                /* of them, as last read in the peer's control */
    struct tti_bytes bytes;        /* the ring of bytes */
    uint64_t grant_seen;
    uint32_t open_sends;          /* in the list */
    uint64_t open_bytes;          /* of them */
    uint32_t offers;              /* of them, offered ... */
    uint32_t remote_offers;       /* ... and to be read by the kernel, which the peer may refuse */
    bool refused;                 /* it could not read such an offer: it gets no other one */
    uint32_t large_sends;         /* so far, of those that may be offered like that */
    uint64_t fetches;             /* acknowledgements seen ... */
    uint64_t fetched[TTI_OFFERS]; /* ... the last ones */
    struct tti_spin spin;         /* for its next message, without a request */
    const char *impossible;       /* the number that it has published of records that it was never sent; or NULL */
    /* receiving from it */
    uint32_t open_recvs;           /* receives that name it or have matched one of its messages, and are not done */
    bool opened;                   /* its rings exist */
    bool writable;                 /* and this rank may write to their window, to claim its lines */
    uint64_t read;                 /* records */
    uint64_t reported;             /* of them, as published */
    uint64_t unreported;           /* bytes of the ring in the others, gaps included */
    uint64_t behind;               /* the place behind its newest chunk */
    struct tti_incoming *messages; /* in order of sending */
    struct tti_incoming *messages_tail;
    struct tti_incoming *arriving; /* the newest, if its eager part is not complete */
    struct tti_incoming *transfer; /* granted, being received */
    struct tti_incoming *fetching; /* offered and matched, being copied */
    uint64_t acknowledged;         /* offered messages */
    bool unreadable;               /* the kernel does not let this rank read its process's memory */
    /* what copies cost: p2p/rings/chunk_times.c */
    bool far;                /* it seems to have another third-level cache */
    uint32_t chunks_read;    /* large ones in its ring that do not begin a message */
    uint32_t chunks_written; /* and in the own one */
    double line_ticks;       /* running averages: to read a cache line that it has written; */
    double read_ticks;       /* for each byte read from its ring, */
    double write_ticks;      /* written into the own one, */
    double kernel_ticks;     /* or copied by the kernel */
};

struct tti_p2p {
    pthread_mutex_t lock;      /* of all that is not atomic; a thread waits for a chunk at most while it holds it */
    struct tti_request *recvs; /* posted and not matched, in order of posting. None of them fits an unmatched message */
    struct tti_request *recvs_tail;
    uint32_t open_any;   /* of them, those from any source */
    uint32_t open_recvs; /* of all peers, and from any source, not done */
    int64_t order;
    int64_t sequence;
    uint64_t active[TTI_MAX_RANKS / 64]; /* peers on which an open request depends */
    uint64_t bytes_copied;               /* loaded and stored by copies, so far */
    uint32_t alarm_at_intent;            /* the alarm word at the last tti_p2p_intent_begin */
    _Atomic uint32_t alarm_clean;        /* relaxed: the last value of the alarm word without a failure */
    _Atomic uint32_t completed;          /* counts ended requests; a futex of threads that wait for messages */
    _Atomic uint32_t sleepers;           /* threads that sleep on it */
    _Atomic uint32_t tests;              /* relaxed: of postings */
    struct tti_spin spin;                /* of waits for requests, whichever peers they are with */
    _Atomic uint32_t wakes;              /* counts calls that make waiting threads return */
    uint32_t worker_wakes_seen;          /* these three by tti_p2p_wait_any, which one thread calls */
    uint32_t worker_alarm_seen;
    uint32_t worker_completed_seen;
    struct tti_posting *idle;   /* for the next asynchronous messages */
    struct tti_incoming *spare; /* without `data`; NULL: none */
    struct tti_peer *peers;
};

/* The peer that a request depends on. A receive from any source that has matched depends on that sender. */
static inline int tti_p2p_peer_of(const struct tti_request *r)
{
    return r->matched.size != 0 ? r->matched.source : r->op->root;
}

static inline bool tti_p2p_is_done(const struct tti_request *r)
{
    /* acquire: pairs with the release in tti_p2p_become_done, by any thread */
    return atomic_load_explicit(&r->done, memory_order_acquire);
}

#endif
