/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancellation tokens, the last part of tutti/work.h. */
#include <tutti/work.h>

#include "base/error.h"
#include "core/async/token.h"

/* The token, acquired; or NULL with the status and a sentence. */
static struct tti_token *hold(tutti_cancel_token *handle, const char *function, const char *name, tutti_error *error,
                              tutti_status *status)
{
    struct tti_token *token = tti_token_acquire(handle, status);
    if (!token) {
        tti_handle_error(error, *status, function, name, TTI_KIND_TOKEN);
    }
    return token;
}

static tutti_status finish(tutti_error *error, tutti_status status)
{
    return status == TUTTI_OK ? tti_error_clear(error) : status;
}

tutti_status tutti_cancel_token_create(tutti_cancel_token *parent, int64_t limit_ms, tutti_cancel_token **token,
                                       tutti_error *error)
{
    if (!token) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "cancel_token_create: the pointer for the token is NULL");
    }
    if (limit_ms < TUTTI_FOREVER) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "cancel_token_create: limit_ms is %lld; it must be -1 (never), 0 (at once) or positive",
                             (long long)limit_ms);
    }
    tutti_status status = TUTTI_OK;
    struct tti_token *p = NULL;
    if (parent && !(p = hold(parent, "cancel_token_create", "parent token", error, &status))) {
        return status;
    }
    status = tti_token_create(p, limit_ms, token, error);
    if (p) {
        tti_token_release(p);
    }
    return finish(error, status);
}

tutti_status tutti_cancel_token_cancel(tutti_cancel_token *token, int64_t *began, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_token *t = hold(token, "cancel_token_cancel", "token", error, &status);
    if (!t) {
        return status;
    }
    int64_t too_late = tti_token_fire(t);
    if (began) {
        *began = too_late;
    }
    tti_token_release(t);
    return finish(error, TUTTI_OK);
}

tutti_status tutti_cancel_token_fired(tutti_cancel_token *token, int32_t *fired)
{
    if (!fired) {
        return TUTTI_INVALID_ARGUMENT;
    }
    tutti_status status = TUTTI_OK;
    struct tti_token *t = tti_token_acquire(token, &status);
    if (!t) {
        return status;
    }
    *fired = tti_token_fired(t);
    tti_token_release(t);
    return TUTTI_OK;
}

tutti_status tutti_cancel_token_destroy(tutti_cancel_token *token, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_token *t = hold(token, "cancel_token_destroy", "token", error, &status);
    if (!t) {
        return status;
    }
    status = tti_token_destroy(t);
    if (status != TUTTI_OK) {
        tti_error_set(error, status,
                      "cancel_token_destroy: another thread is inside a call on the token; destroy it after that "
                      "call");
    }
    return finish(error, status);
}
