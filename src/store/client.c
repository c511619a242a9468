/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Request and reply over one connection. The server keeps the time of a waiting get; the client only makes sure that a
 * server that does not answer at all (stopped, cut off) ends the call: PATIENCE_MS after the deadline of a get, after
 * the store's own timeout for everything else, unless another patience was set. A connection whose reply did not come
 * is closed, never reused.
 */
#include "store/client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/protocol.h"

#define PATIENCE_MS    5000
#define LEAST_HELLO_MS 1000

struct exchange {
    struct tti_frame request;
    const char *key;
    const void *value;
    int pass_fd;
    int64_t deadline_ns;
    struct tti_frame reply;        /* from here on: what came */
    unsigned char *received_value; /* at most `capacity` bytes of it */
    size_t capacity;
    int received_fd;
};

static bool wait_for(int fd, short events, int64_t deadline_ns)
{
    for (;;) {
        int64_t left = tti_remaining_ms(deadline_ns);
        struct pollfd p = {.fd = fd, .events = events};
        int ready = poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left);
        if (ready > 0) {
            return true;
        }
        if ((ready < 0 && errno != EINTR) || (ready == 0 && left == 0)) {
            return false;
        }
    }
}

static tutti_status lost(const struct tti_client *client, tutti_error *error)
{
    return tti_error_set(error, TUTTI_PEER_LEFT, "the process that serves the store %s has gone", client->base.url);
}

static tutti_status silent(const struct tti_client *client, tutti_error *error)
{
    return tti_error_set(error, TUTTI_TIMEOUT, "the process that serves the store %s does not answer",
                         client->base.url);
}

static tutti_status strange(const struct tti_client *client, tutti_error *error)
{
    return tti_error_set(error, TUTTI_PROTOCOL, "what answers at %s is not a store of Tutti", client->base.url);
}

/* Turns errno of a failed transfer into a status. */
static tutti_status broken(const struct tti_client *client, tutti_error *error)
{
    if (errno == EPIPE || errno == ECONNRESET || errno == ETIMEDOUT || errno == ENOTCONN) {
        return lost(client, error);
    }
    if (errno == EPROTO) {
        return strange(client, error);
    }
    return tti_error_system(error, errno, "the connection to the store %s failed", client->base.url);
}

static tutti_status send_request(const struct tti_client *client, int fd, const struct exchange *x, tutti_error *error)
{
    size_t key_length = x->request.key_length;
    size_t length = TTI_FRAME_HEADER + key_length + x->request.value_length;
    unsigned char *bytes = malloc(length);
    if (!bytes) {
        return tti_store_error_no_memory(error);
    }
    tti_frame_encode(&x->request, bytes);
    memcpy(bytes + TTI_FRAME_HEADER, x->key, key_length);
    if (x->request.value_length) {
        memcpy(bytes + TTI_FRAME_HEADER + key_length, x->value, x->request.value_length);
    }
    tutti_status status = TUTTI_OK;
    size_t sent = 0;
    while (sent < length && status == TUTTI_OK) {
        ssize_t count = tti_wire_send(fd, bytes + sent, length - sent, sent == 0 ? x->pass_fd : -1);
        if (count >= 0) {
            sent += (size_t)count;
        } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
            status = broken(client, error);
        } else if (!wait_for(fd, POLLOUT, x->deadline_ns)) {
            status = silent(client, error);
        }
    }
    free(bytes);
    return status;
}

/* Reads exactly `length` bytes; those beyond `capacity` are thrown away. */
static tutti_status receive(const struct tti_client *client, int fd, struct exchange *x, unsigned char *bytes,
                            size_t capacity, size_t length, tutti_error *error)
{
    unsigned char waste[4096];
    size_t got = 0;
    while (got < length) {
        bool keep = got < capacity;
        size_t room = keep ? (capacity < length ? capacity : length) - got : length - got;
        if (!keep && room > sizeof(waste)) {
            room = sizeof(waste);
        }
        ssize_t count = tti_wire_receive(fd, keep ? bytes + got : waste, room, &x->received_fd);
        if (count > 0) {
            got += (size_t)count;
        } else if (count == 0) {
            return lost(client, error);
        } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
            return broken(client, error);
        } else if (!wait_for(fd, POLLIN, x->deadline_ns)) {
            return silent(client, error);
        }
    }
    return TUTTI_OK;
}

/* One request and its reply. OK means that a reply has come, whatever it says. */
static tutti_status exchange(const struct tti_client *client, int fd, struct exchange *x, tutti_error *error)
{
    x->received_fd = -1;
    tutti_status status = send_request(client, fd, x, error);
    unsigned char header[TTI_FRAME_HEADER];
    if (status == TUTTI_OK) {
        status = receive(client, fd, x, header, sizeof(header), sizeof(header), error);
    }
    if (status == TUTTI_OK &&
        (!tti_frame_decode(header, &x->reply) || x->reply.type != TTI_FRAME_REPLY || x->reply.key_length != 0)) {
        status = strange(client, error);
    }
    if (status == TUTTI_OK && x->reply.value_length) {
        status = receive(client, fd, x, x->received_value, x->capacity, x->reply.value_length, error);
    }
    bool fd_expected = x->request.type == TTI_FRAME_GET_FD && status == TUTTI_OK && x->reply.status == TUTTI_OK;
    if (status == TUTTI_OK && fd_expected != (x->received_fd >= 0)) {
        status = strange(client, error);
    }
    if (status != TUTTI_OK && x->received_fd >= 0) {
        tti_private_close(x->received_fd);
        x->received_fd = -1;
    }
    return status;
}

static tutti_status say_hello(const struct tti_client *client, int fd, int64_t deadline_ns, tutti_error *error)
{
    struct exchange x = {
        .request = {.type = TTI_FRAME_HELLO,
                    .key_length = (uint8_t)strlen(client->token),
                    .number = TTI_PROTOCOL_VERSION},
        .key = client->token,
        .pass_fd = -1,
        .deadline_ns = deadline_ns,
    };
    tutti_status status = exchange(client, fd, &x, error);
    if (status != TUTTI_OK) {
        return status;
    }
    switch (x.reply.status) {
    case TUTTI_OK:
        return TUTTI_OK;
    case TUTTI_AUTH:
        return tti_error_set(error, TUTTI_AUTH, "the store at %s belongs to another job", client->base.url);
    case TUTTI_VERSION:
        return tti_error_set(error, TUTTI_VERSION, "the store at %s speaks version %u of the protocol, not %d",
                             client->base.url, (unsigned)x.reply.number, TTI_PROTOCOL_VERSION);
    default:
        return strange(client, error);
    }
}

static tutti_status connect_and_greet(struct tti_client *client, int64_t deadline_ns, int *fd, tutti_error *error)
{
    int connected = -1;
    tutti_status status = client->connect(client, deadline_ns, &connected, error);
    if (status != TUTTI_OK) {
        return status;
    }
    /* Somebody listens: that an opener asked for a single attempt does not mean that the answer may take no time. */
    int64_t least = tti_deadline_ns(tti_now_ns(), LEAST_HELLO_MS);
    status = say_hello(client, connected, deadline_ns < least ? least : deadline_ns, error);
    if (status != TUTTI_OK) {
        tti_private_hang_up(connected);
        return status;
    }
    *fd = connected;
    return TUTTI_OK;
}

tutti_status tti_client_join(struct tti_client *client, int64_t deadline_ns, tutti_error *error)
{
    int fd = -1;
    tutti_status status = connect_and_greet(client, deadline_ns, &fd, error);
    if (status == TUTTI_OK) {
        client->idle[client->idle_count++] = fd;
    }
    return status;
}

static tutti_status take_connection(struct tti_client *client, int64_t deadline_ns, int *fd, tutti_error *error)
{
    pthread_mutex_lock(&client->lock);
    bool idle = client->idle_count > 0;
    if (idle) {
        *fd = client->idle[--client->idle_count];
    }
    pthread_mutex_unlock(&client->lock);
    return idle ? TUTTI_OK : connect_and_greet(client, deadline_ns, fd, error);
}

static void give_back_connection(struct tti_client *client, int fd)
{
    pthread_mutex_lock(&client->lock);
    bool kept = client->idle_count < TTI_CLIENT_POOL;
    if (kept) {
        client->idle[client->idle_count++] = fd;
    }
    pthread_mutex_unlock(&client->lock);
    if (!kept) {
        tti_private_hang_up(fd);
    }
}

/* A whole request: OK if the server said OK; otherwise the sentence belongs to the status it gave. */
static tutti_status request(struct tti_client *client, struct exchange *x, tutti_error *error)
{
    struct tti_store *store = &client->base;
    bool waits = x->request.type == TTI_FRAME_GET || x->request.type == TTI_FRAME_GET_FD;
    x->request.key_length = (uint8_t)strlen(x->key);
    x->deadline_ns = tti_deadline_ns(tti_now_ns(), waits ? x->request.timeout_ms : client->patience_ms);
    if (waits && x->deadline_ns < TTI_NEVER - client->get_patience_ms * 1000000LL) {
        x->deadline_ns += client->get_patience_ms * 1000000LL;
    }
    int fd = -1;
    tutti_status status = take_connection(client, x->deadline_ns, &fd, error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = exchange(client, fd, x, error);
    if (status != TUTTI_OK) {
        tti_private_hang_up(fd);
        return status;
    }
    give_back_connection(client, fd);
    switch (x->reply.status) {
    case TUTTI_OK:
        return TUTTI_OK;
    case TUTTI_BUSY:
        return tti_store_error_exists(store, x->key, error);
    case TUTTI_TIMEOUT:
        return tti_store_error_timeout(store, x->key, x->request.timeout_ms, error);
    case TUTTI_PROTOCOL:
        return tti_store_error_content(store, x->key, error);
    case TUTTI_NO_MEMORY:
        return tti_error_set(error, TUTTI_NO_MEMORY, "the process that serves the store %s is out of memory",
                             store->url);
    case TUTTI_NO_RESOURCE:
        return tti_error_set(error, TUTTI_NO_RESOURCE, "too many descriptors are under way in the store %s",
                             store->url);
    default:
        return strange(client, error);
    }
}

tutti_status tti_client_set(struct tti_store *store, const char *key, const void *value, size_t length,
                            tutti_error *error)
{
    struct exchange x = {.request = {.type = TTI_FRAME_SET, .value_length = (uint32_t)length},
                         .key = key,
                         .value = value,
                         .pass_fd = -1};
    return request((struct tti_client *)store, &x, error);
}

tutti_status tti_client_get(struct tti_store *store, const char *key, void *value, size_t capacity, size_t *length,
                            int64_t timeout_ms, tutti_error *error)
{
    struct exchange x = {.request = {.type = TTI_FRAME_GET, .timeout_ms = timeout_ms},
                         .key = key,
                         .pass_fd = -1,
                         .received_value = value,
                         .capacity = capacity};
    tutti_status status = request((struct tti_client *)store, &x, error);
    if (status != TUTTI_OK) {
        return status;
    }
    *length = x.reply.value_length;
    return *length <= capacity ? TUTTI_OK : tti_store_error_too_long(store, key, *length, capacity, error);
}

tutti_status tti_client_remove(struct tti_store *store, const char *key, tutti_error *error)
{
    struct exchange x = {.request = {.type = TTI_FRAME_REMOVE}, .key = key, .pass_fd = -1};
    return request((struct tti_client *)store, &x, error);
}

tutti_status tti_client_put_fd(struct tti_store *store, const char *key, int fd, int32_t readers, tutti_error *error)
{
    struct exchange x = {.request = {.type = TTI_FRAME_PUT_FD, .number = (uint32_t)readers}, .key = key, .pass_fd = fd};
    return request((struct tti_client *)store, &x, error);
}

tutti_status tti_client_get_fd(struct tti_store *store, const char *key, int *fd, int64_t timeout_ms,
                               tutti_error *error)
{
    struct exchange x = {.request = {.type = TTI_FRAME_GET_FD, .timeout_ms = timeout_ms}, .key = key, .pass_fd = -1};
    tutti_status status = request((struct tti_client *)store, &x, error);
    if (status == TUTTI_OK) {
        *fd = x.received_fd;
    }
    return status;
}

struct tti_client *tti_client_make(size_t size, const struct tti_store_kind *kind, int64_t timeout_ms)
{
    struct tti_client *client = calloc(1, size);
    if (client) {
        client->base.kind = kind;
        client->patience_ms = timeout_ms == 0 ? PATIENCE_MS : timeout_ms;
        client->get_patience_ms = PATIENCE_MS;
        pthread_mutex_init(&client->lock, NULL);
    }
    return client;
}

bool tti_client_served_here(const struct tti_store *store)
{
    return ((const struct tti_client *)store)->server != NULL;
}

void tti_client_set_patience(struct tti_store *store, int64_t patience_ms)
{
    struct tti_client *client = (struct tti_client *)store;
    client->patience_ms = client->get_patience_ms = patience_ms;
}

/* Everything but the memory, which store.c frees. */
void tti_client_close(struct tti_store *store)
{
    struct tti_client *client = (struct tti_client *)store;
    for (int i = 0; i < client->idle_count; i++) {
        tti_private_hang_up(client->idle[i]);
    }
    client->idle_count = 0;
    pthread_mutex_destroy(&client->lock);
    tti_server_release(client->server);
}

void tti_client_free(struct tti_client *client)
{
    tti_client_close(&client->base);
    free(client);
}
