/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of cancellation tokens share. */
#ifndef TESTS_UNIT_CORE_ASYNC_TOKEN_SUPPORT_H
#define TESTS_UNIT_CORE_ASYNC_TOKEN_SUPPORT_H

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "core/async/timer.h"
#include "core/async/token.h"

#define HOUR_MS    3600000
#define WAIT_LIMIT (30 * INT64_C(1000000000)) /* limit for events that must come; a test that reaches it has failed */

/* A link as an operation has it. */
struct listener {
    struct tti_token_link link;
    int notified; /* no atomic: after an unlink it is read without a race */
    bool late;
};

static inline bool notified(struct tti_token_link *link)
{
    struct listener *l = (struct listener *)link;
    l->notified++;
    return l->late;
}

static inline struct listener listener(bool late)
{
    return (struct listener){.link = {.fired = notified}, .late = late};
}

static inline tutti_cancel_token *make(tutti_cancel_token *parent, int64_t limit_ms)
{
    tutti_error e;
    tutti_cancel_token *token = NULL;
    assert_int_equal(tutti_cancel_token_create(parent, limit_ms, &token, &e), TUTTI_OK);
    assert_int_equal(e.status, TUTTI_OK);
    assert_non_null(token);
    return token;
}

static inline bool fired(tutti_cancel_token *token)
{
    int32_t answer = -1;
    assert_int_equal(tutti_cancel_token_fired(token, &answer), TUTTI_OK);
    assert_true(answer == 0 || answer == 1);
    return answer == 1;
}

static inline int64_t cancel(tutti_cancel_token *token)
{
    tutti_error e;
    int64_t began = -1;
    assert_int_equal(tutti_cancel_token_cancel(token, &began, &e), TUTTI_OK);
    assert_int_equal(e.status, TUTTI_OK);
    return began;
}

static inline void destroy(tutti_cancel_token *token)
{
    tutti_error e;
    assert_int_equal(tutti_cancel_token_destroy(token, &e), TUTTI_OK);
    assert_int_equal(e.status, TUTTI_OK);
}

/* For the end of a program: tokens with a limit have started the timer's thread. */
static inline int stop_timer(void **state)
{
    (void)state;
    tti_timer_shutdown();
    return 0;
}

#endif
