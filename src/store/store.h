/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous of a job: set a key once, get (and wait for) a key, pass descriptors on one host. One small table of
 * functions per kind: memory (threads of one process), unix (processes of one host), tcp, file, and the caller's own
 * callbacks. All functions may be called from any thread.
 */
#ifndef TTI_STORE_STORE_H
#define TTI_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/config.h>

#include "store/limits.h"
#include "store/range.h"
#include "store/resource_origin.h"

struct tti_store;

/*
 * Opens a store by URL:
 *   memory:NAME       a table inside this process, shared by all stores that open NAME
 *   unix:NAME         an abstract unix socket private to this user and network namespace; the first process that opens
 *                     it serves it from a thread until its last reference is released; nothing is left in the file
 *                     system
 *   socket:PATH       the same with a socket in the file system, for ranks whose networks differ; the server removes it
 *   tcp://HOST:PORT   `serve` true: binds PORT and serves (rank 0); otherwise connects, trying until the deadline; with
 *                     several ports and the name of a job (HOST:P,P,P/JOB) at the one where it is; if the process has a
 *                     job token (secret.h), with proofs and encryption
 *   file:PATH         a directory on a file system that all ranks see
 * The reference count of the new store is 1.
 */
tutti_status tti_store_open(const char *url, bool serve, int64_t timeout_ms, struct tti_store **store,
                            tutti_error *error);
/* As a client only: also for a unix store this process waits until another one serves it. */
tutti_status tti_store_open_served(const char *url, int64_t timeout_ms, struct tti_store **store, tutti_error *error);

/* As tti_store_open. On failure also says which process a resource error is about. */
tutti_status tti_store_open_local(const char *url, int64_t timeout_ms, struct tti_store **store,
                                  enum tti_resource_origin *origin, tutti_error *error);

/* Which process the last resource error of a call on this store is about. */
enum tti_resource_origin tti_store_resource_origin(const struct tti_store *store);

/* The URL of a store for ranks of one host, named by a random number: an abstract socket, or one in `directory` if that
 * is not NULL. At most TTI_STORE_DIRECTORY bytes of a directory fit into a socket's name. */
#define TTI_STORE_LOCAL_URL 128
void tti_store_local_url(const char *directory, const char *purpose, const uint64_t number[2],
                         char url[TTI_STORE_LOCAL_URL]);

tutti_status tti_store_open_callbacks(const tutti_store_callbacks *callbacks, struct tti_store **store,
                                      tutti_error *error);

void tti_store_retain(struct tti_store *store);
void tti_store_release(struct tti_store *store);

/* Stores a copy of the value. BUSY if the key exists already. */
tutti_status tti_store_set(struct tti_store *store, const char *key, const void *value, size_t length,
                           tutti_error *error);

/* Waits for the key; TIMEOUT when it is not set in timeout_ms (0 polls, -1 = for ever). Writes at most `capacity`
 * bytes and the full length; a value longer than capacity is PROTOCOL. */
tutti_status tti_store_get(struct tti_store *store, const char *key, void *value, size_t capacity, size_t *length,
                           int64_t timeout_ms, tutti_error *error);

/* Waits until all keys of the range are there, or for timeout_ms. OK: at least one was there; the caller asks again for
 * the others. Every other status is that of a get of the first key. A value that is too long for its place is no
 * error: its length says so. Stores that know no ranges read one key. */
tutti_status tti_store_get_range(struct tti_store *store, struct tti_store_range *range, int64_t timeout_ms,
                                 tutti_error *error);

/* Removes a key and its value, if it is there. */
tutti_status tti_store_remove(struct tti_store *store, const char *key, tutti_error *error);

/* Whether the store removes many keys at once: only memory does. Then removes all keys that begin with `prefix`. */
bool tti_store_can_remove_below(const struct tti_store *store);
void tti_store_remove_below(struct tti_store *store, const char *prefix);

/* Whether keys stay in the store when all processes that used it have ended, and a later job finds them: files do. */
bool tti_store_lasts(const struct tti_store *store);

/* Descriptor passing: memory and unix. The store keeps a duplicate until `readers` gets have been served. */
bool tti_store_can_pass_fds(const struct tti_store *store);
tutti_status tti_store_put_fd(struct tti_store *store, const char *key, int fd, int32_t readers, tutti_error *error);
tutti_status tti_store_get_fd(struct tti_store *store, const char *key, int *fd, int64_t timeout_ms,
                              tutti_error *error);

/* Whether this store serves others: it has started the server, or holds memory that they share. */
bool tti_store_served_here(const struct tti_store *store);

/* How many processes of this user the server of this store has refused for lack of descriptors, memory or room. The
 * server has reported this to them, and they do not connect again. 0 unless this store has started the server. */
int64_t tti_store_refused_count(const struct tti_store *store);

/* If this store has started the server: from now on the server answers every request, waiting ones included, with this
 * status (NO_MEMORY, NO_RESOURCE), since its process cannot take part in the job. */
void tti_store_fail(struct tti_store *store, tutti_status status);

/* How long a client waits for a server that does not answer at all (stopped, cut off): after the time of a get, and for
 * every other request. The default is 5 s after a get, and the opening's timeout_ms for the rest. Call it before other
 * threads use the store. */
void tti_store_set_response_timeout(struct tti_store *store, int64_t response_timeout_ms);

/* The URL that others use to reach it ("" for callbacks). */
const char *tti_store_url(const struct tti_store *store);

#endif
