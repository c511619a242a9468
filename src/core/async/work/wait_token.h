/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for the end of a work or the firing of a token. */
#ifndef TTI_CORE_ASYNC_WORK_WAIT_TOKEN_H
#define TTI_CORE_ASYNC_WORK_WAIT_TOKEN_H

#include <tutti/work.h>

struct tti_work;

/* tti_work_wait that also stops, with CANCELLED, when the token fires. The status of the work if it has ended, BUSY at
 * until_ns. */
tutti_status tti_work_wait_token(struct tti_work *w, int64_t until_ns, tutti_cancel_token *token, tutti_error *error);

#endif
