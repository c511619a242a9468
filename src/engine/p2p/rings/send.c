/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: first the eager parts of new messages in the order of posting, then the rest of the message that the peer
 * has granted, while the rings have room.
 *
 * Flow control by credits: the peer publishes how many records it has read at least once in a quarter of the slots or
 * an eighth of the window. The sender reads that word when the number that it knows does not suffice. A chunk with the
 * gap before it, which may include the ring behind the window, leaves more than that of a window. So a peer that has
 * read everything has published room for the next chunk.
 *
 * A short message behind the first part of the ring reads that word, too. If the peer has read everything, the message
 * begins at the start of the ring. So short messages that are read at once use the same lines, which stay in the caches
 * (docs/decisions/0053).
 *
 * Where ranks share CPUs, each time that a ring is full or empty costs a change of threads. So the chunks of long
 * messages use the whole ring, and are larger (docs/decisions/0048), also of messages that are long together, if each
 * has more than its eager part. Shorter messages would take longer that way, since a few whole rings do not stay in a
 * second-level cache.
 */
#include "engine/p2p/rings/send.h"

#include <stdlib.h>

#include "engine/memory/copy.h"
#include "engine/p2p/large/single_copy.h"
#include "engine/p2p/large/zero_copy.h"
#include "engine/p2p/requests.h"
#include "engine/p2p/rings/chunk_times.h"
#include "engine/p2p/rings/rings.h"
#include "engine/wait/publish.h"

#define PAGED       8192u     /* bytes of a chunk that begins at a page */
#define LEAST_CHUNK TTI_SMALL /* of a message that does not fit one */
#define MOST_CHUNK  32768u
#define SHORT_PART  65536u   /* bytes of the ring: behind them, messages of at most TTI_SMALL may begin at its start */
#define LONG        4194304u /* bytes of the open sends to a peer that may use the whole ring */
#define LONG_CHUNK  458752u
/* The gap before a chunk is shorter than a chunk. A peer that has read everything may not have published the last part
 * of a window. */
static_assert(2 * LONG_CHUNK + TTI_PAIR_WINDOW / TTI_REPORTS_PER_WINDOW <= TTI_PAIR_RING, "room for the next chunk");
static_assert(2 * MOST_CHUNK + TTI_PAIR_WINDOW / TTI_REPORTS_PER_WINDOW <= TTI_PAIR_WINDOW, "the same in the window");
static_assert(2 * MOST_CHUNK + TTI_PAIR_SMALL / TTI_REPORTS_PER_WINDOW <= TTI_PAIR_SMALL, "the same in small rings");

void tti_p2p_post_send(struct tti_engine *e, struct tti_request *r)
{
    r->bytes = r->op->count * tutti_dtype_size(r->op->dtype);
    tti_p2p_add_send(e, r);
}

static void end(struct tti_engine *e, struct tti_request *r, tutti_status status)
{
    tti_p2p_remove_send(e, r);
    tti_p2p_finish(e, r, status);
}

static tutti_status open_rings(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    struct tti_pair_control *own = tti_pair(e, e->rank, peer);
    uint64_t *ends = calloc(TTI_SLOTS, sizeof(*ends));
    if (!ends) {
        return TUTTI_NO_MEMORY;
    }
    if (e->commit) {
        const size_t offset = e->layout.rings + (size_t)peer * e->layout.ring_stride;
        const size_t bytes = e->layout.ring_stride - e->layout.ring_bytes + e->layout.ring_window;
        const tutti_status status = e->commit(e->commit_user, offset, bytes);
        if (status != TUTTI_OK) {
            free(ends);
            return status;
        }
    }
    p->ends = ends;
    /* release: pairs with the peer's acquire in is_open and watch_peer */
    atomic_store_explicit(&own->opened, 1, memory_order_release);
    tti_publish(e, e->layout.lanes, &own->activity, atomic_load_explicit(&own->activity, memory_order_relaxed) + 1);
    return TUTTI_OK;
}

/* Lets a long message, or one of several that are long together, use the whole ring. The first one takes memory for
 * that; without memory all stay in the window. */
static bool open_whole_ring(struct tti_engine *e, int peer, uint64_t bytes)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    const struct tti_layout *l = &e->layout;
    const size_t rest = l->ring_bytes - l->ring_window;
    if (bytes <= TTI_EAGER || p->open_bytes < LONG || e->ranks_per_cpu <= 1 || rest == 0) {
        return false;
    }
    if (p->rest == TTI_REST_UNUSED) {
        const size_t offset = l->rings + (size_t)(peer + 1) * l->ring_stride - rest;
        const bool taken = !e->commit || e->commit(e->commit_user, offset, rest) == TUTTI_OK;
        p->rest = taken ? TTI_REST_USABLE : TTI_REST_NO_MEMORY;
    }
    return p->rest == TTI_REST_USABLE;
}

/* The next position, at or behind `head`, for so many bytes in the first `part` bytes of the ring: it begins a cache
 * line, or for PAGED bytes and more a page (see memory/stage.c). */
static uint64_t position_behind(const struct tti_engine *e, uint64_t head, size_t part, size_t bytes)
{
    uint64_t unit = bytes < PAGED ? 64 : TTI_PAGE;
    uint64_t position = (head + unit - 1) / unit * unit;
    uint64_t place = position % e->layout.ring_bytes;
    return place + bytes <= part ? position : position - place + e->layout.ring_bytes;
}

static void note_taken(struct tti_peer *p, uint64_t taken)
{
    if (taken != p->taken) {
        p->bytes.freed = p->ends[(taken - 1) % TTI_SLOTS];
        p->taken = taken;
    }
}

/* Whether there is room for so many records, and for bytes up to the position `end`. */
static inline bool fit(const struct tti_engine *e, const struct tti_peer *p, uint64_t records, uint64_t end)
{
    return p->posted - p->taken + records <= TTI_SLOTS && end - p->bytes.freed <= e->layout.ring_bytes;
}

/* Records that the peer has read. */
static uint64_t taken_now(const struct tti_engine *e, int peer)
{
    /* acquire: pairs with the release in report_taken() of the peer, after it has copied those chunks */
    return atomic_load_explicit(&tti_pair(e, peer, e->rank)->taken, memory_order_acquire);
}

/* A valid number never falls, and is at most the number of records sent. */
static void read_taken(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    const uint64_t taken = taken_now(e, peer);
    if (taken >= p->taken && taken <= p->posted) {
        note_taken(p, taken);
    } else {
        p->impossible = "the number of records read";
    }
}

/* The same, of what the peer has read by now. */
static inline bool has_room(struct tti_engine *e, int peer, uint64_t records, uint64_t end)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    if (!fit(e, p, records, end)) {
        read_taken(e, peer);
    }
    return fit(e, p, records, end);
}

/* A chunk: `shape` bytes of dimensions, which begin a message, and `data` bytes of what is at `from`. */
struct chunk {
    uint64_t bytes; /* of the message */
    const void *from;
    size_t shape;
    size_t data;
    uint8_t kind;
    bool whole_ring; /* it may lie behind the window */
};

/* Before a chunk of a short message that would leave the first part of the ring: if the peer has read everything, the
 * whole ring is free, and is used from its start. */
static inline void start_again(struct tti_engine *e, int peer, const struct chunk *c)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    const uint64_t place = p->bytes.head % e->layout.ring_bytes;
    if (c->bytes > TTI_SMALL || place + c->shape + c->data <= SHORT_PART) {
        return;
    }
    read_taken(e, peer);
    if (p->taken == p->posted) {
        p->bytes.head += e->layout.ring_bytes - place;
        p->bytes.freed = p->bytes.head;
    }
}

/* Writes a record with its chunk. False if there is no room. */
static inline bool put(struct tti_engine *e, int peer, const tutti_op *op, const struct chunk *c)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    const size_t here = c->shape + c->data;
    const bool outside = here > TTI_SLOT_BODY;
    const size_t part = c->whole_ring ? e->layout.ring_bytes : e->layout.ring_window;
    if (outside) {
        start_again(e, peer, c);
    }
    const uint64_t position = outside ? position_behind(e, p->bytes.head, part, here) : p->bytes.head;
    const uint64_t behind = outside ? position + here : position;
    if (!has_room(e, peer, 1, behind)) {
        return false;
    }
    const uint64_t number = ++p->posted;
    struct tti_slot *slot = tti_slot(e, e->rank, peer, number);
    const uint32_t place = outside ? (uint32_t)(position % e->layout.ring_bytes) : TTI_IN_SLOT;
    unsigned char *to = outside ? tti_ring(e, e->rank, peer) + place : slot->body;
    slot->record = (struct tti_record){.bytes = c->bytes,
                                       .place = place,
                                       .here = (uint32_t)here,
                                       .tag = op->p2p_tag,
                                       .dtype = (int16_t)op->dtype,
                                       .ndim = (int8_t)op->ndim,
                                       .kind = c->kind};
    if (c->shape != 0) {
        tti_copy(to, op->shape, c->shape);
    }
    const uint64_t begun = tti_p2p_write_begin(e, peer, c->data);
    if (tti_p2p_streams_chunk(e, peer, number, c->data)) {
        tti_copy_stream(to + c->shape, c->from, c->data);
    } else {
        tti_copy(to + c->shape, c->from, c->data);
    }
    if (begun != 0) {
        tti_p2p_write_end(e, peer, begun, c->data);
    }
    p->bytes.head = behind;
    p->ends[(number - 1) % TTI_SLOTS] = behind;
    /* stores with release: pairs with the peer's acquire in tti_p2p_pull and tti_p2p_try_recv */
    tti_publish(e, e->layout.lanes, &slot->number, number);
    return true;
}

/* One dimension is known from the number of elements. */
static size_t shape_bytes(const tutti_op *op)
{
    return op->ndim == 1 ? 0 : (size_t)op->ndim * sizeof(int64_t);
}

/* The most bytes of a chunk of a message. The receiver copies one while the sender copies the next one, so smaller ones
 * are done sooner, but each costs a hop. Measured near and far, 16 KiB to 64 MiB (docs/performance.md). */
static size_t most_of_chunk(uint64_t bytes)
{
    return bytes / 4 < LEAST_CHUNK ? LEAST_CHUNK : bytes / 4 > MOST_CHUNK ? MOST_CHUNK : (size_t)bytes / 4 / 64 * 64;
}

/* Writes the next chunk of a message, of which `limit` bytes may be written. False if there is no room. */
static bool put_next(struct tti_engine *e, int peer, struct tti_request *r, uint8_t kind, uint64_t limit)
{
    const size_t shape = r->posted ? 0 : shape_bytes(r->op);
    const uint64_t left = limit - r->bytes_written;
    const bool whole_ring = open_whole_ring(e, peer, r->bytes);
    const size_t most = (whole_ring ? LONG_CHUNK : most_of_chunk(r->bytes)) - shape;
    const struct chunk c = {.bytes = r->bytes,
                            .from = (const unsigned char *)r->op->src + r->bytes_written,
                            .shape = shape,
                            .data = left < most ? (size_t)left : most,
                            .kind = kind,
                            .whole_ring = whole_ring};
    if (!put(e, peer, r->op, &c)) {
        return false;
    }
    r->bytes_written += c.data;
    e->p2p->bytes_copied += 2 * c.data;
    return true;
}

/* Whether all chunks of a message of one dimension fit the rings now, counted as if even a last one that goes into its
 * slot lay in the ring of bytes. */
static bool all_fit(struct tti_engine *e, int peer, uint64_t bytes)
{
    const size_t most = most_of_chunk(bytes);
    const uint64_t chunks = (bytes + most - 1) / most;
    uint64_t end = e->p2p->peers[peer].bytes.head;
    for (uint64_t left = bytes; left > 0;) {
        const size_t n = left < most ? (size_t)left : most;
        end = position_behind(e, end, e->layout.ring_window, n) + n;
        left -= n;
    }
    return has_room(e, peer, chunks, end);
}

bool tti_p2p_try_send(struct tti_engine *e, tutti_op *op, uint64_t most)
{
    const int peer = op->root;
    const struct tti_peer *p = &e->p2p->peers[peer];
    const size_t bytes = op->count << tti_dtype_shift(op->dtype);
    if (!p->ends || p->staging || bytes > most) {
        return false;
    }
    if (bytes <= TTI_SMALL - shape_bytes(op)) {
        const struct chunk c = {
            .bytes = bytes, .from = op->src, .shape = shape_bytes(op), .data = bytes, .kind = TTI_RECORD_FIRST};
        const bool done = put(e, peer, op, &c);
        e->p2p->bytes_copied += done ? 2 * bytes : 0;
        return done;
    }
    if (op->ndim != 1 || tti_p2p_name(e, op->src, bytes) != 0 || !all_fit(e, peer, bytes)) {
        return false;
    }
    struct tti_request r = {.op = op, .bytes = bytes};
    /* there is room for all of them */
    while (r.bytes_written < bytes && put_next(e, peer, &r, r.posted ? TTI_RECORD_NEXT : TTI_RECORD_FIRST, bytes)) {
        r.posted = true;
    }
    return true;
}

/* Writes the first record of the next message without data, if the peer can read its tensor. */
static bool offer(struct tti_engine *e, int peer, struct tti_request *r)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    if (r->posted || p->offers == TTI_OFFERS) {
        return false;
    }
    r->name = tti_p2p_name(e, r->op->src, r->bytes);
    r->name = r->name != 0 ? r->name : tti_p2p_single_copy_name(e, peer, r->op->src, r->bytes);
    if (r->name == 0) {
        return false;
    }
    const struct chunk c = {.bytes = r->bytes,
                            .from = &r->name,
                            .shape = shape_bytes(r->op),
                            .data = sizeof(r->name),
                            .kind = TTI_RECORD_OFFER};
    if (!put(e, peer, r->op, &c)) {
        r->name = 0;
        return false;
    }
    p->offers++;
    p->remote_offers += tti_p2p_is_single_copy(e, r->name);
    return true;
}

/* Writes one chunk of the first message whose eager part is not out. */
static bool stage_one(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    struct tti_request *r = p->staging;
    if (!p->ends) {
        tutti_status status = open_rings(e, peer);
        if (status != TUTTI_OK) { /* only this send fails */
            end(e, r, status);
            return true;
        }
    }
    uint64_t eager = tti_p2p_eager_bytes(r->bytes);
    bool offered = offer(e, peer, r);
    if (!offered && !put_next(e, peer, r, r->posted ? TTI_RECORD_NEXT : TTI_RECORD_FIRST, eager)) {
        return false;
    }
    if (!r->posted) {
        r->posted = true;
        r->number = p->posted;
    }
    if (offered || r->bytes_written == eager) {
        p->staging = r->next;
        if (!offered && r->bytes_written == r->bytes) {
            end(e, r, TUTTI_OK);
        }
    }
    return true;
}

/* Ends offered messages that the peer has copied. */
static void end_fetched(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    uint64_t number;
    /* bounded: a corrupt peer may write there all the time */
    for (unsigned i = 0; i < TTI_OFFERS && p->offers > 0 && (number = tti_p2p_fetched_now(e, peer)) != 0; i++) {
        p->fetched[p->fetches++ % TTI_OFFERS] = number;
        p->impossible = number > p->posted ? "the number of a message copied" : p->impossible;
        struct tti_request *r = p->sends;
        while (r && (r->name == 0 || r->number != number)) { /* an unknown number ends nothing */
            r = r->next;
        }
        if (r) {
            end(e, r, TUTTI_OK);
        }
    }
}

static uint64_t granted_now(const struct tti_engine *e, int peer)
{
    /* acquire: pairs with the peer's release in tti_p2p_grant */
    return atomic_load_explicit(&tti_pair(e, peer, e->rank)->granted, memory_order_acquire);
}

/* The peer may have granted a send whose eager part is at least partly out. */
static bool awaits_grant(const struct tti_peer *p)
{
    return tti_p2p_has_grantable(p) && p->sends != p->staging && !p->streaming;
}

/* The peer has granted a message that was offered: it does not read the tensor. If it does not name a tensor of its own
 * either, it could not read. */
static void offer_refused(struct tti_engine *e, int peer, struct tti_request *r)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    /* relaxed: as in tti_p2p_write */
    p->refused = p->refused || atomic_load_explicit(&tti_pair(e, peer, e->rank)->target, memory_order_relaxed) == 0;
    tti_p2p_withdraw_offer(e, r);
    r->name = 0;
}

/* True if a granted message can be streamed. */
static bool find_granted(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    uint64_t granted = awaits_grant(p) ? granted_now(e, peer) : p->grant_seen;
    if (granted != p->grant_seen) {
        p->grant_seen = granted;
        p->impossible = granted > p->posted ? "the number of a message granted" : p->impossible;
        for (struct tti_request *r = p->sends; r && r->posted; r = r->next) {
            if (r->number != granted || (r->name != 0 && !tti_p2p_is_single_copy(e, r->name))) {
                continue; /* an unknown number grants nothing */
            }
            if (r->name != 0) {
                offer_refused(e, peer, r);
            }
            p->streaming = r;
        }
    }
    return p->streaming != NULL && p->streaming != p->staging; /* its eager part comes first */
}

bool tti_p2p_can_push(const struct tti_engine *e, int peer)
{
    const struct tti_peer *p = &e->p2p->peers[peer];
    return (p->offers > 0 && tti_p2p_fetched_now(e, peer) != 0) ||
           (awaits_grant(p) && granted_now(e, peer) != p->grant_seen) ||
           ((p->staging || p->streaming) && taken_now(e, peer) != p->taken);
}

static bool stream_one(struct tti_engine *e, int peer)
{
    struct tti_request *r = e->p2p->peers[peer].streaming;
    if (r->bytes_written < r->bytes && tti_p2p_write(e, peer, r)) {
        r->writes_direct = true;
        return true;
    }
    uint8_t kind = r->bytes_written == r->bytes ? TTI_RECORD_WRITTEN : TTI_RECORD_GRANTED;
    if ((kind == TTI_RECORD_GRANTED && r->writes_direct) || !put_next(e, peer, r, kind, r->bytes)) {
        return false;
    }
    if (r->bytes_written == r->bytes) {
        end(e, r, TUTTI_OK);
    }
    return true;
}

bool tti_p2p_push(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    end_fetched(e, peer);
    const uint64_t first = e->p2p->bytes_copied; /* small chunks are counted */
    for (size_t chunks = 0; chunks * TTI_VISIT_CHUNK + (e->p2p->bytes_copied - first) / 2 < TTI_VISIT; chunks++) {
        if (!(p->staging && stage_one(e, peer)) && !(find_granted(e, peer) && stream_one(e, peer))) {
            return false;
        }
    }
    return true;
}
