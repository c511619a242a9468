/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nobody may touch memory whose owner has returned. Before each chunk that touches another rank's tensor a rank stores its
 * intent and then reads the alarm, both seq_cst; a rank that gives up rings the alarm and then waits until no intent is
 * left, both seq_cst as well. So either the toucher sees the alarm and stops, or the one that gives up sees the intent and
 * waits for the chunk. Chunks are short.
 *
 * A thread ends its chunk, unless the whole process ends. A process may have been stopped or killed in the middle of one: the
 * one that gives up takes its own output away instead, at once where the death is known, else after a while. It lays fresh
 * pages over it, so that whatever is still written goes to pages that nobody owns.
 */
#include "engine/memory/intent.h"

#include <sched.h>

#include "engine/failure/fault.h"
#include "engine/wait/publish.h"

tutti_status tti_intent_begin(struct tti_lane *lane)
{
    struct tti_engine *e = lane->engine;
    _Atomic uint64_t *intent = &tti_progress_of(lane, e->rank)->intent;
    atomic_store_explicit(intent, 1, memory_order_seq_cst); /* partner: the load in tti_await_intents */
    const tutti_status status = tti_fault_check_alarm(lane, atomic_load_explicit(tti_alarm(e), memory_order_seq_cst));
    if (status != TUTTI_OK) {
        tti_intent_end(lane);
    }
    return status;
}

void tti_intent_end(struct tti_lane *lane)
{
    /* release: the accesses of the chunk come before; partner: the load in tti_await_intents */
    atomic_store_explicit(&tti_progress_of(lane, lane->engine->rank)->intent, 0, memory_order_release);
}

/* Only of these do others write the output. */
static bool output_is_written(const struct tti_lane *lane)
{
    const tutti_op *op = lane->op;
    return lane->output != 0 && (op->kind == TUTTI_OP_ALL_REDUCE || op->kind == TUTTI_OP_REDUCE);
}

void tti_await_intents(struct tti_lane *lane)
{
    struct tti_engine *e = lane->engine;
    const tutti_op *op = lane->op;
    if (!e->direct && !output_is_written(lane)) {
        return; /* processes that read what its owner uses again get nonsense, in a call that has failed */
    }
    int64_t until = tti_now_ns() + TTI_INTENT_WAIT_NS;
    for (int r = 0; r < e->size; r++) {
        while (r != e->rank && atomic_load_explicit(&tti_progress_of(lane, r)->intent, memory_order_seq_cst) != 0) {
            if (tti_chunk_is_lost(e, r, until)) {
                tti_heap_orphan(e->heap, op->dst, op->count * tti_dtype_size(op->dtype));
                return;
            }
            sched_yield();
        }
    }
}
