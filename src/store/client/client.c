/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of connections, and what the server's statuses mean. The server keeps the time of a waiting get. The client
 * only ends a call whose server does not answer at all (stopped, cut off): RESPONSE_TIMEOUT_MS after the deadline of a
 * get, after the store's own timeout for every other request, unless tti_store_set_response_timeout changed that. A
 * connection whose reply did not arrive is closed, never reused. The keys of a connection are in one place at a time,
 * and wiped when moved.
 */
#include "store/client/client.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait/retry.h"
#include "store/client/exchange.h"
#include "store/fork_safety.h"
#include "store/range.h"
#include "store/server/server.h"

#define RESPONSE_TIMEOUT_MS 5000
#define MIN_HELLO_MS        1000
#define FREE_NUMBERS        256 /* looked at: enough to know that a reply finds room */

static void close_connection(struct tti_client_connection *connection)
{
    tti_private_shutdown(connection->fd);
    tti_channel_end(&connection->channel);
}

static tutti_status connect_and_handshake(struct tti_client *client, int64_t deadline_ns,
                                          struct tti_client_connection *connection, tutti_error *error)
{
    *connection = (struct tti_client_connection){.fd = -1};
    tutti_status status = client->connect(client, deadline_ns, &connection->fd, error);
    if (status != TUTTI_OK) {
        return status;
    }
    /* A server listens. Also an opener that wants a single attempt gives it time to answer. */
    int64_t least = tti_deadline_ns(tti_now_ns(), MIN_HELLO_MS);
    status = tti_client_handshake(client, connection, deadline_ns < least ? least : deadline_ns, error);
    if (status != TUTTI_OK) {
        close_connection(connection);
    }
    return status;
}

static void move_connection(struct tti_client_connection *to, struct tti_client_connection *from)
{
    *to = *from;
    explicit_bzero(from, sizeof(*from));
}

/* A server with too many unauthenticated connections drops the oldest one, perhaps this. So as long as a server
 * listens, the client tries again. */
static tutti_status connect_again(struct tti_client *client, int64_t deadline_ns,
                                  struct tti_client_connection *connection, tutti_error *error)
{
    int pause = 0;
    tutti_status status;
    do {
        status = connect_and_handshake(client, deadline_ns, connection, error);
    } while (status == TUTTI_PEER_LEFT && connection->fd >= 0 && tti_retry_sleep(&pause, deadline_ns));
    return status;
}

static tutti_status take_connection(struct tti_client *client, int64_t deadline_ns,
                                    struct tti_client_connection *connection, tutti_error *error)
{
    pthread_mutex_lock(&client->lock);
    bool idle = client->idle_count > 0;
    if (idle) {
        move_connection(connection, &client->idle[--client->idle_count]);
    }
    pthread_mutex_unlock(&client->lock);
    return idle ? TUTTI_OK : connect_again(client, deadline_ns, connection, error);
}

static void give_back_connection(struct tti_client *client, struct tti_client_connection *connection)
{
    pthread_mutex_lock(&client->lock);
    bool kept = client->idle_count < TTI_CLIENT_POOL;
    if (kept) {
        move_connection(&client->idle[client->idle_count++], connection);
    }
    pthread_mutex_unlock(&client->lock);
    if (!kept) {
        close_connection(connection);
    }
}

tutti_status tti_client_connect(struct tti_client *client, int64_t deadline_ns, tutti_error *error)
{
    struct tti_client_connection connection;
    tutti_status status = connect_and_handshake(client, deadline_ns, &connection, error);
    if (status == TUTTI_OK) {
        give_back_connection(client, &connection);
    } else if (tti_is_resource_error(status)) { /* clients of the own server need not wait for this process */
        tti_client_fail(&client->base, status);
    }
    return status;
}

/* The status of a reply, with a sentence for it. `server` names the server if it has no memory or no resource. */
static tutti_status report_reply(struct tti_client *client, const struct tti_store_exchange *x, const char *server,
                                 tutti_error *error)
{
    struct tti_store *store = &client->base;
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
        return tti_error_set(error, TUTTI_NO_MEMORY, "%s is out of memory", server);
    case TUTTI_NO_RESOURCE:
        return tti_error_set(error, TUTTI_NO_RESOURCE,
                             "%s has no descriptors left (its limit of open files, ulimit -n, is too low), or too many "
                             "are under way there",
                             server);
    default:
        return tti_exchange_not_a_store(client, error);
    }
}

/* A request and its reply: the status of the reply, with a sentence for it. */
static tutti_status request(struct tti_client *client, struct tti_store_exchange *x, tutti_error *error)
{
    bool waits = x->request.type == TTI_FRAME_GET || x->request.type == TTI_FRAME_GET_FD ||
                 x->request.type == TTI_FRAME_GET_RANGE || x->request.type == TTI_FRAME_GET_FDS;
    x->request.key_length = (uint8_t)strlen(x->key);
    x->deadline_ns = tti_deadline_ns(tti_now_ns(), waits ? x->request.timeout_ms : client->response_timeout_ms);
    if (waits) { /* the server ends the wait first */
        x->deadline_ns = tti_deadline_ns(x->deadline_ns, client->get_response_timeout_ms);
    }
    struct tti_client_connection connection;
    tutti_status status = take_connection(client, x->deadline_ns, &connection, error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tti_client_exchange(client, &connection, x, error);
    if (status != TUTTI_OK) {
        close_connection(&connection);
        return status;
    }
    char server[TTI_EXCHANGE_SERVER] = "";
    if (tti_is_resource_error(x->reply.status)) {
        tti_exchange_server(client, &connection, server, sizeof(server));
        tti_exchange_record_origin(client);
    }
    give_back_connection(client, &connection);
    return report_reply(client, x, server, error);
}

tutti_status tti_client_set(struct tti_store *store, const char *key, const void *value, size_t length,
                            tutti_error *error)
{
    struct tti_store_exchange x = {.request = {.type = TTI_FRAME_SET, .value_length = (uint32_t)length},
                                   .key = key,
                                   .value = value,
                                   .pass_fd = -1};
    return request((struct tti_client *)store, &x, error);
}

tutti_status tti_client_get(struct tti_store *store, const char *key, void *value, size_t capacity, size_t *length,
                            int64_t timeout_ms, tutti_error *error)
{
    struct tti_store_exchange x = {.request = {.type = TTI_FRAME_GET, .timeout_ms = timeout_ms},
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
    struct tti_store_exchange x = {.request = {.type = TTI_FRAME_REMOVE}, .key = key, .pass_fd = -1};
    return request((struct tti_client *)store, &x, error);
}

tutti_status tti_client_put_fd(struct tti_store *store, const char *key, int fd, int32_t readers, tutti_error *error)
{
    struct tti_store_exchange x = {
        .request = {.type = TTI_FRAME_PUT_FD, .number = (uint32_t)readers}, .key = key, .pass_fd = fd};
    return request((struct tti_client *)store, &x, error);
}

tutti_status tti_client_get_fd(struct tti_store *store, const char *key, int *fd, int64_t timeout_ms,
                               tutti_error *error)
{
    struct tti_store_exchange x = {
        .request = {.type = TTI_FRAME_GET_FD, .timeout_ms = timeout_ms}, .key = key, .pass_fd = -1};
    tutti_status status = request((struct tti_client *)store, &x, error);
    if (status == TUTTI_OK) {
        *fd = x.received_fd;
    }
    return status;
}

/* Takes the values of a reply apart. False: it is no such reply. */
static bool take_values(struct tti_store_range *range, const unsigned char *bytes, size_t length, uint32_t count)
{
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (length - at < TTI_FRAME_LENGTH) {
            return false;
        }
        const size_t own = tti_range_take_length(bytes + at);
        at += TTI_FRAME_LENGTH;
        if (length - at < own) {
            return false;
        }
        const size_t kept = own < range->stride ? own : range->stride;
        if (kept) {
            memcpy(range->values + i * range->stride, bytes + at, kept);
        }
        range->lengths[i] = own;
        at += own;
    }
    return at == length;
}

static tutti_status get_values(struct tti_client *client, struct tti_store_exchange *x, struct tti_store_range *range,
                               tutti_error *error)
{
    x->request.type = TTI_FRAME_GET_RANGE;
    x->capacity = TTI_STORE_VALUE_MAX;
    x->received_value = malloc(x->capacity);
    if (!x->received_value) {
        return TUTTI_UNSUPPORTED;
    }
    tutti_status status = request(client, x, error);
    const uint32_t count = x->reply.number;
    if (status == TUTTI_OK &&
        (count == 0 || count > range->count || !take_values(range, x->received_value, x->reply.value_length, count))) {
        status = tti_exchange_not_a_store(client, error);
    }
    range->got = status == TUTTI_OK ? count : 0;
    free(x->received_value);
    return status;
}

/* How many numbers for descriptors are free here, among the first ones. One system call: poll knows those in use. */
static uint32_t free_numbers(void)
{
    struct pollfd numbers[FREE_NUMBERS];
    struct rlimit limit;
    const bool few = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < FREE_NUMBERS;
    const nfds_t count = few ? (nfds_t)limit.rlim_cur : FREE_NUMBERS;
    uint32_t unused = 0;
    for (nfds_t i = 0; i < count; i++) {
        numbers[i] = (struct pollfd){.fd = (int)i};
    }
    if (poll(numbers, count, 0) < 0) {
        return 0;
    }
    for (nfds_t i = 0; i < count; i++) {
        unused += (numbers[i].revents & POLLNVAL) != 0;
    }
    return unused;
}

/* At most half of the free numbers: other threads open files, too. */
static tutti_status get_fds(struct tti_client *client, struct tti_store_exchange *x, struct tti_store_range *range,
                            tutti_error *error)
{
    const uint32_t room = free_numbers() / 2;
    const uint32_t most = room == 0 ? 1 : room < TTI_FRAME_FDS ? room : TTI_FRAME_FDS;
    const uint32_t count = range->count < most ? range->count : most;
    x->request.type = TTI_FRAME_GET_FDS;
    x->request.number = tti_range_number(range->first, count);
    x->received_fds = range->fds;
    x->most_fds = count;
    const tutti_status status = request(client, x, error);
    range->got = status == TUTTI_OK ? x->received_count : 0;
    return status;
}

tutti_status tti_client_get_range(struct tti_store *store, struct tti_store_range *range, int64_t timeout_ms,
                                  tutti_error *error)
{
    struct tti_store_exchange x = {
        .request = {.number = tti_range_number(range->first, range->count), .timeout_ms = timeout_ms},
        .key = range->stem,
        .pass_fd = -1};
    struct tti_client *client = (struct tti_client *)store;
    return range->fds ? get_fds(client, &x, range, error) : get_values(client, &x, range, error);
}

struct tti_client *tti_client_make(size_t size, const struct tti_store_kind *kind, int64_t timeout_ms)
{
    struct tti_client *client = calloc(1, size);
    if (client) {
        client->base.kind = kind;
        client->response_timeout_ms = timeout_ms == 0 ? RESPONSE_TIMEOUT_MS : timeout_ms;
        client->get_response_timeout_ms = RESPONSE_TIMEOUT_MS;
        pthread_mutex_init(&client->lock, NULL);
    }
    return client;
}

bool tti_client_served_here(const struct tti_store *store)
{
    return ((const struct tti_client *)store)->server != NULL;
}

int64_t tti_client_refused_count(const struct tti_store *store)
{
    const struct tti_client *client = (const struct tti_client *)store;
    return client->server ? tti_server_refused_count(client->server) : 0;
}

void tti_client_fail(struct tti_store *store, tutti_status status)
{
    struct tti_client *client = (struct tti_client *)store;
    if (client->server) {
        tti_server_fail(client->server, status);
    }
}

void tti_client_set_response_timeout(struct tti_store *store, int64_t response_timeout_ms)
{
    struct tti_client *client = (struct tti_client *)store;
    client->response_timeout_ms = client->get_response_timeout_ms = response_timeout_ms;
}

/* Everything but the memory, which store.c frees. */
void tti_client_close(struct tti_store *store)
{
    struct tti_client *client = (struct tti_client *)store;
    for (int i = 0; i < client->idle_count; i++) {
        close_connection(&client->idle[i]);
    }
    client->idle_count = 0;
    tti_secret_wipe(&client->secret);
    pthread_mutex_destroy(&client->lock);
    tti_server_release(client->server);
}

void tti_client_free(struct tti_client *client)
{
    tti_client_close(&client->base);
    free(client);
}
