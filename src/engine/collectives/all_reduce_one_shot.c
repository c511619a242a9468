/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-shot all_reduce: every rank stages its vector, and folds the vectors of all ranks. It is an exchange of one step.
 * Cost: one epoch; bytes loaded and stored a rank: (P + 3)n. Best for vectors of a few KiB, where a second epoch costs
 * more than the bytes. ("One-shot" and "two-shot" are the terms of vLLM's and TensorRT-LLM's all_reduce.)
 */
#include "engine/collectives/all_reduce_algorithms.h"
#include "engine/collectives/exchange.h"
#include "engine/memory/copy.h"
#include "engine/memory/fold.h"
#include "engine/memory/stage.h"

static void pack_all(struct tti_lane *lane, const struct tti_exchange *x, size_t k, unsigned char *span)
{
    (void)k;
    tti_copy_counted(lane, span, x->op->src, x->chunk); /* too few bytes to go past the caches */
}

static void fold_all(struct tti_lane *lane, const struct tti_exchange *x, size_t k)
{
    struct tti_engine *e = lane->engine;
    for (int r = 0; r < e->size; r++) {
        lane->sources[r] = tti_stage_peer(lane, r, k);
    }
    lane->sources[e->rank] = x->op->src;
    tti_reduce(lane, x->op->dst, x->chunk);
}

tutti_status tti_all_reduce_one_shot(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    struct tti_exchange x = {
        .op = op, .stride = bytes, .steps = 1, .chunk = bytes, .pack = pack_all, .take_all = fold_all};
    return tti_exchange_run(lane, &x);
}
