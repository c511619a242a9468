/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The results of collectives, computed naively and without the library: generated inputs of every rank, and from them
 * the output of one rank. All values are small whole numbers, so that sums are exact in every dtype that is used here.
 */
#ifndef TESTS_COLLECTIVE_REFERENCE_H
#define TESTS_COLLECTIVE_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/backend.h>
#include <tutti/tutti.h>

#define REFERENCE_RANKS 8
#define GUARD           64u
#define GUARD_BYTE      0xa5
#define JUNK_BYTE       0x5c

struct reference_call {
    tutti_operation kind;
    tutti_dtype dtype; /* F32, BF16, I8 or I32 */
    int size;
    int root;
    size_t rows;   /* the parts of a joined tensor lie in so many rows */
    size_t count;  /* elements of a tensor, or of one rank's part in one row; uneven parts have up to so many */
    bool in_place; /* where the operation knows that */
    bool uneven;   /* all_gather_v, reduce_scatter_v, all_to_all_v */
    uint32_t seed;
};

/* A joined tensor: part r has counts[r] elements in each row of `width`, behind before[r] others. */
struct reference_joined {
    size_t rows;
    size_t width;
    int64_t counts[REFERENCE_RANKS];
    size_t before[REFERENCE_RANKS];
};

static inline size_t reference_part(const struct reference_joined *j, int r)
{
    return j->rows * (size_t)j->counts[r];
}

/* Some parts are empty. */
static inline int64_t reference_uneven(const struct reference_call *c, int from, int to)
{
    size_t n = (size_t)c->size;
    size_t step = ((size_t)from * 2 + (size_t)to * 3 + c->seed) % (n + 1);
    return (int64_t)(c->count * step / n);
}

static inline void reference_append(struct reference_joined *j, int r, int64_t count)
{
    j->counts[r] = count;
    j->before[r] = j->width;
    j->width += (size_t)count;
}

/* How `rank` sees the joined tensor: its input in all_to_all, scatter and reduce_scatter. */
static inline struct reference_joined reference_sent(const struct reference_call *c, int rank)
{
    struct reference_joined j = {.rows = c->rows};
    int from = c->kind == TUTTI_OP_ALL_TO_ALL ? rank : 0;
    for (int r = 0; r < c->size; r++) {
        reference_append(&j, r, c->uneven ? reference_uneven(c, from, r) : (int64_t)c->count);
    }
    return j;
}

/* ... and its output in all_to_all, gather and all_gather. */
static inline struct reference_joined reference_received(const struct reference_call *c, int rank)
{
    struct reference_joined j = {.rows = c->rows};
    int to = c->kind == TUTTI_OP_ALL_TO_ALL ? rank : 0;
    for (int r = 0; r < c->size; r++) {
        reference_append(&j, r, c->uneven ? reference_uneven(c, r, to) : (int64_t)c->count);
    }
    return j;
}

static inline bool reference_is_rooted(tutti_operation kind)
{
    return kind == TUTTI_OP_REDUCE || kind == TUTTI_OP_BROADCAST || kind == TUTTI_OP_GATHER || kind == TUTTI_OP_SCATTER;
}

/* Elements of a rank's input. */
static inline size_t reference_input(const struct reference_call *c, int rank)
{
    const struct reference_joined sent = reference_sent(c, rank);
    const struct reference_joined received = reference_received(c, rank);
    switch (c->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return c->rows * c->count;
    case TUTTI_OP_BROADCAST:
        return rank == c->root ? c->rows * c->count : 0;
    case TUTTI_OP_BARRIER:
        return 0;
    case TUTTI_OP_ALL_GATHER:
    case TUTTI_OP_GATHER:
        return reference_part(&received, rank);
    case TUTTI_OP_SCATTER:
        return rank == c->root ? c->rows * sent.width : 0;
    default:
        return c->rows * sent.width;
    }
}

/* ... and of its output. */
static inline size_t reference_output(const struct reference_call *c, int rank)
{
    const struct reference_joined sent = reference_sent(c, rank);
    const struct reference_joined received = reference_received(c, rank);
    switch (c->kind) {
    case TUTTI_OP_BARRIER:
        return 0;
    case TUTTI_OP_REDUCE:
        return rank == c->root ? c->rows * c->count : 0;
    case TUTTI_OP_GATHER:
        return rank == c->root ? c->rows * received.width : 0;
    case TUTTI_OP_SCATTER:
    case TUTTI_OP_REDUCE_SCATTER:
        return reference_part(&sent, rank);
    case TUTTI_OP_ALL_GATHER:
    case TUTTI_OP_ALL_TO_ALL:
        return c->rows * received.width;
    default:
        return c->rows * c->count;
    }
}

/* Sanitizers see the blocks below when they are copied to a tensor. */
#define REFERENCE_UNSEEN __attribute__((no_sanitize("address", "thread", "undefined")))
#define REFERENCE_BLOCK  256

/* Adds the elements from `from` on of a rank's input to n values. */
static inline REFERENCE_UNSEEN void reference_add(const struct reference_call *c, int rank, size_t from, size_t n,
                                                  uint32_t *values)
{
    const uint32_t mask = c->dtype == TUTTI_F32 ? 4095 : c->dtype == TUTTI_BF16 ? 31 : UINT32_MAX;
    const uint32_t start = (c->seed * 31 + (uint32_t)rank) * 0x85ebca77u;
    for (size_t i = 0; i < n; i++) {
        const uint32_t h = (uint32_t)(from + i) * 0x9e3779b1u + start;
        values[i] += ((h ^ h >> 15) * 0xc2b2ae3du) >> 8 & mask;
    }
}

/* Converts n values; one loop for each dtype. */
static inline REFERENCE_UNSEEN void reference_convert(tutti_dtype dtype, const uint32_t *values, size_t n, void *block)
{
    union {
        uint8_t i8[REFERENCE_BLOCK];
        uint16_t bf16[REFERENCE_BLOCK];
        uint32_t i32[REFERENCE_BLOCK];
        float f32[REFERENCE_BLOCK];
    } *const to = block;
    for (size_t i = 0; dtype == TUTTI_I8 && i < n; i++) {
        to->i8[i] = (uint8_t)values[i];
    }
    for (size_t i = 0; dtype == TUTTI_I32 && i < n; i++) {
        to->i32[i] = values[i];
    }
    for (size_t i = 0; dtype == TUTTI_F32 && i < n; i++) {
        to->f32[i] = (float)values[i];
    }
    for (size_t i = 0; dtype == TUTTI_BF16 && i < n; i++) { /* the upper half: exact for whole numbers below 256 */
        const union {
            float value;
            uint32_t bits;
        } f = {(float)values[i]};
        to->bf16[i] = (uint16_t)(f.bits >> 16);
    }
}

/* Writes into `output`, from element `to` on, the sum of n elements from `from` on of the ranks [first, last]. */
static inline void reference_run_of(const struct reference_call *c, int first, int last, size_t from, size_t n,
                                    unsigned char *output, size_t to)
{
    const size_t element = tutti_dtype_size(c->dtype);
    for (size_t done = 0; done < n; done += REFERENCE_BLOCK) {
        const size_t part = n - done < REFERENCE_BLOCK ? n - done : REFERENCE_BLOCK;
        uint32_t values[REFERENCE_BLOCK] = {0};
        uint32_t block[REFERENCE_BLOCK];
        for (int r = first; r <= last; r++) {
            reference_add(c, r, from + done, part, values);
        }
        reference_convert(c->dtype, values, part, block);
        memcpy(output + (to + done) * element, block, part * element);
    }
}

static inline void reference_fill(const struct reference_call *c, int rank, unsigned char *input)
{
    reference_run_of(c, rank, rank, 0, reference_input(c, rank), input, 0);
}

/* The expected output of `rank`. */
static inline void reference_result(const struct reference_call *c, int rank, unsigned char *output)
{
    const struct reference_joined sent = reference_sent(c, rank);
    const struct reference_joined received = reference_received(c, rank);
    const bool joins = c->kind == TUTTI_OP_ALL_GATHER || c->kind == TUTTI_OP_GATHER || c->kind == TUTTI_OP_ALL_TO_ALL;
    const bool parts = c->kind == TUTTI_OP_SCATTER || c->kind == TUTTI_OP_REDUCE_SCATTER;
    const bool one = c->kind == TUTTI_OP_BROADCAST || c->kind == TUTTI_OP_SCATTER;
    const int first = one ? c->root : 0;
    const int last = one ? c->root : c->size - 1;
    const size_t own = (size_t)sent.counts[rank];
    if (reference_output(c, rank) == 0) {
        return;
    }
    if (!joins && !parts) {
        reference_run_of(c, first, last, 0, reference_output(c, rank), output, 0);
    }
    for (size_t row = 0; parts && row < c->rows; row++) {
        reference_run_of(c, first, last, row * sent.width + sent.before[rank], own, output, row * own);
    }
    for (int r = 0; joins && r < c->size; r++) {
        const struct reference_joined theirs = reference_sent(c, r);
        const size_t count = (size_t)received.counts[r];
        for (size_t row = 0; row < c->rows; row++) {
            const size_t from = c->kind == TUTTI_OP_ALL_TO_ALL ? row * theirs.width + theirs.before[rank] : row * count;
            reference_run_of(c, r, r, from, count, output, row * received.width + received.before[r]);
        }
    }
}

/* Whether, and at which element of the larger tensor, the smaller one lies in it. */
static inline bool reference_alias(const struct reference_call *c, int rank, size_t *at)
{
    const struct reference_joined sent = reference_sent(c, rank);
    const struct reference_joined received = reference_received(c, rank);
    *at = 0;
    switch (c->kind) {
    case TUTTI_OP_BROADCAST:
        return true;
    case TUTTI_OP_ALL_REDUCE:
        return c->in_place;
    case TUTTI_OP_REDUCE:
        return c->in_place && rank == c->root;
    case TUTTI_OP_ALL_GATHER:
        *at = received.before[rank];
        return c->in_place && c->rows == 1;
    case TUTTI_OP_GATHER:
        *at = received.before[rank];
        return c->in_place && c->rows == 1 && rank == c->root;
    case TUTTI_OP_REDUCE_SCATTER:
        *at = sent.before[rank];
        return c->in_place && c->rows == 1;
    case TUTTI_OP_SCATTER:
        *at = sent.before[rank];
        return c->in_place && c->rows == 1 && rank == c->root;
    default:
        return false;
    }
}

/* ---- the tensors of one rank ------------------------------------------------------------------------------------- */

struct reference_tensors {
    unsigned char *in;
    unsigned char *out;
    unsigned char *expected;  /* as long as the longer one of both */
    unsigned char *blocks[2]; /* the memory around in and out, guards included */
    size_t bytes[2];
    size_t in_bytes;
    size_t out_bytes;
};

/* Bytes that blocks[i] takes at most, guards included. */
static inline size_t reference_block(const struct reference_call *c, int rank)
{
    size_t most = reference_input(c, rank);
    most = most > reference_output(c, rank) ? most : reference_output(c, rank);
    return most * tutti_dtype_size(c->dtype) + 2 * GUARD;
}

/* Lays the tensors into two blocks of reference_block bytes, only the first of which is used in place; fills them. */
static inline void reference_begin(const struct reference_call *c, int rank, unsigned char *blocks[2],
                                   struct reference_tensors *t)
{
    size_t element = tutti_dtype_size(c->dtype);
    size_t at;
    *t = (struct reference_tensors){.in_bytes = reference_input(c, rank) * element,
                                    .out_bytes = reference_output(c, rank) * element};
    bool alias = reference_alias(c, rank, &at);
    for (int i = 0; i < (alias ? 1 : 2); i++) {
        t->blocks[i] = blocks[i];
        t->bytes[i] = (i == 0 ? t->in_bytes : t->out_bytes) + 2 * GUARD;
    }
    if (alias && t->out_bytes > t->in_bytes) {
        t->bytes[0] = t->out_bytes + 2 * GUARD;
    }
    for (int i = 0; i < 2 && t->blocks[i]; i++) {
        memset(t->blocks[i], JUNK_BYTE, t->bytes[i]);
        memset(t->blocks[i], GUARD_BYTE, GUARD);
        memset(t->blocks[i] + t->bytes[i] - GUARD, GUARD_BYTE, GUARD);
    }
    t->in = t->blocks[0] + GUARD;
    t->out = alias ? t->in : t->blocks[1] + GUARD;
    if (alias) {
        *(t->out_bytes > t->in_bytes ? &t->in : &t->out) += at * element;
    }
    reference_fill(c, rank, t->in);
    t->expected = calloc(1, (t->in_bytes > t->out_bytes ? t->in_bytes : t->out_bytes) + 1);
    if (!t->expected) {
        abort();
    }
    reference_result(c, rank, t->expected);
}

/* Prints what is wrong and returns 1; else 0. Compares whole tensors at once, which is much faster under sanitizers
 * than bytes. */
static inline int reference_end(const struct reference_call *c, int rank, struct reference_tensors *t,
                                tutti_status status, const tutti_error *error)
{
    const size_t written = t->out ? t->out_bytes : 0;
    size_t wrong = status == TUTTI_OK && written > 0 && memcmp(t->out, t->expected, written) == 0 ? written : 0;
    for (; status == TUTTI_OK && wrong < written && t->out[wrong] == t->expected[wrong]; wrong++) {
    }
    bool touched = false;
    for (int i = 0; i < 2 && t->blocks[i]; i++) {
        for (size_t k = 0; k < GUARD; k++) {
            touched |= t->blocks[i][k] != GUARD_BYTE || t->blocks[i][t->bytes[i] - 1 - k] != GUARD_BYTE;
        }
    }
    if (t->blocks[1] && t->in_bytes > 0) {
        reference_fill(c, rank, t->expected);
        touched |= memcmp(t->expected, t->in, t->in_bytes) != 0;
    }
    free(t->expected);
    if (status == TUTTI_OK && wrong == t->out_bytes && !touched) {
        return 0;
    }
    fprintf(stderr, "rank %d of %d: %s of %zu rows of %zu %s%s%s, root %d, seed %u: %s, byte %zu of %zu%s\n", rank,
            c->size, tutti_operation_name(c->kind), c->rows, c->count, tutti_dtype_name(c->dtype),
            c->uneven ? " uneven" : "", c->in_place ? " in place" : "", c->root, c->seed,
            status == TUTTI_OK ? "wrong" : error->message, wrong, t->out_bytes,
            touched ? "; touched what is not the output" : "");
    return 1;
}

#endif
