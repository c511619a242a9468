/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a kind of store implements. store.c has checked every argument before a function of this table is called: keys
 * have 1..TTI_STORE_KEY_MAX bytes, values fit, timeouts are -1 or more, the process is the one that opened the store.
 * A kind embeds struct tti_store as its first member and allocates it with calloc; store.c frees it after `close`.
 */
#ifndef TTI_STORE_KIND_H
#define TTI_STORE_KIND_H

#include <stdatomic.h>
#include <sys/types.h>

#include "store/store.h"

#define TTI_STORE_URL_MAX 299

struct tti_store_kind {
    tutti_status (*set)(struct tti_store *store, const char *key, const void *value, size_t length, tutti_error *error);
    tutti_status (*get)(struct tti_store *store, const char *key, void *value, size_t capacity, size_t *length,
                        int64_t timeout_ms, tutti_error *error);
    tutti_status (*remove)(struct tti_store *store, const char *key, tutti_error *error);
    /* Both NULL where descriptors cannot be passed. */
    tutti_status (*put_fd)(struct tti_store *store, const char *key, int fd, int32_t readers, tutti_error *error);
    tutti_status (*get_fd)(struct tti_store *store, const char *key, int *fd, int64_t timeout_ms, tutti_error *error);
    bool (*served_here)(const struct tti_store *store);                                 /* NULL: never */
    int64_t (*refused_count)(const struct tti_store *store);                            /* NULL: nobody */
    void (*fail)(struct tti_store *store, tutti_status status);                         /* NULL: nobody is served */
    void (*set_response_timeout)(struct tti_store *store, int64_t response_timeout_ms); /* NULL: nobody is waited for */
    void (*close)(struct tti_store *store);
};

struct tti_store {
    const struct tti_store_kind *kind;
    atomic_int references;
    pid_t owner; /* the process that opened it; in any other one every call is FORKED */
    char url[TTI_STORE_URL_MAX + 1];
};

/* Opens what stands behind the scheme. `rest` is the URL without "memory:", "tcp://", ...; never empty. The function
 * sets the kind's own members only, and url where it differs from the one asked for. */
tutti_status tti_store_open_memory(const char *rest, struct tti_store **store, tutti_error *error);
/* `in_files`: `rest` is a path in the file system, not an abstract name. */
tutti_status tti_store_open_unix(const char *rest, bool in_files, bool may_serve, int64_t timeout_ms,
                                 struct tti_store **store, tutti_error *error);
tutti_status tti_store_open_tcp(const char *rest, bool serve, int64_t timeout_ms, struct tti_store **store,
                                tutti_error *error);
tutti_status tti_store_open_file(const char *rest, struct tti_store **store, tutti_error *error);

/* Sentences that several kinds say alike. */
tutti_status tti_store_error_no_memory(tutti_error *error);
tutti_status tti_store_error_exists(const struct tti_store *store, const char *key, tutti_error *error);
tutti_status tti_store_error_timeout(const struct tti_store *store, const char *key, int64_t timeout_ms,
                                     tutti_error *error);
tutti_status tti_store_error_too_long(const struct tti_store *store, const char *key, size_t length, size_t capacity,
                                      tutti_error *error);
/* The key holds a value where a descriptor was asked for, or the other way round. */
tutti_status tti_store_error_content(const struct tti_store *store, const char *key, tutti_error *error);

#endif
