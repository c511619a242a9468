/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pipeline of a lane: three slots of pinned memory, used cyclically, one stream for copies from the device and one
 * for copies to it. While the engine works on chunk k, chunk k+1 is copied in and chunk k-1 is copied out:
 *
 *     in       load 0 | load 1 | load 2 (behind the store of what the slot held before)
 *     engine            run 0  | run 1  | run 2
 *     out                        store 0 | store 1 | store 2
 *
 * The streams wait for one another; this thread waits only for a load before the engine reads it, and for the last
 * store. A rank that cannot copy arrives all the same, as a rank that cannot take part, so that the other ranks get an
 * error.
 */
#include "core/memory/staging.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/operation.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"
#include "core/memory/chunks.h"
#include "core/memory/staging_memory.h"
#include "engine/descriptor.h"

#define DRAIN_NS 1000000000 /* for copies under way when an operation has failed */

tutti_status tti_staging_create(struct tti_group *g, DLDevice device, struct tti_staging **staging, tutti_error *error)
{
    const size_t counts = 2 * (size_t)g->size * (size_t)g->lanes;
    struct tti_staging *s = calloc(1, sizeof(*s) + counts * sizeof(s->counts[0]));
    if (!s) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group on a device");
    }
    s->device = tti_device_of(device.device_type);
    s->index = device.device_id;
    s->to_device = g->stages_to_device;
    pthread_mutex_init(&s->lock, NULL);
    *staging = s;
    return TUTTI_OK;
}

static void close_pipeline(const struct tti_device *d, struct tti_staging_pipeline *p)
{
    for (int i = 0; i < TTI_STAGING_SLOTS; i++) {
        if (p->slots[i].loaded) {
            d->event_destroy(p->slots[i].loaded, NULL);
        }
        if (p->slots[i].stored) {
            d->event_destroy(p->slots[i].stored, NULL);
        }
    }
    if (p->in) {
        d->stream_destroy(p->in, NULL);
    }
    if (p->out) {
        d->stream_destroy(p->out, NULL);
    }
}

void tti_staging_free(struct tti_staging *s)
{
    struct tti_device_scope scope;
    if (!s) {
        return;
    }
    if (s->device->enter(s->index, &scope, NULL) == TUTTI_OK) { /* else the device is gone, and its memory with it */
        for (int i = 0; i < TUTTI_MAX_LANES; i++) {
            close_pipeline(s->device, &s->lanes[i]);
        }
        tti_staging_blocks_free(s);
        s->device->leave(&scope);
    }
    pthread_mutex_destroy(&s->lock);
    free(s->blocks);
    free(s);
}

/* ---- collectives ------------------------------------------------------------------------------------------------ */

static tutti_status open_pipeline(const struct tti_device *d, struct tti_staging_pipeline *p, tutti_error *error)
{
    tutti_status status = p->in ? TUTTI_OK : d->stream_create(&p->in, error);
    if (status == TUTTI_OK && !p->out) {
        status = d->stream_create(&p->out, error);
    }
    for (int i = 0; i < TTI_STAGING_SLOTS && status == TUTTI_OK; i++) {
        struct tti_staging_slot *slot = &p->slots[i];
        status = slot->loaded ? TUTTI_OK : d->event_create(&slot->loaded, error);
        if (status == TUTTI_OK && !slot->stored) {
            status = d->event_create(&slot->stored, error);
        }
    }
    p->ready = status == TUTTI_OK;
    return status;
}

/* Memory for the largest chunk in as many slots as are used. */
static tutti_status make_room(struct tti_staging *s, struct tti_staging_pipeline *p, int64_t chunks, size_t bytes,
                              tutti_error *error)
{
    tutti_status status = p->ready ? TUTTI_OK : open_pipeline(s->device, p, error);
    for (int i = 0; i < TTI_STAGING_SLOTS && i < chunks && status == TUTTI_OK; i++) {
        struct tti_staging_slot *slot = &p->slots[i];
        if (slot->bytes < bytes) {
            if (slot->memory) {
                tti_staging_block_give(s, slot->memory, TTI_UNTIL_GIVEN_BACK);
            }
            slot->memory = NULL;
            slot->bytes = 0;
            status = tti_staging_block_take(s, bytes, s->to_device, &slot->memory, &slot->bytes, error);
        }
    }
    return status;
}

/* One collective on its way through a pipeline. */
struct staged_run {
    struct tti_group *group;
    tutti_op *op; /* uncut */
    const tutti_backend *engine;
    void *state;
    const struct tti_device *device;
    struct tti_staging_pipeline *pipeline;
    struct tti_chunks chunks;
    size_t out_at; /* where the output begins in a slot */
    int64_t *counts;
    int64_t deadline_ns;
    tutti_error *error;
};

static tutti_status load(const struct staged_run *x, int64_t k)
{
    const struct tti_device *d = x->device;
    struct tti_staging_pipeline *p = x->pipeline;
    const struct tti_staging_slot *slot = &p->slots[k % TTI_STAGING_SLOTS];
    tutti_status status = k >= TTI_STAGING_SLOTS ? d->stream_wait_event(p->in, slot->stored, x->error) : TUTTI_OK;
    if (status == TUTTI_OK) {
        status = tti_chunks_load(&x->chunks, k, slot->memory, d, p->in, x->error);
    }
    return status == TUTTI_OK ? d->event_record(slot->loaded, p->in, x->error) : status;
}

static tutti_status store(const struct staged_run *x, int64_t k)
{
    const struct tti_device *d = x->device;
    struct tti_staging_pipeline *p = x->pipeline;
    const struct tti_staging_slot *slot = &p->slots[k % TTI_STAGING_SLOTS];
    tutti_status status =
        tti_chunks_store(&x->chunks, k, (unsigned char *)slot->memory + x->out_at, d, p->out, x->error);
    return status == TUTTI_OK ? d->event_record(slot->stored, p->out, x->error) : status;
}

/* In a rooted call some ranks do not wait, and would learn of a mismatch only after the first chunk, when the others
 * have aborted. So all ranks wait before it: TUTTI_CANCELLABLE makes the engine run its round before the call. */
static uint32_t round_before(const struct staged_run *x, int64_t k)
{
    const bool can = (tti_engine_capabilities(x->engine, x->state) & TUTTI_CAP_CANCEL) != 0;
    return k == 0 && can && !tti_kind_waits_for_all(x->op->kind) ? TUTTI_CANCELLABLE : 0;
}

/* Runs a chunk on the engine; with `failed` only to report that this rank does not take part. */
static tutti_status run_chunk(struct staged_run *x, int64_t k, tutti_status failed, tutti_error *error)
{
    struct tti_staging_slot *slot = &x->pipeline->slots[k % TTI_STAGING_SLOTS];
    unsigned char *in = slot->memory; /* NULL, if there was no memory for it: then `failed` is set */
    tutti_op op = tti_chunks_op(&x->chunks, k, in, in ? in + x->out_at : NULL, x->counts);
    op.failed = failed;
    op.on_device = x->group->staging->to_device;
    op.flags |= round_before(x, k);
    tutti_status status = x->engine->ops->run(x->state, &op, error);
    x->op->sequence = op.sequence;
    if (op.in_use) {
        tti_staging_block_give(x->group->staging, in, TTI_UNTIL_PROCESS_ENDS);
        slot->memory = NULL; /* the next call must not write to it */
        slot->bytes = 0;
    }
    return status;
}

tutti_status tti_staging_waited(struct tti_group *g, int32_t lane, tutti_status status, tutti_error *error)
{
    if (status == TUTTI_TIMEOUT) {
        error->scope = TUTTI_SCOPE_GROUP;
        error->suspect = g->rank;
        tti_group_abort(g, lane, error);
    }
    return status;
}

/* The deadline has passed before the engine could begin. If the group has failed, the engine reports why. */
static tutti_status time_out_before_engine(struct staged_run *x, int64_t k)
{
    tutti_error cause;
    return tti_group_failure(x->group, &cause) != TUTTI_OK
               ? run_chunk(x, k, TUTTI_TIMEOUT, x->error)
               : tti_staging_waited(x->group, x->op->lane, TUTTI_TIMEOUT, x->error);
}

/* This rank cannot copy. On an engine that compares calls, a failed call reports it to the other ranks. On another
 * engine the group fails, since the other ranks would not notice. */
static tutti_status give_up(struct staged_run *x, int64_t k, tutti_status status)
{
    if (status == TUTTI_TIMEOUT) {
        return time_out_before_engine(x, k);
    }
    if (tti_engine_capabilities(x->engine, x->state) & TUTTI_CAP_CHECKS_CALLS) {
        tutti_error other; /* the own error is more precise */
        run_chunk(x, k, status, &other);
    } else {
        tti_group_abort(x->group, x->op->lane, x->error);
    }
    return status;
}

/* Whether the copies on the stream end in time. Else they are noted as late. */
static bool end_in_time(const struct staged_run *x, void **event, void **stream, int64_t until_ns)
{
    const struct tti_device *d = x->device;
    return d->event_record(*event, *stream, NULL) != TUTTI_OK ||
           tti_device_await_or_note(d, x->group->staging->index, event, stream, until_ns, NULL) != TUTTI_TIMEOUT;
}

/* Waits until no copy uses the tensors any more. If some do not end within DRAIN_NS, their blocks stay taken until the
 * group ends, and the lane's next call makes new streams. */
static void drain(const struct staged_run *x)
{
    struct tti_staging_pipeline *p = x->pipeline;
    if (!p->ready) {
        return;
    }
    const int64_t until = tti_now_ns() + DRAIN_NS;
    const bool in = end_in_time(x, &p->slots[0].loaded, &p->in, until);
    const bool out = end_in_time(x, &p->slots[0].stored, &p->out, until);
    if (!in || !out) {
        x->op->in_use = 1;
        for (int i = 0; i < TTI_STAGING_SLOTS; i++) {
            tti_staging_block_give(x->group->staging, p->slots[i].memory, TTI_UNTIL_GROUP_ENDS);
        }
        close_pipeline(x->device, p);
        *p = (struct tti_staging_pipeline){0};
    }
}

static tutti_status run_pipeline(struct staged_run *x)
{
    const int64_t count = x->chunks.count;
    tutti_status status = load(x, 0);
    for (int64_t k = 0; k < count; k++) {
        if (status == TUTTI_OK && k + 1 < count) {
            status = load(x, k + 1);
        }
        if (status == TUTTI_OK) {
            status =
                tti_device_await(x->device, x->pipeline->slots[k % TTI_STAGING_SLOTS].loaded, x->deadline_ns, x->error);
        }
        if (status != TUTTI_OK) {
            return give_up(x, k, status);
        }
        if ((status = run_chunk(x, k, TUTTI_OK, x->error)) != TUTTI_OK) {
            return status;
        }
        status = store(x, k);
    }
    if (status == TUTTI_OK) {
        status = tti_device_await(x->device, x->pipeline->slots[(count - 1) % TTI_STAGING_SLOTS].stored, x->deadline_ns,
                                  x->error);
    }
    return tti_staging_waited(x->group, x->op->lane, status, x->error);
}

static size_t chunk_bytes(const struct tti_group *g, const tutti_backend *engine, void *state)
{
    const tutti_backend_ops *ops = engine->ops;
    const size_t wish = ops->staging_bytes ? ops->staging_bytes(state) : 0;
    return wish > 0 ? wish : (size_t)tti_setting_number(g->settings, TTI_SET_DEVICE_CHUNK);
}

/* Makes room for the chunks, and runs them through the pipeline. */
static tutti_status run_in_chunks(struct staged_run *x)
{
    struct tti_staging *s = x->group->staging;
    size_t room[2];
    tti_chunks_room(&x->chunks, room);
    x->out_at = x->chunks.in_place ? 0 : (room[0] + 63) / 64 * 64;
    const size_t bytes = x->chunks.in_place ? (room[0] > room[1] ? room[0] : room[1]) : x->out_at + room[1];
    struct tti_device_scope scope;
    tutti_status status = s->device->enter(s->index, &scope, x->error);
    if (status != TUTTI_OK) {
        return give_up(x, 0, status);
    }
    status = make_room(s, x->pipeline, x->chunks.count, bytes > 0 ? bytes : 64, x->error);
    if (status == TUTTI_OK && x->op->after) {
        status = s->device->stream_wait_event(x->pipeline->in, x->op->after, x->error);
    }
    status = status == TUTTI_OK ? run_pipeline(x) : give_up(x, 0, status);
    if (status != TUTTI_OK) {
        drain(x);
    }
    s->device->leave(&scope);
    return status;
}

tutti_status tti_staging_run(struct tti_group *g, const tutti_backend *engine, void *state, tutti_op *op,
                             tutti_error *error)
{
    struct tti_staging *s = g->staging;
    struct staged_run x = {.group = g,
                           .op = op,
                           .engine = engine,
                           .state = state,
                           .device = s->device,
                           .pipeline = &s->lanes[op->lane],
                           .counts = s->counts + 2 * (size_t)g->size * (size_t)op->lane,
                           .error = error};
    x.deadline_ns = tti_operation_deadline_ns(op);
    tti_chunks_cut(&x.chunks, op, g->rank, g->size, chunk_bytes(g, engine, state));
    /* A cancelled call, or one without memory, copies nothing: the engine reports it to the other ranks. */
    return op->failed != TUTTI_OK ? run_chunk(&x, 0, op->failed, error) : run_in_chunks(&x);
}
