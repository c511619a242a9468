/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entries of the call cache: 64 of a thread, direct-mapped, found by group, kind of operation, reduce op, peer and
 * tag. An entry is filled when a call has missed twice with the same signature. What each cached call runs is inline.
 */
#ifndef TTI_CORE_CALL_CACHE_ENTRY_H
#define TTI_CORE_CALL_CACHE_ENTRY_H

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "core/call/cache/signature.h"
#include "core/call/call.h"
#include "core/group/handles.h"
#include "diag/flight.h"

#define TTI_CACHED_CALLS   64u /* a thread's; a power of two */
#define TTI_CACHED_DIMS    4   /* calls on tensors of more dimensions are not cached */
#define TTI_NEVER_IN_PLACE PTRDIFF_MAX
#define TTI_ONE            UINT64_C(0x3ff0000000000000) /* 1.0, as it lies in memory */

/* A compact tensor with elements. */
struct tti_cached_tensor {
    uint64_t type; /* ndim and dtype, as they lie in a DLTensor; 0: this rank has no tensor here */
    uintptr_t
        forbidden_bits; /* no valid address has one of them: alignment, and the top bit, so that nothing wraps around */
    uintptr_t bytes;
};

struct tti_cached_dim {
    int64_t shape;
    int64_t stride;
};

/* A call reads few cache lines, and reads them in the order of the fields: for a small call most of them are evicted by
 * the data of the call before. */
struct tti_cached_call {
    _Alignas(64) const tutti_group *group;
    uint64_t what; /* as in the signature */
    uint64_t where;
    struct tti_cached_handle cached_handle;
    struct tti_lane_queue *lane; /* to be used while the group is held */
    ptrdiff_t in_place;          /* the input's address less the output's, where they may overlap */
    bool same;                   /* the output may be the input itself, given as one and the same tensor */
    struct tti_cached_tensor output;
    struct tti_cached_tensor input;
    struct tti_cached_dim dims[TTI_CACHED_DIMS][2]; /* of the output, of the input */
    /* copied from the group, so that a call does not read it */
    _Alignas(64) tutti_status (*run)(void *state, tutti_op *op, tutti_error *error);
    void *state;
    int64_t timeout_ms;
    char backend[sizeof(((tutti_error *)0)->backend)];
    struct tti_flight_tally *tally; /* of the flight recorder, or no_tally */
    tutti_op op;
    /* of a message, in place of `run` and `state` */
    tutti_status (*run_p2p)(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
    int64_t shape[TTI_CACHED_DIMS]; /* op.shape */
    uint64_t seen; /* hash of the last call that missed here: the entry is filled when the call is made a second time */
    uint64_t fill; /* number of the fill, from 1 on, among those of all threads */
    int32_t rank;
    int32_t reserved;
    struct tti_group *timed_group; /* for run_timed, which calls the engine of this group */
    struct tti_flight_tally no_tally;
};
static_assert(offsetof(struct tti_cached_call, output) == 64 && offsetof(struct tti_cached_call, run) == 256 &&
                  (offsetof(struct tti_cached_call, op) + offsetof(tutti_op, root)) % 64 == 0,
              "a call of one or two dimensions reads three lines, then those with `run` and with the op's addresses");

/* Direct-mapped. The factors come from a search (docs/decisions/0022). Entries of their own have: all kinds and reduce
 * ops of a group; the usual ones of three groups that were made one after the other; messages to and from 32 peers. */
static inline struct tti_cached_call *tti_cached_call_at(struct tti_cached_call *entries, const tutti_group *group,
                                                         uint64_t what)
{
    const uint32_t hash = (uint32_t)(what >> 32) * 0x149bfeeeu + (uint32_t)what * 0x1c0597f1u;
    const uint32_t place = hash / (UINT32_MAX / TTI_CACHED_CALLS + 1);
    return &entries[(((uintptr_t)group >> 4) * 12 + place) % TTI_CACHED_CALLS];
}

static inline uint64_t tti_cached_type(const DLTensor *t)
{
    uint64_t type;
    static_assert(offsetof(DLTensor, dtype) == offsetof(DLTensor, ndim) + 4 && sizeof(DLDataType) == 4, "8 bytes");
    memcpy(&type, &t->ndim, sizeof(type));
    return type;
}

static inline bool tti_cached_has_dim(const struct tti_cached_call *entry, int side, const DLTensor *t, int32_t d)
{
    const struct tti_cached_dim *dim = &entry->dims[d][side];
    return t->shape[d] == dim->shape && (!t->strides || t->strides[d] == dim->stride);
}

static inline bool tti_cached_has_dims(const struct tti_cached_call *entry, int side, const DLTensor *t)
{
    for (int32_t d = 0; d < t->ndim; d++) {
        if (!tti_cached_has_dim(entry, side, t, d)) {
            return false;
        }
    }
    return true;
}

/* Whether a tensor has the cached shape and dtype; *begin is its address. `side` is its place in dims. Alignment and
 * wrap-around of the address `before` were checked when the entry was filled. */
static inline bool tti_cached_matches_tensor(const struct tti_cached_call *entry, int side, const DLTensor *t,
                                             uintptr_t before, uintptr_t *begin)
{
    const struct tti_cached_tensor *cached = side == 0 ? &entry->output : &entry->input;
    if (cached->type == 0) {
        *begin = 0;
        return true;
    }
    if (!t || tti_cached_type(t) != cached->type || t->device.device_type != kDLCPU || (!t->shape && t->ndim > 0)) {
        return false;
    }
    if (t->ndim == 1 ? !tti_cached_has_dim(entry, side, t, 0)
                     : !tti_cached_has_dims(entry, side, t)) { /* most small ones have one */
        return false;
    }
    *begin = (uintptr_t)t->data + t->byte_offset;
    return *begin == before || (t->data && *begin >= t->byte_offset && (*begin & cached->forbidden_bits) == 0);
}

/* Whether the call is that of the entry. If so, the entry has its addresses. */
static inline bool tti_cached_call_matches(struct tti_cached_call *entry, const tutti_group *group,
                                           const struct tti_signature *signature)
{
    const uintptr_t in_before = (uintptr_t)entry->op.src;
    const uintptr_t out_before = (uintptr_t)entry->op.dst;
    uintptr_t in;
    uintptr_t out;
    if (entry->group != group || entry->what != signature->what || entry->where != signature->where ||
        !tti_cached_matches_tensor(entry, 0, signature->output, out_before, &out)) {
        return false;
    }
    if (signature->input == signature->output && entry->same) {
        in = out;
    } else if (!tti_cached_matches_tensor(entry, 1, signature->input, in_before, &in)) {
        return false;
    }
    if (in != in_before || out != out_before) {
        if (in < out + entry->output.bytes && out < in + entry->input.bytes &&
            (ptrdiff_t)(in - out) != entry->in_place) {
            return false;
        }
        entry->op.src = (const void *)in;
        entry->op.dst = (void *)out;
    }
    return true;
}

/* Options that leave the call what it is. Few branches, since nearly all of them are zero nearly always. A caller of an
 * older version has fewer. */
static inline bool tti_cached_call_has_defaults(const struct tti_cached_call *entry, const tutti_call *o)
{
    if (o->size != sizeof(*o)) {
        return false;
    }
    const uint64_t unusual = (uintptr_t)o->callback | (uintptr_t)o->stream | (uintptr_t)o->token |
                             (uint64_t)o->operation_id | (uint64_t)(uint32_t)o->wire;
    uint64_t scale;
    memcpy(&scale, &o->scale, sizeof(scale));
    const bool unscaled = scale == 0 || scale == TTI_ONE;
    return (o->flags | o->tag | unusual) == 0 && o->lane == entry->op.lane && o->timeout_ms >= -1 && unscaled;
}

/* Whether a call with these options, whose defaults are filled in, may be cached. */
static inline bool tti_cached_options_are_plain(const tutti_call *o)
{
    return (o->flags | o->tag) == 0 && o->scale == 1 && o->wire == TUTTI_WIRE_FULL;
}

/* Whether the options of the call are those of the entry. */
static inline bool tti_cached_call_fits(const struct tti_cached_call *entry, const tutti_call *options)
{
    return options ? tti_cached_call_has_defaults(entry, options) : entry->op.lane == 0;
}

/* The same as tti_error_clear and tti_call_describe, in one pass: some programs pass an error to each call. */
static inline void tti_cached_call_succeeded(tutti_error *error, const struct tti_cached_call *entry)
{
    error->size = (uint32_t)sizeof(*error);
    error->status = TUTTI_OK;
    error->scope = 0;
    error->operation = entry->op.kind;
    error->sequence = entry->op.sequence;
    error->rank = entry->rank;
    error->suspect = -1;
    error->elapsed_ms = 0;
    error->deadline_ms = entry->op.timeout_ms;
    error->vendor_code = 0;
    memcpy(error->backend, entry->backend, sizeof(error->backend));
    error->message[0] = '\0';
}

/* The entry of a call that misses for the second time, to be filled; NULL: it takes the slow path next time, too. */
struct tti_cached_call *tti_cached_call_to_fill(const struct tti_group *g, const struct tti_signature *signature,
                                                const tutti_op *op);

/* Keeps shape and dtype of a tensor; `used` is where the descriptor has it, NULL if this rank has no tensor here.
 * False: such tensors are not cached. */
bool tti_cached_call_set_tensor(struct tti_cached_call *entry, int side, const DLTensor *t, const void *used);

/* Fills what collectives and messages have in common. From now on the entry is found. */
void tti_cached_call_fill(struct tti_cached_call *entry, const struct tti_group *g,
                          const struct tti_signature *signature);

/* Takes a tally of the flight recorder for entry->op. False: it has none for calls like this one, or none is free, so
 * each is recorded by itself. */
bool tti_cached_call_set_tally(struct tti_cached_call *entry, struct tti_group *g);

static inline bool tti_cached_call_is_tallied(const struct tti_cached_call *entry)
{
    return entry->tally != &entry->no_tally;
}

#endif
