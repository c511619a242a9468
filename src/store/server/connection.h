/* SPDX-License-Identifier: BSD-3-Clause */
/* One client of a server: its phase, its request, its reply. Belongs to the server's thread. */
#ifndef TTI_STORE_SERVER_CONNECTION_H
#define TTI_STORE_SERVER_CONNECTION_H

#include "store/server/types.h"

/* epoll has reported an event of its socket. */
void tti_connection_ready(struct tti_service *service, struct tti_connection *c);

/* If the server has failed (tti_service_fail) and the connection waits for a key: replies the status. */
void tti_connection_report_failure(struct tti_service *service, struct tti_connection *c);

/* Its deadline has passed: a waiting get is answered, a connection without hello is dropped. */
void tti_connection_expire(struct tti_service *service, struct tti_connection *c);

#endif
