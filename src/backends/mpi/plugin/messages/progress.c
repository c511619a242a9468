/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching and progress of messages (types.h describes the protocol). All lists are under the lock of the group's
 * messages. A thread that waits for one message makes progress for all of them. Envelopes are matched in the order of
 * arrival, receives in the order of posting. Invariant: no posted receive matches an unexpected envelope, so a match is
 * found once.
 *
 * Cost: a linear search of one list for each envelope and each receive.
 */
#include "backends/mpi/plugin/messages/progress.h"

#include <stdlib.h>
#include <string.h>

#include "backends/mpi/plugin/failure.h"
#include "backends/mpi/plugin/library/library.h"
#include "backends/mpi/plugin/open_groups.h"
#include "backends/mpi/plugin/profile.h"
#include "base/error.h"
#include "base/kept_memory.h"
#include "engine/p2p/message_rules.h"
#include "tensor/dtype.h"

bool tti_mpi_messages_init(struct tti_mpi_messages *m, int size)
{
    memset(m, 0, sizeof(*m));
    m->left = calloc((size_t)size, sizeof(*m->left));
    pthread_mutex_init(&m->lock, NULL);
    atomic_init(&m->changes, 0);
    return m->left != NULL;
}

void tti_mpi_messages_free(struct tti_mpi_messages *m)
{
    while (m->envelopes) {
        struct tti_mpi_envelope *next = m->envelopes->next;
        free(m->envelopes);
        m->envelopes = next;
    }
    free(m->left);
    pthread_mutex_destroy(&m->lock);
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static void add_unexpected(struct tti_mpi_messages *m, struct tti_mpi_envelope *envelope)
{
    envelope->next = NULL;
    *(m->envelopes_end ? &m->envelopes_end->next : &m->envelopes) = envelope;
    m->envelopes_end = envelope;
}

static void remove_unexpected(struct tti_mpi_messages *m, const struct tti_mpi_envelope *envelope)
{
    struct tti_mpi_envelope *before = NULL;
    for (struct tti_mpi_envelope *l = m->envelopes; l != envelope; l = l->next) {
        before = l;
    }
    *(before ? &before->next : &m->envelopes) = envelope->next;
    if (m->envelopes_end == envelope) {
        m->envelopes_end = before;
    }
}

static void add_posted(struct tti_mpi_messages *m, struct tti_mpi_request *r)
{
    r->next = NULL;
    *(m->posted_end ? &m->posted_end->next : &m->posted) = r;
    m->posted_end = r;
}

static bool remove_posted(struct tti_mpi_messages *m, const struct tti_mpi_request *r)
{
    struct tti_mpi_request *before = NULL;
    for (struct tti_mpi_request *w = m->posted; w; before = w, w = w->next) {
        if (w == r) {
            *(before ? &before->next : &m->posted) = r->next;
            if (m->posted_end == r) {
                m->posted_end = before;
            }
            return true;
        }
    }
    return false;
}

static bool remove_active(struct tti_mpi_messages *m, const struct tti_mpi_request *r)
{
    for (struct tti_mpi_request **link = &m->active; *link; link = &(*link)->next) {
        if (*link == r) {
            *link = r->next;
            return true;
        }
    }
    return false;
}

static void add_active(struct tti_mpi_messages *m, struct tti_mpi_request *r)
{
    r->next = m->active;
    m->active = r;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Whether MPI has not completed all of the data. */
static bool is_in_use(const struct tti_mpi_request *r)
{
    for (size_t i = 0; r->chunks && i < r->chunk_count; i++) {
        if (r->chunks[i] != MPI_REQUEST_NULL) {
            return true;
        }
    }
    return false;
}

static void finish(struct tti_mpi_messages *m, struct tti_mpi_request *r, tutti_status status)
{
    r->op->in_use = status != TUTTI_OK && is_in_use(r);
    if (m->profile && status == TUTTI_OK) {
        const bool received = r->op->kind == TUTTI_OP_RECV; /* the message may be shorter than the tensor */
        tti_mpi_profile_add(m->profile, r->op->kind, received ? (uint64_t)r->info.bytes : tti_mpi_op_bytes(r->op, 0),
                            r->posting->begun_ns);
    }
    tti_memory_free_or_keep(r->envelope, r->envelope_request != MPI_REQUEST_NULL);
    r->envelope = NULL;
    if (r->chunks != &r->one_chunk) {
        free(r->chunks);
    }
    r->chunks = NULL;
    r->status = status;
    r->done = true;
    r->posting->open--;
    /* release: pairs with the acquire in tti_mpi_attend_p2p */
    atomic_fetch_add_explicit(&m->changes, 1, memory_order_release);
}

static void finish_with_code(struct tti_mpi_messages *m, struct tti_mpi_request *r, int code, const char *what)
{
    finish(m, r, tti_mpi_error(&r->posting->error, code, what));
}

static tutti_status make_chunks(struct tti_mpi_request *r, size_t bytes)
{
    r->chunk_count = (bytes + TTI_MPI_MAX_COUNT - 1) / TTI_MPI_MAX_COUNT;
    r->chunks = r->chunk_count == 1 ? &r->one_chunk : malloc(r->chunk_count * sizeof(*r->chunks));
    for (size_t i = 0; r->chunks && i < r->chunk_count; i++) {
        r->chunks[i] = MPI_REQUEST_NULL;
    }
    return r->chunks ? TUTTI_OK : TUTTI_NO_MEMORY;
}

static int start_data(struct tti_mpi_group *g, struct tti_mpi_request *r, int peer, int tag, size_t bytes)
{
    const bool sends = r->op->kind == TUTTI_OP_SEND;
    int code = MPI_SUCCESS;
    tti_mpi_enter();
    for (size_t i = 0; i < r->chunk_count && code == MPI_SUCCESS; i++) {
        const size_t from = i * TTI_MPI_MAX_COUNT;
        const int n = (int)(bytes - from < TTI_MPI_MAX_COUNT ? bytes - from : TTI_MPI_MAX_COUNT);
        code = sends ? MPI_Isend((const char *)r->op->src + from, n, MPI_BYTE, peer, tag, g->control, &r->chunks[i])
                     : MPI_Irecv((char *)r->op->dst + from, n, MPI_BYTE, peer, tag, g->control, &r->chunks[i]);
    }
    tti_mpi_leave();
    return code;
}

static bool matches(const tutti_op *op, const struct tti_mpi_envelope *envelope)
{
    return tti_message_taken_by(op, envelope->source, envelope->head.tag);
}

void tti_mpi_envelope_message(const struct tti_mpi_envelope *envelope, tutti_message *message)
{
    message->dtype = envelope->head.dtype;
    message->source = envelope->source;
    message->tag = envelope->head.tag;
    message->bytes = (int64_t)envelope->head.bytes;
    message->count = (int64_t)(envelope->head.bytes / tti_dtype_size(envelope->head.dtype));
}

static size_t shape_bytes(const struct tti_mpi_envelope_head *head)
{
    return (size_t)head->ndim * sizeof(int64_t);
}

/* Matches a receive with an envelope; both are in no list. False: the message does not fit, and the receive has ended
 * with the error. */
static bool accept(struct tti_mpi_group *g, struct tti_mpi_request *r, struct tti_mpi_envelope *envelope)
{
    struct tti_mpi_messages *m = &g->messages;
    const struct tti_mpi_envelope_head *head = &envelope->head;
    tutti_op *op = r->op;
    int64_t shape[TUTTI_MAX_NDIM];
    r->info = (tutti_message)TUTTI_MESSAGE_INIT;
    tti_mpi_envelope_message(envelope, &r->info);
    memcpy(shape, envelope->rest, shape_bytes(head));
    tutti_status status = tti_message_fits(op, &r->info, head->ndim, shape);
    const bool follows = head->data_tag >= 0;
    if (status == TUTTI_OK && follows) {
        status = make_chunks(r, head->bytes);
    }
    if (status != TUTTI_OK) {
        finish(m, r, status);
        return false;
    }
    if (op->message) {
        *op->message = r->info;
    }
    if (!follows) {
        if (head->bytes > 0) {
            memcpy(op->dst, envelope->rest + shape_bytes(head), head->bytes);
        }
        free(envelope);
        finish(m, r, TUTTI_OK);
        return true;
    }
    const int code = start_data(g, r, envelope->source, head->data_tag, head->bytes);
    free(envelope);
    if (code != MPI_SUCCESS) {
        finish_with_code(m, r, code, "MPI_Irecv");
    } else {
        add_active(m, r);
    }
    return true;
}

/* Whether head and length agree. The peer may run another version, or be broken. */
static bool is_valid(const struct tti_mpi_envelope *envelope)
{
    const struct tti_mpi_envelope_head *head = &envelope->head;
    if (envelope->length == sizeof(*head) && head->data_tag == TTI_MPI_RANK_LEFT) {
        return true;
    }
    const size_t item = envelope->length >= sizeof(*head) ? tutti_dtype_size(head->dtype) : 0;
    if (item == 0 || head->ndim < 0 || head->ndim > TUTTI_MAX_NDIM || head->tag < 0 || head->bytes % item != 0) {
        return false;
    }
    const size_t data = head->data_tag < 0 ? (size_t)head->bytes : 0;
    return data <= TTI_MPI_EAGER && envelope->length == sizeof(*head) + shape_bytes(head) + data &&
           head->bytes <= (uint64_t)INT64_MAX;
}

static tutti_status receive_envelope(struct tti_mpi_group *g, struct tti_mpi_envelope **envelope, tutti_error *error)
{
    int found = 0;
    int length = 0;
    MPI_Message message;
    MPI_Status status;
    *envelope = NULL;
    tti_mpi_enter();
    int code = MPI_Improbe(MPI_ANY_SOURCE, TTI_MPI_TAG_ENVELOPE, g->control, &found, &message, &status);
    if (code == MPI_SUCCESS && found) {
        MPI_Get_count(&status, MPI_BYTE, &length);
        *envelope = malloc(sizeof(**envelope) + (size_t)length);
        if (*envelope) {
            code = MPI_Mrecv(&(*envelope)->head, length, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        }
    }
    tti_mpi_leave();
    if (code != MPI_SUCCESS) {
        free(*envelope);
        *envelope = NULL;
        return tti_mpi_error(error, code, "MPI_Improbe");
    }
    if (found && !*envelope) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a message from rank %d", status.MPI_SOURCE);
    }
    if (*envelope) {
        (*envelope)->source = status.MPI_SOURCE;
        (*envelope)->length = (size_t)length;
        if (!is_valid(*envelope)) {
            free(*envelope);
            *envelope = NULL;
            tti_error_set(
                error, TUTTI_PEER_CORRUPT,
                "rank %d received a message from rank %d with an invalid head; run the same version of Tutti on all "
                "ranks",
                g->rank, status.MPI_SOURCE);
            error->suspect = status.MPI_SOURCE;
            return TUTTI_PEER_CORRUPT;
        }
    }
    return TUTTI_OK;
}

static void deliver(struct tti_mpi_group *g, struct tti_mpi_envelope *envelope)
{
    struct tti_mpi_messages *m = &g->messages;
    if (envelope->head.data_tag == TTI_MPI_RANK_LEFT) {
        m->left_count += !m->left[envelope->source];
        m->left[envelope->source] = true;
        free(envelope);
        return;
    }
    for (struct tti_mpi_request *r = m->posted, *next; r; r = next) {
        next = r->next;
        if (matches(r->op, envelope)) {
            remove_posted(m, r);
            if (accept(g, r, envelope)) {
                return;
            }
        }
    }
    add_unexpected(m, envelope);
}

/* Whether MPI has completed all of a request. */
static int test(struct tti_mpi_request *r, int *done)
{
    int code = MPI_SUCCESS;
    *done = 1;
    tti_mpi_enter();
    if (r->envelope_request != MPI_REQUEST_NULL) {
        code = MPI_Test(&r->envelope_request, done, MPI_STATUS_IGNORE);
    }
    for (size_t i = 0; r->chunks && i < r->chunk_count && code == MPI_SUCCESS && *done; i++) {
        if (r->chunks[i] != MPI_REQUEST_NULL) {
            code = MPI_Test(&r->chunks[i], done, MPI_STATUS_IGNORE);
        }
    }
    tti_mpi_leave();
    return code;
}

/* The rank that the request waits for, if it has left; else -1. */
static int waits_for_left(const struct tti_mpi_group *g, const struct tti_mpi_request *r)
{
    const struct tti_mpi_messages *m = &g->messages;
    int rank = r->op->root;
    if (rank == TUTTI_ANY_SOURCE && m->left_count == g->size - 1) { /* no rank could still send */
        rank = g->rank == 0 ? 1 : 0;
    }
    return rank >= 0 && m->left[rank] ? rank : -1;
}

/* Ends the first request that waits for a rank that has left. That fails the group, which ends the other requests. */
static void end_left(struct tti_mpi_group *g)
{
    struct tti_mpi_messages *m = &g->messages;
    struct tti_mpi_request *const lists[] = {m->posted, m->active};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        for (struct tti_mpi_request *r = lists[i]; r; r = r->next) {
            const int rank = waits_for_left(g, r);
            if (rank >= 0) {
                const tutti_status status =
                    tti_mpi_peer_left(g, tutti_operation_name(r->op->kind), rank, &r->posting->error);
                tti_mpi_withdraw(g, r, status);
                return;
            }
        }
    }
}

tutti_status tti_mpi_progress(struct tti_mpi_group *g, tutti_error *error)
{
    struct tti_mpi_messages *m = &g->messages;
    struct tti_mpi_envelope *envelope = NULL;
    tutti_status status;
    while ((status = receive_envelope(g, &envelope, error)) == TUTTI_OK && envelope) {
        deliver(g, envelope);
    }
    for (struct tti_mpi_request *r = m->active, *next; r; r = next) {
        int done = 0;
        const int code = test(r, &done);
        next = r->next;
        if (code != MPI_SUCCESS || done) {
            remove_active(m, r);
            if (code != MPI_SUCCESS) {
                finish_with_code(m, r, code, "MPI_Test");
            } else {
                finish(m, r, TUTTI_OK);
            }
        }
    }
    if (__builtin_expect(m->left_count > 0, 0) && !tti_mpi_has_failed(g)) {
        end_left(g);
    }
    return status;
}

const struct tti_mpi_envelope *tti_mpi_find_envelope(const struct tti_mpi_messages *m, const tutti_op *wanted)
{
    const struct tti_mpi_envelope *envelope = m->envelopes;
    while (envelope && !matches(wanted, envelope)) {
        envelope = envelope->next;
    }
    return envelope;
}

void tti_mpi_post_recv(struct tti_mpi_group *g, struct tti_mpi_request *r)
{
    struct tti_mpi_messages *m = &g->messages;
    struct tti_mpi_envelope *envelope = (struct tti_mpi_envelope *)(uintptr_t)tti_mpi_find_envelope(m, r->op);
    if (!envelope) {
        add_posted(m, r);
        return;
    }
    struct tti_mpi_envelope *const next = envelope->next;
    remove_unexpected(m, envelope);
    if (!accept(g, r, envelope)) { /* the envelope goes back to its place */
        struct tti_mpi_envelope *before = NULL;
        for (struct tti_mpi_envelope *l = m->envelopes; l != next; l = l->next) {
            before = l;
        }
        envelope->next = next;
        *(before ? &before->next : &m->envelopes) = envelope;
        if (!next) {
            m->envelopes_end = envelope;
        }
    }
}

/* The envelope of a send, with the data if they are small. */
static struct tti_mpi_envelope *make_envelope(struct tti_mpi_messages *m, const tutti_op *op, size_t bytes)
{
    const bool follows = bytes > TTI_MPI_EAGER;
    const size_t shape = (size_t)op->ndim * sizeof(int64_t);
    struct tti_mpi_envelope *envelope = malloc(sizeof(*envelope) + shape + (follows ? 0 : bytes));
    if (!envelope) {
        return NULL;
    }
    const int tags = tti_mpi_library.tag_max / 2 - TTI_MPI_TAG_DATA;
    envelope->head = (struct tti_mpi_envelope_head){.bytes = bytes,
                                                    .tag = op->p2p_tag,
                                                    .dtype = op->dtype,
                                                    .ndim = op->ndim,
                                                    .data_tag = follows ? TTI_MPI_TAG_DATA + m->next_tag : -1};
    if (follows) {
        m->next_tag = m->next_tag + 1 < tags ? m->next_tag + 1 : 0;
    }
    envelope->length = sizeof(envelope->head) + shape + (follows ? 0 : bytes);
    memcpy(envelope->rest, op->shape, shape);
    if (!follows && bytes > 0) {
        memcpy(envelope->rest + shape, op->src, bytes);
    }
    return envelope;
}

void tti_mpi_post_send(struct tti_mpi_group *g, struct tti_mpi_request *r)
{
    struct tti_mpi_messages *m = &g->messages;
    const tutti_op *op = r->op;
    const size_t bytes = op->count * tti_dtype_size(op->dtype);
    r->envelope = make_envelope(m, op, bytes);
    if (!r->envelope || (r->envelope->head.data_tag >= 0 && make_chunks(r, bytes) != TUTTI_OK)) {
        finish(m, r, TUTTI_NO_MEMORY);
        return;
    }
    tti_mpi_enter();
    int code = MPI_Isend(&r->envelope->head, (int)r->envelope->length, MPI_BYTE, op->root, TTI_MPI_TAG_ENVELOPE,
                         g->control, &r->envelope_request);
    tti_mpi_leave();
    if (code == MPI_SUCCESS && r->chunks) {
        code = start_data(g, r, op->root, r->envelope->head.data_tag, bytes);
    }
    int done = 0;
    if (code == MPI_SUCCESS && (code = test(r, &done)) == MPI_SUCCESS && !done) {
        add_active(m, r);
        return;
    }
    if (code == MPI_SUCCESS) {
        finish(m, r, TUTTI_OK);
    } else {
        finish_with_code(m, r, code, "MPI_Isend");
    }
}

bool tti_mpi_has_begun(const struct tti_mpi_messages *m, const struct tti_mpi_request *r)
{
    const struct tti_mpi_request *w = m->posted;
    while (w && w != r) {
        w = w->next;
    }
    return w == NULL;
}

void tti_mpi_withdraw(struct tti_mpi_group *g, struct tti_mpi_request *r, tutti_status status)
{
    struct tti_mpi_messages *m = &g->messages;
    if (r->done) {
        return;
    }
    if (!remove_posted(m, r) && remove_active(m, r) && !atomic_load_explicit(&tti_mpi_stopping, memory_order_seq_cst)) {
        tti_mpi_enter();
        for (size_t i = 0; r->chunks && i < r->chunk_count; i++) {
            if (r->chunks[i] != MPI_REQUEST_NULL && r->op->kind == TUTTI_OP_RECV) {
                int done = 0;
                MPI_Cancel(&r->chunks[i]);
                MPI_Test(&r->chunks[i], &done, MPI_STATUS_IGNORE);
            }
        }
        tti_mpi_leave();
    }
    finish(m, r, status);
}
