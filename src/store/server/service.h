/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a server's thread does: accept connections, read requests, answer them, hold the table. The thread
 * that starts a server begins the service, and ends it if the server's thread cannot be started. From then on only the
 * server's thread calls these functions, except for two below, so there are no locks. No function waits for a single
 * client.
 */
#ifndef TTI_STORE_SERVER_SERVICE_H
#define TTI_STORE_SERVER_SERVICE_H

#include "store/server/types.h"

/* So many steps read the pending requests of all connections, however many there are. */
#define TTI_SERVICE_DRAIN 512

/* Takes the listener over, also on failure. `secret` may be NULL: there is none. */
tutti_status tti_service_begin(struct tti_service *service, int listener, bool local, const char *job,
                               const struct tti_secret *secret, tutti_error *error);

/* Handles pending events; `wait` true waits for the first one. False: there was none. */
bool tti_service_step(struct tti_service *service, bool wait);

/* Closes everything but `wake`. */
void tti_service_end(struct tti_service *service);

/* These two from any thread. After tti_service_fail the caller signals `wake`. */
int64_t tti_service_refused_count(const struct tti_service *service);
void tti_service_fail(struct tti_service *service, tutti_status status);

#endif
