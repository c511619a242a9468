/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between ranks, private to p2p*.c.
 *
 * For every ordered pair the sender's segment has a ring of slots and two rings of bytes, for small and for large
 * chunks. A record is a slot that says by its number that it is there; the first record of a message describes it. A
 * chunk of up to 224 bytes travels in the slot, a larger one in a ring of bytes, where the slot says. The reader
 * tells what it has used up a quarter of a ring at a time, so a small message costs one hop.
 *
 * The first TTI_EAGER bytes of a message are sent at once, and a message that has no more is sent then. The rest of
 * a larger one is written when the receiver has granted it, which it does as soon as it has matched the message:
 * usually long before the sender has come to it. One message of a pair is granted at a time.
 *
 * Where one rank can reach the tensor of the other, a large message is copied once instead (p2p_zero_copy.c), or where the kernel
 * is to copy it (p2p_single_copy.c).
 *
 * A chunk for which a receive has been posted is copied from the ring to its tensor. Other chunks go to memory of
 * their own as soon as somebody has to look behind them, so that no message keeps one with another tag from being
 * seen. Cost of a large message: 4n bytes (copied in, copied out), and a hop for each chunk.
 *
 * Only peers are visited on which an open request depends; who waits for long looks at all of them from time to
 * time, so that a full ring elsewhere does not keep others waiting for ever.
 */
#ifndef TTI_ENGINE_P2P_H
#define TTI_ENGINE_P2P_H

#include "engine/failure/fault.h"
#include "engine/lane.h"
#include "engine/memory/copy.h"
#include "engine/memory/heap.h"
#include "engine/memory/intent.h"
#include "engine/memory/single_copy.h"
#include "engine/p2p/messages.h"
#include "engine/wait/publish.h"
#include "engine/wait/wait.h"

#define TTI_EAGER 32768u /* bytes of a message that are sent without being asked for */
#define TTI_CHUNK 65536u /* bytes of a chunk, at most: see tti_p2p_chunk_bytes */

/* The other direction gets its turn when so much has been spent: the bytes of large chunks, and something for each. */
#define TTI_VISIT       131072u
#define TTI_VISIT_CHUNK 16384u

/* One send or recv that this rank has posted; part of a posting. */
struct tti_request {
    struct tti_request *next;
    tutti_op *op;
    tutti_status status;
    _Atomic bool done; /* release by whoever ends it, acquire by the thread that waits; nobody touches it after that */
    bool posted;       /* send: its first record is out */
    bool peer_gone;    /* its peer had left before the last round began */
    uint64_t number;   /* send: of that record     */
    uint64_t bytes;    /* of the message           */
    uint64_t bytes_written; /* send: bytes written so far */
    uint64_t name;          /* send: of its tensor, if that was offered; else 0 */
    bool writes_direct;     /* send: granted, and written to where the peer wants it */
    tutti_message came;     /* recv: what was matched; size 0 before */
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
    int64_t next_check_ns; /* when to look whether peers are still there; 0 = not found out yet */
    uint32_t alarm_seen;
    uint32_t wakes_seen;
    bool over; /* with this status, if it is not OK, and else each request's own */
    tutti_status status;
    struct tti_request few[TTI_POSTING_FEW];
    tutti_error error; /* valid if the status is not OK */
};

/* A message of which something has arrived, and that is not received yet. */
struct tti_incoming {
    struct tti_incoming *next;
    uint64_t number; /* of its first record */
    uint64_t bytes;
    uint64_t count;              /* elements */
    uint64_t arrived;            /* of the bytes: in the tensor of `request`, or in `data` */
    int64_t order;               /* of becoming known, over all peers: ANY_SOURCE takes the oldest */
    struct tti_request *request; /* the recv that has taken it and waits for the rest */
    uint64_t name;               /* offered: where it lies; else 0 */
    bool writes_direct;          /* granted: the sender was told where to write the rest */
    bool dropped;                /* that recv has gone: what still comes is for nobody */
    int32_t tag;
    tutti_dtype dtype;
    int32_t ndim;
    int64_t shape[TUTTI_MAX_NDIM];
    unsigned char data[];
};

/* How far a ring of bytes is used. Positions count from the beginning of time, gaps included. */
struct tti_bytes {
    uint64_t head;
    uint64_t freed; /* everything before may be written again */
};

struct tti_peer {
    /* sending to it */
    struct tti_request *sends; /* in order of posting; removed when done */
    struct tti_request *sends_tail;
    struct tti_request *staging;   /* the first of them whose eager part is not out */
    struct tti_request *streaming; /* the one that the peer has granted */
    uint64_t *ends;                /* what each record in flight has taken, see end_of; NULL: not opened yet */
    uint64_t posted;               /* records */
    uint64_t taken;                /* of them, as last seen in the peer's control */
    struct tti_bytes bytes[2];     /* the rings of bytes */
    uint64_t grant_seen;
    uint32_t open_sends;          /* in the list */
    uint32_t offers;              /* of them, offered ... */
    uint32_t remote_offers;       /* ... in a way that the peer may turn down */
    bool refused;                 /* it could not read what was offered like that: it is not asked again */
    uint32_t large_sends;         /* that it might have let the kernel copy, so far */
    uint64_t fetches;             /* acknowledgements seen ... */
    uint64_t fetched[TTI_OFFERS]; /* ... the last ones */
    const char *impossible;       /* what it has told of records that it was never sent; NULL: nothing */
    /* receiving from it */
    uint32_t open_recvs;           /* that name it or have matched one of its messages, and are not done */
    bool opened;                   /* its rings are there */
    uint64_t read;                 /* records used up */
    uint64_t reported;             /* of them, as published */
    uint64_t unreported[2];        /* bytes of the two rings in those that are not, gaps included */
    uint64_t behind[2];            /* places behind their newest chunks */
    struct tti_incoming *messages; /* in order of sending */
    struct tti_incoming *messages_tail;
    struct tti_incoming *arriving; /* the newest, if its eager part is not complete */
    struct tti_incoming *transfer; /* granted, being received */
    struct tti_incoming *fetching; /* offered and matched, being fetched */
    uint64_t acknowledged;         /* offered messages */
    bool unreadable;               /* its process's memory could not be read */
    uint32_t chunks;               /* large ones that came through its ring, so far */
    double line_ticks;             /* what it takes to read a line of them: a running average */
};

struct tti_p2p {
    pthread_mutex_t lock;      /* everything below that is not atomic; never held while waiting */
    struct tti_request *recvs; /* posted and not matched, in order of posting. None of them fits an unmatched message */
    struct tti_request *recvs_tail;
    uint32_t open_any; /* those of them that take messages from anybody */
    int64_t order;
    int64_t sequence;
    uint64_t active[TTI_MAX_RANKS / 64]; /* peers on which an open request depends */
    uint64_t bytes_copied;               /* bytes loaded and stored by copies, so far */
    uint32_t alarm_touching;             /* the alarm word when a peer's memory was last touched */
    _Atomic uint32_t alarm_clean;        /* relaxed: the last value of the alarm word that meant no harm */
    _Atomic uint32_t completed; /* bumped when a request has ended: what threads sleep on beside their peers' words */
    _Atomic uint32_t sleepers;  /* threads that do */
    _Atomic uint32_t tests;     /* relaxed: how often somebody has tested a posting */
    _Atomic uint32_t wakes;     /* bumped to make those who attend return */
    uint32_t worker_wakes_seen; /* by tti_p2p_wait_any, which one thread calls; and what it saw of the rest */
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

/* Turned by rank, so that the slots that somebody looks at in many segments lie in different cache sets. */
static inline struct tti_slot *tti_slot(const struct tti_engine *e, int owner, int peer, uint64_t number)
{
    return (struct tti_slot *)tti_rings(e, owner, peer) + (number + (uint64_t)owner) % TTI_SLOTS;
}

static inline unsigned char *tti_ring(const struct tti_engine *e, int owner, int peer)
{
    return tti_rings(e, owner, peer) + TTI_SLOTS * sizeof(struct tti_slot);
}

/* One of the two rings of bytes: for small chunks, for large ones. */
static inline size_t tti_ring_base(const struct tti_engine *e, int which)
{
    return which == 0 ? 0 : e->layout.ring_small;
}

static inline size_t tti_ring_size(const struct tti_engine *e, int which)
{
    return which == 0 ? e->layout.ring_small : e->layout.ring_bytes - e->layout.ring_small;
}

/* Bytes of a chunk, without dimensions. */
static inline size_t tti_p2p_chunk_bytes(const struct tti_engine *e)
{
    size_t most = tti_ring_size(e, 1) / 8;
    return most < TTI_CHUNK ? most : TTI_CHUNK;
}

static inline uint64_t tti_p2p_eager_bytes(uint64_t bytes)
{
    return bytes < TTI_EAGER ? bytes : TTI_EAGER;
}

/* Whom a request depends on; under the lock. A receive from anybody that has matched waits for that sender. */
static inline int tti_p2p_peer_of(const struct tti_request *r)
{
    return r->came.size != 0 ? r->came.source : r->op->root;
}

static inline bool tti_p2p_is_done(const struct tti_request *r)
{
    /* acquire: pairs with tti_p2p_finish, which another thread's round may have called */
    return atomic_load_explicit(&r->done, memory_order_acquire);
}

/* p2p_match.c, with the lock held */

/* The first posted receive that takes this message, out of the list; NULL if there is none. Receives that it does
 * not fit fail on the way. */
struct tti_request *tti_p2p_match_posted(struct tti_engine *e, int peer, const struct tti_incoming *m);
/* Puts a receive into the list, or gives it a message that is there already. */
void tti_p2p_post_recv(struct tti_engine *e, struct tti_request *r);
/* The oldest unmatched message for (source, tag); NULL if there is none. *peer gets its sender. */
struct tti_incoming *tti_p2p_find(struct tti_engine *e, int32_t source, int32_t tag, int *peer);
void tti_p2p_add_incoming(struct tti_peer *p, struct tti_incoming *m);
/* Ends a message all of whose bytes are there, if somebody has taken it. */
void tti_p2p_finish_incoming(struct tti_engine *e, int peer, struct tti_incoming *m);
void tti_p2p_fill(const struct tti_incoming *m, int peer, tutti_message *message);
/* Nobody may touch the request after this: no list holds it any more. */
void tti_p2p_finish(struct tti_engine *e, struct tti_request *request, tutti_status status);
/* Takes an unfinished request out of everything that points to it. */
void tti_p2p_withdraw(struct tti_engine *e, struct tti_request *request, tutti_status status);
void tti_p2p_unlink(struct tti_request **head, struct tti_request **tail, const struct tti_request *r);
/* After a request of the peer has come / has gone. */
void tti_p2p_mark(struct tti_engine *e, int peer);
void tti_p2p_unmark(struct tti_engine *e, int peer);

/* p2p_send.c, with the lock held */

void tti_p2p_post_send(struct tti_engine *e, struct tti_request *r);
/* Writes what can be written now, or a bounded part of it: then true. If the peer has told what cannot be, `impossible` of it
 * says what. */
bool tti_p2p_push(struct tti_engine *e, int peer);
/* Whether the peer has told something since that lets more be written. */
bool tti_p2p_can_push(const struct tti_engine *e, int peer);
/* A small message at once, without a request, if nothing is before it. */
bool tti_p2p_send_now(struct tti_engine *e, const tutti_op *op);
/* An unfinished send does not exist any more. */
void tti_p2p_forget_send(struct tti_engine *e, struct tti_request *r);

/* p2p_recv.c, with the lock held */

/* Reads records of the peer while an open receive may want them, or (`drain`) all that are there; or a bounded part
 * of it: then true. A failure means PEER_CORRUPT, with the peer as the suspect, or NO_MEMORY, with this rank. */
bool tti_p2p_pull(struct tti_engine *e, int peer, bool drain, tutti_error *error, tutti_status *status);
/* The next message of a named peer at once, without a request, if it is a small one, for this receive, and no other receive
 * could want it. Whatever else: false, and the long way deals with it. */
bool tti_p2p_recv_now(struct tti_engine *e, const tutti_op *op);
/* Asks for the rest of the next matched message, if there is one and none is being received. */
void tti_p2p_grant(struct tti_engine *e, int peer);

/* p2p_zero_copy.c, with the lock held */

/* What this rank's memory is called if the others can reach it, and if that pays; 0: not. */
uint64_t tti_p2p_name(const struct tti_engine *e, const void *memory, uint64_t bytes);
/* Whether a peer may offer so many bytes by this name. */
bool tti_p2p_may_offer(const struct tti_engine *e, int peer, uint64_t name, uint64_t bytes);
/* Around each chunk of the peer's memory that is touched. False: the peer may have gone on, or will soon / what was read
 * meanwhile may not have been there. */
bool tti_p2p_intent_begin(struct tti_engine *e, int peer);
bool tti_p2p_intent_end(struct tti_engine *e);
/* Moves the next chunk of an offered message to its receive: OK. BUSY: its owner may be about to go on; whoever waits will
 * find out why. UNSUPPORTED: the kernel does not let it be read. PEER_CORRUPT: it is not there any more. */
tutti_status tti_p2p_fetch(struct tti_engine *e, int peer, struct tti_incoming *m);
/* Tells the peer that its message has been fetched. */
void tti_p2p_acknowledge(struct tti_engine *e, int peer, uint64_t number);
/* The next message that the peer has fetched; 0 if there is none. */
uint64_t tti_p2p_fetched_now(const struct tti_engine *e, int peer);
/* Writes the next chunk of a granted message to where the peer wants it. False if that is not possible now. */
bool tti_p2p_write(struct tti_engine *e, int peer, struct tti_request *r);
/* When this returns the peer does not touch memory any more that this rank has offered it, or told it to write to: then
 * `written`, which is orphaned if the peer does not react. */
void tti_p2p_reclaim(struct tti_engine *e, int peer, void *written, uint64_t bytes);

/* p2p_single_copy.c, with the lock held */

/* What the private tensor of a send is offered by, if the kernel may copy it, and that pays; 0: it is not. */
uint64_t tti_p2p_single_copy_name(struct tti_engine *e, int peer, const void *memory, uint64_t bytes);
/* Whether a peer may offer so many bytes like that. */
bool tti_p2p_may_single_copy(const struct tti_engine *e, uint64_t name, uint64_t bytes);
/* Whether this rank wants a matched message to be sent that was offered like that. */
bool tti_p2p_refuses_offer(struct tti_engine *e, int peer, const struct tti_incoming *m);
/* tti_p2p_fetch for these. */
tutti_status tti_p2p_fetch_single_copy(struct tti_engine *e, int peer, struct tti_incoming *m);
/* Before a chunk is copied from the peer's ring: finds out from time to time how far away it is. */
void tti_p2p_time(struct tti_engine *e, int peer, const unsigned char *chunk, size_t bytes);

/* What the next acknowledgement of the peer changes. */
static inline _Atomic uint64_t *tti_p2p_fetched_word(const struct tti_engine *e, int peer)
{
    return &tti_pair(e, peer, e->rank)->fetched[e->p2p->peers[peer].fetches % TTI_OFFERS];
}

/* With threads a name is an address of this process. */
static inline bool tti_p2p_is_single_copy(const struct tti_engine *e, uint64_t name)
{
    return !e->direct && (name & TTI_SINGLE_COPY_NAME) != 0;
}

/* Some open sends wait for a grant, or may be granted although they were offered. */
static inline bool tti_p2p_has_grantable(const struct tti_peer *p)
{
    return p->open_sends + p->remote_offers > p->offers;
}

/* p2p_wait.c */

/* What a waiting thread looks at. Large, and filled as far as it is used. */
struct tti_p2p_wait_monitor {
    struct tti_engine *e;
    struct tti_posting *p; /* NULL: any message */
    bool fresh;            /* the rest has just been filled in */
    bool ready;            /* there is more to be moved already */
    int count;
    uint32_t completed_seen;
    uint32_t yields;
    int64_t yield_until;
    uint64_t seen[TTI_MAX_RANKS];
    struct tti_awaited awaited[TTI_MAX_RANKS];
};

/* Spins, or lets others run, for a while until this record of the peer is there; without the lock. */
bool tti_p2p_await_record(const struct tti_engine *e, int peer, uint64_t number);
void tti_p2p_wait_monitor_init(struct tti_p2p_wait_monitor *v, struct tti_engine *e, struct tti_posting *p);
/* Moves messages; then, if there is a wait monitor whose posting is not over, prepares to wait for more. With the lock
 * held. */
tutti_status tti_p2p_progress(struct tti_engine *e, bool all, struct tti_p2p_wait_monitor *v, tutti_error *error);
/* Takes the lock and reads all that everybody has written by now. An error has failed the group. */
tutti_status tti_p2p_drain(struct tti_engine *e, tutti_error *error);
/* Moves messages, then looks whether the posting is over. */
bool tti_p2p_test(struct tti_posting *p);
/* Waits until the wait monitor's posting is over: true; false at until_ns or when tti_engine_wake_p2p was called since the
 * last test. */
bool tti_p2p_wait(struct tti_p2p_wait_monitor *v, int64_t until_ns);
/* Waits until any message may have moved. */
void tti_p2p_wait_any(struct tti_engine *e, int64_t until_ns);
/* Wakes the threads that sleep on `completed`, after it was bumped. */
void tti_p2p_wake(struct tti_engine *e);
bool tti_p2p_all_done(const struct tti_posting *p);
/* A peer's ring cannot be read any more, by nobody here: fails the group. */
tutti_status tti_p2p_fail_group(struct tti_engine *e, tutti_error *error);

/* "recv from rank 1, tag 7" */
void tti_p2p_describe(const tutti_op *op, char *text, size_t capacity);

tutti_status tti_p2p_create(struct tti_engine *e, tutti_error *error);
void tti_p2p_destroy(struct tti_engine *e);

#endif
