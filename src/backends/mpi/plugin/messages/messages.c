/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving letters and data (see messages.h). All lists are under the lock of the group's messages; whoever waits for
 * anything moves everybody's messages. Letters are looked at in the order of their coming, receives in that of their
 * posting, and no waiting receive fits a letter that is kept: each meets its partner once.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/mpi/plugin/collectives/moving.h"
#include "base/error.h"
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
    while (m->letters) {
        struct tti_mpi_letter *next = m->letters->next;
        free(m->letters);
        m->letters = next;
    }
    free(m->left);
    pthread_mutex_destroy(&m->lock);
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static void keep_letter(struct tti_mpi_messages *m, struct tti_mpi_letter *letter)
{
    letter->next = NULL;
    *(m->letters_end ? &m->letters_end->next : &m->letters) = letter;
    m->letters_end = letter;
}

static void take_letter(struct tti_mpi_messages *m, const struct tti_mpi_letter *letter)
{
    struct tti_mpi_letter *before = NULL;
    for (struct tti_mpi_letter *l = m->letters; l != letter; l = l->next) {
        before = l;
    }
    *(before ? &before->next : &m->letters) = letter->next;
    if (m->letters_end == letter) {
        m->letters_end = before;
    }
}

static void wait_for_letter(struct tti_mpi_messages *m, struct tti_mpi_request *r)
{
    r->next = NULL;
    *(m->waiting_end ? &m->waiting_end->next : &m->waiting) = r;
    m->waiting_end = r;
}

static bool stop_waiting(struct tti_mpi_messages *m, const struct tti_mpi_request *r)
{
    struct tti_mpi_request *before = NULL;
    for (struct tti_mpi_request *w = m->waiting; w; before = w, w = w->next) {
        if (w == r) {
            *(before ? &before->next : &m->waiting) = r->next;
            if (m->waiting_end == r) {
                m->waiting_end = before;
            }
            return true;
        }
    }
    return false;
}

static bool stop_moving(struct tti_mpi_messages *m, const struct tti_mpi_request *r)
{
    for (struct tti_mpi_request **link = &m->moving; *link; link = &(*link)->next) {
        if (*link == r) {
            *link = r->next;
            return true;
        }
    }
    return false;
}

static void start_moving(struct tti_mpi_messages *m, struct tti_mpi_request *r)
{
    r->next = m->moving;
    m->moving = r;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void finish(struct tti_mpi_messages *m, struct tti_mpi_request *r, tutti_status status)
{
    if (m->profile && status == TUTTI_OK) {
        const bool received = r->op->kind == TUTTI_OP_RECV; /* it may be less than there is room for */
        tti_mpi_profile_add(m->profile, r->op->kind, received ? (uint64_t)r->came.bytes : tti_mpi_op_bytes(r->op, 0),
                            r->posting->begun_ns);
    }
    free(r->letter);
    r->letter = NULL;
    if (r->pieces != &r->one_piece) {
        free(r->pieces);
    }
    r->pieces = NULL;
    r->status = status;
    r->done = true;
    r->posting->open--;
    m->open--;
    /* release: pairs with the acquire of those who attend */
    atomic_fetch_add_explicit(&m->changes, 1, memory_order_release);
}

static void finish_with_code(struct tti_mpi_messages *m, struct tti_mpi_request *r, int code, const char *what)
{
    finish(m, r, tti_mpi_error(&r->posting->error, code, what));
}

static tutti_status make_pieces(struct tti_mpi_request *r, size_t bytes)
{
    r->piece_count = (bytes + TTI_MPI_MOST - 1) / TTI_MPI_MOST;
    r->pieces = r->piece_count == 1 ? &r->one_piece : malloc(r->piece_count * sizeof(*r->pieces));
    for (size_t i = 0; r->pieces && i < r->piece_count; i++) {
        r->pieces[i] = MPI_REQUEST_NULL;
    }
    return r->pieces ? TUTTI_OK : TUTTI_NO_MEMORY;
}

static int start_data(struct tti_mpi_group *g, struct tti_mpi_request *r, int peer, int tag, size_t bytes)
{
    const bool sends = r->op->kind == TUTTI_OP_SEND;
    int code = MPI_SUCCESS;
    tti_mpi_enter();
    for (size_t i = 0; i < r->piece_count && code == MPI_SUCCESS; i++) {
        const size_t from = i * TTI_MPI_MOST;
        const int n = (int)(bytes - from < TTI_MPI_MOST ? bytes - from : TTI_MPI_MOST);
        code = sends ? MPI_Isend((const char *)r->op->src + from, n, MPI_BYTE, peer, tag, g->control, &r->pieces[i])
                     : MPI_Irecv((char *)r->op->dst + from, n, MPI_BYTE, peer, tag, g->control, &r->pieces[i]);
    }
    tti_mpi_leave();
    return code;
}

static bool takes(const tutti_op *op, const struct tti_mpi_letter *letter)
{
    return (op->root == TUTTI_ANY_SOURCE || op->root == letter->source) &&
           (op->p2p_tag == TUTTI_ANY_TAG || op->p2p_tag == letter->head.tag);
}

void tti_mpi_letter_tell(const struct tti_mpi_letter *letter, tutti_message *message)
{
    message->dtype = letter->head.dtype;
    message->source = letter->source;
    message->tag = letter->head.tag;
    message->bytes = (int64_t)letter->head.bytes;
    message->count = (int64_t)(letter->head.bytes / tti_dtype_size(letter->head.dtype));
}

static size_t shape_bytes(const struct tti_mpi_head *head)
{
    return (size_t)head->ndim * sizeof(int64_t);
}

/* Gives a receive, which is in no list, its letter, which is in none either, unless it does not fit: then the receive
 * has ended, and false. */
static bool accept(struct tti_mpi_group *g, struct tti_mpi_request *r, struct tti_mpi_letter *letter)
{
    struct tti_mpi_messages *m = &g->messages;
    const struct tti_mpi_head *head = &letter->head;
    tutti_op *op = r->op;
    tutti_status status = TUTTI_OK;
    r->came = (tutti_message)TUTTI_MESSAGE_INIT;
    tti_mpi_letter_tell(letter, &r->came);
    if (op->allocate) {
        int64_t shape[TUTTI_MAX_NDIM];
        memcpy(shape, letter->rest, shape_bytes(head));
        status = op->allocate(op, &r->came, head->ndim, shape);
    } else if (op->dtype != head->dtype || op->count < (size_t)r->came.count) {
        status = TUTTI_MISMATCH;
    }
    const bool follows = head->data_tag >= 0;
    if (status == TUTTI_OK && follows) {
        status = make_pieces(r, head->bytes);
    }
    if (status != TUTTI_OK) {
        finish(m, r, status);
        return false;
    }
    if (op->message) {
        *op->message = r->came;
    }
    if (!follows) {
        if (head->bytes > 0) {
            memcpy(op->dst, letter->rest + shape_bytes(head), head->bytes);
        }
        free(letter);
        finish(m, r, TUTTI_OK);
        return true;
    }
    const int code = start_data(g, r, letter->source, head->data_tag, head->bytes);
    free(letter);
    if (code != MPI_SUCCESS) {
        finish_with_code(m, r, code, "MPI_Irecv");
    } else {
        start_moving(m, r);
    }
    return true;
}

/* The rest is right for what the head says: the other side may be another version, or broken. */
static bool is_valid(const struct tti_mpi_letter *letter)
{
    const struct tti_mpi_head *head = &letter->head;
    if (letter->length == sizeof(*head) && head->data_tag == TTI_MPI_NO_MORE) {
        return true;
    }
    const size_t item = letter->length >= sizeof(*head) ? tutti_dtype_size(head->dtype) : 0;
    if (item == 0 || head->ndim < 0 || head->ndim > TUTTI_MAX_NDIM || head->tag < 0 || head->bytes % item != 0) {
        return false;
    }
    const size_t data = head->data_tag < 0 ? (size_t)head->bytes : 0;
    return data <= TTI_MPI_EAGER && letter->length == sizeof(*head) + shape_bytes(head) + data &&
           head->bytes <= (uint64_t)INT64_MAX;
}

static tutti_status fetch_letter(struct tti_mpi_group *g, struct tti_mpi_letter **letter, tutti_error *error)
{
    int found = 0;
    int length = 0;
    MPI_Message message;
    MPI_Status status;
    *letter = NULL;
    tti_mpi_enter();
    int code = MPI_Improbe(MPI_ANY_SOURCE, TTI_MPI_TAG_LETTER, g->control, &found, &message, &status);
    if (code == MPI_SUCCESS && found) {
        MPI_Get_count(&status, MPI_BYTE, &length);
        *letter = malloc(sizeof(**letter) + (size_t)length);
        if (*letter) {
            code = MPI_Mrecv(&(*letter)->head, length, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        }
    }
    tti_mpi_leave();
    if (code != MPI_SUCCESS) {
        free(*letter);
        *letter = NULL;
        return tti_mpi_error(error, code, "MPI_Improbe");
    }
    if (found && !*letter) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a message from rank %d", status.MPI_SOURCE);
    }
    if (*letter) {
        (*letter)->source = status.MPI_SOURCE;
        (*letter)->length = (size_t)length;
        if (!is_valid(*letter)) {
            free(*letter);
            *letter = NULL;
            tti_error_set(error, TUTTI_PEER_CORRUPT, "a message from rank %d has impossible values", status.MPI_SOURCE);
            error->suspect = status.MPI_SOURCE;
            return TUTTI_PEER_CORRUPT;
        }
    }
    return TUTTI_OK;
}

static void deliver(struct tti_mpi_group *g, struct tti_mpi_letter *letter)
{
    struct tti_mpi_messages *m = &g->messages;
    if (letter->head.data_tag == TTI_MPI_NO_MORE) {
        m->left_count += !m->left[letter->source];
        m->left[letter->source] = true;
        free(letter);
        return;
    }
    for (struct tti_mpi_request *r = m->waiting, *next; r; r = next) {
        next = r->next;
        if (takes(r->op, letter)) {
            stop_waiting(m, r);
            if (accept(g, r, letter)) {
                return;
            }
        }
    }
    keep_letter(m, letter);
}

/* Whether MPI has ended all of a request. */
static int test(struct tti_mpi_request *r, int *done)
{
    int code = MPI_SUCCESS;
    *done = 1;
    tti_mpi_enter();
    if (r->letter_request != MPI_REQUEST_NULL) {
        code = MPI_Test(&r->letter_request, done, MPI_STATUS_IGNORE);
    }
    for (size_t i = 0; r->pieces && i < r->piece_count && code == MPI_SUCCESS && *done; i++) {
        if (r->pieces[i] != MPI_REQUEST_NULL) {
            code = MPI_Test(&r->pieces[i], done, MPI_STATUS_IGNORE);
        }
    }
    tti_mpi_leave();
    return code;
}

/* A rank that has left, for which the request waits; -1 if there is none. */
static int waits_for_left(const struct tti_mpi_group *g, const struct tti_mpi_request *r)
{
    const struct tti_mpi_messages *m = &g->messages;
    int rank = r->op->root;
    if (rank == TUTTI_ANY_SOURCE && m->left_count == g->size - 1) { /* no rank is left that could send */
        rank = g->rank == 0 ? 1 : 0;
    }
    return rank >= 0 && m->left[rank] ? rank : -1;
}

/* Ends the first request that waits for a rank that has left: it fails the group, which ends the others. */
static void end_left(struct tti_mpi_group *g)
{
    struct tti_mpi_messages *m = &g->messages;
    struct tti_mpi_request *const lists[] = {m->waiting, m->moving};
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
    struct tti_mpi_letter *letter = NULL;
    tutti_status status;
    while ((status = fetch_letter(g, &letter, error)) == TUTTI_OK && letter) {
        deliver(g, letter);
    }
    for (struct tti_mpi_request *r = m->moving, *next; r; r = next) {
        int done = 0;
        const int code = test(r, &done);
        next = r->next;
        if (code != MPI_SUCCESS || done) {
            stop_moving(m, r);
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

const struct tti_mpi_letter *tti_mpi_find_letter(const struct tti_mpi_messages *m, const tutti_op *wanted)
{
    const struct tti_mpi_letter *letter = m->letters;
    while (letter && !takes(wanted, letter)) {
        letter = letter->next;
    }
    return letter;
}

void tti_mpi_post_recv(struct tti_mpi_group *g, struct tti_mpi_request *r)
{
    struct tti_mpi_messages *m = &g->messages;
    struct tti_mpi_letter *letter = (struct tti_mpi_letter *)(uintptr_t)tti_mpi_find_letter(m, r->op);
    if (!letter) {
        wait_for_letter(m, r);
        return;
    }
    struct tti_mpi_letter *const next = letter->next;
    take_letter(m, letter);
    if (!accept(g, r, letter)) { /* back to where it was */
        struct tti_mpi_letter *before = NULL;
        for (struct tti_mpi_letter *l = m->letters; l != next; l = l->next) {
            before = l;
        }
        letter->next = next;
        *(before ? &before->next : &m->letters) = letter;
        if (!next) {
            m->letters_end = letter;
        }
    }
}

/* A letter that says what comes, with the data if they are few. */
static struct tti_mpi_letter *write_letter(struct tti_mpi_messages *m, const tutti_op *op, size_t bytes)
{
    const bool follows = bytes > TTI_MPI_EAGER;
    const size_t shape = (size_t)op->ndim * sizeof(int64_t);
    struct tti_mpi_letter *letter = malloc(sizeof(*letter) + shape + (follows ? 0 : bytes));
    if (!letter) {
        return NULL;
    }
    const int tags = tti_mpi_life.tag_most / 2 - TTI_MPI_TAG_DATA;
    letter->head = (struct tti_mpi_head){.bytes = bytes,
                                         .tag = op->p2p_tag,
                                         .dtype = op->dtype,
                                         .ndim = op->ndim,
                                         .data_tag = follows ? TTI_MPI_TAG_DATA + m->next_tag : -1};
    if (follows) {
        m->next_tag = m->next_tag + 1 < tags ? m->next_tag + 1 : 0;
    }
    letter->length = sizeof(letter->head) + shape + (follows ? 0 : bytes);
    memcpy(letter->rest, op->shape, shape);
    if (!follows && bytes > 0) {
        memcpy(letter->rest + shape, op->src, bytes);
    }
    return letter;
}

void tti_mpi_post_send(struct tti_mpi_group *g, struct tti_mpi_request *r)
{
    struct tti_mpi_messages *m = &g->messages;
    const tutti_op *op = r->op;
    const size_t bytes = op->count * tti_dtype_size(op->dtype);
    r->letter = write_letter(m, op, bytes);
    if (!r->letter || (r->letter->head.data_tag >= 0 && make_pieces(r, bytes) != TUTTI_OK)) {
        finish(m, r, TUTTI_NO_MEMORY);
        return;
    }
    tti_mpi_enter();
    int code = MPI_Isend(&r->letter->head, (int)r->letter->length, MPI_BYTE, op->root, TTI_MPI_TAG_LETTER, g->control,
                         &r->letter_request);
    tti_mpi_leave();
    if (code == MPI_SUCCESS && r->pieces) {
        code = start_data(g, r, op->root, r->letter->head.data_tag, bytes);
    }
    int done = 0;
    if (code == MPI_SUCCESS && (code = test(r, &done)) == MPI_SUCCESS && !done) {
        start_moving(m, r);
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
    const struct tti_mpi_request *w = m->waiting;
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
    if (!stop_waiting(m, r) && stop_moving(m, r) && !atomic_load_explicit(&tti_mpi_stopping, memory_order_seq_cst)) {
        tti_mpi_enter();
        for (size_t i = 0; r->pieces && i < r->piece_count; i++) {
            if (r->pieces[i] != MPI_REQUEST_NULL && r->op->kind == TUTTI_OP_RECV) {
                int done = 0;
                MPI_Cancel(&r->pieces[i]);
                MPI_Test(&r->pieces[i], &done, MPI_STATUS_IGNORE);
            }
        }
        tti_mpi_leave();
    }
    if (r->op->kind == TUTTI_OP_SEND) {
        r->letter = NULL; /* MPI may not have sent it yet: it stays */
    }
    finish(m, r, status);
}
