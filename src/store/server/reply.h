/* SPDX-License-Identifier: BSD-3-Clause */
/* What ends a request: a reply to it, or the end of its connection. Belongs to the server's thread, but for the two
 * functions that return counts. */
#ifndef TTI_STORE_SERVER_REPLY_H
#define TTI_STORE_SERVER_REPLY_H

#include <stddef.h>
#include <sys/types.h>
#include <tutti/status.h>

#include "store/server/types.h"

/* Frees the request and its reply. */
void tti_connection_forget_frames(struct tti_connection *c);

/* Connections that the servers of this process have dropped or refused. */
void tti_connection_count_dropped(void);
int64_t tti_connection_dropped(void);
/* Of these, and of those that left by themselves: the ones that did not know the token of the job. */
void tti_connection_count_auth_failure(void);
int64_t tti_connection_auth_failures(void);

/* Closes it; the struct stays, DEAD, until the end of the step. */
void tti_connection_end(struct tti_service *service, struct tti_connection *c);
/* The same, counted. */
void tti_connection_drop(struct tti_service *service, struct tti_connection *c);

void tti_reply(struct tti_service *service, struct tti_connection *c, tutti_status status, const void *value,
               size_t length);
/* The same with a number of its own in the frame. */
void tti_reply_number(struct tti_service *service, struct tti_connection *c, tutti_status status, uint32_t number,
                      const void *value, size_t length);
/* Sends the reason and closes. */
void tti_reply_refuse(struct tti_service *service, struct tti_connection *c, tutti_status status, uint32_t number);
/* After a send with descriptors that has returned `sent` instead of a whole header. */
void tti_reply_no_fd(struct tti_service *service, struct tti_connection *c, ssize_t sent);
/* The socket takes bytes again. */
void tti_reply_go_on(struct tti_service *service, struct tti_connection *c);
/* The request has been answered: the next one may arrive. */
void tti_reply_done(struct tti_connection *c);

#endif
