/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions behind the message entries of tutti_backend_ops: p2p.c. */
#ifndef TTI_ENGINE_P2P_MESSAGES_H
#define TTI_ENGINE_P2P_MESSAGES_H

#include <tutti/backend.h>

struct tti_engine;

tutti_status tti_engine_post_p2p(struct tti_engine *engine, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                 void **batch, tutti_error *error);
int32_t tti_engine_test_p2p(struct tti_engine *engine, void *batch);
void tti_engine_attend_p2p(struct tti_engine *engine, void *batch, int64_t until_ns);
void tti_engine_wake_p2p(struct tti_engine *engine);
int32_t tti_engine_cancel_p2p(struct tti_engine *engine, void *batch);
tutti_status tti_engine_end_p2p(struct tti_engine *engine, void *batch, tutti_error *error);
tutti_status tti_engine_run_p2p(struct tti_engine *engine, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                tutti_error *error);
tutti_status tti_engine_probe(struct tti_engine *engine, int32_t peer, int32_t tag, int32_t *found,
                              tutti_message *message, tutti_error *error);

#endif
