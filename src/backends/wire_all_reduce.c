/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A format that a dtype has (bf16) is reduced by the engine's own all_reduce of that dtype, in place.
 *
 * Values in blocks with scales (fp8) no engine can add, since each rank has other scales. They take the two steps of
 * Rabenseifner's all_reduce (2004), with a fold of packed values between them:
 *   1. all_to_all: rank r gets slice r of all ranks, and folds it in f32 in the order of ranks
 *   2. all_gather of the folded slices, rounded once more
 * P ranks, m packed bytes: each rank sends and receives 2m (P - 1)/P, the least. An all_gather of everything takes one
 * step instead of two; each rank then receives m (P - 1)(P - 2)/P bytes more, and folds all. It is taken where that
 * costs less than a step. Both give the same bits, on every engine.
 *
 * Slices are whole blocks. All have the same length, so that no counts need to be compared; the last ones are padded.
 */
#include "backends/wire_all_reduce.h"

#include <string.h>

#include "kernels/wire_format.h"

/* Received bytes that take about as long as one more step. Folding everything counts as m/8 of them. */
enum { STEP_BYTES = 16 << 10 };

/* The most packed bytes that ranks exchange at once. */
static size_t most_at_once(size_t ranks)
{
    return STEP_BYTES * 8 * ranks / (8 * (ranks - 1) * (ranks - (ranks > 1 ? 2 : 1)) + ranks);
}

bool tti_wire_can(const tutti_backend *backend, void *state, const tutti_op *op)
{
    const struct tti_wire_format *f = tti_wire_format(op->wire);
    tutti_op step = *op;
    step.wire = TUTTI_WIRE_FULL;
    step.dtype = f->dtype ? f->dtype : TUTTI_U8;
    if (f->dtype) {
        return backend->ops->supports(state, &step) != NULL;
    }
    step.kind = TUTTI_OP_ALL_TO_ALL;
    if (!backend->ops->supports(state, &step)) {
        return false;
    }
    step.kind = TUTTI_OP_ALL_GATHER;
    return backend->ops->supports(state, &step) != NULL;
}

/* How `count` elements are exchanged; bytes are packed ones. */
struct exchange {
    const struct tti_wire_format *format;
    size_t count;
    size_t size;    /* ranks */
    size_t slice;   /* elements of a rank's slice                     */
    size_t each;    /* bytes of it                                    */
    size_t own;     /* bytes of a rank's values, the padding included */
    size_t sources; /* bytes for the addresses of what is folded      */
    bool at_once;
};

static struct exchange exchange_of(const struct tti_wire_format *f, int32_t size, size_t count)
{
    struct exchange x = {.format = f, .count = count, .size = (size_t)size};
    x.own = tti_wire_bytes(f, count);
    x.sources = x.size * sizeof(const void *);
    x.at_once = size == 1 || x.own <= most_at_once(x.size);
    if (!x.at_once) {
        const size_t blocks = (count + f->block - 1) / f->block;
        const size_t mine = (blocks + x.size - 1) / x.size;
        x.slice = mine * f->block;
        x.each = mine * f->block_bytes;
        x.own = x.each * x.size;
    }
    return x;
}

/* The addresses; the own values, which become the result; what comes from all ranks. */
static size_t memory_of(const struct exchange *x)
{
    return x->sources + x->own + (x->at_once ? x->size * x->own : x->own);
}

size_t tti_wire_memory(tutti_wire wire, int32_t size, size_t count)
{
    const struct tti_wire_format *f = tti_wire_format(wire);
    if (f->dtype) {
        return tti_wire_bytes(f, count);
    }
    const struct exchange x = exchange_of(f, size, count);
    const size_t bytes = memory_of(&x);
    const size_t shorter = x.sources + (x.size + 1) * most_at_once(x.size); /* a shorter one is exchanged at once */
    return x.at_once || bytes > shorter ? bytes : shorter;
}

static tutti_status reduce_as_dtype(const struct tti_wire_engine *engine, const struct tti_wire_format *f, tutti_op *op,
                                    unsigned char *memory, tutti_error *error)
{
    tutti_op step = *op;
    step.wire = TUTTI_WIRE_FULL;
    step.dtype = f->dtype;
    step.src = step.dst = memory;
    memset(step.prepared, 0, sizeof(step.prepared));
    if (op->failed == TUTTI_OK) {
        tti_wire_pack(f, memory, op->src, op->count, op->redop, op->scale);
    } else { /* arrives, and carries nothing: ranks compare op->whole */
        step.src = step.dst = NULL;
        step.count = 0;
    }
    const tutti_status status = engine->run(engine->self, &step, error);
    op->sequence = step.sequence;
    if (status == TUTTI_OK) {
        tti_wire_unpack(f, op->dst, memory, op->count);
    }
    return status;
}

/* `each` bytes of every rank to every rank, or a part of them. */
static tutti_status step(const struct tti_wire_engine *engine, tutti_op *whole, tutti_operation kind, const void *src,
                         void *dst, size_t each, tutti_error *error)
{
    const tutti_parts parts = {.outer = 1, .pitch = each * (size_t)engine->size, .unit = 1, .each = (int64_t)each};
    tutti_op op = {.size = sizeof(op),
                   .kind = kind,
                   .dtype = TUTTI_U8,
                   .lane = whole->lane,
                   .user_tag = whole->user_tag,
                   .ndim = 1,
                   .src = src,
                   .dst = dst,
                   .count = kind == TUTTI_OP_ALL_TO_ALL ? parts.pitch : each,
                   .scale = 1,
                   .timeout_ms = whole->timeout_ms,
                   .recv_parts = parts,
                   .begun_ns = whole->begun_ns,
                   .failed = whole->failed,
                   .flags = whole->flags,
                   .background = whole->background,
                   .whole = whole->whole,
                   .waits_since = whole->waits_since};
    if (kind == TUTTI_OP_ALL_TO_ALL) {
        op.send_parts = parts;
    }
    const tutti_status status = engine->run(engine->self, &op, error);
    whole->sequence = op.sequence;
    return status;
}

/* Packs into `to`, and clears the padding. */
static void pack(const struct exchange *x, const tutti_op *op, unsigned char *to)
{
    const size_t bytes = tti_wire_bytes(x->format, x->count);
    tti_wire_pack(x->format, to, op->src, x->count, op->redop, op->scale);
    memset(to + bytes, 0, x->own - bytes);
}

/* Folds `count` elements of each rank, which lie `pitch` bytes apart. */
static void fold(const struct exchange *x, const tutti_op *op, const void **sources, unsigned char *to,
                 const unsigned char *from, size_t pitch, size_t count)
{
    for (size_t r = 0; r < x->size; r++) {
        sources[r] = from + r * pitch;
    }
    tti_wire_fold(x->format, to, sources, x->size, count, op->redop, NULL);
}

static tutti_status reduce_at_once(const struct tti_wire_engine *engine, const struct exchange *x, tutti_op *op,
                                   const void **sources, unsigned char *result, tutti_error *error)
{
    unsigned char *const all = result + x->own;
    unsigned char *const own = all + (size_t)engine->rank * x->own;
    pack(x, op, own);
    const tutti_status status = step(engine, op, TUTTI_OP_ALL_GATHER, own, all, x->own, error);
    if (status == TUTTI_OK) {
        fold(x, op, sources, result, all, x->own, x->count);
    }
    return status;
}

static tutti_status reduce_in_two_steps(const struct tti_wire_engine *engine, const struct exchange *x, tutti_op *op,
                                        const void **sources, unsigned char *result, tutti_error *error)
{
    unsigned char *const slices = result + x->own; /* the own slice of every rank */
    unsigned char *const own = result + (size_t)engine->rank * x->each;
    const size_t from = (size_t)engine->rank * x->slice;
    const size_t left = from < x->count ? x->count - from : 0;
    pack(x, op, result);
    const tutti_status status = step(engine, op, TUTTI_OP_ALL_TO_ALL, result, slices, x->each, error);
    if (status != TUTTI_OK) {
        return status;
    }
    fold(x, op, sources, own, slices, x->each, left < x->slice ? left : x->slice);
    op->flags = 0; /* the call has begun: it cannot be cancelled any more */
    return step(engine, op, TUTTI_OP_ALL_GATHER, own, result, x->each, error);
}

static tutti_status reduce_blocks(const struct tti_wire_engine *engine, const struct tti_wire_format *f, tutti_op *op,
                                  unsigned char *memory, tutti_error *error)
{
    const struct exchange x = exchange_of(f, engine->size, op->count);
    if (op->failed != TUTTI_OK) { /* arrives, and carries nothing: ranks compare op->whole */
        return step(engine, op, x.at_once ? TUTTI_OP_ALL_GATHER : TUTTI_OP_ALL_TO_ALL, NULL, NULL, 0, error);
    }
    const void **const sources = (const void **)(void *)memory;
    unsigned char *const result = memory + x.sources;
    const tutti_status status = x.at_once ? reduce_at_once(engine, &x, op, sources, result, error)
                                          : reduce_in_two_steps(engine, &x, op, sources, result, error);
    if (status == TUTTI_OK) {
        tti_wire_unpack(f, op->dst, result, op->count);
    }
    return status;
}

tutti_status tti_wire_all_reduce(const struct tti_wire_engine *engine, tutti_op *op, unsigned char *memory,
                                 tutti_error *error)
{
    const struct tti_wire_format *f = tti_wire_format(op->wire);
    return f->dtype ? reduce_as_dtype(engine, f, op, memory, error) : reduce_blocks(engine, f, op, memory, error);
}
