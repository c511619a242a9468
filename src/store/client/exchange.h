/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's request and the server's reply to it over one connection, and the requests that each connection begins
 * with. */
#ifndef TTI_STORE_CLIENT_EXCHANGE_H
#define TTI_STORE_CLIENT_EXCHANGE_H

#include "store/client/types.h"

struct tti_store_exchange {
    struct tti_frame request;
    const char *key;
    const void *value;
    int pass_fd;
    int64_t deadline_ns;
    struct tti_frame reply;        /* from here on: filled in */
    unsigned char *received_value; /* at most `capacity` bytes of it */
    size_t capacity;
    int received_fd;
    int *received_fds; /* GET_FDS: room for `most_fds` of them; else most_fds is 0 */
    uint32_t most_fds;
    uint32_t received_count;
};

/* One request and its reply. OK: a reply has arrived, whatever its status. */
tutti_status tti_client_exchange(const struct tti_client *client, struct tti_client_connection *connection,
                                 struct tti_store_exchange *x, tutti_error *error);

/* If the job has a token, client and server prove that they know it. Then the client sends HELLO. */
tutti_status tti_client_handshake(struct tti_client *client, struct tti_client_connection *connection,
                                  int64_t deadline_ns, tutti_error *error);

/* The server, for a sentence: its process, where the kernel reports it. */
#define TTI_EXCHANGE_SERVER (TTI_STORE_URL_MAX + 60)
void tti_exchange_server(const struct tti_client *client, const struct tti_client_connection *connection, char *text,
                         size_t capacity);

/* Records which process a resource error that the server has replied is about. */
void tti_exchange_record_origin(struct tti_client *client);

/* PEER_LEFT: the process that has served the store has ended. */
tutti_status tti_exchange_lost(const struct tti_client *client, tutti_error *error);

/* The other side is no store of Tutti. */
tutti_status tti_exchange_not_a_store(const struct tti_client *client, tutti_error *error);

#endif
