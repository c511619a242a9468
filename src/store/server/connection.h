/* SPDX-License-Identifier: BSD-3-Clause */
/* One client of a server: its phase, its request, its reply. Belongs to the server's thread. */
#ifndef TTI_STORE_CONNECTION_H
#define TTI_STORE_CONNECTION_H

#include "store/server/service.h"
#include "store/wire/channel.h"

enum tti_phase { TTI_READING, TTI_WAITING, TTI_WRITING, TTI_DEAD };

struct tti_connection {
    struct tti_connection *next;
    int fd;
    enum tti_phase phase;
    bool authenticated;
    struct tti_channel channel;
    int received;        /* a private descriptor that came with the request, TTI_NO_DESCRIPTOR, or -1 */
    int64_t deadline_ns; /* of the hello, or of the wait */
    struct tti_frame request;
    size_t got; /* bytes of the request so far */
    unsigned char header[TTI_FRAME_HEADER];
    unsigned char *body;    /* key, then value; the surplus of the channel behind them */
    unsigned char few[512]; /* the body, if it is short: a lack can be told without memory */
    bool skips;             /* only the key of the body is kept: there is no memory for the value */
    unsigned char *reply;
    unsigned char short_reply[512]; /* likewise */
    size_t reply_length;
    size_t reply_sent;
};

/* Its request has been dealt with. */
void tti_connection_forget_frames(struct tti_connection *c);

/* Counts a connection that was dropped for what it sent or who it was. */
void tti_connection_count_dropped(void);
int64_t tti_connection_dropped(void);
/* Of these and of those that left by themselves: who did not know the token of the job. */
int64_t tti_connection_auth_failures(void);

/* Closes it; the struct stays, DEAD, until the end of the step. */
void tti_connection_end(struct tti_service *service, struct tti_connection *c);
/* The same, counted. */
void tti_connection_drop(struct tti_service *service, struct tti_connection *c);

/* Something has happened on its socket. */
void tti_connection_ready(struct tti_service *service, struct tti_connection *c);

/* If the server has given up, and the connection waits for a key: it is told why. */
void tti_connection_report_failure(struct tti_service *service, struct tti_connection *c);

/* Its deadline has passed: a waiting get is told so, a stranger is dropped. */
void tti_connection_expire(struct tti_service *service, struct tti_connection *c);

#endif
