/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of the backends local and shm, which both run the shared-memory engine. Each hands its arguments to the
 * engine of the group. */
#include "backends/engine_ops.h"

#include "engine/failure/absent.h"
#include "engine/failure/agreement.h"
#include "engine/run.h"

static struct tti_engine *engine_of(void *state)
{
    return ((struct tti_engine_state *)state)->engine;
}

const char *tti_ops_supports(void *state, const tutti_op *op)
{
    return tti_engine_supports(engine_of(state), op);
}

tutti_status tti_ops_run(void *state, tutti_op *op, tutti_error *error)
{
    return tti_engine_run(engine_of(state), op, error);
}

tutti_status tti_ops_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error)
{
    return tti_engine_run_p2p(engine_of(state), ops, count, timeout_ms, error);
}

int32_t tti_ops_start(void *state, tutti_op *op)
{
    return tti_engine_start(engine_of(state), op);
}

int32_t tti_ops_poll(void *state, const tutti_op *op)
{
    return tti_engine_poll(engine_of(state), op);
}

tutti_status tti_ops_finish(void *state, tutti_op *op, tutti_error *error)
{
    return tti_engine_finish(engine_of(state), op, error);
}

void tti_ops_abort(void *state, int32_t lane, const tutti_error *cause)
{
    tti_engine_abort(engine_of(state), lane, cause);
}

tutti_status tti_ops_post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                              tutti_error *error)
{
    return tti_engine_post_p2p(engine_of(state), ops, count, timeout_ms, batch, error);
}

int32_t tti_ops_test_p2p(void *state, void *batch)
{
    return tti_engine_test_p2p(engine_of(state), batch);
}

void tti_ops_attend_p2p(void *state, void *batch, int64_t until_ns)
{
    tti_engine_attend_p2p(engine_of(state), batch, until_ns);
}

void tti_ops_wake_p2p(void *state)
{
    tti_engine_wake_p2p(engine_of(state));
}

int32_t tti_ops_cancel_p2p(void *state, void *batch)
{
    return tti_engine_cancel_p2p(engine_of(state), batch);
}

tutti_status tti_ops_end_p2p(void *state, void *batch, tutti_error *error)
{
    return tti_engine_end_p2p(engine_of(state), batch, error);
}

tutti_status tti_ops_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                           tutti_error *error)
{
    return tti_engine_probe(engine_of(state), peer, tag, found, message, error);
}

size_t tti_ops_describe(void *state, char *text, size_t capacity)
{
    return tti_engine_describe(engine_of(state), text, capacity);
}

const char *tti_ops_algorithm(void *state, int32_t lane)
{
    return tti_engine_algorithm(engine_of(state), lane);
}

tutti_status tti_ops_failure(void *state, tutti_error *error)
{
    return tti_engine_failure(engine_of(state), error);
}

void tti_ops_revoke(void *state, tutti_operation how)
{
    tti_engine_revoke(engine_of(state), how);
}

void tti_ops_lost(void *state, uint64_t *ranks)
{
    tti_engine_lost(engine_of(state), ranks);
}

tutti_status tti_ops_agree(void *state, tutti_agreement *agreement, tutti_error *error)
{
    return tti_engine_agree(engine_of(state), agreement, error);
}

tutti_status tti_ops_peer_status(void *state, int32_t rank, tutti_error *error)
{
    return tti_engine_peer_status(engine_of(state), rank, error);
}
