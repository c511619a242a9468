/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client of a unix or tcp store. Each call takes a connection from a pool and gives it back, so a get that waits
 * delays no other thread. The pool keeps at least one connection as long as the store is open: the server goes on while
 * it has clients.
 */
#ifndef TTI_STORE_CLIENT_CLIENT_H
#define TTI_STORE_CLIENT_CLIENT_H

#include "store/client/types.h"

/* Makes a client without any connection; `size` is that of the struct that embeds it. NULL without memory. */
struct tti_client *tti_client_make(size_t size, const struct tti_store_kind *kind, int64_t timeout_ms);
void tti_client_free(struct tti_client *client);

/* One attempt at the first connection, hello included; statuses as those of `connect`. It goes into the pool. */
tutti_status tti_client_connect(struct tti_client *client, int64_t deadline_ns, tutti_error *error);

/* The functions of the kind's table. */
tutti_status tti_client_set(struct tti_store *store, const char *key, const void *value, size_t length,
                            tutti_error *error);
tutti_status tti_client_get(struct tti_store *store, const char *key, void *value, size_t capacity, size_t *length,
                            int64_t timeout_ms, tutti_error *error);
tutti_status tti_client_remove(struct tti_store *store, const char *key, tutti_error *error);
tutti_status tti_client_put_fd(struct tti_store *store, const char *key, int fd, int32_t readers, tutti_error *error);
tutti_status tti_client_get_fd(struct tti_store *store, const char *key, int *fd, int64_t timeout_ms,
                               tutti_error *error);
tutti_status tti_client_get_range(struct tti_store *store, struct tti_store_range *range, int64_t timeout_ms,
                                  tutti_error *error);
bool tti_client_served_here(const struct tti_store *store);
int64_t tti_client_refused_count(const struct tti_store *store);
void tti_client_fail(struct tti_store *store, tutti_status status);
void tti_client_set_response_timeout(struct tti_store *store, int64_t response_timeout_ms);
void tti_client_close(struct tti_store *store);

#endif
