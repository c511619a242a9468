/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of a unix or tcp store, and its connections. */
#ifndef TTI_STORE_CLIENT_TYPES_H
#define TTI_STORE_CLIENT_TYPES_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/kinds/kind.h"
#include "store/wire/channel.h"

struct tti_server;

#define TTI_CLIENT_POOL 64

/* A connection after its handshake. */
struct tti_client_connection {
    int fd;
    struct tti_channel channel;
};

struct tti_client {
    struct tti_store base;
    /* One attempt to connect to the server. PEER_LEFT: there is no server (now); every other failure is final. */
    tutti_status (*connect)(struct tti_client *client, int64_t deadline_ns, int *fd, tutti_error *error);
    struct tti_server *server;   /* the one this store has started, or NULL */
    _Atomic int32_t server_pid;  /* of the process that serves; 0: not known */
    int64_t response_timeout_ms; /* how long the server may take to answer what it can answer at once; -1 = for ever */
    int64_t get_response_timeout_ms; /* the same, after the time of a get has passed */
    pthread_mutex_t lock;
    struct tti_client_connection idle[TTI_CLIENT_POOL]; /* unused connections, under the lock */
    int idle_count;
    char job[TTI_STORE_KEY_MAX + 1]; /* its name, which the URL may give */
    struct tti_secret secret;        /* its token; none where the kernel reports the user of the other side */
};

#endif
