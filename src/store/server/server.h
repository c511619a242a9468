/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server of a unix or tcp store: one thread that holds the table and answers requests. The store that started it
 * releases it; the server goes on while clients are connected and ends by itself after the last one.
 */
#ifndef TTI_STORE_SERVER_SERVER_H
#define TTI_STORE_SERVER_SERVER_H

#include <stdbool.h>
#include <tutti/status.h>

struct tti_secret;
struct tti_server;

/* Serves on a bound and listening private socket, which the server owns from then on (closed on failure, too). `local`
 * means a unix socket: only this user may connect, descriptors may be passed. A hello must have the name `job`;
 * `secret` is the token that clients must prove (NULL: none). */
tutti_status tti_server_start(int listener, bool local, const char *job, const struct tti_secret *secret,
                              struct tti_server **server, tutti_error *error);

/* Releases the server. Returns when it has either ended or found clients that still need it. */
void tti_server_release(struct tti_server *server);

/* See tti_store_refused_count, tti_store_fail. */
int64_t tti_server_refused_count(const struct tti_server *server);
void tti_server_fail(struct tti_server *server, tutti_status status);

/* Ends all servers of this process, waiting clients or not, and joins their threads. Clients then get PEER_LEFT.
 * Happens by itself when the process exits or the library is unloaded. */
void tti_server_shutdown_all(void);

/* How many clients of this process's servers did not know the token of the job. */
int64_t tti_server_auth_failures(void);

#endif
