/* SPDX-License-Identifier: BSD-3-Clause */
/* See chunks.h: the parts of a tensor, the lengths of chunk k, and its copies, in rows where a part is not
 * contiguous. */
#include "core/memory/chunks.h"

#include <string.h>

#include "tensor/parts.h"

/* ---- what this rank has ----------------------------------------------------------------------------------------- */

static void find_sides(struct tti_chunks *p)
{
    const tutti_op *op = p->op;
    const bool root = op->root == p->rank;
    unsigned char *src = (unsigned char *)(uintptr_t)op->src;
    unsigned char *dst = op->dst;
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
        p->in.memory = src;
        p->out.memory = dst;
        p->in_place = true;
        break;
    case TUTTI_OP_REDUCE:
        p->in.memory = src;
        p->out.memory = root ? dst : NULL;
        p->in_place = true;
        break;
    case TUTTI_OP_BROADCAST:
        p->in.memory = root ? dst : NULL;
        p->out.memory = root ? NULL : dst;
        p->in_place = true;
        break;
    case TUTTI_OP_ALL_GATHER:
    case TUTTI_OP_GATHER:
        p->in.memory = src;
        if (op->kind == TUTTI_OP_ALL_GATHER || root) {
            p->out = (struct tti_chunks_side){dst, &op->recv_parts};
        }
        break;
    case TUTTI_OP_SCATTER:
    case TUTTI_OP_REDUCE_SCATTER:
        if (op->kind == TUTTI_OP_REDUCE_SCATTER || root) {
            p->in = (struct tti_chunks_side){src, &op->send_parts};
        }
        p->out.memory = dst;
        break;
    case TUTTI_OP_ALL_TO_ALL:
        p->in = (struct tti_chunks_side){src, &op->send_parts};
        p->out = (struct tti_chunks_side){dst, &op->recv_parts};
        break;
    default: /* a barrier has no data */
        break;
    }
}

/* Elements of part r of a joined tensor. */
static int64_t length_of(const struct tti_chunks *p, const tutti_parts *parts, int r)
{
    return (int64_t)(tti_parts_bytes(parts, r) / p->element);
}

/* Elements of this rank's part. Only for a side that is one part; joined sides use length_of. */
static int64_t own_length(const struct tti_chunks *p)
{
    return (int64_t)p->op->count;
}

/* Elements of the longest part, the same on all ranks. */
static int64_t longest_part(const struct tti_chunks *p)
{
    const tutti_parts *parts = p->out.parts ? p->out.parts : p->in.parts;
    if (!parts) {
        return own_length(p);
    }
    int64_t longest = 0;
    for (int r = 0; r < p->size; r++) {
        const int64_t length = length_of(p, parts, r);
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* The step with which every part of this rank fits one chunk: all_to_all_v, where the ranks know different counts. */
static int64_t one_chunk_step(const struct tti_chunks *p)
{
    int64_t step = 1;
    for (int r = 0; r < p->size; r++) {
        const int64_t send = length_of(p, &p->op->send_parts, r);
        const int64_t recv = length_of(p, &p->op->recv_parts, r);
        step = send > step ? send : step;
        step = recv > step ? recv : step;
    }
    return step;
}

void tti_chunks_cut(struct tti_chunks *p, const tutti_op *op, int32_t rank, int32_t size, size_t bytes)
{
    *p = (struct tti_chunks){.op = op, .rank = rank, .size = size, .element = tutti_dtype_size(op->dtype)};
    find_sides(p);
    const bool no_data = op->kind == TUTTI_OP_BARRIER;
    const bool joined = op->kind >= TUTTI_OP_ALL_GATHER && op->kind <= TUTTI_OP_ALL_TO_ALL;
    if (op->kind == TUTTI_OP_ALL_TO_ALL && op->send_parts.counts) {
        p->step = one_chunk_step(p);
        p->count = 1;
        return;
    }
    const int64_t longest = no_data ? 0 : longest_part(p);
    p->step = no_data ? 1 : (int64_t)(bytes / p->element / (joined ? (size_t)size : 1));
    p->step = p->step > 64 ? p->step / 64 * 64 : 64; /* so that chunks begin at whole cache lines */
    p->count = longest == 0 ? 1 : (longest + p->step - 1) / p->step;
}

/* ---- one chunk -------------------------------------------------------------------------------------------------- */

/* Elements [*from, *from + result) of a part of that length belong to chunk k. */
static int64_t share(const struct tti_chunks *p, int64_t k, int64_t length, int64_t *from)
{
    const int64_t begin = k * p->step;
    *from = begin < length ? begin : length;
    return length - *from < p->step ? length - *from : p->step;
}

static size_t room_of(const struct tti_chunks *p, const struct tti_chunks_side *side, int64_t k)
{
    int64_t from;
    int64_t elements = 0;
    if (!side->parts) {
        elements = side->memory ? share(p, k, own_length(p), &from) : 0;
    }
    for (int r = 0; side->parts && r < p->size; r++) {
        elements += share(p, k, length_of(p, side->parts, r), &from);
    }
    return (size_t)elements * p->element;
}

void tti_chunks_room(const struct tti_chunks *p, size_t room[2])
{
    room[0] = room_of(p, &p->in, 0); /* no later chunk is longer */
    room[1] = room_of(p, &p->out, 0);
}

/* The joined side of a chunk: the parts one behind the other. Returns the sum of their elements. */
static int64_t describe_parts(const struct tti_chunks *p, int64_t k, const tutti_parts *whole, int64_t *counts,
                              tutti_parts *chunk)
{
    int64_t from;
    int64_t all = 0;
    for (int r = 0; r < p->size; r++) {
        counts[r] = share(p, k, length_of(p, whole, r), &from);
        all += counts[r];
    }
    *chunk = (tutti_parts){.outer = 1,
                           .pitch = (size_t)all * p->element,
                           .unit = p->element,
                           .each = counts[0],
                           .counts = whole->counts ? counts : NULL};
    return all;
}

tutti_op tti_chunks_op(const struct tti_chunks *p, int64_t k, void *in, void *out, int64_t *counts)
{
    const tutti_op *whole = p->op;
    tutti_op op = *whole;
    int64_t from;
    op.whole = whole;
    op.on_device = 0;
    op.after = NULL;
    op.flags = k == 0 ? whole->flags : 0; /* the operation has begun with chunk 0, and cannot be cancelled any more */
    memset(op.prepared, 0, sizeof(op.prepared));
    /* Without an input, `in` would be the address of `out`, which Open MPI's non-blocking calls take for an operation
     * in place. */
    op.src = room_of(p, &p->in, k) > 0 ? in : NULL;
    op.dst = out;
    if (whole->kind == TUTTI_OP_BARRIER) {
        return op;
    }
    op.count = (size_t)share(p, k, own_length(p), &from);
    if (whole->kind == TUTTI_OP_BROADCAST) {
        op.src = NULL;
    }
    if (p->in.parts) {
        const int64_t all = describe_parts(p, k, p->in.parts, counts, &op.send_parts);
        op.count = whole->kind == TUTTI_OP_ALL_TO_ALL ? (size_t)all : op.count;
    }
    if (p->out.parts) {
        describe_parts(p, k, p->out.parts, counts + p->size, &op.recv_parts);
    }
    return op;
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* Between the device and compact host memory. */
struct copier {
    const struct tti_device *device;
    void *stream;
    bool to_device;
    tutti_error *error;
};

static tutti_status copy(const struct copier *c, unsigned char *there, unsigned char *host, size_t bytes)
{
    return c->to_device ? c->device->copy(there, host, bytes, c->stream, c->error)
                        : c->device->copy(host, there, bytes, c->stream, c->error);
}

static tutti_status copy_rows(const struct copier *c, unsigned char *there, size_t pitch, unsigned char *host,
                              size_t width, size_t rows)
{
    struct tti_device_rows r = {
        .dst = host, .dst_pitch = width, .src = there, .src_pitch = pitch, .width = width, .rows = rows};
    if (c->to_device) {
        r.dst = there;
        r.dst_pitch = pitch;
        r.src = host;
        r.src_pitch = width;
    }
    return c->device->copy_rows(&r, c->stream, c->error);
}

/* Copies `bytes` bytes from byte `from` on of a part, with rows of `width` bytes `pitch` apart: the rest of a row,
 * whole rows, the beginning of a row. */
static tutti_status copy_part(const struct copier *c, unsigned char *part, size_t width, size_t pitch, size_t from,
                              size_t bytes, unsigned char *host)
{
    const size_t inside = from % width;
    unsigned char *row = part + from / width * pitch;
    tutti_status status = TUTTI_OK;
    if (inside > 0 && bytes > 0) {
        const size_t rest = width - inside < bytes ? width - inside : bytes;
        status = copy(c, row + inside, host, rest);
        row += pitch;
        host += rest;
        bytes -= rest;
    }
    const size_t rows = bytes / width;
    if (status == TUTTI_OK && rows > 0) {
        status = rows == 1 ? copy(c, row, host, width) : copy_rows(c, row, pitch, host, width, rows);
    }
    const size_t tail = bytes - rows * width;
    if (status == TUTTI_OK && tail > 0) {
        status = copy(c, row + rows * pitch, host + rows * width, tail);
    }
    return status;
}

static tutti_status copy_joined(const struct copier *c, const struct tti_chunks *p, const struct tti_chunks_side *side,
                                int64_t k, unsigned char *host)
{
    const tutti_parts *parts = side->parts;
    tutti_status status = TUTTI_OK;
    int64_t behind = 0; /* units of the parts before */
    for (int r = 0; r < p->size && status == TUTTI_OK; r++) {
        const int64_t at = parts->displacements ? parts->displacements[r] : behind;
        const size_t width = tti_parts_width(parts, r);
        int64_t from;
        const size_t bytes = (size_t)share(p, k, length_of(p, parts, r), &from) * p->element;
        if (bytes > 0) {
            unsigned char *part = side->memory + (size_t)at * parts->unit;
            const bool flat = parts->outer == 1 || width == parts->pitch;
            const size_t start = (size_t)from * p->element;
            status =
                flat ? copy(c, part + start, host, bytes) : copy_part(c, part, width, parts->pitch, start, bytes, host);
        }
        host += bytes;
        behind += tti_parts_units(parts, r);
    }
    return status;
}

static tutti_status copy_side(const struct copier *c, const struct tti_chunks *p, const struct tti_chunks_side *side,
                              int64_t k, unsigned char *host)
{
    if (!side->memory) {
        return TUTTI_OK;
    }
    if (side->parts) {
        return copy_joined(c, p, side, k, host);
    }
    int64_t from;
    const size_t bytes = (size_t)share(p, k, own_length(p), &from) * p->element;
    return bytes > 0 ? copy(c, side->memory + (size_t)from * p->element, host, bytes) : TUTTI_OK;
}

tutti_status tti_chunks_load(const struct tti_chunks *p, int64_t k, void *host, const struct tti_device *device,
                             void *stream, tutti_error *error)
{
    const struct copier c = {device, stream, false, error};
    return copy_side(&c, p, &p->in, k, host);
}

tutti_status tti_chunks_store(const struct tti_chunks *p, int64_t k, const void *host, const struct tti_device *device,
                              void *stream, tutti_error *error)
{
    const struct copier c = {device, stream, true, error};
    return copy_side(&c, p, &p->out, k, (unsigned char *)(uintptr_t)host);
}
