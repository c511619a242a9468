/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/rendezvous.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

#define LOOK_MS 100 /* between looks whether to go on waiting */

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
    return status != TUTTI_OK ? status : tti_store_set(r->store, full, value, length, error);
}

/* The next piece of a wait until the deadline. */
static int64_t next_wait(const struct tti_rendezvous *r, int64_t deadline)
{
    const int64_t left = tti_remaining_ms(deadline);
    return r->look && (left < 0 || left > LOOK_MS) ? LOOK_MS : left;
}

/* A piece has passed in vain. BUSY: another one is worth it. Who only polls is not told more than that. */
static tutti_status after_wait(const struct tti_rendezvous *r, int64_t deadline, int64_t timeout_ms, tutti_error *error)
{
    tutti_error unused;
    tutti_status status = r->look && timeout_ms != 0 ? r->look(r->look_user, &unused) : TUTTI_OK;
    if (status == TUTTI_OK) {
        return r->look && tti_remaining_ms(deadline) != 0 ? TUTTI_BUSY : TUTTI_TIMEOUT;
    }
    if (error) {
        *error = unused;
    }
    return status;
}

static tutti_status get(void *self, const char *key, void *value, size_t capacity, size_t *length, int64_t timeout_ms,
                        tutti_error *error)
{
    struct tti_rendezvous *r = self;
    char full[TTI_STORE_KEY_MAX + 1];
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), timeout_ms);
    tutti_status status = full_key(r, key, full, sizeof(full), error);
    if (status != TUTTI_OK) {
        return status;
    }
    do {
        status = tti_store_get(r->store, full, value, capacity, length, next_wait(r, deadline), error);
        status = status == TUTTI_TIMEOUT ? after_wait(r, deadline, timeout_ms, error) : status;
    } while (status == TUTTI_BUSY);
    return status;
}

static tutti_status put_fd(void *self, const char *key, int fd, int32_t readers, tutti_error *error)
{
    struct tti_rendezvous *r = self;
    char full[TTI_STORE_KEY_MAX + 1];
    tutti_status status = full_key(r, key, full, sizeof(full), error);
    return status != TUTTI_OK ? status : tti_store_put_fd(r->store, full, fd, readers, error);
}

static tutti_status get_fd(void *self, const char *key, int *fd, int64_t timeout_ms, tutti_error *error)
{
    struct tti_rendezvous *r = self;
    char full[TTI_STORE_KEY_MAX + 1];
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), timeout_ms);
    tutti_status status = full_key(r, key, full, sizeof(full), error);
    if (status != TUTTI_OK) {
        return status;
    }
    do {
        status = tti_store_get_fd(r->store, full, fd, next_wait(r, deadline), error);
        status = status == TUTTI_TIMEOUT ? after_wait(r, deadline, timeout_ms, error) : status;
    } while (status == TUTTI_BUSY);
    return status;
}

void tti_rendezvous_open(struct tti_rendezvous *r, struct tti_store *store, const char *name)
{
    tti_store_retain(store);
    r->store = store;
    r->look = NULL;
    snprintf(r->name, sizeof(r->name), "%s", name);
    r->table = (tutti_rendezvous){.size = sizeof(tutti_rendezvous),
                                  .can_pass_descriptors = tti_store_can_pass_fds(store),
                                  .self = r,
                                  .set = set,
                                  .get = get,
                                  .put_fd = put_fd,
                                  .get_fd = get_fd};
}

void tti_rendezvous_close(struct tti_rendezvous *r)
{
    if (r->store) {
        tti_store_release(r->store);
        r->store = NULL;
    }
}
