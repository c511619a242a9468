/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that the work of a tutti_start_function has the given options. */
#ifndef TTI_API_ASYNC_START_VERIFY_H
#define TTI_API_ASYNC_START_VERIFY_H

#include <stdbool.h>
#include <tutti/work.h>

/* The options that a start function was given. */
struct tti_start_expected {
    tutti_group *group;        /* NULL: the operation may run on any */
    int64_t operation_id;      /* 0: the operation may have any */
    int64_t timeout_ms;        /* 0: the operation may have any */
    tutti_cancel_token *token; /* NULL: the operation may have any */
    bool cancel;               /* cancel an operation with other options, if possible */
};

/* The status of a start function, after checks: it may have failed without filling the error, returned no work, or
 * started another operation. That operation is awaited and its work released; in a callback of its group it is only
 * released. Fills *error, with a sentence without the function's name. */
tutti_status tti_start_verify(tutti_status status, tutti_work *work, const struct tti_start_expected *order,
                              tutti_error *error);

#endif
