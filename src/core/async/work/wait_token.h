/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for the end of works or the firing of a token. The wait is linked to the token and does not hold it. So the
 * token may be destroyed meanwhile, and then the wait goes on without it.
 */
#ifndef TTI_CORE_ASYNC_WORK_WAIT_TOKEN_H
#define TTI_CORE_ASYNC_WORK_WAIT_TOKEN_H

#include <stdatomic.h>
#include <tutti/work.h>

#include "core/async/token.h"
#include "core/async/work/stage.h"

/* Lies on the stack of the waiting thread. */
struct tti_token_wait {
    struct tti_watch watch;
    struct tti_token_link link;
    _Atomic uint32_t ended;       /* release: work_ended; acquire: tti_token_wait_for, sleep_until_event */
    _Atomic uint32_t fired;       /* release: token_fired; acquire: the same */
    _Atomic uint32_t event_count; /* release: notify; acquire: sleep_until_event */
};

/* Errors as of tti_token_link, without a sentence. After OK the caller ends it. */
tutti_status tti_token_wait_begin(struct tti_token_wait *wait, tutti_cancel_token *token);
void tti_token_wait_end(struct tti_token_wait *wait);

/* Waits for one work; for others after it. The status of the work if it has ended, CANCELLED if the token fires or has
 * fired since the beginning, BUSY at until_ns. */
tutti_status tti_token_wait_for(struct tti_token_wait *wait, struct tti_work *w, int64_t until_ns, tutti_error *error);

/* The whole of it for one work: tti_work_wait that also stops, with CANCELLED, when the token fires. */
tutti_status tti_work_wait_token(struct tti_work *w, int64_t until_ns, tutti_cancel_token *token, tutti_error *error);

#endif
