/* SPDX-License-Identifier: BSD-3-Clause */
/* What the backends over the shared-memory engine have in common: every state starts with its engine, so the table
 * entries for running operations are the same functions. */
#ifndef TTI_BACKENDS_ENGINE_OPS_H
#define TTI_BACKENDS_ENGINE_OPS_H

#include "engine/engine.h"

struct tti_engine_state {
    struct tti_engine *engine;
};

const char *tti_ops_supports(void *state, const tutti_op *op);
tutti_status tti_ops_run(void *state, tutti_op *op, tutti_error *error);
tutti_status tti_ops_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
tutti_status tti_ops_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                           tutti_error *error);
size_t tti_ops_describe(void *state, char *text, size_t capacity);
tutti_status tti_ops_failure(void *state, tutti_error *error);

/* The layout of a group from its size and the "engine.*" settings, and what these say of the options. */
struct tti_layout tti_ops_layout(const tutti_open_info *info);
void tti_ops_options(const tutti_open_info *info, struct tti_engine_options *options);

#endif
