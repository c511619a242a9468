/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store of the application. The answers of its callbacks are not trusted: an unknown status, a length beyond the
 * limit, or success for a value that does not fit become errors here. There is no callback that removes, so a remove
 * does nothing: keys are never used twice.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/kinds/kind.h"
#include "store/store.h"

struct callback_store {
    struct tti_store base;
    tutti_store_callbacks callbacks;
};

/* Success passes; a failure gets its sentence; a number that is no status becomes BACKEND. */
static tutti_status check_status(tutti_status status, const char *function, const char *key, tutti_error *error)
{
    if (status == TUTTI_OK) {
        return status;
    }
    if (strcmp(tutti_status_name(status), "UNKNOWN") == 0) {
        tti_error_set(error, TUTTI_BACKEND, "the store callback %s returned %d for the key \"%s\", which is no status",
                      function, (int)status, key);
        if (error) {
            error->vendor_code = status;
        }
        return TUTTI_BACKEND;
    }
    return tti_error_set(error, status, "the store callback %s returned %s for the key \"%s\"", function,
                         tutti_status_name(status), key);
}

static tutti_status callback_set(struct tti_store *store, const char *key, const void *value, size_t length,
                                 tutti_error *error)
{
    const tutti_store_callbacks *callbacks = &((struct callback_store *)store)->callbacks;
    return check_status(callbacks->set(callbacks->user, key, value, length), "set", key, error);
}

static tutti_status callback_get(struct tti_store *store, const char *key, void *value, size_t capacity, size_t *length,
                                 int64_t timeout_ms, tutti_error *error)
{
    const tutti_store_callbacks *callbacks = &((struct callback_store *)store)->callbacks;
    size_t full = 0;
    tutti_status status =
        check_status(callbacks->get(callbacks->user, key, value, capacity, &full, timeout_ms), "get", key, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (full > TTI_STORE_VALUE_MAX) {
        return tti_error_set(error, TUTTI_PROTOCOL,
                             "the store callback get returned %zu bytes for \"%s\"; at most %d "
                             "can be stored",
                             full, key, TTI_STORE_VALUE_MAX);
    }
    *length = full;
    return full <= capacity ? TUTTI_OK : tti_store_error_too_long(store, key, full, capacity, error);
}

static tutti_status callback_remove(struct tti_store *store, const char *key, tutti_error *error)
{
    (void)store;
    (void)key;
    (void)error;
    return TUTTI_OK;
}

static void callback_close(struct tti_store *store)
{
    (void)store; /* the application owns what is behind the callbacks */
}

static const struct tti_store_kind callback_kind = {
    .set = callback_set,
    .get = callback_get,
    .remove = callback_remove,
    .close = callback_close,
};

tutti_status tti_store_open_callbacks(const tutti_store_callbacks *callbacks, struct tti_store **store,
                                      tutti_error *error)
{
    if (!callbacks || !store) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the store callbacks are NULL");
    }
    if (callbacks->size != sizeof(*callbacks)) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "the size of tutti_store_callbacks is %u, but this library's is %zu; set .size to "
                             "sizeof(tutti_store_callbacks)",
                             (unsigned)callbacks->size, sizeof(*callbacks));
    }
    if (callbacks->flags != 0) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "unknown flags %#x in tutti_store_callbacks",
                             (unsigned)callbacks->flags);
    }
    if (!callbacks->set || !callbacks->get) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "tutti_store_callbacks lacks the function %s",
                             callbacks->set ? "get" : "set");
    }
    struct callback_store *self = calloc(1, sizeof(*self));
    if (!self) {
        return tti_store_error_no_memory(error);
    }
    self->base.kind = &callback_kind;
    tti_store_own(&self->base);
    self->callbacks = *callbacks;
    *store = &self->base;
    tti_error_clear(error);
    return TUTTI_OK;
}
