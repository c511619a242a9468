/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/membership/rendezvous.h"

#include <stdio.h>

#include "base/error.h"
#include "base/poll_interval.h"

/* After a wait that has not got what it wanted, or at a store that has ended: whether who looks knows why, which is the answer
 * then. */
static bool poll_cause(const struct tti_rendezvous *r, tutti_status *status, tutti_error *error)
{
    tutti_error reason;
    if ((*status != TUTTI_TIMEOUT && *status != TUTTI_PEER_LEFT) || !r->poll_failures ||
        r->poll_failures(r->poll_user, &reason) == TUTTI_OK) {
        return false;
    }
    *status = reason.status;
    if (error) {
        *error = reason;
    }
    return true;
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
        status = tti_store_set(r->store, full, value, length, error);
        poll_cause(r, &status, error);
    }
    return status;
}

/* What somebody else is to put there: a value, or (value NULL) a descriptor. */
struct wanted {
    void *value;
    size_t capacity;
    size_t *length;
    int *fd;
};

static tutti_status get_once(const struct tti_rendezvous *r, const char *full, const struct wanted *w,
                             int64_t timeout_ms, tutti_error *error)
{
    return w->fd ? tti_store_get_fd(r->store, full, w->fd, timeout_ms, error)
                 : tti_store_get(r->store, full, w->value, w->capacity, w->length, timeout_ms, error);
}

/* In turns, if there is somebody to ask between them. Who only polls is not told more than that. */
static tutti_status get_polling(const struct tti_rendezvous *r, const char *key, const struct wanted *w,
                                int64_t timeout_ms, tutti_error *error)
{
    char full[TTI_STORE_KEY_MAX + 1];
    tutti_status status = full_key(r, key, full, sizeof(full), error);
    if (status != TUTTI_OK || !r->poll_failures || timeout_ms == 0) {
        return status != TUTTI_OK ? status : get_once(r, full, w, timeout_ms, error);
    }
    struct tti_poll_interval interval =
        tti_poll_interval_until(tti_deadline_ns(tti_now_ns(), timeout_ms), r->poll_interval_ms);
    do {
        status = get_once(r, full, w, tti_poll_interval_next_ms(&interval), error);
    } while (!poll_cause(r, &status, error) && status == TUTTI_TIMEOUT && !interval.last);
    return status;
}

static tutti_status get(void *self, const char *key, void *value, size_t capacity, size_t *length, int64_t timeout_ms,
                        tutti_error *error)
{
    const struct wanted w = {.value = value, .capacity = capacity, .length = length};
    return get_polling(self, key, &w, timeout_ms, error);
}

static tutti_status put_fd(void *self, const char *key, int fd, int32_t readers, tutti_error *error)
{
    struct tti_rendezvous *r = self;
    char full[TTI_STORE_KEY_MAX + 1];
    tutti_status status = full_key(r, key, full, sizeof(full), error);
    if (status == TUTTI_OK) {
        status = tti_store_put_fd(r->store, full, fd, readers, error);
        poll_cause(r, &status, error);
    }
    return status;
}

static tutti_status get_fd(void *self, const char *key, int *fd, int64_t timeout_ms, tutti_error *error)
{
    const struct wanted w = {.fd = fd};
    return get_polling(self, key, &w, timeout_ms, error);
}

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
                                  .poll_failures = poll_failures};
}

void tti_rendezvous_close(struct tti_rendezvous *r)
{
    if (r->store) {
        tti_store_release(r->store);
        r->store = NULL;
    }
}
