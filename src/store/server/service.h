/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a server's thread does: accept connections, read requests, answer them, hold the table. Only that thread calls
 * these functions (begin and end apart), so there are no locks. No function waits for a single client.
 */
#ifndef TTI_STORE_SERVICE_H
#define TTI_STORE_SERVICE_H

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

/* From any thread. The second one: `wake` is to be signalled afterwards. */
int64_t tti_service_refused_count(const struct tti_service *service);
void tti_service_fail(struct tti_service *service, tutti_status status);

int64_t tti_service_dropped(void);
int64_t tti_service_auth_failures(void);

#endif
