/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a kind of store implements. store.c has checked every argument before it calls a function of this table: keys
 * have 1..TTI_STORE_KEY_MAX bytes, values fit, timeouts are -1 or more, the calling process has opened the store. A
 * kind embeds struct tti_store as its first member and allocates it with calloc; store.c frees it after `close`.
 */
#ifndef TTI_STORE_KINDS_KIND_H
#define TTI_STORE_KINDS_KIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <tutti/status.h>

#include "store/limits.h"
#include "store/resource_origin.h"

struct tti_store;
struct tti_store_range;

struct tti_store_kind {
    tutti_status (*set)(struct tti_store *store, const char *key, const void *value, size_t length, tutti_error *error);
    tutti_status (*get)(struct tti_store *store, const char *key, void *value, size_t capacity, size_t *length,
                        int64_t timeout_ms, tutti_error *error);
    tutti_status (*remove)(struct tti_store *store, const char *key, tutti_error *error);
    void (*remove_below)(struct tti_store *store, const char *prefix); /* NULL: each key would be a request */
    /* Both NULL where descriptors cannot be passed. */
    tutti_status (*put_fd)(struct tti_store *store, const char *key, int fd, int32_t readers, tutti_error *error);
    tutti_status (*get_fd)(struct tti_store *store, const char *key, int *fd, int64_t timeout_ms, tutti_error *error);
    /* NULL, or a return of UNSUPPORTED (no memory for a long reply): ranges are read key by key. */
    tutti_status (*get_range)(struct tti_store *store, struct tti_store_range *range, int64_t timeout_ms,
                              tutti_error *error);
    bool lasts;                                                 /* its keys stay when all processes have ended */
    bool (*served_here)(const struct tti_store *store);         /* NULL: never */
    int64_t (*refused_count)(const struct tti_store *store);    /* NULL: always 0 */
    void (*fail)(struct tti_store *store, tutti_status status); /* NULL: there is no server */
    void (*set_response_timeout)(struct tti_store *store, int64_t response_timeout_ms); /* NULL: there is no server */
    void (*close)(struct tti_store *store);
};

/* How a store is opened; see tti_store_open. */
struct tti_store_opening {
    bool serve;     /* tcp: this process serves */
    bool may_serve; /* unix: this process serves if no other one does */
    int64_t timeout_ms;
    enum tti_resource_origin origin; /* out: of a resource error */
};

struct tti_store {
    const struct tti_store_kind *kind;
    _Atomic int32_t resource_origin; /* enum tti_resource_origin */
    atomic_int references;
    pid_t owner;       /* the process that opened it, for messages */
    uint64_t instance; /* the same, by tti_proc_instance: in any other process every call is FORKED */
    char url[TTI_STORE_URL_MAX + 1];
};

/* The calling process has opened the store, and has the only reference. */
void tti_store_own(struct tti_store *store);

/* See tti_store_resource_origin. */
static inline enum tti_resource_origin tti_store_resource_origin_of(const struct tti_store *store)
{
    /* relaxed: a number that stands for itself */
    return (enum tti_resource_origin)atomic_load_explicit(&store->resource_origin, memory_order_relaxed);
}

/* Error sentences that several kinds share. */
tutti_status tti_store_error_no_memory(tutti_error *error);
tutti_status tti_store_error_exists(const struct tti_store *store, const char *key, tutti_error *error);
tutti_status tti_store_error_timeout(const struct tti_store *store, const char *key, int64_t timeout_ms,
                                     tutti_error *error);
tutti_status tti_store_error_too_long(const struct tti_store *store, const char *key, size_t length, size_t capacity,
                                      tutti_error *error);
/* The key holds a value where a descriptor was asked for, or the reverse. */
tutti_status tti_store_error_content(const struct tti_store *store, const char *key, tutti_error *error);

#endif
