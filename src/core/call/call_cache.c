/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An entry is found by group, kind of operation, and peer: 32 entries a thread, direct-mapped. It is filled when a call
 * has missed twice with the same signature. A hit compares the signature and the addresses, then runs the engine: no
 * allocation, no lock, and four atomic operations, two for the handle and two for the lane, which messages do not take.
 */
#include "core/call/call_cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/call/lane.h"
#include "core/call/task.h"
#include "core/group/backend/engines.h"
#include "core/group/group_table.h"
#include "tensor/dtype.h"

#define ENTRIES        32u /* a thread's; a power of two */
#define DIMS           4   /* calls on tensors of more dimensions are not cached */
#define NEVER_IN_PLACE PTRDIFF_MAX
#define ONE            UINT64_C(0x3ff0000000000000) /* 1.0, as it lies in memory */

/* A compact tensor with elements. */
struct cached_tensor {
    uint64_t type; /* ndim and dtype, as they lie in a DLTensor; 0: this rank has no tensor here */
    uintptr_t
        forbidden_bits; /* no valid address has one of them: alignment, and the top bit, so that nothing wraps around */
    uintptr_t bytes;
};

struct cached_dim {
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
    struct cached_tensor output;
    struct cached_tensor input;
    struct cached_dim dims[DIMS][2]; /* of the output, of the input */
    /* copied from the group, so that a call does not read it */
    _Alignas(64) tutti_status (*run)(void *state, tutti_op *op, tutti_error *error);
    void *state;
    int64_t timeout_ms;
    char backend[sizeof(((tutti_error *)0)->backend)];
    struct tti_flight_tally *tally; /* of the flight recorder, or no_tally */
    tutti_op op;
    /* of a message, in place of `run` and `state` */
    tutti_status (*run_p2p)(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
    int64_t shape[DIMS]; /* op.shape */
    uint64_t seen; /* hash of the last call that missed here: the entry is filled when the call comes a second time */
    int32_t rank;
    int32_t reserved;
    struct tti_group *timed_group; /* for run_timed, which calls the engine of this group */
    struct tti_flight_tally no_tally;
};
static_assert(offsetof(struct tti_cached_call, output) == 64 && offsetof(struct tti_cached_call, run) == 256 &&
                  (offsetof(struct tti_cached_call, op) + offsetof(tutti_op, root)) % 64 == 0,
              "a call of one or two dimensions reads three lines, then those with `run` and with the op's addresses");

static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_failed;

/* Direct-mapped. One group makes calls of several kinds, or messages to several peers, and several groups make calls of
 * the same kind. */
static inline struct tti_cached_call *entry_of(struct tti_cached_call *entries, const tutti_group *group, uint64_t what)
{
    return &entries[(((uintptr_t)group >> 4) * 4 + (what >> 32)) % ENTRIES];
}

static inline uint64_t type_of(const DLTensor *t)
{
    uint64_t type;
    static_assert(offsetof(DLTensor, dtype) == offsetof(DLTensor, ndim) + 4 && sizeof(DLDataType) == 4, "8 bytes");
    memcpy(&type, &t->ndim, sizeof(type));
    return type;
}

static inline bool has_dim(const struct tti_cached_call *entry, int side, const DLTensor *t, int32_t d)
{
    const struct cached_dim *dim = &entry->dims[d][side];
    return t->shape[d] == dim->shape && (!t->strides || t->strides[d] == dim->stride);
}

static bool has_dims(const struct tti_cached_call *entry, int side, const DLTensor *t)
{
    for (int32_t d = 0; d < t->ndim; d++) {
        if (!has_dim(entry, side, t, d)) {
            return false;
        }
    }
    return true;
}

/* Whether a tensor has the cached shape and dtype; *begin is its address. `side` is its place in dims. Alignment and
 * wrap-around of the address `before` were checked when the entry was filled. */
static inline bool matches_tensor(const struct tti_cached_call *entry, int side, const DLTensor *t, uintptr_t before,
                                  uintptr_t *begin)
{
    const struct cached_tensor *r = side == 0 ? &entry->output : &entry->input;
    if (r->type == 0) {
        *begin = 0;
        return true;
    }
    if (!t || type_of(t) != r->type || t->device.device_type != kDLCPU || (!t->shape && t->ndim > 0)) {
        return false;
    }
    if (t->ndim == 1 ? !has_dim(entry, side, t, 0) : !has_dims(entry, side, t)) { /* most small ones have one */
        return false;
    }
    *begin = (uintptr_t)t->data + t->byte_offset;
    return *begin == before || (t->data && *begin >= t->byte_offset && (*begin & r->forbidden_bits) == 0);
}

static inline bool matches_call(struct tti_cached_call *r, const tutti_group *group, const struct tti_signature *s)
{
    const uintptr_t in_before = (uintptr_t)r->op.src;
    const uintptr_t out_before = (uintptr_t)r->op.dst;
    uintptr_t in;
    uintptr_t out;
    if (r->group != group || r->what != s->what || r->where != s->where ||
        !matches_tensor(r, 0, s->output, out_before, &out)) {
        return false;
    }
    if (s->input == s->output && r->same) {
        in = out;
    } else if (!matches_tensor(r, 1, s->input, in_before, &in)) {
        return false;
    }
    if (in != in_before || out != out_before) {
        if (in < out + r->output.bytes && out < in + r->input.bytes && (ptrdiff_t)(in - out) != r->in_place) {
            return false;
        }
        r->op.src = (const void *)in;
        r->op.dst = (void *)out;
    }
    return true;
}

/* Options that leave the call what it is. Few branches, since nearly all of them are zero nearly always. */
static inline bool are_default_options(const struct tti_cached_call *r, const tutti_call *o)
{
    const uint64_t unusual = (uintptr_t)o->callback | (uintptr_t)o->stream | (uintptr_t)o->token |
                             (uint64_t)o->operation_id | (uint64_t)(uint32_t)o->wire;
    uint64_t scale;
    memcpy(&scale, &o->scale, sizeof(scale));
    const bool unscaled = scale == 0 || scale == ONE;
    return o->size == sizeof(*o) && (o->flags | o->tag | unusual) == 0 && o->lane == r->op.lane &&
           o->timeout_ms >= -1 && unscaled;
}

static inline bool fits_options(const struct tti_cached_call *r, const tutti_call *options)
{
    return options ? are_default_options(r, options) : r->op.lane == 0;
}

/* The same as tti_error_clear and tti_call_describe, in one pass: some programs pass an error to each call. */
static inline void report_success(tutti_error *error, const struct tti_cached_call *r)
{
    error->size = (uint32_t)sizeof(*error);
    error->status = TUTTI_OK;
    error->scope = 0;
    error->operation = r->op.kind;
    error->sequence = r->op.sequence;
    error->rank = r->rank;
    error->suspect = -1;
    error->elapsed_ms = 0;
    error->deadline_ms = r->op.timeout_ms;
    error->vendor_code = 0;
    memcpy(error->backend, r->backend, sizeof(error->backend));
    error->message[0] = '\0';
}

tutti_status tti_call_cache_run(tutti_group *group, const struct tti_signature *signature, const tutti_call *options,
                                tti_slow_path_function *slow_path)
{
    const struct tti_thread *thread = &tti_thread;
    struct tti_cached_call *entries = thread->cached_calls; /* ENTRIES of them, or NULL */
    if (!entries || thread->open_scopes != 0) {
        return slow_path(group, signature, options);
    }
    struct tti_cached_call *r = entry_of(entries, group, signature->what);
    if (!matches_call(r, group, signature) || !fits_options(r, options) ||
        !tti_cached_handle_retain(&r->cached_handle)) {
        return slow_path(group, signature, options);
    }
    if (!tti_lane_try_enter(r->lane)) {
        tti_cached_handle_release(&r->cached_handle);
        return slow_path(group, signature, options);
    }
    tutti_error own;
    tutti_error *error = options && options->error ? options->error : &own;
    r->op.timeout_ms = options && options->timeout_ms != 0 ? options->timeout_ms : r->timeout_ms;
    tti_flight_call_begin(r->tally);
    const tutti_status status = r->run(r->state, &r->op, error);
    tti_flight_call_end(r->tally, r->op.sequence);
    tti_lane_leave(r->lane);
    if (__builtin_expect(status != TUTTI_OK, 0)) {
        tti_flight_call_failed(r->tally, status);
        /* A group on a device caches its barriers, too, and has a second engine then. */
        tti_group_share_failure(r->cached_handle.slot->object, r->op.lane);
        tti_call_describe(error, r->cached_handle.slot->object, &r->op);
    } else if (error != &own) {
        report_success(error, r);
    }
    tti_cached_handle_release(&r->cached_handle);
    return status;
}

/* One message, or the two of a tutti_sendrecv, of which one may have arrived. */
static void fail_messages(struct tti_cached_call *const *found, int count, tutti_status status, tutti_error *error)
{
    const struct tti_group *g = found[0]->cached_handle.slot->object;
    tutti_op op = found[0]->op;
    for (int i = 0; i < count; i++) {
        const tutti_status own = found[i]->op.status == TTI_NOT_RUN ? status : found[i]->op.status;
        if (own != TUTTI_OK) {
            tti_flight_call_failed(found[i]->tally, own);
        }
    }
    tti_group_share_failure(found[0]->cached_handle.slot->object, op.lane);
    op.kind = count == 2 ? TUTTI_OP_BATCH : op.kind;
    tti_call_describe(error, g, &op);
}

bool tti_call_cache_run_messages(tutti_group *group, const struct tti_signature *signatures, int count,
                                 const tutti_call *options, tutti_message *message, tutti_status *result)
{
    const struct tti_thread *thread = &tti_thread;
    struct tti_cached_call *entries = thread->cached_calls;
    struct tti_cached_call *found[2] = {NULL, NULL};
    tutti_op *ops[2];
    if (!entries || thread->open_scopes != 0) {
        return false;
    }
    struct tti_cached_call *last;
    int n = 0;
    do {
        last = entry_of(entries, group, signatures[n].what);
        if (!matches_call(last, group, &signatures[n]) || !fits_options(last, options)) {
            return false;
        }
        found[n] = last;
        ops[n] = &last->op;
    } while (++n < count);
    struct tti_cached_call *first = found[0];
    const uintptr_t out = (uintptr_t)last->op.dst;
    const uintptr_t in = (uintptr_t)first->op.src;
    if ((count == 2 && in < out + last->output.bytes && out < in + first->input.bytes) ||
        !tti_cached_handle_retain(&first->cached_handle)) {
        return false;
    }
    tutti_message received = TUTTI_MESSAGE_INIT;
    tutti_error own;
    tutti_error *error = options && options->error ? options->error : &own;
    const int64_t timeout_ms = options && options->timeout_ms != 0 ? options->timeout_ms : first->timeout_ms;
    for (int i = 0; i < count; i++) {
        ops[i]->timeout_ms = timeout_ms;
        ops[i]->status = TTI_NOT_RUN;
        tti_flight_call_begin(found[i]->tally);
    }
    last->op.message = last->op.kind == TUTTI_OP_RECV ? &received : NULL;
    const tutti_status status = first->run_p2p(first->state, ops, (size_t)count, timeout_ms, error);
    for (int i = 0; i < count; i++) {
        tti_flight_call_end(found[i]->tally, ops[i]->sequence);
        found[i]->tally->since_ns = 0;
    }
    if (__builtin_expect(status != TUTTI_OK, 0)) {
        fail_messages(found, count, status, error);
    } else if (error != &own) {
        report_success(error, first);
        error->operation = count == 2 ? TUTTI_OP_BATCH : first->op.kind;
    }
    if (message && (status == TUTTI_OK || last->op.status == TUTTI_OK)) {
        *message = received;
    }
    tti_cached_handle_release(&first->cached_handle);
    *result = status;
    return true;
}

const tutti_op *tti_call_cache_find_message(const tutti_group *group, const struct tti_signature *s,
                                            const tutti_call *options)
{
    struct tti_cached_call *entries = tti_thread.cached_calls;
    struct tti_cached_call *r = entries ? entry_of(entries, group, s->what) : NULL;
    if (!r || !matches_call(r, group, s) || r->op.ndim != 1 || !fits_options(r, options) ||
        /* relaxed: whether the group lives on is found out when the batch runs */
        !tti_cached_handle_matches(&r->cached_handle,
                                   atomic_load_explicit(&r->cached_handle.slot->word, memory_order_relaxed))) {
        return NULL;
    }
    if (options && options->error) {
        r->op.timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : r->timeout_ms;
        report_success(options->error, r);
        options->error->sequence = 0; /* it has not run */
    }
    return &r->op;
}

/* ---- filling entries -------------------------------------------------------------------------------------------- */

static void free_entries(void *memory)
{
    struct tti_cached_call *entries = memory;
    for (unsigned i = 0; i < ENTRIES; i++) {
        tti_flight_tally_give(entries[i].tally);
    }
    tti_thread.cached_calls = NULL;
    free(entries);
}

/* In the child of a fork: the cached groups are not the child's, and a cached call does not check the epoch of a
 * handle. */
static void invalidate(void)
{
    struct tti_cached_call *entries = tti_thread.cached_calls;
    for (unsigned i = 0; entries && i < ENTRIES; i++) {
        entries[i].group = NULL;
        entries[i].tally = &entries[i].no_tally; /* the parent's */
    }
}

static void make_key(void)
{
    key_failed = pthread_key_create(&at_thread_end, free_entries) | pthread_atfork(NULL, NULL, invalidate);
}

static struct tti_cached_call *make_entries(void)
{
    pthread_once(&once, make_key);
    struct tti_cached_call *entries = key_failed == 0 ? aligned_alloc(64, ENTRIES * sizeof(*entries)) : NULL;
    if (entries && pthread_setspecific(at_thread_end, entries) != 0) {
        free(entries);
        return NULL;
    }
    return entries ? memset(entries, 0, ENTRIES * sizeof(*entries)) : NULL;
}

/* `used`: where the descriptor has it; NULL if this rank has no tensor here. */
static bool cache_tensor(struct tti_cached_call *entry, int side, const DLTensor *t, const void *used)
{
    struct cached_tensor *r = side == 0 ? &entry->output : &entry->input;
    *r = (struct cached_tensor){0};
    if (!used) {
        return true;
    }
    if (t->ndim > DIMS || t->device.device_type != kDLCPU) {
        return false;
    }
    const size_t element = tti_dtype_size(tti_dtype_of(t->dtype));
    int64_t count = 1;
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
        entry->dims[d][side] = (struct cached_dim){.shape = t->shape[d], .stride = count};
        count *= t->shape[d];
    }
    r->type = type_of(t);
    r->bytes = (uintptr_t)count * element;
    r->forbidden_bits = (element - 1) | (UINTPTR_MAX / 2 + 1);
    return true;
}

/* Where the own part begins in the joined tensor, if its rows lie one behind the other. */
static ptrdiff_t own_part(const tutti_parts *parts, int32_t rank)
{
    return parts->outer == 1 && !parts->counts ? (ptrdiff_t)parts->each * (ptrdiff_t)parts->unit * rank
                                               : NEVER_IN_PLACE;
}

static ptrdiff_t in_place_of(const tutti_op *op, int32_t rank)
{
    ptrdiff_t own;
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return 0;
    case TUTTI_OP_ALL_GATHER:
    case TUTTI_OP_GATHER:
        return own_part(&op->recv_parts, rank);
    case TUTTI_OP_SCATTER:
    case TUTTI_OP_REDUCE_SCATTER:
        own = own_part(&op->send_parts, rank);
        return own == NEVER_IN_PLACE ? own : -own;
    default:
        return NEVER_IN_PLACE;
    }
}

/* Larger calls are recorded with their times. */
static tutti_status run_timed(void *state, tutti_op *op, tutti_error *error)
{
    const struct tti_cached_call *r = state;
    return tti_task_run_timed(r->timed_group, op, error);
}

/* False: the flight recorder has no tally for calls like this one, so each is recorded with its times. */
static bool cache_tally(struct tti_cached_call *r, struct tti_group *g)
{
    tti_flight_tally_give(r->tally);
    struct tti_flight_tally *tally = tti_task_take_tally(g, &r->op);
    r->tally = tally ? tally : &r->no_tally;
    return tally || !g->flight;
}

/* A tensor without elements has no address, as a missing tensor has none: the two could be confused. */
static bool is_cacheable(const struct tti_task *t)
{
    const tutti_call *o = &t->call.options;
    return (t->op.count > 0 || t->op.kind == TUTTI_OP_BARRIER) && t->side_count == 0 && (o->flags | o->tag) == 0 &&
           o->scale == 1 && o->wire == TUTTI_WIRE_FULL;
}

/* A collision fills an entry one call too early and does no other harm. */
static uint64_t call_hash(const struct tti_group *g, const struct tti_signature *s, const tutti_op *op)
{
    const uint64_t h = ((uintptr_t)g->handle ^ s->what) * UINT64_C(0x9e3779b97f4a7c15);
    return (h ^ s->where ^ (uint64_t)op->count << 8 ^ (uint64_t)op->dtype) | 1;
}

/* The entry of a call that misses for the second time; NULL: it takes the slow path next time, too. */
static struct tti_cached_call *entry_to_fill(const struct tti_group *g, const struct tti_signature *s,
                                             const tutti_op *op)
{
    if (!tti_thread.cached_calls && !(tti_thread.cached_calls = make_entries())) {
        return NULL;
    }
    struct tti_cached_call *r = entry_of(tti_thread.cached_calls, g->handle, s->what);
    const uint64_t seen = call_hash(g, s, op);
    if (r->seen != seen) { /* a call that comes once is not worth an entry */
        r->seen = seen;
        return NULL;
    }
    r->group = NULL;
    return r;
}

/* What collectives and messages have in common. */
static void fill(struct tti_cached_call *r, const struct tti_group *g, const struct tti_signature *s)
{
    r->group = g->handle;
    r->cached_handle = tti_handles_cache(&tti_groups, r->group);
    r->timeout_ms = g->timeout_ms;
    r->rank = g->rank;
    memset(r->backend, 0, sizeof(r->backend));
    snprintf(r->backend, sizeof(r->backend), "%s", g->backend->name);
    r->what = s->what;
    r->where = s->where;
}

void tti_call_cache_store(const struct tti_task *t)
{
    const struct tti_signature *s = t->signature;
    struct tti_group *g = t->call.group;
    struct tti_cached_call *r = is_cacheable(t) ? entry_to_fill(g, s, &t->op) : NULL;
    if (!r || !cache_tensor(r, 0, s->output, t->op.dst) || !cache_tensor(r, 1, s->input, t->op.src)) {
        return;
    }
    fill(r, g, s);
    r->lane = &g->lane_queues[t->op.lane];
    r->run = g->backend->ops->run;
    r->state = g->state;
    r->in_place = in_place_of(&t->op, t->call.rank);
    r->same = r->in_place == 0 && r->output.bytes == r->input.bytes; /* and then of one dtype */
    r->op = t->op;
    r->op.begun_ns = 0;
    memset(r->op.prepared, 0, sizeof(r->op.prepared));
    if (!cache_tally(r, g)) {
        r->timed_group = g;
        r->run = run_timed;
        r->state = r;
    }
}

void tti_call_cache_store_message(const struct tti_call *c, const struct tti_signature *s, const tutti_op *op)
{
    struct tti_group *g = c->group;
    const tutti_call *o = &c->options;
    const bool sends = op->kind == TUTTI_OP_SEND;
    const DLTensor *t = sends ? s->input : s->output;
    if (op->count == 0 || (o->flags | o->tag) != 0 || o->scale != 1 || o->wire != TUTTI_WIRE_FULL ||
        tti_group_on_device(g) || op->root == g->rank || g->size == 1 || !g->host_backend ||
        !g->host_backend->ops->run_p2p) {
        return;
    }
    struct tti_cached_call *r = entry_to_fill(g, s, op);
    if (!r || !cache_tensor(r, 0, s->output, op->dst) || !cache_tensor(r, 1, s->input, op->src)) {
        return;
    }
    r->op = *op;
    r->op.lane = o->lane;
    r->op.message = NULL;
    r->op.waits_since = NULL;
    fill(r, g, s);
    for (int32_t d = 0; d < t->ndim; d++) { /* without dimensions there is no array */
        r->shape[d] = t->shape[d];
    }
    r->op.shape = r->shape;
    r->run_p2p = g->host_backend->ops->run_p2p;
    r->state = g->host_state;
    r->in_place = NEVER_IN_PLACE;
    r->same = false;
    if (!cache_tally(r, g)) {
        r->group = NULL; /* the slow path records it */
    }
}
