/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intents: no rank touches a tensor whose owner's call has returned an error. Dekker's pattern, all seq_cst:
 *   a rank that touches another rank's tensor   stores its intent, then reads the alarm, before each chunk
 *   a rank that aborts                          raises the alarm, then reads all intents
 * So either the first sees the alarm and stops, or the second sees the intent and waits for the end of the chunk.
 * Chunks are short. Cost: two stores and two loads for each chunk of 64 KiB.
 *
 * A thread always ends its chunk. A process may be stopped or killed in the middle of one. Then the rank that aborts
 * takes its own output away instead: at once if the death is known, else after TTI_INTENT_WAIT_NS. It maps fresh pages
 * over the whole pages of the output, so later writes go to pages that no process owns. A page that the output shares
 * with other memory stays: another thread may be using that. There, at most 4,095 bytes at each end of the output, a
 * late write still lands. What a process has read of a tensor does not count if the alarm was raised meanwhile: its
 * owner may have returned, and have changed it. tests/models/intent.pml checks the protocol between threads.
 */
#include "engine/memory/intent.h"

#include <sched.h>

#include "engine/failure/fault.h"
#include "engine/memory/expose.h"
#include "engine/wait/publish.h"

tutti_status tti_intent_begin(struct tti_lane *lane)
{
    struct tti_engine *e = lane->engine;
    _Atomic uint64_t *intent = &tti_progress_of(lane, e->rank)->intent;
    atomic_store_explicit(intent, 1, memory_order_seq_cst); /* pairs with the load in tti_await_intents */
    const tutti_status status = tti_fault_check_alarm(lane, atomic_load_explicit(tti_alarm(e), memory_order_seq_cst));
    if (status != TUTTI_OK) {
        tti_intent_drop(lane);
    }
    return status;
}

void tti_intent_drop(struct tti_lane *lane)
{
    /* release: the accesses of the chunk come before; pairs with the load in tti_await_intents */
    atomic_store_explicit(&tti_progress_of(lane, lane->engine->rank)->intent, 0, memory_order_release);
}

tutti_status tti_intent_end(struct tti_lane *lane)
{
    struct tti_engine *e = lane->engine;
    if (e->direct) { /* a thread's chunk counts: the owner waits for its end */
        tti_intent_drop(lane);
        return TUTTI_OK;
    }
    /* seq_cst: after the accesses of the chunk, before the load of the alarm; pairs with the load in
     * tti_await_intents */
    atomic_store_explicit(&tti_progress_of(lane, e->rank)->intent, 0, memory_order_seq_cst);
    return tti_fault_check_alarm(lane, atomic_load_explicit(tti_alarm(e), memory_order_seq_cst));
}

void tti_await_intents(struct tti_lane *lane)
{
    struct tti_engine *e = lane->engine;
    const tutti_op *op = lane->op;
    if (!e->direct && (lane->output == 0 || !tti_peers_write_output(lane, e->rank))) {
        return; /* peers only read, and what they read now does not count */
    }
    int64_t until = tti_now_ns() + TTI_INTENT_WAIT_NS;
    for (int r = 0; r < e->size; r++) {
        while (r != e->rank && atomic_load_explicit(&tti_progress_of(lane, r)->intent, memory_order_seq_cst) != 0) {
            if (tti_chunk_is_lost(e, r, until)) {
                tti_heap_orphan(e->heap, op->dst, tti_output_extent(lane, op));
                return;
            }
            sched_yield();
        }
    }
}
