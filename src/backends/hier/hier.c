/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hier: a group over several hosts, made of an engine inside each host and engines between hosts, which the core opens
 * for it. A collective is a sequence of steps on these engines; its file in collectives/ lists the steps and their
 * cost. This file has the table of the backend's functions. See docs/hier.md.
 */
#include "backends/hier/hier.h"

#include <stdio.h>

#include "backends/hier/collectives/collectives.h"
#include "backends/hier/failure.h"
#include "backends/hier/messages.h"
#include "backends/hier/open.h"
#include "backends/wire_all_reduce.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "tensor/dtype.h"

#define PROMISES                                                                                                       \
    (TUTTI_CAP_RANK_ORDER | TUTTI_CAP_ROUND_ONCE | TUTTI_CAP_SAME_BITS | TUTTI_CAP_CHECKS_CALLS | TUTTI_CAP_CANCEL |   \
     TUTTI_CAP_WIRE)

static int32_t available(char *why, size_t capacity)
{
    snprintf(why, capacity, "%s", "always (hier.inner and hier.outer name the backends that it consists of)");
    return 1;
}

/* The steps of an operation: inside a host, and between hosts. */
struct composition {
    tutti_operation inside[2];
    tutti_operation between;
    tutti_status (*run)(struct tti_hier_call *c, tutti_error *error);
};

static const struct composition compositions[] = {
    [TUTTI_OP_ALL_REDUCE] = {{TUTTI_OP_REDUCE_SCATTER, TUTTI_OP_ALL_GATHER}, TUTTI_OP_ALL_REDUCE, tti_hier_all_reduce},
    [TUTTI_OP_REDUCE] = {{TUTTI_OP_REDUCE_SCATTER, TUTTI_OP_ALL_TO_ALL}, TUTTI_OP_REDUCE, tti_hier_reduce},
    [TUTTI_OP_BROADCAST] = {{TUTTI_OP_BROADCAST, TUTTI_OP_ALL_GATHER}, TUTTI_OP_BROADCAST, tti_hier_broadcast},
    [TUTTI_OP_ALL_GATHER] = {{TUTTI_OP_ALL_TO_ALL, TUTTI_OP_ALL_GATHER}, TUTTI_OP_ALL_GATHER, tti_hier_all_gather},
    [TUTTI_OP_GATHER] = {{TUTTI_OP_ALL_TO_ALL, TUTTI_OP_ALL_TO_ALL}, TUTTI_OP_ALL_TO_ALL, tti_hier_gather},
    [TUTTI_OP_SCATTER] = {{TUTTI_OP_ALL_TO_ALL, TUTTI_OP_ALL_TO_ALL}, TUTTI_OP_ALL_TO_ALL, tti_hier_scatter},
    [TUTTI_OP_REDUCE_SCATTER] = {{TUTTI_OP_REDUCE_SCATTER, TUTTI_OP_ALL_TO_ALL},
                                 TUTTI_OP_REDUCE_SCATTER,
                                 tti_hier_reduce_scatter},
    [TUTTI_OP_ALL_TO_ALL] = {{TUTTI_OP_ALL_TO_ALL, TUTTI_OP_ALL_TO_ALL}, TUTTI_OP_ALL_TO_ALL, tti_hier_all_to_all},
    [TUTTI_OP_BARRIER] = {{TUTTI_OP_BARRIER, TUTTI_OP_BARRIER}, TUTTI_OP_BARRIER, tti_hier_barrier},
};

static const struct composition *composition_of(tutti_operation kind)
{
    const bool known = kind > 0 && (size_t)kind < sizeof(compositions) / sizeof(compositions[0]);
    return known ? &compositions[kind] : NULL;
}

static bool can(const tutti_engine *engine, const tutti_op *op, tutti_operation kind)
{
    tutti_op step = *op;
    step.kind = kind;
    step.wire = TUTTI_WIRE_FULL;
    return engine->backend->ops->supports(engine->state, &step) != NULL;
}

static const char *supports(void *state, const tutti_op *op)
{
    const struct tti_hier *s = state;
    const struct composition *r = composition_of(op->kind);
    if (op->on_device) {
        return NULL;
    }
    if (!s->inner || !r) {
        return s->flat->backend->ops->supports(s->flat->state, op);
    }
    const bool between =
        op->wire != TUTTI_WIRE_FULL ? tti_wire_can(s->flat->backend, s->flat->state, op) : can(s->flat, op, r->between);
    return between && can(s->inner, op, r->inside[0]) && can(s->inner, op, r->inside[1]) ? "composed" : NULL;
}

static tutti_status run_flat(struct tti_hier *s, tutti_op *op, tutti_error *error)
{
    const tutti_status status = s->flat->backend->ops->run(s->flat->state, op, error);
    if (status > TUTTI_MISMATCH) {
        tti_hier_failure(s, NULL);
    }
    return status;
}

static tutti_status run(void *state, tutti_op *op, tutti_error *error)
{
    struct tti_hier *s = state;
    const struct composition *r = composition_of(op->kind);
    if (!s->inner) {
        return run_flat(s, op, error);
    }
    struct tti_hier_call c = {.s = s,
                              .lane = &s->lane[op->lane],
                              .op = op,
                              .begun_ns = op->begun_ns != 0 ? op->begun_ns : tti_now_ns(),
                              .item = op->kind == TUTTI_OP_BARRIER ? 1 : tti_dtype_size(op->dtype)};
    op->sequence = atomic_fetch_add_explicit(&c.lane->calls, 1, memory_order_relaxed) + 1;
    tutti_status status = tti_hier_usable(s, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!r || !r->run) {
        return tti_error_set(error, TUTTI_UNSUPPORTED, "backend hier has no %s", tutti_operation_name(op->kind));
    }
    status = r->run(&c, error);
    op->in_use = atomic_load_explicit(&c.lane->in_use, memory_order_relaxed);
    return status;
}

static uint32_t capabilities(void *state)
{
    const struct tti_hier *s = state;
    if (!s->inner) {
        return s->flat->capabilities & (PROMISES | TUTTI_CAP_OWN_THREAD);
    }
    return (s->inner->capabilities & s->flat->capabilities & TUTTI_CAP_SAME_BITS) | TUTTI_CAP_WIRE |
           (s->flat->capabilities & TUTTI_CAP_OWN_THREAD);
}

/* ---- description ------------------------------------------------------------------------------------------------- */

static void append_engine(struct tti_text *t, const tutti_engine *engine)
{
    const tutti_backend_ops *ops = engine->backend->ops;
    if (ops->describe) {
        t->length += ops->describe(engine->state, tti_text_end(t), tti_text_room(t));
    }
}

static size_t describe(void *state, char *text, size_t capacity)
{
    const struct tti_hier *s = state;
    const struct tti_hosts *h = &s->hosts;
    struct tti_text t = {.at = text, .capacity = capacity};
    tti_append(&t, "  hier: %d host%s:", h->count, h->count == 1 ? "" : "s");
    for (int32_t host = 0; host < h->count; host++) {
        tti_append(&t, "%s %d (rank%s", host > 0 ? "," : "", host, tti_host_ranks(h, host) == 1 ? "" : "s");
        for (int32_t local_rank = 0; local_rank < tti_host_ranks(h, host); local_rank++) {
            tti_append(&t, "%s %d", local_rank > 0 ? "," : "", tti_host_member(h, host, local_rank));
        }
        tti_append(&t, ")");
    }
    if (!s->inner) {
        tti_append(&t, "; backend %s does everything\n", s->flat->backend->name);
    } else {
        tti_append(&t, "; inside a host %s, between hosts %s on %d rail%s, in chunks of %zu bytes; messages %s\n",
                   s->inner->backend->name, s->flat->backend->name, h->rails, h->rails == 1 ? "" : "s", s->chunk,
                   s->flat->backend->name);
        append_engine(&t, s->inner);
    }
    append_engine(&t, s->flat);
    return t.length;
}

static const char *algorithm(void *state, int32_t lane)
{
    const struct tti_hier *s = state;
    const tutti_backend_ops *ops = s->flat->backend->ops;
    if (!s->inner) {
        return ops->algorithm ? ops->algorithm(s->flat->state, lane) : NULL;
    }
    return atomic_load_explicit(&s->lane[lane].calls, memory_order_relaxed) > 0 ? "hierarchical" : NULL;
}

static const tutti_backend_ops ops = {
    .size = sizeof(tutti_backend_ops),
    .available = available,
    .open = tti_hier_open,
    .close = tti_hier_close,
    .supports = supports,
    .run = run,
    .run_p2p = tti_hier_run_p2p,
    .probe = tti_hier_probe,
    .describe = describe,
    .failure = tti_hier_failure,
    .capabilities = capabilities,
    .abort = tti_hier_abort,
    .post_p2p = tti_hier_post_p2p,
    .test_p2p = tti_hier_test_p2p,
    .attend_p2p = tti_hier_attend_p2p,
    .wake_p2p = tti_hier_wake_p2p,
    .cancel_p2p = tti_hier_cancel_p2p,
    .end_p2p = tti_hier_end_p2p,
    .algorithm = algorithm,
};

const tutti_backend tti_backend_hier = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(tutti_backend),
    .name = TTI_HIER_NAME,
    .priority = 60,
    .capabilities = TUTTI_CAP_COMPOSED,
    .ops = &ops,
};
