/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a group has failed and why, and the sentences for the library's error codes. */
#ifndef TTI_BACKENDS_NCCL_FAILURE_H
#define TTI_BACKENDS_NCCL_FAILURE_H

#include "backends/nccl/state.h"

/* Records the cause; false if an earlier cause is recorded already, which stays. */
bool tti_nccl_record_cause(struct tti_nccl_group *g, const tutti_error *cause);
bool tti_nccl_has_failed(const struct tti_nccl_group *g);
/* OK, or REVOKED with the cause. */
tutti_status tti_nccl_check(struct tti_nccl_group *g, tutti_error *error);
/* As tutti_backend_ops.failure. */
tutti_status tti_nccl_failure(void *state, tutti_error *error);

/* The library's text for a code. The caller has acquired `comm`, or passes NULL. */
void tti_nccl_error_text(const struct tti_nccl_library *library, tti_nccl_comm comm, int code, char text[256]);
/* BACKEND with the code: `what` ("CommRegister") failed. */
tutti_status tti_nccl_error(const struct tti_nccl_library *library, tti_nccl_comm comm, int code, const char *what,
                            tutti_error *error);

#endif
