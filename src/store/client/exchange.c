/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One request and one reply, over a non-blocking socket with a deadline; and the handshake of a connection: challenge
 * and proof if the job has a token (channel.h), then hello.
 */
#include "store/client/exchange.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/fork_safety.h"

static bool wait_for(int fd, short events, int64_t deadline_ns)
{
    for (;;) {
        const int left = tti_poll_ms(deadline_ns);
        struct pollfd p = {.fd = fd, .events = events};
        int ready = poll(&p, 1, left);
        if (ready > 0) {
            return true;
        }
        if ((ready < 0 && errno != EINTR) || (ready == 0 && left == 0)) {
            return false;
        }
    }
}

static tutti_status about_server(const struct tti_client *client, tutti_status status, const char *what,
                                 tutti_error *error)
{
    char number[24] = "";
    const int32_t pid = atomic_load_explicit(&client->server_pid, memory_order_relaxed);
    if (pid > 0) {
        snprintf(number, sizeof(number), " (%d)", (int)pid);
    }
    return tti_error_set(error, status, "the process%s that serves the store %s %s", number, client->base.url, what);
}

tutti_status tti_exchange_lost(const struct tti_client *client, tutti_error *error)
{
    return about_server(client, TUTTI_PEER_LEFT, "has gone", error);
}

static tutti_status no_answer(const struct tti_client *client, tutti_error *error)
{
    return about_server(client, TUTTI_TIMEOUT, "does not answer", error);
}

tutti_status tti_exchange_not_a_store(const struct tti_client *client, tutti_error *error)
{
    return tti_error_set(error, TUTTI_PROTOCOL, "the server at %s is not a store of Tutti", client->base.url);
}

/* Turns errno of a failed transfer into a status. */
static tutti_status broken(const struct tti_client *client, tutti_error *error)
{
    if (errno == EPIPE || errno == ECONNRESET || errno == ETIMEDOUT || errno == ENOTCONN) {
        return tti_exchange_lost(client, error);
    }
    if (errno == EPROTO) {
        return tti_exchange_not_a_store(client, error);
    }
    return tti_error_system(error, errno, "the connection to the store %s failed", client->base.url);
}

/* A short request needs no memory, so a rank without memory can still report that to the others. */
static tutti_status send_request(const struct tti_client *client, struct tti_client_connection *connection,
                                 const struct tti_store_exchange *x, tutti_error *error)
{
    size_t key_length = x->request.key_length;
    size_t content = key_length + x->request.value_length;
    size_t length = TTI_FRAME_HEADER + content + tti_channel_surplus(&connection->channel);
    unsigned char few[2048];
    unsigned char *bytes = length <= sizeof(few) ? few : malloc(length);
    if (!bytes) {
        return tti_store_error_no_memory(error);
    }
    tti_frame_encode(&x->request, bytes);
    if (key_length) {
        memcpy(bytes + TTI_FRAME_HEADER, x->key, key_length);
    }
    if (x->request.value_length) {
        memcpy(bytes + TTI_FRAME_HEADER + key_length, x->value, x->request.value_length);
    }
    tti_channel_encrypt(&connection->channel, bytes, bytes + TTI_FRAME_HEADER, content);
    tutti_status status = TUTTI_OK;
    size_t sent = 0;
    while (sent < length && status == TUTTI_OK) {
        ssize_t count = tti_wire_send(connection->fd, bytes + sent, length - sent, sent == 0 ? x->pass_fd : -1);
        if (count >= 0) {
            sent += (size_t)count;
        } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
            status = broken(client, error);
        } else if (!wait_for(connection->fd, POLLOUT, x->deadline_ns)) {
            status = no_answer(client, error);
        }
    }
    if (bytes != few) {
        free(bytes);
    }
    return status;
}

/* The first bytes of a reply with several descriptors. As recv(). */
static ssize_t receive_fds(int fd, struct tti_store_exchange *x, unsigned char *bytes, size_t length)
{
    int descriptors[TTI_FRAME_FDS];
    uint32_t count = 0;
    const ssize_t got = tti_wire_receive_fds(fd, bytes, length, descriptors, &count);
    const bool fits = count == 0 || (x->received_count == 0 && count <= x->most_fds);
    for (uint32_t i = 0; i < count; i++) {
        if (fits) {
            x->received_fds[i] = descriptors[i];
        } else {
            close(descriptors[i]);
        }
    }
    x->received_count = fits && count > 0 ? count : x->received_count;
    if (!fits) {
        errno = EPROTO;
    }
    return fits ? got : -1;
}

static void close_received(struct tti_store_exchange *x)
{
    tti_private_close(x->received_fd);
    x->received_fd = -1;
    for (uint32_t i = 0; i < x->received_count; i++) {
        close(x->received_fds[i]);
    }
    x->received_count = 0;
}

/* Reads exactly `length` bytes; those beyond `capacity` are thrown away. */
static tutti_status receive(const struct tti_client *client, int fd, struct tti_store_exchange *x, unsigned char *bytes,
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
        unsigned char *to = keep ? bytes + got : waste;
        ssize_t count =
            x->most_fds > 0 ? receive_fds(fd, x, to, room) : tti_wire_receive(fd, to, room, &x->received_fd);
        if (count > 0) {
            got += (size_t)count;
        } else if (count == 0) {
            return tti_exchange_lost(client, error);
        } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
            return broken(client, error);
        } else if (!wait_for(fd, POLLIN, x->deadline_ns)) {
            return no_answer(client, error);
        }
    }
    return TUTTI_OK;
}

static tutti_status no_number_left(const struct tti_client *client, const struct tti_store_exchange *x,
                                   tutti_error *error)
{
    return tti_error_system(error, EMFILE, "no number is left for the descriptor \"%s\" from the store %s", x->key,
                            client->base.url);
}

/* A value that is encrypted is received whole before any of it counts. */
static tutti_status receive_sealed(const struct tti_client *client, struct tti_client_connection *connection,
                                   struct tti_store_exchange *x, const unsigned char header[TTI_FRAME_HEADER],
                                   tutti_error *error)
{
    const size_t length = x->reply.value_length;
    const size_t whole = length + tti_channel_surplus(&connection->channel);
    unsigned char *bytes = malloc(whole);
    if (!bytes) {
        return tti_store_error_no_memory(error);
    }
    tutti_status status = receive(client, connection->fd, x, bytes, whole, whole, error);
    if (status == TUTTI_OK && !tti_channel_decrypt(&connection->channel, header, bytes, length)) {
        status = tti_error_set(error, TUTTI_AUTH,
                               "a reply of the store %s was changed on its way, or another process has sent it",
                               client->base.url);
    }
    const size_t kept = length < x->capacity ? length : x->capacity;
    if (status == TUTTI_OK && kept) {
        memcpy(x->received_value, bytes, kept);
    }
    free(bytes);
    return status;
}

/* The reply says how many descriptors were sent with it. */
static tutti_status check_fds(const struct tti_client *client, const struct tti_store_exchange *x, tutti_error *error)
{
    const uint32_t sent = x->reply.status == TUTTI_OK ? x->reply.number : 0;
    if (x->received_count > sent || sent > x->most_fds || (x->reply.status == TUTTI_OK && sent == 0)) {
        return tti_exchange_not_a_store(client, error);
    }
    return x->received_count == sent ? TUTTI_OK : no_number_left(client, x, error);
}

tutti_status tti_client_exchange(const struct tti_client *client, struct tti_client_connection *connection,
                                 struct tti_store_exchange *x, tutti_error *error)
{
    x->received_fd = -1;
    x->received_count = 0;
    const bool sealed = connection->channel.stage == TTI_CHANNEL_SEALED;
    tutti_status status = send_request(client, connection, x, error);
    unsigned char header[TTI_FRAME_HEADER];
    const bool greets = x->request.type == TTI_FRAME_HELLO || x->request.type == TTI_FRAME_CHALLENGE;
    if (status == TUTTI_OK ||
        (status == TUTTI_PEER_LEFT && greets)) { /* a server that has closed may have sent the reason before */
        status = receive(client, connection->fd, x, header, sizeof(header), sizeof(header), error);
    }
    if (status == TUTTI_OK &&
        (!tti_frame_decode(header, &x->reply) || x->reply.type != TTI_FRAME_REPLY || x->reply.key_length != 0)) {
        status = tti_exchange_not_a_store(client, error);
    }
    if (status == TUTTI_OK && sealed) {
        status = receive_sealed(client, connection, x, header, error);
    } else if (status == TUTTI_OK && x->reply.value_length) {
        status = receive(client, connection->fd, x, x->received_value, x->capacity, x->reply.value_length, error);
    }
    bool fd_expected = x->request.type == TTI_FRAME_GET_FD && status == TUTTI_OK && x->reply.status == TUTTI_OK;
    if (status == TUTTI_OK && fd_expected && x->received_fd == TTI_NO_DESCRIPTOR) {
        status = no_number_left(client, x, error);
    } else if (status == TUTTI_OK && (fd_expected ? x->received_fd < 0 : x->received_fd != -1)) {
        status = tti_exchange_not_a_store(client, error);
    }
    if (status == TUTTI_OK && x->most_fds > 0) {
        status = check_fds(client, x, error);
    }
    if (status != TUTTI_OK) {
        close_received(x);
    }
    return status;
}

void tti_exchange_server(const struct tti_client *client, const struct tti_client_connection *connection, char *text,
                         size_t capacity)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    if (getsockopt(connection->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid > 0) {
        snprintf(text, capacity, "process %d, which serves the store %s,", (int)peer.pid, client->base.url);
    } else {
        snprintf(text, capacity, "the process that serves the store %s", client->base.url);
    }
}

void tti_exchange_record_origin(struct tti_client *client)
{
    const enum tti_resource_origin origin = client->server ? TTI_RESOURCE_OF_CALLER : TTI_RESOURCE_OF_SERVER;
    /* relaxed: a number that stands for itself */
    atomic_store_explicit(&client->base.resource_origin, (int32_t)origin, memory_order_relaxed);
}

/* ---- handshake --------------------------------------------------------------------------------------------------- */

static tutti_status auth_error(const struct tti_client *client, uint32_t why, tutti_error *error)
{
    const char *url = client->base.url;
    const char *variable = client->secret.variable;
    switch (why) {
    case TTI_REFUSED_JOB:
        return tti_error_set(error, TUTTI_AUTH, "the store at %s belongs to another job", url);
    case TTI_REFUSED_NO_PROOF:
        return tti_error_set(
            error, TUTTI_AUTH,
            "the store at %s accepts only processes with the token of its job, and this process has none: set "
            "%s or %s here to what the host of the store has",
            url, TTI_TOKEN_VARIABLE, TTI_TOKEN_FILE_VARIABLE);
    case TTI_REFUSED_NO_TOKEN:
        return tti_error_set(error, TUTTI_AUTH,
                             "the store at %s is served without a token, so this process, which has one (%s), does not "
                             "trust it: give the host of the store the same token, or remove it from all hosts",
                             url, variable ? variable : TTI_TOKEN_VARIABLE);
    case TTI_REFUSED_PROOF:
        return tti_error_set(error, TUTTI_AUTH,
                             "the server of the store at %s does not have the job token of this process (%s): give all "
                             "hosts of the job the same token, and every job its own",
                             url, variable ? variable : TTI_TOKEN_VARIABLE);
    default:
        return tti_exchange_not_a_store(client, error);
    }
}

/* What the replies to all frames of the handshake have in common. */
static tutti_status check_reply(struct tti_client *client, const struct tti_client_connection *connection,
                                const struct tti_store_exchange *x, tutti_error *error)
{
    char server[TTI_EXCHANGE_SERVER];
    switch (x->reply.status) {
    case TUTTI_OK:
        return TUTTI_OK;
    case TUTTI_AUTH:
        return auth_error(client, x->reply.number, error);
    case TUTTI_VERSION:
        return tti_error_set(error, TUTTI_VERSION, "the store at %s uses version %u of the protocol, not %d",
                             client->base.url, (unsigned)x->reply.number, TTI_PROTOCOL_VERSION);
    case TUTTI_NO_RESOURCE:
        tti_exchange_server(client, connection, server, sizeof(server));
        tti_exchange_record_origin(client);
        return tti_error_set(
            error, TUTTI_NO_RESOURCE,
            "%s has no room for another connection: its limit of open files (ulimit -n) is too low for this job",
            server);
    case TUTTI_NO_MEMORY:
        tti_exchange_server(client, connection, server, sizeof(server));
        tti_exchange_record_origin(client);
        return tti_error_set(error, TUTTI_NO_MEMORY, "%s has no memory for another connection", server);
    default:
        return tti_exchange_not_a_store(client, error);
    }
}

static tutti_status prove(struct tti_client *client, struct tti_client_connection *connection, int64_t deadline_ns,
                          tutti_error *error)
{
    unsigned char header[TTI_FRAME_HEADER];
    unsigned char nonce[TTI_CHANNEL_NONCE];
    unsigned char answer[TTI_CHANNEL_ANSWER];
    unsigned char proof[TTI_CHANNEL_PROOF];
    struct tti_store_exchange challenge = {
        .request = {.type = TTI_FRAME_CHALLENGE, .value_length = sizeof(nonce), .number = TTI_PROTOCOL_VERSION},
        .value = nonce,
        .pass_fd = -1,
        .deadline_ns = deadline_ns,
        .received_value = answer,
        .capacity = sizeof(answer)};
    struct tti_store_exchange last = {.request = {.type = TTI_FRAME_PROOF, .value_length = sizeof(proof)},
                                      .value = proof,
                                      .pass_fd = -1,
                                      .deadline_ns = deadline_ns};
    tti_frame_encode(&challenge.request, header);
    if (!tti_channel_begin(&connection->channel, header, nonce)) {
        return tti_error_system(error, errno, "no random bytes to prove the token of the job with");
    }
    tutti_status status = tti_client_exchange(client, connection, &challenge, error);
    if (status == TUTTI_OK) {
        status = check_reply(client, connection, &challenge, error);
    }
    if (status == TUTTI_OK && challenge.reply.value_length != sizeof(answer)) {
        status = tti_exchange_not_a_store(client, error);
    }
    if (status == TUTTI_OK && !tti_channel_prove(&connection->channel, &client->secret, answer, proof)) {
        status = auth_error(client, TTI_REFUSED_PROOF, error);
    }
    if (status == TUTTI_OK && (status = tti_client_exchange(client, connection, &last, error)) == TUTTI_OK) {
        status = check_reply(client, connection, &last, error);
    }
    if (status == TUTTI_OK) {
        tti_channel_seal(&connection->channel, &client->secret, true);
    }
    return status;
}

tutti_status tti_client_handshake(struct tti_client *client, struct tti_client_connection *connection,
                                  int64_t deadline_ns, tutti_error *error)
{
    struct tti_store_exchange hello = {
        .request = {.type = TTI_FRAME_HELLO,
                    .key_length = (uint8_t)strlen(client->job),
                    .number = TTI_PROTOCOL_VERSION},
        .key = client->job,
        .pass_fd = -1,
        .deadline_ns = deadline_ns,
    };
    tutti_status status = client->secret.known ? prove(client, connection, deadline_ns, error) : TUTTI_OK;
    if (status == TUTTI_OK) {
        status = tti_client_exchange(client, connection, &hello, error);
    }
    return status == TUTTI_OK ? check_reply(client, connection, &hello, error) : status;
}
