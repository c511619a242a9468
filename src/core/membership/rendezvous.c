/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of functions that a backend gets to exchange keys and descriptors while a group forms (tutti_rendezvous in
 * tutti/backend.h), on top of the store. A wait for a key is cut into slices (base/wait/polled_wait.h); between slices
 * it polls for failures of other ranks. So a member that fails ends the waits of the others with its cause, long before
 * their deadline.
 */
#include "core/membership/rendezvous.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait/polled_wait.h"

static tutti_status poll_failures(void *self, tutti_error *error)
{
    const struct tti_rendezvous *r = self;
    tutti_error reason;
    const tutti_status status = r->poll_failures ? r->poll_failures(r->poll_user, &reason) : TUTTI_OK;
    if (status != TUTTI_OK && error) {
        *error = reason;
    }
    return status;
}

/* A put that the store did not take: the poll may find the cause. */
static tutti_status after_put(struct tti_rendezvous *r, tutti_status status, tutti_error *error)
{
    tti_poll_cause(&(struct tti_polled_wait){.poll = poll_failures, .user = r}, &status, error);
    return status;
}

static tutti_status full_key(const struct tti_rendezvous *r, const char *key, char *full, size_t capacity,
                             tutti_error *error)
{
    int n = snprintf(full, capacity, "%s/%s", r->name, key);
    if (n < 0 || (size_t)n >= capacity) {
        return tti_error_set(error, TUTTI_INTERNAL, "the key %s is too long for the rendezvous", key);
    }
    return TUTTI_OK;
}

static tutti_status set(void *self, const char *key, const void *value, size_t length, tutti_error *error)
{
    struct tti_rendezvous *r = self;
    char full[TTI_STORE_KEY_MAX + 1];
    tutti_status status = full_key(r, key, full, sizeof(full), error);
    if (status == TUTTI_OK) {
        status = after_put(r, tti_store_set(r->store, full, value, length, error), error);
    }
    return status;
}

/* A value of another rank, or (fd not NULL) a descriptor, or (range not NULL) several. */
struct wanted {
    struct tti_rendezvous *rendezvous;
    char key[TTI_STORE_KEY_MAX + 1];
    void *value;
    size_t capacity;
    size_t *length;
    int *fd;
    struct tti_store_range *range;
};

static tutti_status get_once(void *user, int64_t timeout_ms, tutti_error *error)
{
    const struct wanted *w = user;
    struct tti_store *store = w->rendezvous->store;
    if (w->range) {
        struct tti_store_range full = *w->range;
        full.stem = w->key;
        const tutti_status status = tti_store_get_range(store, &full, timeout_ms, error);
        w->range->got = full.got;
        return status;
    }
    return w->fd ? tti_store_get_fd(store, w->key, w->fd, timeout_ms, error)
                 : tti_store_get(store, w->key, w->value, w->capacity, w->length, timeout_ms, error);
}

static tutti_status poll_wanted(void *user, tutti_error *error)
{
    return poll_failures(((struct wanted *)user)->rendezvous, error);
}

/* A timeout of 0 only checks for the key, and does not poll for failures. */
static tutti_status get_polling(struct wanted *w, const char *key, int64_t timeout_ms, tutti_error *error)
{
    const struct tti_rendezvous *r = w->rendezvous;
    const tutti_status status = full_key(r, key, w->key, sizeof(w->key), error);
    if (status != TUTTI_OK || !r->poll_failures || timeout_ms == 0) {
        return status != TUTTI_OK ? status : get_once(w, timeout_ms, error);
    }
    const struct tti_polled_wait wait = {
        .attempt = get_once, .poll = poll_wanted, .user = w, .min_slice_ms = r->poll_interval_ms};
    return tti_wait_polling(&wait, tti_deadline_ns(tti_now_ns(), timeout_ms), error);
}

static tutti_status get(void *self, const char *key, void *value, size_t capacity, size_t *length, int64_t timeout_ms,
                        tutti_error *error)
{
    struct wanted w = {.rendezvous = self, .value = value, .capacity = capacity, .length = length};
    return get_polling(&w, key, timeout_ms, error);
}

static tutti_status put_fd(void *self, const char *key, int fd, int32_t readers, tutti_error *error)
{
    struct tti_rendezvous *r = self;
    char full[TTI_STORE_KEY_MAX + 1];
    tutti_status status = full_key(r, key, full, sizeof(full), error);
    if (status == TUTTI_OK) {
        status = after_put(r, tti_store_put_fd(r->store, full, fd, readers, error), error);
    }
    return status;
}

static tutti_status get_fd(void *self, const char *key, int *fd, int64_t timeout_ms, tutti_error *error)
{
    struct wanted w = {.rendezvous = self, .fd = fd};
    return get_polling(&w, key, timeout_ms, error);
}

tutti_status tti_rendezvous_get_range(struct tti_rendezvous *r, struct tti_store_range *range, int64_t timeout_ms,
                                      tutti_error *error)
{
    struct wanted w = {.rendezvous = r, .range = range};
    return get_polling(&w, range->stem, timeout_ms, error);
}

static tutti_status get_fds(void *self, const char *stem, int32_t first, int32_t count, int *fds, int32_t *got,
                            int64_t timeout_ms, tutti_error *error)
{
    struct tti_store_range range = {.stem = stem, .first = (uint32_t)first, .count = (uint32_t)count, .fds = fds};
    const tutti_status status = tti_rendezvous_get_range(self, &range, timeout_ms, error);
    *got = (int32_t)range.got;
    return status;
}

void tti_rendezvous_open(struct tti_rendezvous *r, struct tti_store *store, const char *name)
{
    tti_store_retain(store);
    r->store = store;
    r->poll_failures = NULL;
    r->poll_interval_ms = TTI_POLL_EAGER_MS;
    snprintf(r->name, sizeof(r->name), "%s", name);
    r->table = (tutti_rendezvous){.size = sizeof(tutti_rendezvous),
                                  .can_pass_descriptors = tti_store_can_pass_fds(store),
                                  .self = r,
                                  .set = set,
                                  .get = get,
                                  .put_fd = put_fd,
                                  .get_fd = get_fd,
                                  .poll_failures = poll_failures,
                                  .get_fds = get_fds};
}

void tti_rendezvous_close(struct tti_rendezvous *r)
{
    if (r->store) {
        tti_store_release(r->store);
        r->store = NULL;
    }
}
