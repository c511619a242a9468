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

/* The next piece of a wait until the deadline; *last: there is none behind it. */
static int64_t next_wait(const struct tti_rendezvous *r, int64_t deadline, bool *last)
{
    const int64_t left = tti_remaining_ms(deadline);
    *last = !r->look || (left >= 0 && left <= LOOK_MS);
    return *last ? left : LOOK_MS;
}

static tutti_status get(void *self, const char *key, void *value, size_t capacity, size_t *length, int64_t timeout_ms,
                        tutti_error *error)
{
    struct tti_rendezvous *r = self;
    char full[TTI_STORE_KEY_MAX + 1];
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), timeout_ms);
    bool last = false;
    tutti_status status = full_key(r, key, full, sizeof(full), error);
    while (status == TUTTI_OK) {
        const int64_t wait_ms = next_wait(r, deadline, &last);
        status = tti_store_get(r->store, full, value, capacity, length, wait_ms, error);
        if (status != TUTTI_TIMEOUT || last) {
            return status;
        }
        status = r->look(r->look_user, error);
    }
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
    bool last = false;
    tutti_status status = full_key(r, key, full, sizeof(full), error);
    while (status == TUTTI_OK) {
        const int64_t wait_ms = next_wait(r, deadline, &last);
        status = tti_store_get_fd(r->store, full, fd, wait_ms, error);
        if (status != TUTTI_TIMEOUT || last) {
            return status;
        }
        status = r->look(r->look_user, error);
    }
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
