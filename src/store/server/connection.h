/* SPDX-License-Identifier: BSD-3-Clause */
/* One client of a server: its phase, its request, its reply. Belongs to the server's thread. */
#ifndef TTI_STORE_CONNECTION_H
#define TTI_STORE_CONNECTION_H

#include "store/server/types.h"

/* Its request has been dealt with. */
void tti_connection_forget_frames(struct tti_connection *c);

/* Counts a connection that was dropped for its bytes or its user. */
void tti_connection_count_dropped(void);
int64_t tti_connection_dropped(void);
/* Of these and of those that left by themselves: the ones that did not know the token of the job. */
int64_t tti_connection_auth_failures(void);

/* Closes it; the struct stays, DEAD, until the end of the step. */
void tti_connection_end(struct tti_service *service, struct tti_connection *c);
/* The same, counted. */
void tti_connection_drop(struct tti_service *service, struct tti_connection *c);

/* epoll has reported an event of its socket. */
void tti_connection_ready(struct tti_service *service, struct tti_connection *c);

/* If the server has failed (tti_service_fail) and the connection waits for a key: replies the status. */
void tti_connection_report_failure(struct tti_service *service, struct tti_connection *c);

/* Its deadline has passed: a waiting get is answered, a connection without hello is dropped. */
void tti_connection_expire(struct tti_service *service, struct tti_connection *c);

#endif
