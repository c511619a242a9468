/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's state and that of its connections. They belong to the server's thread, except for the fields for which a
 * comment names any thread. */
#ifndef TTI_STORE_SERVER_TYPES_H
#define TTI_STORE_SERVER_TYPES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <tutti/status.h>

#include "store/server/table.h"
#include "store/wire/channel.h"
#include "store/wire/protocol.h"
#include "store/wire/secret.h"

enum tti_connection_phase { TTI_READING, TTI_WAITING, TTI_WRITING, TTI_DEAD };

struct tti_connection {
    struct tti_connection *next;
    int fd;
    enum tti_connection_phase phase;
    bool authenticated;
    struct tti_channel channel;
    int received;        /* a private descriptor that arrived with the request, TTI_NO_DESCRIPTOR, or -1 */
    int64_t deadline_ns; /* of the hello, or of the wait */
    struct tti_frame request;
    uint32_t found;  /* GET_RANGE, GET_FDS: so many keys of the range are there */
    uint32_t handed; /* descriptors in the last reply, which the client may not have received yet */
    size_t got;      /* bytes of the request so far */
    unsigned char header[TTI_FRAME_HEADER];
    unsigned char *body;    /* key, then value; the surplus of the channel behind them */
    unsigned char few[512]; /* the body, if it is short: a resource error can be reported without memory */
    bool skips;             /* only the key of the body is kept: there is no memory for the value */
    unsigned char *reply;
    unsigned char short_reply[512]; /* likewise */
    size_t reply_length;
    size_t reply_sent;
};

static inline const char *tti_request_key(const struct tti_connection *c)
{
    return (const char *)c->body;
}

struct tti_service {
    int epoll;
    int listener;
    int wake;    /* an eventfd, signalled by any thread: ends a waiting step; the owner of the service closes it */
    int reserve; /* closed for a moment to refuse a connection when descriptors have run out */
    bool local;
    /* connections of this user that got no descriptor, memory or room; any thread reads it */
    _Atomic int64_t refused_count;
    /* the answer to every request, set by any thread; OK = requests are handled */
    _Atomic int32_t failed_status;
    int clients;                        /* connections after their hello */
    int unauthenticated;                /* connections before it */
    uint32_t handed;                    /* descriptors in replies that clients may not have received yet, */
    uint32_t most_handed;               /* and how many of them may be in replies with several */
    struct tti_connection *connections; /* newest first */
    struct tti_table table;
    char job[TTI_STORE_KEY_MAX + 1]; /* the name that a hello must have */
    struct tti_secret secret;        /* the token that clients must prove */
};

#endif
