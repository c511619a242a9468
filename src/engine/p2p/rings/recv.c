/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: reads a peer's records in their order. The first record of a message is matched at once. If a receive
 * takes it, the bytes are copied into the tensor, and a complete message needs no memory here. Other messages are kept
 * in memory of their own, so that no message hides one with another tag.
 *
 * Each record is read once and checked before it is used: a corrupt peer may write anything into its segment.
 */
#include "engine/p2p/rings/recv.h"

#include <stdlib.h>

#include "base/wait/backoff.h"
#include "engine/memory/copy.h"
#include "engine/p2p/large/grant.h"
#include "engine/p2p/large/single_copy.h"
#include "engine/p2p/large/zero_copy.h"
#include "engine/p2p/match.h"
#include "engine/p2p/requests.h"
#include "engine/p2p/rings/chunk_times.h"
#include "engine/p2p/rings/rings.h"
#include "engine/wait/publish.h"

#define CHUNK_WAIT_NS 1500 /* for the next chunk: longer than it takes to write one */
#define CHUNKS_MOST   16   /* of a message without a request; only a corrupt peer makes more */

static tutti_status impossible(int peer, uint64_t number, tutti_error *error)
{
    tti_error_set(error, TUTTI_PEER_CORRUPT,
                  "rank %d has written impossible values into record %llu of its messages: its memory is corrupt; "
                  "restart its process",
                  peer, (unsigned long long)number);
    error->suspect = peer;
    return TUTTI_PEER_CORRUPT;
}

/* Whether the product of the dimensions is the number of elements. */
static bool shape_valid(const struct tti_incoming *m)
{
    bool empty = false; /* then the other dimensions may be anything */
    for (int i = 0; i < m->ndim; i++) {
        if (m->shape[i] < 0) {
            return false;
        }
        empty = empty || m->shape[i] == 0;
    }
    uint64_t count = empty ? 0 : 1;
    for (int i = 0; !empty && i < m->ndim; i++) {
        if (__builtin_mul_overflow(count, (uint64_t)m->shape[i], &count)) {
            return false;
        }
    }
    return count == m->count;
}

/* Fills *m from a first record, whose dimensions lie at `from`. Returns their bytes, or SIZE_MAX if the record is
 * impossible. */
static size_t describe(const struct tti_record *r, uint64_t number, const unsigned char *from, struct tti_incoming *m)
{
    size_t element = tutti_dtype_size(r->dtype);
    uint64_t count = element != 0 ? r->bytes / element : 0;
    if (element == 0 || r->ndim < 0 || r->ndim > TUTTI_MAX_NDIM || r->tag < 0 || count * element != r->bytes) {
        return SIZE_MAX;
    }
    size_t shape = r->ndim == 1 ? 0 : (size_t)r->ndim * sizeof(int64_t);
    bool offered = r->kind == TTI_RECORD_OFFER;
    if (r->here < shape || (offered && (r->here != shape + sizeof(m->name) || r->bytes == 0)) ||
        (!offered && (r->here - shape > tti_p2p_eager_bytes(r->bytes) || (r->here == shape && r->bytes != 0)))) {
        return SIZE_MAX;
    }
    m->name = 0;
    m->writes_direct = false;
    if (offered) {
        memcpy(&m->name, from + shape, sizeof(m->name));
        if (m->name == 0) {
            return SIZE_MAX;
        }
    }
    m->number = number;
    m->bytes = r->bytes;
    m->count = count;
    m->arrived = 0;
    m->request = NULL;
    m->begun = NULL;
    m->dropped = false;
    m->tag = r->tag;
    m->dtype = r->dtype;
    m->ndim = r->ndim;
    m->shape[0] = (int64_t)count;
    memcpy(m->shape, from, shape);
    return r->ndim == 1 || shape_valid(m) ? shape : SIZE_MAX;
}

/* The place of a message's next bytes. */
static unsigned char *target(struct tti_incoming *m)
{
    const tutti_op *op = m->request ? m->request->op : m->begun;
    return (op ? (unsigned char *)op->dst : m->data) + m->arrived;
}

/* Keeps a message that is not complete or has no receive, with its first n bytes. */
static tutti_status keep(struct tti_engine *e, int peer, const struct tti_incoming *incoming, struct tti_request *r,
                         const unsigned char *from, size_t n, tutti_error *error)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    const uint64_t eager = incoming->name != 0 ? 0 : tti_p2p_eager_bytes(incoming->bytes);
    struct tti_incoming *m = malloc(sizeof(*m) + (r ? 0 : (size_t)eager));
    if (!m) {
        if (r) {
            tti_p2p_finish(e, r, TUTTI_NO_MEMORY);
        }
        tti_error_set(
            error, TUTTI_NO_MEMORY,
            "recv: rank %d has no memory for %llu bytes of a message from rank %d; receive it sooner, or free memory",
            e->rank, (unsigned long long)eager, peer);
        error->suspect = e->rank;
        return TUTTI_NO_MEMORY;
    }
    *m = *incoming;
    m->request = r;
    m->order = e->p2p->order++;
    if (incoming->name == 0) {
        tti_copy(target(m), from, n);
        m->arrived = n;
        e->p2p->bytes_copied += 2 * n;
    }
    tti_p2p_add_incoming(p, m);
    if (n < eager) {
        p->arriving = m;
    }
    tti_p2p_grant(e, peer);
    return TUTTI_OK;
}

static bool may_offer(const struct tti_engine *e, int peer, const struct tti_incoming *m)
{
    return tti_p2p_is_single_copy(e, m->name) ? tti_p2p_may_single_copy(e, m->name, m->bytes)
                                              : tti_p2p_may_zero_copy(e, peer, m->name, m->bytes);
}

/* Copies the next chunk of an offered message. */
static tutti_status fetch(struct tti_engine *e, int peer, struct tti_incoming *m, tutti_error *error)
{
    tutti_status status = tti_p2p_is_single_copy(e, m->name) ? tti_p2p_fetch_single_copy(e, peer, m)
                                                             : tti_p2p_fetch_zero_copy(e, peer, m);
    return status == TUTTI_PEER_CORRUPT ? impossible(peer, m->number, error) : status;
}

/* Copies the first chunk of a message that has just been offered and matched. If that is all of it, it is not kept. */
static tutti_status take_offer(struct tti_engine *e, int peer, struct tti_incoming *m, struct tti_request *r,
                               tutti_error *error)
{
    m->request = r;
    bool later = e->p2p->peers[peer].fetching || tti_p2p_refuses_offer(e, peer, m);
    tutti_status status = later ? TUTTI_BUSY : fetch(e, peer, m, error);
    if (status == TUTTI_OK && m->arrived == m->bytes) {
        tti_p2p_acknowledge(e, peer, m->number);
        tti_p2p_finish(e, r, TUTTI_OK);
        return TUTTI_OK;
    }
    tutti_status kept = keep(e, peer, m, r, NULL, 0, error);
    return status == TUTTI_PEER_CORRUPT ? status : kept;
}

static tutti_status take_first(struct tti_engine *e, int peer, const struct tti_record *record,
                               const unsigned char *from, tutti_error *error)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    struct tti_incoming m; /* filled by describe */
    size_t shape = p->arriving ? SIZE_MAX : describe(record, p->read + 1, from, &m);
    if (shape == SIZE_MAX) {
        return impossible(peer, p->read + 1, error);
    }
    from += shape;
    size_t n = record->here - shape;
    if (m.name != 0 && !may_offer(e, peer, &m)) {
        return impossible(peer, p->read + 1, error);
    }
    struct tti_request *r = tti_p2p_match_posted(e, peer, &m);
    if (r && m.name != 0) {
        return take_offer(e, peer, &m, r, error);
    }
    if (!r || n < m.bytes) {
        return keep(e, peer, &m, r, from, n, error);
    }
    tti_copy(r->op->dst, from, n);
    e->p2p->bytes_copied += 2 * n;
    tti_p2p_finish(e, r, TUTTI_OK);
    return TUTTI_OK;
}

/* Whether the tensors of all messages under way fill the last-level caches, so that stores past them gain
 * (docs/decisions/0048), if they do on this CPU. Other open receives count as such messages, as many bytes are
 * sent, and other ranks do the same: all that share CPUs, or else the peer. A kept message is copied again. */
static bool leaves_caches(const struct tti_engine *e, const struct tti_incoming *m)
{
    const struct tti_tuning *t = &e->tuning;
    const uint64_t ranks = e->ranks_per_cpu > 1 ? (uint64_t)e->size : 2;
    return m->request && m->bytes >= t->streams[TTI_STREAM_MESSAGES] / (2 * ranks * e->p2p->open_recvs);
}

/* The receiver has used the chunk's bytes, and claims their lines. */
static inline void claim_chunk(const struct tti_engine *e, const struct tti_peer *p, const struct tti_record *record,
                               const unsigned char *chunk)
{
    if (e->tuning.claims != 0 && p->writable && record->here >= TTI_CLAIM_FROM &&
        record->place + record->here <= e->layout.ring_window) {
        tti_claim_lines(chunk, record->here);
    }
}

/* Copies a chunk that does not begin a message. */
static void copy_chunk(struct tti_engine *e, int peer, unsigned char *to, const struct tti_record *record,
                       const unsigned char *from, bool past_caches)
{
    const size_t n = record->here;
    const uint64_t begun = tti_p2p_read_begin(e, peer, n);
    if (past_caches) {
        tti_copy_stream(to, from, n);
    } else {
        tti_copy(to, from, n);
    }
    if (begun != 0) {
        tti_p2p_read_end(e, peer, begun, n);
    }
    claim_chunk(e, &e->p2p->peers[peer], record, from);
}

/* A later chunk: of the newest message's eager part, or of the granted message. */
static tutti_status take_more(struct tti_engine *e, int peer, const struct tti_record *record,
                              const unsigned char *from, tutti_error *error)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    bool next = record->kind == TTI_RECORD_NEXT;
    bool written = record->kind == TTI_RECORD_WRITTEN;
    struct tti_incoming *m = next ? p->arriving : p->transfer;
    uint64_t eager = m ? tti_p2p_eager_bytes(m->bytes) : 0;
    if (!m || m == (next ? NULL : p->arriving) || (record->here == 0) != written || (written && !m->writes_direct) ||
        record->here > (next ? eager : m->bytes) - m->arrived) {
        return impossible(peer, p->read + 1, error);
    }
    if (!m->dropped && !written) {
        copy_chunk(e, peer, target(m), record, from, leaves_caches(e, m));
        e->p2p->bytes_copied += 2 * (uint64_t)record->here;
    }
    m->arrived = written ? m->bytes : m->arrived + record->here;
    if (next && m->arrived == eager) {
        p->arriving = NULL;
    }
    tti_p2p_finish_incoming(e, peer, m);
    return TUTTI_OK;
}

/* The place of a record's chunk; NULL if it is impossible. */
static const unsigned char *chunk_of(const struct tti_engine *e, int peer, const struct tti_slot *slot,
                                     const struct tti_record *record)
{
    if (record->place == TTI_IN_SLOT) {
        return record->here <= TTI_SLOT_BODY ? slot->body : NULL;
    }
    const bool inside = record->place <= e->layout.ring_bytes && record->here <= e->layout.ring_bytes - record->place;
    return inside ? tti_ring(e, peer, e->rank) + record->place : NULL;
}

/* Counts the bytes of the ring that a chunk occupies. */
static inline void note_chunk(const struct tti_engine *e, struct tti_peer *p, const struct tti_record *record)
{
    if (record->place != TTI_IN_SLOT) {
        const uint64_t behind = record->place + record->here;
        p->unreported += (behind + e->layout.ring_bytes - p->behind) % e->layout.ring_bytes;
        p->behind = behind;
    }
}

static tutti_status take(struct tti_engine *e, int peer, const struct tti_slot *slot, size_t *spent, tutti_error *error)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    const struct tti_record record = slot->record;
    const unsigned char *from = chunk_of(e, peer, slot, &record);
    bool first = record.kind == TTI_RECORD_FIRST || record.kind == TTI_RECORD_OFFER;
    if (!from || record.kind < TTI_RECORD_FIRST || record.kind > TTI_RECORD_WRITTEN) {
        return impossible(peer, p->read + 1, error);
    }
    *spent += TTI_VISIT_CHUNK + record.here;
    note_chunk(e, p, &record);
    tti_p2p_sample_distance(e, peer, from, record.here);
    if (!first) {
        return take_more(e, peer, &record, from, error);
    }
    const tutti_status status = take_first(e, peer, &record, from, error);
    if (status == TUTTI_OK) { /* else the record is read again */
        claim_chunk(e, p, &record, from);
    }
    return status;
}

/* Whether the peer has opened its rings, which it does when it sends first. */
static bool is_open(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    /* acquire: pairs with the release in open_rings of the peer */
    if (!p->opened && atomic_load_explicit(&tti_pair(e, peer, e->rank)->opened, memory_order_acquire) != 0) {
        p->opened = true;
        bool writable = e->direct;
        if (e->populate) {
            const size_t slots = (size_t)(tti_rings(e, peer, e->rank) - e->segments[peer]);
            const size_t bytes = (size_t)(tti_ring(e, peer, e->rank) - e->segments[peer]);
            e->populate(e->commit_user, peer, slots, bytes - slots, false);
            writable = e->populate(e->commit_user, peer, bytes, e->layout.ring_window, true);
        }
        p->writable = writable;
    }
    return p->opened;
}

static void report_taken(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    struct tti_pair_control *own = tti_pair(e, e->rank, peer);
    p->reported = p->read;
    p->unreported = 0;
    /* release: pairs with the acquire in has_room of the peer, which may write there again */
    atomic_store_explicit(&own->taken, p->read, memory_order_release);
    tti_publish(e, e->layout.lanes, &own->activity, atomic_load_explicit(&own->activity, memory_order_relaxed) + 1);
}

static bool should_report(const struct tti_engine *e, const struct tti_peer *p)
{
    return p->read - p->reported >= TTI_SLOTS / TTI_REPORTS_PER_SLOTS ||
           p->unreported >= e->layout.ring_window / TTI_REPORTS_PER_WINDOW;
}

/* ---- a receive without a request --------------------------------------------------------------------------------- */

/* Memory for keep_begun, taken before a message begins that may need it. */
static bool has_spare(struct tti_p2p *p2p)
{
    p2p->spare = p2p->spare ? p2p->spare : malloc(sizeof(*p2p->spare));
    return p2p->spare != NULL;
}

static void count_read(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    p->read++;
    if (should_report(e, p)) {
        report_taken(e, peer);
    }
}

/* Whether the next chunk is there, or comes while this thread polls: the sender is writing it, most likely. */
static bool await_chunk(const struct tti_engine *e, const struct tti_slot *slot, uint64_t number)
{
    const unsigned polls = (unsigned)(CHUNK_WAIT_NS / e->pause_ns);
    for (unsigned i = 0; i < polls; i++) {
        if (tti_slot_has(slot, number)) {
            return true;
        }
        tti_backoff();
    }
    return false;
}

/* Copies the later chunks of a message into the tensor of its receive. Returns how much of it has arrived. */
static uint64_t receive_rest(struct tti_engine *e, const tutti_op *op, const struct tti_record *first)
{
    const int peer = op->root;
    struct tti_peer *p = &e->p2p->peers[peer];
    uint64_t arrived = first->here;
    for (int i = 1; i < CHUNKS_MOST && arrived < first->bytes; i++) {
        const struct tti_slot *slot = tti_slot(e, peer, e->rank, p->read + 1);
        if (!await_chunk(e, slot, p->read + 1)) {
            break;
        }
        const struct tti_record record = slot->record; /* read once */
        const unsigned char *from = chunk_of(e, peer, slot, &record);
        if (!from || record.kind != TTI_RECORD_NEXT || record.here == 0 || record.here > first->bytes - arrived) {
            break; /* tti_p2p_pull reports it */
        }
        note_chunk(e, p, &record);
        tti_p2p_sample_distance(e, peer, from, record.here);
        copy_chunk(e, peer, (unsigned char *)op->dst + arrived, &record, from, false);
        arrived += record.here;
        count_read(e, peer);
    }
    return arrived;
}

/* Keeps a message of which a part is in the tensor of its receive, until that is posted. */
static void keep_begun(struct tti_engine *e, const tutti_op *op, const struct tti_record *first, uint64_t number,
                       uint64_t arrived)
{
    struct tti_peer *p = &e->p2p->peers[op->root];
    struct tti_incoming *m = e->p2p->spare;
    e->p2p->spare = NULL;
    describe(first, number, op->dst, m); /* one dimension, so that nothing is read there */
    m->begun = op;
    m->arrived = arrived;
    m->order = e->p2p->order++;
    tti_p2p_add_incoming(p, m);
    p->arriving = m;
}

bool tti_p2p_try_recv(struct tti_engine *e, const tutti_op *op, uint64_t most)
{
    const int peer = op->root;
    struct tti_peer *p = &e->p2p->peers[peer];
    const uint64_t number = p->read + 1;
    const struct tti_slot *slot = tti_slot(e, peer, e->rank, number);
    if (e->p2p->recvs || p->messages || !p->opened || !tti_slot_has(slot, number)) {
        return false;
    }
    const struct tti_record record = slot->record; /* read once */
    const uint64_t count = record.bytes >> tti_dtype_shift(op->dtype);
    const unsigned char *from = chunk_of(e, peer, slot, &record);
    if (!from || record.kind != TTI_RECORD_FIRST || record.here > record.bytes || record.ndim != 1 || record.tag < 0 ||
        record.dtype != op->dtype || count > op->count || count << tti_dtype_shift(op->dtype) != record.bytes ||
        (op->p2p_tag != TUTTI_ANY_TAG && op->p2p_tag != record.tag)) {
        return false;
    }
    const bool has_more = record.here < record.bytes;
    if (has_more && (record.here == 0 || record.bytes > most || !has_spare(e->p2p))) {
        return false;
    }
    note_chunk(e, p, &record);
    tti_p2p_sample_distance(e, peer, from, record.here);
    tti_copy(op->dst, from, record.here);
    claim_chunk(e, p, &record, from);
    count_read(e, peer);
    const uint64_t arrived = has_more ? receive_rest(e, op, &record) : record.bytes;
    e->p2p->bytes_copied += 2 * arrived;
    if (arrived < record.bytes) {
        keep_begun(e, op, &record, number, arrived);
        return false;
    }
    if (op->message) {
        *op->message = (tutti_message){.size = (uint32_t)sizeof(tutti_message),
                                       .dtype = op->dtype,
                                       .source = peer,
                                       .tag = record.tag,
                                       .count = (int64_t)count,
                                       .bytes = (int64_t)record.bytes};
    }
    return true;
}

/* ---- reading for requests ---------------------------------------------------------------------------------------- */

/* Copies the offered and matched message, as far as the cost of a visit allows. Returns the visit's cost so far. */
static size_t fetch_some(struct tti_engine *e, int peer, size_t spent, tutti_error *error, tutti_status *status)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    while (*status == TUTTI_OK && p->fetching && spent < TTI_VISIT) {
        struct tti_incoming *m = p->fetching;
        uint64_t before = m->arrived;
        tutti_status fetched = fetch(e, peer, m, error);
        if (fetched == TUTTI_UNSUPPORTED) {
            p->fetching = NULL;
            tti_p2p_grant(e, peer); /* now refuses this offer and the later ones of its kind */
            continue;
        }
        if (fetched != TUTTI_OK) {
            *status = fetched == TUTTI_BUSY ? *status : fetched;
            break;
        }
        spent += TTI_VISIT_CHUNK + (size_t)(m->arrived - before);
        if (m->arrived == m->bytes) {
            tti_p2p_acknowledge(e, peer, m->number);
            tti_p2p_finish_incoming(e, peer, m);
        }
    }
    return spent;
}

bool tti_p2p_pull(struct tti_engine *e, int peer, bool drain, tutti_error *error, tutti_status *status)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    size_t spent = fetch_some(e, peer, 0, error, status);
    while (*status == TUTTI_OK && spent < TTI_VISIT && (drain || p->open_recvs > 0 || e->p2p->open_any > 0) &&
           is_open(e, peer)) {
        struct tti_slot *slot = tti_slot(e, peer, e->rank, p->read + 1);
        /* acquire: pairs with the release of tti_publish in put() of the peer, which has written the record and its
         * bytes */
        uint64_t number = atomic_load_explicit(&slot->number, memory_order_acquire);
        if (number != p->read + 1) {
            uint64_t before = p->read + 1 > TTI_SLOTS ? p->read + 1 - TTI_SLOTS : 0;
            if (number != before) {
                *status = impossible(peer, p->read + 1, error);
            }
            break;
        }
        if ((*status = take(e, peer, slot, &spent, error)) != TUTTI_OK) {
            break;
        }
        count_read(e, peer);
    }
    return fetch_some(e, peer, spent, error, status) >= TTI_VISIT; /* also what has just arrived */
}
