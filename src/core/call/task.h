/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective that has passed its checks: the frame of the call, the descriptor for the backend, and compact stand-ins
 * for strided tensors. A synchronous call has its task on the stack and runs it at once. An asynchronous call has it in
 * its work (work/state.h), and a thread runs it when the lane reaches it. Backends see compact memory only. A strided
 * input is packed when the operation runs, so operations on the same tensor compose in the order of their lane; an
 * output is unpacked after it.
 *
 * All memory for stand-ins is allocated at the call. A rank without memory arrives all the same, as a rank that cannot
 * take part: it gets NO_MEMORY, the others get MISMATCH, which names it, and all stay in step.
 */
#ifndef TTI_CORE_CALL_TASK_H
#define TTI_CORE_CALL_TASK_H

#include "core/call/call.h"
#include "core/group/group_state.h"
#include "diag/flight.h"

/* A tensor of the call and its stand-in. */
struct tti_side {
    const char *name;
    const DLTensor *tensor;
    size_t bytes;
    void *memory; /* NULL: the tensor is compact, or out of memory */
    bool pack;
    bool unpack;
};

struct tti_task {
    struct tti_call call;
    tutti_op op;
    const char *function; /* for sentences: "all_reduce" */
    struct tti_side sides[2];
    int32_t side_count;
    uint64_t flight;                       /* number of its entry in the flight recorder; 0 = it has none (yet) */
    struct tti_flight_tally *tally;        /* of an operation that is started again and again, instead of entries */
    bool is_staged;                        /* the engine gets copies of the tensors: see memory/staging.h */
    bool on_host_engine;                   /* not the group's own */
    bool converts;                         /* the core converts for the engine: see wire.h */
    const DLTensor *result;                /* this rank's output; NULL if it has none */
    const struct tti_signature *signature; /* of the call, for the call cache; NULL: the call is not cached */
};

enum { TTI_PACK = 1, TTI_UNPACK = 2 };

/* Empties the parts that the checks fill. */
void tti_task_reset(struct tti_task *t, const char *function);

/* Memory for the backend in place of a strided tensor of `bytes` bytes. NULL: there is none, and op.failed is
 * NO_MEMORY. */
void *tti_task_stand_in(struct tti_task *t, const DLTensor *tensor, const char *name, size_t bytes, unsigned what);

/* Completes the descriptor from the options of the call, and finds the engine that can run it. */
tutti_status tti_task_complete(struct tti_task *t);

/* Runs it to its end on the calling thread, which owns the lane. */
tutti_status tti_task_perform(struct tti_task *t);

/* How this group runs an operation of f32, as text for people: in `text`, or a constant. */
const char *tti_task_describe(const struct tti_group *g, tutti_operation kind, char *text, size_t capacity);

static inline void tti_task_begin_tallied(const struct tti_task *t)
{
    tti_flight_call_begin(t->tally);
    tti_flight_set_since(t->tally, t->op.begun_ns);
}

/* Records the start of a task without a tally. */
void tti_task_record_start(struct tti_task *t);

/* The two steps of a backend that has `start` and `finish`, recorded. `g`: the group. Inline, since a persistent start
 * does little else. */
static inline bool tti_task_start(const struct tti_group *g, struct tti_task *t)
{
    if (g->backend->ops->start(g->state, &t->op) != 1) {
        return false;
    }
    if (t->tally) {
        tti_task_begin_tallied(t);
    } else {
        tti_task_record_start(t);
    }
    return true;
}

tutti_status tti_task_finish(struct tti_task *t);

/* Runs an operation that needs nothing but the group's engine, with an entry of its own in the flight recorder. */
tutti_status tti_task_run_timed(const struct tti_group *g, tutti_op *op, tutti_error *error);

/* The tally for repeated operations like this one, as op->waits_since needs it; NULL: use tti_task_run_timed, if the
 * group is recorded at all. */
struct tti_flight_tally *tti_task_take_tally(const struct tti_group *g, tutti_op *op);

/* The description of an operation for the flight recorder. */
struct tti_flight_op tti_task_flight_op(const tutti_op *op);

/* Frees the stand-ins. */
void tti_task_drop(struct tti_task *t);

#endif
