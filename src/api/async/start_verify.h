/* SPDX-License-Identifier: BSD-3-Clause */
/* What the functions that take a tutti_start_function make sure of: its work is what it was told to start. */
#ifndef TTI_API_START_VERIFY_H
#define TTI_API_START_VERIFY_H

#include <stdbool.h>
#include <tutti/work.h>

/* What a start function was given. */
struct tti_start_expected {
    tutti_group *group;        /* NULL: the operation may run on any */
    int64_t operation_id;      /* 0: the operation may have any */
    int64_t timeout_ms;        /* 0: the operation may have any */
    tutti_cancel_token *token; /* NULL: the operation may have any */
    bool cancel;               /* an operation that is something else is cancelled where possible */
};

/* What a start function has answered, made whole: it may have failed without filling the error, forgotten the work, or
 * started something else. In that case the work is waited for and given back, except in a callback of its group, where it
 * is only given back. *error is filled, with a sentence without its subject's name in front. */
tutti_status tti_start_verify(tutti_status status, tutti_work *work, const struct tti_start_expected *order,
                              tutti_error *error);

#endif
