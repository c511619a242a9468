/* SPDX-License-Identifier: BSD-3-Clause */
/* What the backends local and shm have in common. The state of each begins with its engine, so most functions of their
 * tables are the same. */
#ifndef TTI_BACKENDS_ENGINE_OPS_H
#define TTI_BACKENDS_ENGINE_OPS_H

#include "engine/engine.h"

struct tti_engine_state {
    struct tti_engine *engine;
};

const char *tti_ops_supports(void *state, const tutti_op *op);
tutti_status tti_ops_run(void *state, tutti_op *op, tutti_error *error);
tutti_status tti_ops_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
int32_t tti_ops_start(void *state, tutti_op *op);
int32_t tti_ops_poll(void *state, const tutti_op *op);
tutti_status tti_ops_finish(void *state, tutti_op *op, tutti_error *error);
void tti_ops_abort(void *state, int32_t lane, const tutti_error *cause);
tutti_status tti_ops_post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                              tutti_error *error);
int32_t tti_ops_test_p2p(void *state, void *batch);
void tti_ops_attend_p2p(void *state, void *batch, int64_t until_ns);
void tti_ops_wake_p2p(void *state);
int32_t tti_ops_cancel_p2p(void *state, void *batch);
tutti_status tti_ops_end_p2p(void *state, void *batch, tutti_error *error);
tutti_status tti_ops_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                           tutti_error *error);
size_t tti_ops_describe(void *state, char *text, size_t capacity);
const char *tti_ops_algorithm(void *state, int32_t lane);
tutti_status tti_ops_failure(void *state, tutti_error *error);
void tti_ops_revoke(void *state, tutti_operation how);
void tti_ops_lost(void *state, uint64_t *ranks);
tutti_status tti_ops_agree(void *state, tutti_agreement *agreement, tutti_error *error);
tutti_status tti_ops_peer_status(void *state, int32_t rank, tutti_error *error);

/* The common entries of the tables. */
#define TTI_ENGINE_OPS                                                                                                 \
    .size = sizeof(tutti_backend_ops), .supports = tti_ops_supports, .run = tti_ops_run, .run_p2p = tti_ops_run_p2p,   \
    .probe = tti_ops_probe, .describe = tti_ops_describe, .failure = tti_ops_failure, .abort = tti_ops_abort,          \
    .start = tti_ops_start, .poll = tti_ops_poll, .finish = tti_ops_finish, .post_p2p = tti_ops_post_p2p,              \
    .test_p2p = tti_ops_test_p2p, .attend_p2p = tti_ops_attend_p2p, .wake_p2p = tti_ops_wake_p2p,                      \
    .cancel_p2p = tti_ops_cancel_p2p, .end_p2p = tti_ops_end_p2p, .algorithm = tti_ops_algorithm,                      \
    .revoke = tti_ops_revoke, .lost = tti_ops_lost, .agree = tti_ops_agree, .peer_status = tti_ops_peer_status

/* The capabilities of the engine. */
#define TTI_ENGINE_CAPABILITIES                                                                                        \
    (TUTTI_CAP_RANK_ORDER | TUTTI_CAP_ROUND_ONCE | TUTTI_CAP_SAME_BITS | TUTTI_CAP_CHECKS_CALLS | TUTTI_CAP_CANCEL |   \
     TUTTI_CAP_ONE_HOST | TUTTI_CAP_RECOVER | TUTTI_CAP_GROW)

#endif
