/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common part of all stores: URLs, reference counts and the check of every argument. A store belongs to the process
 * that opened it: its sockets, locks and threads mean nothing in a forked child, so there every call answers FORKED and
 * releasing does nothing (the child's copy of the memory goes with the child).
 */
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/process/proc.h"
#include "store/kinds/file.h"
#include "store/kinds/kind.h"
#include "store/kinds/memory.h"
#include "store/kinds/tcp.h"
#include "store/kinds/unix.h"
#include "store/server/server.h"

/* The rest of `url` behind `scheme`, or NULL if it begins otherwise. */
static const char *after_scheme(const char *url, const char *scheme)
{
    size_t length = strlen(scheme);
    return strncmp(url, scheme, length) == 0 ? url + length : NULL;
}

static void finish_open(struct tti_store *store, const char *url)
{
    tti_store_own(store);
    if (store->url[0] == '\0') {
        strcpy(store->url, url); /* the length was checked */
    }
}

void tti_store_local_url(const char *directory, const char *purpose, const uint64_t number[2],
                         char url[TTI_STORE_LOCAL_URL])
{
    snprintf(url, TTI_STORE_LOCAL_URL, "%s%.*s%s%.8s-%016llx%016llx",
             directory ? "socket:" : "unix:", TTI_STORE_DIRECTORY, directory ? directory : "",
             directory ? "/tutti-" : "", purpose, (unsigned long long)number[0], (unsigned long long)number[1]);
}

static tutti_status open_as(struct tti_store_opening *opening, const char *url, struct tti_store **store,
                            tutti_error *error)
{
    const int64_t timeout_ms = opening->timeout_ms;
    if (!url || !store) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "tti_store_open got a NULL %s", url ? "store" : "URL");
    }
    if (timeout_ms < -1) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the timeout of a store is %lld ms; -1 means for ever",
                             (long long)timeout_ms);
    }
    if (strnlen(url, TTI_STORE_URL_MAX + 1) > TTI_STORE_URL_MAX) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the store URL \"%.40s...\" has more than %d bytes", url,
                             TTI_STORE_URL_MAX);
    }
    for (const char *p = url; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the store URL contains a control character at byte %d",
                                 (int)(p - url));
        }
    }
    const char *memory = after_scheme(url, "memory:");
    const char *local = after_scheme(url, "unix:");
    const char *tcp = after_scheme(url, "tcp://");
    const char *file = after_scheme(url, "file:");
    const char *path = after_scheme(url, "socket:");
    const char *rest = memory ? memory : local ? local : tcp ? tcp : path ? path : file;
    if (!rest || !*rest) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "\"%s\" is not the URL of a store; use memory:NAME, unix:NAME, tcp://HOST:PORT or "
                             "file:PATH",
                             url);
    }
    struct tti_store *opened = NULL;
    tutti_status status;
    if (memory) {
        status = tti_store_open_memory(rest, &opened, error);
    } else if (local || path) {
        status = tti_store_open_unix(rest, path != NULL, opening, &opened, error);
    } else if (tcp) {
        status = tti_store_open_tcp(rest, opening, &opened, error);
    } else {
        status = tti_store_open_file(rest, &opened, error);
    }
    if (status == TUTTI_OK) {
        finish_open(opened, url);
        *store = opened;
        tti_error_clear(error);
    }
    return status;
}

tutti_status tti_store_open(const char *url, bool serve, int64_t timeout_ms, struct tti_store **store,
                            tutti_error *error)
{
    struct tti_store_opening opening = {.serve = serve, .may_serve = true, .timeout_ms = timeout_ms};
    return open_as(&opening, url, store, error);
}

tutti_status tti_store_open_served(const char *url, int64_t timeout_ms, struct tti_store **store, tutti_error *error)
{
    struct tti_store_opening opening = {.timeout_ms = timeout_ms};
    return open_as(&opening, url, store, error);
}

tutti_status tti_store_open_local(const char *url, int64_t timeout_ms, struct tti_store **store,
                                  enum tti_resource_origin *origin, tutti_error *error)
{
    struct tti_store_opening opening = {.serve = true, .may_serve = true, .timeout_ms = timeout_ms};
    const tutti_status status = open_as(&opening, url, store, error);
    *origin = opening.origin;
    return status;
}

enum tti_resource_origin tti_store_resource_origin(const struct tti_store *store)
{
    return tti_store_resource_origin_of(store);
}

void tti_store_retain(struct tti_store *store)
{
    if (store && store->instance == tti_proc_instance()) {
        /* relaxed: the caller holds a reference already */
        atomic_fetch_add_explicit(&store->references, 1, memory_order_relaxed);
    }
}

void tti_store_release(struct tti_store *store)
{
    if (!store || store->instance != tti_proc_instance()) {
        return;
    }
    /* acq_rel: the last release sees what the others did with the store before theirs */
    if (atomic_fetch_sub_explicit(&store->references, 1, memory_order_acq_rel) == 1) {
        store->kind->close(store);
        free(store);
    }
}

/* What every operation checks first. */
static tutti_status check(const struct tti_store *store, const char *key, int64_t timeout_ms, tutti_error *error)
{
    if (!store) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the store is NULL");
    }
    if (store->instance != tti_proc_instance()) {
        return tti_error_set(error, TUTTI_FORKED,
                             "the store %s was opened by process %d, the parent of this one; open it again after fork",
                             store->url, (int)store->owner);
    }
    if (!key || !*key) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the key for the store %s is %s", store->url,
                             key ? "empty" : "NULL");
    }
    if (strnlen(key, TTI_STORE_KEY_MAX + 1) > TTI_STORE_KEY_MAX) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the key \"%.40s...\" has more than %d bytes", key,
                             TTI_STORE_KEY_MAX);
    }
    if (timeout_ms < -1) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "the timeout for the key \"%s\" is %lld ms; -1 means for ever", key,
                             (long long)timeout_ms);
    }
    return TUTTI_OK;
}

static tutti_status check_passing(const struct tti_store *store, tutti_error *error)
{
    if (!tti_store_can_pass_fds(store)) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "the store %s cannot pass descriptors; use unix: or memory:", store->url);
    }
    return TUTTI_OK;
}

/* A successful call leaves a clean error behind. */
static tutti_status finish(tutti_status status, tutti_error *error)
{
    if (status == TUTTI_OK) {
        tti_error_clear(error);
    }
    return status;
}

tutti_status tti_store_set(struct tti_store *store, const char *key, const void *value, size_t length,
                           tutti_error *error)
{
    tutti_status status = check(store, key, 0, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (length > TTI_STORE_VALUE_MAX) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the value of \"%s\" has %zu bytes, at most %d are allowed",
                             key, length, TTI_STORE_VALUE_MAX);
    }
    if (!value && length) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the value of \"%s\" is NULL but has %zu bytes", key,
                             length);
    }
    return finish(store->kind->set(store, key, value, length, error), error);
}

tutti_status tti_store_get(struct tti_store *store, const char *key, void *value, size_t capacity, size_t *length,
                           int64_t timeout_ms, tutti_error *error)
{
    tutti_status status = check(store, key, timeout_ms, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!value && capacity) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the buffer for \"%s\" is NULL but has %zu bytes", key,
                             capacity);
    }
    size_t unused;
    return finish(store->kind->get(store, key, value, capacity, length ? length : &unused, timeout_ms, error), error);
}

/* One key of a range. */
static tutti_status get_first(struct tti_store *store, struct tti_store_range *range, int64_t timeout_ms,
                              tutti_error *error)
{
    char key[TTI_STORE_KEY_MAX + 1];
    snprintf(key, sizeof(key), "%s/%u", range->stem, range->first);
    tutti_status status;
    if (range->fds) {
        status = tti_store_get_fd(store, key, range->fds, timeout_ms, error);
    } else {
        status = tti_store_get(store, key, range->values, range->stride, range->lengths, timeout_ms, error);
        status = status == TUTTI_PROTOCOL && range->lengths[0] > range->stride ? TUTTI_OK : status;
    }
    range->got = status == TUTTI_OK ? 1 : 0;
    return finish(status, error);
}

tutti_status tti_store_get_range(struct tti_store *store, struct tti_store_range *range, int64_t timeout_ms,
                                 tutti_error *error)
{
    tutti_status status = check(store, range->stem, timeout_ms, error);
    if (status == TUTTI_OK && range->fds) {
        status = check_passing(store, error);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    range->got = 0;
    if (!range->fds) {
        range->lengths[0] = 0;
    }
    if (range->count == 0 || range->count > TTI_STORE_RANGE_MAX || range->first > TTI_STORE_RANGE_MAX ||
        strlen(range->stem) + TTI_STORE_RANGE_DIGITS > TTI_STORE_KEY_MAX) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%u keys \"%.40s/%u\" and so on are no range of a store",
                             range->count, range->stem, range->first);
    }
    status = range->count > 1 && store->kind->get_range ? store->kind->get_range(store, range, timeout_ms, error)
                                                        : TUTTI_UNSUPPORTED;
    return status == TUTTI_UNSUPPORTED ? get_first(store, range, timeout_ms, error) : finish(status, error);
}

tutti_status tti_store_remove(struct tti_store *store, const char *key, tutti_error *error)
{
    tutti_status status = check(store, key, 0, error);
    return status == TUTTI_OK ? finish(store->kind->remove(store, key, error), error) : status;
}

bool tti_store_can_remove_below(const struct tti_store *store)
{
    return store && store->kind->remove_below != NULL;
}

void tti_store_remove_below(struct tti_store *store, const char *prefix)
{
    if (tti_store_can_remove_below(store) && check(store, prefix, 0, NULL) == TUTTI_OK) {
        store->kind->remove_below(store, prefix);
    }
}

bool tti_store_lasts(const struct tti_store *store)
{
    return store && store->kind->lasts;
}

bool tti_store_can_pass_fds(const struct tti_store *store)
{
    return store && store->kind->put_fd != NULL;
}

tutti_status tti_store_put_fd(struct tti_store *store, const char *key, int fd, int32_t readers, tutti_error *error)
{
    tutti_status status = check(store, key, 0, error);
    if (status == TUTTI_OK) {
        status = check_passing(store, error);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (fd < 0 || readers < 1) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "descriptor %d for %d readers cannot be stored as \"%s\"",
                             fd, (int)readers, key);
    }
    return finish(store->kind->put_fd(store, key, fd, readers, error), error);
}

tutti_status tti_store_get_fd(struct tti_store *store, const char *key, int *fd, int64_t timeout_ms, tutti_error *error)
{
    tutti_status status = check(store, key, timeout_ms, error);
    if (status == TUTTI_OK) {
        status = check_passing(store, error);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (!fd) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the place for the descriptor \"%s\" is NULL", key);
    }
    return finish(store->kind->get_fd(store, key, fd, timeout_ms, error), error);
}

bool tti_store_served_here(const struct tti_store *store)
{
    return store && store->kind->served_here && store->kind->served_here(store);
}

int64_t tti_store_refused_count(const struct tti_store *store)
{
    return store && store->kind->refused_count ? store->kind->refused_count(store) : 0;
}

void tti_store_fail(struct tti_store *store, tutti_status status)
{
    if (store && store->kind->fail) {
        store->kind->fail(store, status);
    }
}

void tti_store_set_response_timeout(struct tti_store *store, int64_t response_timeout_ms)
{
    if (store && store->kind->set_response_timeout) {
        store->kind->set_response_timeout(store, response_timeout_ms);
    }
}

const char *tti_store_url(const struct tti_store *store)
{
    return store ? store->url : "";
}

/* Without this, the end of the process could cut off a server thread in the middle of a write. */
__attribute__((destructor)) static void shutdown_at_exit(void)
{
    tti_server_shutdown_all();
}
