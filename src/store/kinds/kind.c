/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/kinds/kind.h"

#include <unistd.h>

#include "base/error.h"
#include "base/process/proc.h"

void tti_store_own(struct tti_store *store)
{
    atomic_init(&store->references, 1);
    store->owner = getpid();
    store->instance = tti_proc_instance();
}

tutti_status tti_store_error_no_memory(tutti_error *error)
{
    return tti_error_set(error, TUTTI_NO_MEMORY, "out of memory in the store");
}

tutti_status tti_store_error_exists(const struct tti_store *store, const char *key, tutti_error *error)
{
    return tti_error_set(error, TUTTI_BUSY, "the key \"%s\" exists already in the store %s", key, store->url);
}

tutti_status tti_store_error_timeout(const struct tti_store *store, const char *key, int64_t timeout_ms,
                                     tutti_error *error)
{
    tti_error_set(error, TUTTI_TIMEOUT, "the key \"%s\" did not appear in the store %s within %lld ms", key, store->url,
                  (long long)timeout_ms);
    if (error) {
        error->deadline_ms = timeout_ms;
    }
    return TUTTI_TIMEOUT;
}

tutti_status tti_store_error_too_long(const struct tti_store *store, const char *key, size_t length, size_t capacity,
                                      tutti_error *error)
{
    return tti_error_set(error, TUTTI_PROTOCOL,
                         "the value of \"%s\" in the store %s has %zu bytes, at most %zu were expected", key,
                         store->url, length, capacity);
}

tutti_status tti_store_error_content(const struct tti_store *store, const char *key, tutti_error *error)
{
    return tti_error_set(error, TUTTI_PROTOCOL,
                         "the key \"%s\" in the store %s holds a value where a descriptor was expected, or the reverse",
                         key, store->url);
}
