/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The 16 bytes by which ranks compare what they called:
 *   word 0   kind 5 | dtype 5 | reduce op 4 | dimension, or wire of an all_reduce 5 | form 2 | root 16 | more 27
 *   word 1   low 32 | the user's tag 32
 * The form says what `more` and `low` are:
 *   count    the number of elements, in 59 bits: the tensor has one dimension
 *   shape    low is tutti_op.shape_code, more a code of the number of elements
 *   counts   a hash of 59 bits: parts of different length
 * Rooted operations have no counts; their form has a bit that says whether the caller has set TUTTI_CANCELLABLE.
 * A rank that cannot take part has a kind of its own. The operation 5 | the status 27 take the place of its tag.
 *
 * A shape code has the number of dimensions in its upper 3 bits. The other 29 hold all lengths but the last, which
 * follows from the number of elements. If they have no room, they hold a hash (CODE_HASH). So error sentences can name
 * most shapes.
 */
#include "engine/descriptor.h"

#include <string.h>

#include "base/error.h"
#include "base/operation.h"
#include "base/text.h"
#include "kernels/wire_format.h"

enum { FORM_COUNT = 0, FORM_SHAPE = 1, FORM_COUNTS = 2, FORM_CANCELLABLE = 2 /* rooted: a bit */ };

#define MANY      (UINT64_C(1) << 26) /* the upper one of the 27 bits of `more` */
#define HASHED    (UINT64_C(1) << 25)
#define ODD_BITS  19
#define CODE_BITS 29
#define CODE_HASH 7u

/* Bits of a length in the code of a shape of so many dimensions. */
static const unsigned length_bits[] = {[2] = 29, [3] = 14, [4] = 9};
#define CODE_DIMS_MOST 4

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + UINT64_C(0x9e3779b97f4a7c15) + (h << 6) + (h >> 2);
    h *= UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 32;
}

static uint64_t hash_parts(uint64_t h, const tutti_parts *p, int size)
{
    h = mix(mix(h, p->outer), p->unit);
    if (!p->counts) {
        return mix(h, (uint64_t)p->each);
    }
    for (int r = 0; r < size; r++) {
        h = mix(h, (uint64_t)p->counts[r]);
    }
    return h;
}

/* The parts that all ranks must agree on. A rank of a rooted operation knows only one part, which the count
 * describes. */
static const tutti_parts *common_parts(const tutti_op *op)
{
    switch (op->kind) {
    case TUTTI_OP_ALL_GATHER:
        return &op->recv_parts;
    case TUTTI_OP_REDUCE_SCATTER:
        return &op->send_parts;
    case TUTTI_OP_ALL_TO_ALL:
        return op->send_parts.counts ? NULL : &op->send_parts;
    default:
        return NULL;
    }
}

uint32_t tti_shape_code(int32_t ndim, const int64_t *shape, int32_t except)
{
    if (ndim < 2) {
        return 0;
    }
    const unsigned bits = ndim <= CODE_DIMS_MOST ? length_bits[ndim] : 0;
    uint64_t lengths = 0;
    uint64_t hash = (uint64_t)ndim;
    bool fits = ndim <= CODE_DIMS_MOST && except < 0;
    for (int32_t d = 0; d < ndim; d++) {
        const uint64_t length = d == except ? 0 : (uint64_t)shape[d];
        hash = mix(hash, length);
        fits = fits && length > 0 && (d == ndim - 1 || length >> bits == 0);
        lengths = d < ndim - 1 && fits ? lengths << bits | length : lengths;
    }
    return fits ? (uint32_t)ndim << CODE_BITS | (uint32_t)lengths
                : CODE_HASH << CODE_BITS | (uint32_t)(hash & ((1u << CODE_BITS) - 1));
}

/* The number of elements in 27 bits: itself below MANY. Else odd << zeros if the odd part is short, as for most large
 * tensors, or a hash. */
static uint64_t elements_code(uint64_t count)
{
    if (count < MANY) {
        return count;
    }
    const uint64_t zeros = (uint64_t)__builtin_ctzll(count);
    const uint64_t odd = count >> zeros;
    return odd >> ODD_BITS == 0 ? MANY | zeros << ODD_BITS | odd : MANY | HASHED | mix(0, count) % HASHED;
}

/* False: the code has only a hash of the number. */
static bool elements_of(uint64_t code, uint64_t *count)
{
    const bool hashed = code >= MANY && (code & HASHED);
    *count = code < MANY ? code : hashed ? 0 : code % (1u << ODD_BITS) << ((code ^ MANY) >> ODD_BITS);
    return !hashed;
}

void tti_descriptor_make(const tutti_op *op, int size, uint64_t descriptor[2])
{
    op = op->whole ? op->whole : op; /* ranks compare the call, not the chunks that it runs in */
    const tutti_parts *parts = common_parts(op);
    const bool pairs = op->kind == TUTTI_OP_ALL_TO_ALL && op->send_parts.counts != NULL;
    uint64_t form = op->shape_code != 0 ? FORM_SHAPE : FORM_COUNT;
    uint64_t low = op->count;
    uint64_t more = op->count >> 32;
    if (pairs || (parts && (parts->counts || (parts->outer > 1 && op->shape_code == 0)))) {
        /* all_to_all_v.c compares the counts between pairs of ranks */
        const uint64_t first = mix(pairs ? 1 : 2, op->shape_code);
        low = pairs ? mix(first, op->send_parts.unit) : hash_parts(first, parts, size);
        more = low >> 32;
        form = FORM_COUNTS;
    } else if (form == FORM_SHAPE) {
        low = op->shape_code;
        more = elements_code(op->count);
    }
    form |= tti_operation_is_rooted(op->kind) && (op->flags & TUTTI_CANCELLABLE) ? FORM_CANCELLABLE : 0;
    descriptor[0] = (uint64_t)(op->kind & 31) | (uint64_t)(op->dtype & 31) << 5 | (uint64_t)(op->redop & 15) << 10 |
                    (uint64_t)((op->kind == TUTTI_OP_ALL_REDUCE ? op->wire : op->dim) & 31) << 14 | form << 19 |
                    (uint64_t)(op->root & 0xffff) << 21 | more << 37;
    descriptor[1] = (low & UINT32_MAX) | (uint64_t)op->user_tag << 32;
}

/* Kinds that no operation has: of a rank that cannot take part, in a call where all wait for all, and in a rooted one.
 * And two bits: the extra round before a rooted call that may be cancelled, and a rank that has cancelled. */
#define KIND_FAILED_ALL    31
#define KIND_FAILED_ROOTED 28
#define AGREES             8
#define CANCELLED          16 /* tti_descriptor_marked reads it; both kinds above have it, too */

static bool is_failed(tutti_operation kind)
{
    return kind == KIND_FAILED_ALL || kind == KIND_FAILED_ROOTED;
}

#define REASON_FROM 32 /* of word 1 */
#define STATUS_FROM 37

void tti_descriptor_fail(uint64_t descriptor[2], tutti_status why)
{
    const tutti_operation kind = tti_descriptor_kind(descriptor);
    descriptor[0] &= ~UINT64_C(31);
    descriptor[0] |= tti_kind_waits_for_all(kind) ? KIND_FAILED_ALL : KIND_FAILED_ROOTED;
    descriptor[1] &= UINT32_MAX;
    descriptor[1] |= (uint64_t)kind << REASON_FROM | (uint64_t)why << STATUS_FROM;
}

tutti_status tti_descriptor_failed(const uint64_t descriptor[2])
{
    if (is_failed(tti_descriptor_kind(descriptor))) {
        return tti_status_of_peer((int32_t)(descriptor[1] >> STATUS_FROM));
    }
    return tti_descriptor_marked(descriptor) ? TUTTI_CANCELLED : TUTTI_OK;
}

void tti_descriptor_cancel(uint64_t descriptor[2])
{
    descriptor[0] |= CANCELLED;
}

bool tti_descriptor_uncancel(uint64_t descriptor[2])
{
    bool cancelled = (descriptor[0] & CANCELLED) && !is_failed(tti_descriptor_kind(descriptor));
    descriptor[0] &= cancelled ? ~(uint64_t)CANCELLED : ~UINT64_C(0);
    return cancelled;
}

void tti_descriptor_agree(uint64_t descriptor[2])
{
    descriptor[0] |= AGREES;
}

tutti_operation tti_descriptor_kind(const uint64_t descriptor[2])
{
    return (tutti_operation)(descriptor[0] & 31);
}

tutti_operation tti_descriptor_operation(const uint64_t descriptor[2])
{
    const tutti_operation kind = tti_descriptor_kind(descriptor);
    const tutti_operation own =
        (is_failed(kind) ? (tutti_operation)(descriptor[1] >> REASON_FROM & 31) : kind) & ~CANCELLED;
    return (own & AGREES) && tti_operation_is_rooted(own & ~AGREES) ? own & ~AGREES : own;
}

bool tti_kind_waits_for_all(tutti_operation kind)
{
    if (is_failed(kind)) {
        return kind == KIND_FAILED_ALL;
    }
    kind &= ~CANCELLED;
    return kind == TUTTI_OP_ALL_REDUCE || kind == TUTTI_OP_ALL_GATHER || kind == TUTTI_OP_REDUCE_SCATTER ||
           kind == TUTTI_OP_ALL_TO_ALL || kind == TUTTI_OP_BARRIER ||
           ((kind & AGREES) && tti_operation_is_rooted(kind & ~AGREES));
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* The fields of an operation beside dtype and elements. */
enum { HAS_REDOP = 1, HAS_ROOT = 2, HAS_DIM = 4, HAS_WIRE = 8 };

static unsigned fields_of(tutti_operation kind)
{
    switch (kind) {
    case TUTTI_OP_ALL_REDUCE:
        return HAS_REDOP | HAS_WIRE;
    case TUTTI_OP_REDUCE:
        return HAS_REDOP | HAS_ROOT;
    case TUTTI_OP_BROADCAST:
        return HAS_ROOT;
    case TUTTI_OP_GATHER:
    case TUTTI_OP_SCATTER:
        return HAS_ROOT | HAS_DIM;
    case TUTTI_OP_REDUCE_SCATTER:
        return HAS_REDOP | HAS_DIM;
    default:
        return HAS_DIM;
    }
}

static void append_shape(struct tti_text *t, uint32_t code, uint64_t more)
{
    const unsigned ndim = code >> CODE_BITS;
    uint64_t count;
    const bool counted = elements_of(more, &count);
    if (ndim < 2 || ndim > CODE_DIMS_MOST) {
        tti_append(t, counted ? ", %llu elements" : ", at least %llu elements",
                   (unsigned long long)(counted ? count : MANY));
        tti_append(t, " in shape #%x", (unsigned)(code & ((1u << CODE_BITS) - 1)));
        return;
    }
    const unsigned bits = length_bits[ndim];
    uint64_t before = 1; /* the product of all lengths but the last */
    for (unsigned d = 0; d < ndim - 1; d++) {
        const uint64_t length = code >> (bits * (ndim - 2 - d)) & ((1u << bits) - 1);
        before *= length > 0 ? length : 1;
        tti_append(t, "%s%llu", d == 0 ? ", [" : ", ", (unsigned long long)length);
    }
    if (counted) {
        tti_append(t, ", %llu]", (unsigned long long)(count / before));
    } else {
        tti_append(t, ", ...]");
    }
}

void tti_descriptor_text(const uint64_t descriptor[2], char *text, size_t capacity)
{
    struct tti_text t = {.at = text, .capacity = capacity};
    const tutti_operation kind = tti_descriptor_operation(descriptor);
    uint64_t form = descriptor[0] >> 19 & 3;
    const bool cancellable = tti_operation_is_rooted(kind) && (form & FORM_CANCELLABLE);
    form &= cancellable ? ~(uint64_t)FORM_CANCELLABLE : ~UINT64_C(0);
    const uint64_t more = descriptor[0] >> 37;
    const uint32_t low = (uint32_t)descriptor[1];
    const uint64_t tag = is_failed(tti_descriptor_kind(descriptor)) ? 0 : descriptor[1] >> 32;
    const unsigned fields = fields_of(kind);
    tti_append(&t, "%s%s", cancellable ? "cancellable " : "", tutti_operation_name(kind));
    if (kind == TUTTI_OP_BARRIER) {
        tti_append(&t, tag ? "(tag %llu)" : "", (unsigned long long)tag);
        return;
    }
    tti_append(&t, "(%s", tutti_dtype_name((tutti_dtype)(descriptor[0] >> 5 & 31)));
    if (fields & HAS_REDOP) {
        tti_append(&t, " %s", tutti_reduce_op_name((tutti_reduce_op)(descriptor[0] >> 10 & 15)));
    }
    switch (form) {
    case FORM_COUNT:
        tti_append(&t, ", count %llu", (unsigned long long)(more << 32 | low));
        break;
    case FORM_SHAPE:
        append_shape(&t, low, more);
        break;
    default:
        tti_append(&t, ", counts #%06x", (unsigned)(low & 0xffffff));
        break;
    }
    if (fields & HAS_ROOT) {
        tti_append(&t, ", root %u", (unsigned)(descriptor[0] >> 21 & 0xffff));
    }
    if (fields & HAS_DIM) {
        tti_append(&t, ", dim %u", (unsigned)(descriptor[0] >> 14 & 31));
    }
    const struct tti_wire_format *wire = tti_wire_format((tutti_wire)(descriptor[0] >> 14 & 31));
    if ((fields & HAS_WIRE) && wire) {
        tti_append(&t, ", wire %s", wire->name);
    }
    tti_append(&t, tag ? ", tag %llu)" : ")", (unsigned long long)tag);
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static void describe(const struct tti_rank_call *c, char *text, size_t capacity)
{
    tti_descriptor_text(c->descriptor, text, capacity);
    if (c->failed != TUTTI_OK) {
        struct tti_text t = {.at = text, .capacity = capacity, .length = strlen(text)};
        tti_append(&t, " and cannot take part: %s", tutti_status_string(c->failed));
    }
}

tutti_status tti_calls_differ(const struct tti_rank_call *peer, const struct tti_rank_call *own, uint64_t call,
                              int32_t lane, tutti_error *error)
{
    char theirs[240];
    char ours[240];
    describe(peer, theirs, sizeof(theirs));
    describe(own, ours, sizeof(ours));
    tti_error_set(error, TUTTI_MISMATCH, "rank %d called %s, but rank %d called %s (call %llu of lane %d)", peer->rank,
                  theirs, own->rank, ours, (unsigned long long)call, lane);
    error->suspect = peer->rank;
    return TUTTI_MISMATCH;
}

tutti_status tti_parts_differ(int32_t from, uint64_t bytes, int32_t to, uint64_t expected, uint64_t call, int32_t lane,
                              tutti_error *error)
{
    tti_error_set(error, TUTTI_MISMATCH,
                  "all_to_all_v: rank %d sends %llu bytes to rank %d, which expects %llu (call %llu of lane %d)", from,
                  (unsigned long long)bytes, to, (unsigned long long)expected, (unsigned long long)call, lane);
    error->suspect = from;
    return TUTTI_MISMATCH;
}
