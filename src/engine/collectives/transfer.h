/* SPDX-License-Identifier: BSD-3-Clause */
/* How data move: copies and folds, parts of joined tensors, and the shapes that collectives are made of. */
#ifndef TTI_ENGINE_TRANSFER_H
#define TTI_ENGINE_TRANSFER_H

#include "engine/memory/protocol.h"

/* ---- parts.c: joined tensors ---------------------------------------------------------------------------------------------- */

size_t tti_part_bytes(const tutti_parts *parts, int rank); /* of the whole part */
size_t tti_part_bytes_max(const tutti_parts *parts, int size);
/* Copies bytes [from, from + n) of a part, counted in its compact form, out of / into the joined tensor. */
void tti_part_read(struct tti_lane *lane, void *dst, const void *joined, const tutti_parts *parts, int rank,
                   size_t from, size_t n);
/* Out of the joined tensor into the own stage. */
void tti_part_stage(struct tti_lane *lane, void *span, const void *joined, const tutti_parts *parts, int rank,
                    size_t from, size_t n);
void tti_part_write(struct tti_lane *lane, void *joined, const tutti_parts *parts, int rank, size_t from,
                    const void *src, size_t n);
/* The chunk of a part that begins at byte `from` of its compact form: at most n bytes that lie together. */
unsigned char *tti_part_chunk(const void *joined, const tutti_parts *parts, int rank, size_t from, size_t *n);
/* Where the part starts if it is compact inside the joined tensor (outer == 1), else NULL. */
const unsigned char *tti_part_direct(const void *joined, const tutti_parts *parts, int rank);

/* Bytes of a part that fall into its k-th chunk of `chunk` bytes: 0 behind the end. */
static inline size_t tti_chunk_bytes(size_t bytes, size_t chunk, size_t k)
{
    size_t from = k * chunk;
    return from >= bytes ? 0 : (bytes - from < chunk ? bytes - from : chunk);
}

/* memcpy, of which GCC does not know how long it may be: else it puts rep movsq in its place, and that takes as long to
 * begin as the library takes for a kilobyte. */
static inline void tti_memcpy(void *dst, const void *src, size_t n)
{
    __asm__("" : "+r"(n));
    memcpy(dst, src, n);
}

static inline void tti_copy(void *dst, const void *src, size_t n)
{
    if (n != 0 && dst != src) {
        tti_memcpy(dst, src, n);
    }
}

/* Copies and folds, counted. */
static inline void tti_copy_counted(struct tti_lane *lane, void *dst, const void *src, size_t n)
{
    if (n == 0 || dst == src) {
        return;
    }
    if (n < TTI_PAGE / 2) {
        tti_memcpy(dst, src, n);
    } else {
        tti_copy_cached(dst, src, n);
    }
    lane->bytes_copied += 2 * n;
}

/* The same into a tensor of the caller, which goes past the caches if it is larger than they are. */
static inline void tti_copy_to_output(struct tti_lane *lane, void *dst, const void *src, size_t n)
{
    if (lane->streams && n >= TTI_PAGE && dst != src) {
        tti_copy_stream(dst, src, n);
        lane->bytes_copied += 2 * n;
    } else {
        tti_copy_counted(lane, dst, src, n);
    }
}

/* What is copied twice, or folded and copied, in one go: it stays in the caches next to the CPU meanwhile. Each copy past the
 * caches ends with a fence, so chunks are not small. */
#define TTI_TWICE_BYTES ((size_t)4 * TTI_PAGE)

/* The same into the own stage, past the caches if its readers are far away. */
static inline void tti_copy_to_stage(struct tti_lane *lane, void *span, const void *src, size_t n)
{
    if (tti_stage_is_far(lane) && n >= TTI_PAGE / 2) {
        tti_copy_stream(span, src, n);
        lane->bytes_copied += 2 * n;
    } else {
        tti_copy_counted(lane, span, src, n);
    }
}

/* What a step stages of each rank's part, in a span that holds something for everybody: at most `most`, whole cache
 * lines. */
static inline size_t tti_slot_bytes(const struct tti_lane *lane, size_t most)
{
    size_t share = lane->engine->tuning.window / (size_t)lane->engine->size / 64 * 64;
    most = (most + 63) / 64 * 64;
    return most < share ? most : share;
}

static inline struct tti_fold tti_fold_of(const struct tti_lane *lane)
{
    const tutti_op *op = lane->op;
    return (struct tti_fold){
        .dtype = op->dtype, .op = op->redop, .scales = op->redop == TUTTI_PREMUL_SUM ? lane->scales : NULL};
}

/* Folds lane->sources, `bytes` of each, by the call's operation. */
static inline void tti_reduce(struct tti_lane *lane, void *dst, size_t bytes)
{
    const struct tti_fold fold = tti_fold_of(lane);
    tti_fold(dst, lane->sources, (size_t)lane->engine->size, bytes >> tti_dtype_shift(fold.dtype), &fold);
    lane->bytes_copied += ((size_t)lane->engine->size + 1) * bytes;
}

/* The same into lane->targets. */
static inline void tti_reduce_push(struct tti_lane *lane, size_t outputs, size_t bytes)
{
    const struct tti_fold fold = tti_fold_of(lane);
    const size_t size = (size_t)lane->engine->size;
    tti_fold_push(lane->targets, outputs, lane->sources, size, bytes >> tti_dtype_shift(fold.dtype), &fold);
    lane->bytes_copied += (size + outputs) * bytes;
}

/* The same into a tensor of the caller that is none of the sources. */
static inline void tti_reduce_out(struct tti_lane *lane, void *dst, size_t bytes)
{
    if (!lane->streams || bytes < TTI_PAGE) {
        tti_reduce(lane, dst, bytes);
        return;
    }
    const struct tti_fold fold = tti_fold_of(lane);
    tti_fold_stream(dst, lane->sources, (size_t)lane->engine->size, bytes >> tti_dtype_shift(fold.dtype), &fold);
    lane->bytes_copied += ((size_t)lane->engine->size + 1) * bytes;
}

/* ---- inline.c, packets.c: small calls, whose data travel with the arrival --------------------------------------------------- */

/* The class of a call: a function of the call and the group's size only. One that is not large does nothing before it has
 * arrived that could not be done again. begin_call keeps the answer in lane->class. */
enum tti_class tti_classify(const struct tti_lane *lane, const tutti_op *op);
/* What classes depend on: the bytes of the larger of a rank's two tensors, of the largest rank. */
size_t tti_call_bytes(const struct tti_lane *lane, const tutti_op *op);
/* Bytes that a rank sends with its arrival. */
size_t tti_inline_bytes(const struct tti_lane *lane, const tutti_op *op, int rank);
/* Those of them that this rank has to read. */
struct tti_range {
    size_t from;
    size_t end;
};
struct tti_range tti_inline_range(const struct tti_lane *lane, const tutti_op *op, int rank);
/* Those of its own that only this rank needs. */
struct tti_range tti_inline_unread(const struct tti_lane *lane, const tutti_op *op);

/* A peer's data out of its packets, in memory of this rank. */
static inline unsigned char *tti_unpacked(const struct tti_lane *lane, int rank)
{
    return lane->unpacked + (size_t)rank * TTI_INLINE_MOST;
}

/* After await: what a rank has sent. */
static inline const unsigned char *tti_payload(const struct tti_lane *lane, int rank)
{
    return lane->class == TTI_CLASS_LINE || tti_inline_bytes(lane, lane->op, rank) <= TTI_PAYLOAD
               ? tti_arrival_of(lane, rank, lane->call)->payload
               : tti_unpacked(lane, rank);
}

/* The arrival with its data. */
tutti_status tti_inline_arrive_scaled(struct tti_lane *lane, const void *data, size_t bytes);

static inline tutti_status tti_inline_arrive(struct tti_lane *lane, const void *data, size_t bytes)
{
    return lane->op->redop == TUTTI_PREMUL_SUM ? tti_inline_arrive_scaled(lane, data, bytes)
                                               : tti_arrive(lane, data, bytes);
}
/* Folds `count` elements from byte `from` of every rank's payload into dst. */
void tti_inline_fold(struct tti_lane *lane, void *dst, size_t from, size_t count);

/* Before the arrival is stored. */
void tti_packets_write(struct tti_lane *lane, const void *data, size_t bytes);
/* Waits for a peer's arrival and packets, and unpacks them. */
tutti_status tti_packets_await(struct tti_lane *lane, int peer);

/* ---- exchange.c: all stage, all read, step by step -------------------------------------------------------------------------- */

struct tti_exchange {
    const tutti_op *op;
    size_t stride; /* bytes of a span: what a rank stages in a step */
    size_t steps;
    size_t chunk; /* for the callbacks: bytes of whatever they cut */
    /* Puts what belongs to step k into the own span. */
    void (*pack)(struct tti_lane *lane, const struct tti_exchange *x, size_t k, unsigned char *span);
    /* Takes what belongs to step k out of one peer's span; or, if NULL ... */
    void (*take)(struct tti_lane *lane, const struct tti_exchange *x, size_t k, int peer);
    /* ... out of all, together. */
    void (*take_all)(struct tti_lane *lane, const struct tti_exchange *x, size_t k);
    /* When all have arrived, agree on the call, and have to stage: may write outputs, and change `steps`, alike on all
     * ranks. NULL: nothing. */
    tutti_status (*agreed)(struct tti_lane *lane, struct tti_exchange *x);
};

tutti_status tti_exchange_run(struct tti_lane *lane, struct tti_exchange *x);

/* ---- rooted.c: one rank's data to or from all others, in a stream of spans -------------------------------------------------- */

/* A rooted call in spans of `stride` bytes, each holding `chunk` bytes of the call's data (for scatter: of every part). */
struct tti_stream {
    const tutti_op *op;
    size_t bytes; /* of the data */
    size_t chunk;
    size_t stride;
    size_t steps;
    size_t report; /* a reader tells how far it has come at least once in so many spans */
    void (*pack)(struct tti_lane *lane, const struct tti_stream *s, size_t k, unsigned char *span);
    void (*take)(struct tti_lane *lane, const struct tti_stream *s, size_t k, int peer);
    void (*take_all)(struct tti_lane *lane, const struct tti_stream *s, size_t k); /* instead of `take` */
    /* Copies chunk k of the root's own part to its place, while the others are awaited. NULL: nothing to copy. */
    void (*own)(struct tti_lane *lane, const struct tti_stream *s, size_t k);
    /* Takes the whole of a peer's exposed tensor at once; NULL if tti_run_direct does that. */
    tutti_status (*pull)(struct tti_lane *lane, const struct tti_stream *s, int peer);
};

/* Sets chunk, stride, steps and report for `bytes` bytes, and `slots` slots in each span. */
void tti_stream_cut(const struct tti_lane *lane, struct tti_stream *s, size_t bytes, size_t slots);

/* The part of a rank that writes, and whose data `reader` (-1: all others) take; arrives by itself. It returns as soon as
 * its last span is staged, and waits for readers only to use a span again. */
tutti_status tti_stream_write(struct tti_lane *lane, const struct tti_stream *s, int reader);
/* The part of the leaf of a root that writes / of the root of leaves that write. */
tutti_status tti_stream_read_root(struct tti_lane *lane, const struct tti_stream *s);
tutti_status tti_stream_read_leaves(struct tti_lane *lane, const struct tti_stream *s);

/* ---- one file per collective ------------------------------------------------------------------------------------------------ */

tutti_status tti_run_solo(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_barrier(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_all_reduce(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_reduce(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_broadcast(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_all_gather(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_gather(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_scatter(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_reduce_scatter(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_all_to_all(struct tti_lane *lane, const tutti_op *op);

#endif
