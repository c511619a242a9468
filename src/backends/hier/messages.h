/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, as in tutti_backend_ops. */
#ifndef TTI_BACKENDS_HIER_MESSAGES_H
#define TTI_BACKENDS_HIER_MESSAGES_H

#include <tutti/backend.h>

tutti_status tti_hier_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error);
tutti_status tti_hier_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                            tutti_error *error);
tutti_status tti_hier_post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                               tutti_error *error);
int32_t tti_hier_test_p2p(void *state, void *batch);
void tti_hier_attend_p2p(void *state, void *batch, int64_t until_ns);
void tti_hier_wake_p2p(void *state);
int32_t tti_hier_cancel_p2p(void *state, void *batch);
tutti_status tti_hier_end_p2p(void *state, void *batch, tutti_error *error);

#endif
