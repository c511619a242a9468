/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names and texts of statuses and operations come from the X-macro lists of the public headers, so a new status has
 * both at once. Filling an error never allocates and never fails: sentences are cut at the size of the message.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *tutti_status_name(tutti_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text)                                                                                 \
    case TUTTI_##name:                                                                                                 \
        return #name;
        TUTTI_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    default:
        return "UNKNOWN";
    }
}

const char *tutti_status_string(tutti_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text)                                                                                 \
    case TUTTI_##name:                                                                                                 \
        return text;
        TUTTI_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    default:
        return "not a status of this library";
    }
}

const char *tutti_operation_name(tutti_operation operation)
{
    switch (operation) {
#define OPERATION_NAME(name, value, text)                                                                              \
    case TUTTI_OP_##name:                                                                                              \
        return text;
        TUTTI_OPERATION_LIST(OPERATION_NAME)
#undef OPERATION_NAME
    default:
        return "unknown";
    }
}

bool tti_is_resource_error(tutti_status status)
{
    return status == TUTTI_NO_MEMORY || status == TUTTI_NO_RESOURCE;
}

tutti_status tti_status_of_peer(int32_t reported)
{
#define IS_STATUS(name, value, text) reported == (value) ||
    return reported != TUTTI_OK && (TUTTI_STATUS_LIST(IS_STATUS) false) ? reported : TUTTI_PEER_CORRUPT;
#undef IS_STATUS
}

tutti_status tti_error_clear(tutti_error *error)
{
    if (error) {
        memset(error, 0,
               offsetof(tutti_error, message) +
                   1); /* runs in every successful call: does not clear the whole message */
        error->size = (uint32_t)sizeof(*error);
        error->rank = -1;
        error->suspect = -1;
    }
    return TUTTI_OK;
}

tutti_status tti_error_set(tutti_error *error, tutti_status status, const char *format, ...)
{
    if (error) {
        /* The sentence may quote the message that is about to be overwritten, so it is built aside. */
        char message[sizeof(error->message)];
        va_list args;
        va_start(args, format);
        vsnprintf(message, sizeof(message), format, args);
        va_end(args);
        tti_error_clear(error);
        error->status = status;
        memcpy(error->message, message, sizeof(message));
    }
    return status;
}

bool tti_error_quotes_failure(const tutti_error *error)
{
    return strstr(error->message, "the group has failed: ") != NULL;
}

tutti_status tti_error_revoked(tutti_error *error, const tutti_error *cause)
{
    if (tti_error_quotes_failure(cause)) {
        tti_error_set(error, TUTTI_REVOKED, "%s", cause->message);
    } else {
        tti_error_set(error, TUTTI_REVOKED, "the group has failed: %.360s; make a new group of the remaining ranks",
                      cause->message);
    }
    if (error) {
        error->scope = TUTTI_SCOPE_GROUP;
        error->suspect = cause->suspect;
        error->vendor_code = cause->status;
    }
    return TUTTI_REVOKED;
}

tutti_status tti_error_system(tutti_error *error, int errnum, const char *format, ...)
{
    tutti_status status = TUTTI_SYSTEM;
    if (errnum == ENOMEM) {
        status = TUTTI_NO_MEMORY;
    } else if (errnum == EMFILE || errnum == ENFILE || errnum == EAGAIN || errnum == ENOSPC || errnum == EDQUOT ||
               errnum == ENOBUFS) {
        status = TUTTI_NO_RESOURCE;
    }
    if (error) {
        char what[256];
        va_list args;
        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        char text[96];
        tti_error_set(error, status, "%s: %s", what, strerror_r(errnum, text, sizeof(text)));
        error->vendor_code = errnum;
    }
    return status;
}
