/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection is in one of three phases: reading a request, waiting for a key, or writing a reply. The next request is
 * read only after the reply is sent, so a connection holds one frame at most. Bytes that are not a valid request end
 * the connection, and nothing else; such connections are counted.
 */
#include "store/server/connection.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/fork_safety.h"
#include "store/server/range.h"
#include "store/server/reply.h"

/* ---- gets -------------------------------------------------------------------------------------------------------- */

static void reply_with_fd(struct tti_service *service, struct tti_connection *c, struct tti_table_entry *entry)
{
    struct tti_frame frame = {.type = TTI_FRAME_REPLY, .status = TUTTI_OK, .number = TTI_PROTOCOL_VERSION};
    unsigned char bytes[TTI_FRAME_HEADER];
    tti_frame_encode(&frame, bytes);
    /* The connection has no other bytes under way, so a header goes out whole or not at all. */
    ssize_t sent = tti_wire_send(c->fd, bytes, sizeof(bytes), entry->fd);
    if (sent == TTI_FRAME_HEADER) {
        tti_table_served(&service->table, entry);
        tti_reply_done(c);
    } else {
        tti_reply_no_fd(service, c, sent);
    }
}

/* Answers a get if its key is there. */
static bool answer(struct tti_service *service, struct tti_connection *c)
{
    struct tti_table_entry *entry = tti_table_find(&service->table, tti_request_key(c), c->request.key_length);
    if (!entry) {
        const tutti_status failure = tti_table_key_failure(&service->table, tti_request_key(c), c->request.key_length);
        if (failure != TUTTI_OK) {
            tti_reply(service, c, failure, NULL, 0);
        }
        return failure != TUTTI_OK;
    }
    bool want_fd = c->request.type == TTI_FRAME_GET_FD;
    if (want_fd != (entry->fd >= 0)) {
        tti_reply(service, c, TUTTI_PROTOCOL, NULL, 0);
    } else if (want_fd) {
        reply_with_fd(service, c, entry);
    } else {
        tti_reply(service, c, TUTTI_OK, entry->value, entry->length);
    }
    return true;
}

/* A key has been set: every connection that waits for it is answered, as long as descriptors last. */
static void answer_waiting(struct tti_service *service, const char *key, size_t key_length)
{
    for (struct tti_connection *c = service->connections; c; c = c->next) {
        if (c->phase == TTI_WAITING && tti_is_range(c)) {
            tti_range_answer(service, c, key, key_length);
        } else if (c->phase == TTI_WAITING && c->request.key_length == key_length &&
                   memcmp(c->body, key, key_length) == 0) {
            answer(service, c);
        }
    }
}

/* ---- authentication ---------------------------------------------------------------------------------------------- */

static void handle_challenge(struct tti_service *service, struct tti_connection *c)
{
    unsigned char answer[TTI_CHANNEL_ANSWER];
    if (c->request.number != TTI_PROTOCOL_VERSION) {
        tti_reply_refuse(service, c, TUTTI_VERSION, TTI_PROTOCOL_VERSION);
    } else if (!service->secret.known) {
        tti_reply_refuse(service, c, TUTTI_AUTH, TTI_REFUSED_NO_TOKEN);
    } else if (!tti_channel_answer(&c->channel, &service->secret, c->header, c->body, answer)) {
        tti_connection_end(service, c);
    } else {
        tti_reply(service, c, TUTTI_OK, answer, sizeof(answer));
    }
}

static void handle_proof(struct tti_service *service, struct tti_connection *c)
{
    if (!tti_channel_check(&c->channel, &service->secret, c->body)) {
        tti_reply_refuse(service, c, TUTTI_AUTH, TTI_REFUSED_PROOF);
        return;
    }
    tti_reply(service, c, TUTTI_OK, NULL, 0); /* the last frame that is not encrypted: it has no content */
    tti_channel_seal(&c->channel, &service->secret, false);
}

static void handle_hello(struct tti_service *service, struct tti_connection *c)
{
    const size_t length = strlen(service->job);
    if (c->request.number != TTI_PROTOCOL_VERSION) {
        tti_reply_refuse(service, c, TUTTI_VERSION, TTI_PROTOCOL_VERSION);
    } else if (service->secret.known && c->channel.stage != TTI_CHANNEL_SEALED) {
        tti_connection_count_auth_failure();
        tti_reply_refuse(service, c, TUTTI_AUTH, TTI_REFUSED_NO_PROOF);
    } else if (c->request.key_length != length || (length && memcmp(c->body, service->job, length) != 0)) {
        tti_reply_refuse(service, c, TUTTI_AUTH, TTI_REFUSED_JOB);
    } else {
        c->authenticated = true;
        service->unauthenticated--;
        service->clients++;
        tti_reply(service, c, TUTTI_OK, NULL, 0);
    }
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void handle_get(struct tti_service *service, struct tti_connection *c)
{
    c->found = 0;
    if (tti_is_range(c) && (tti_range_is_complete(service, c) || c->request.timeout_ms == 0)) {
        tti_range_reply(service, c, TUTTI_TIMEOUT);
        return;
    }
    if (!tti_is_range(c) && answer(service, c)) {
        return;
    }
    if (c->request.timeout_ms == 0) {
        tti_reply(service, c, TUTTI_TIMEOUT, NULL, 0);
        return;
    }
    c->deadline_ns = tti_deadline_ns(tti_now_ns(), c->request.timeout_ms);
    c->phase = TTI_WAITING;
}

/* Its key cannot be stored: every get of the key gets the cause. */
static void fail_key(struct tti_service *service, struct tti_connection *c, tutti_status cause)
{
    tti_table_fail_key(&service->table, tti_request_key(c), c->request.key_length, cause);
    answer_waiting(service, tti_request_key(c), c->request.key_length);
    tti_reply(service, c, cause, NULL, 0);
}

/* Stores what a SET or PUT_FD brought. The key lies in the body, so waiting connections are answered before the body is
 * freed. */
static void handle_put(struct tti_service *service, struct tti_connection *c)
{
    size_t key_length = c->request.key_length;
    tutti_status status;
    if (c->received == TTI_NO_DESCRIPTOR) {
        status = TUTTI_NO_RESOURCE;
    } else if (c->request.type == TTI_FRAME_SET) {
        status = tti_table_insert(&service->table, tti_request_key(c), key_length, c->body + key_length,
                                  c->request.value_length);
    } else {
        status = tti_table_insert_fd(&service->table, tti_request_key(c), key_length, c->received,
                                     (int32_t)c->request.number);
        if (status == TUTTI_OK) {
            c->received = -1; /* the table's now */
        }
    }
    if (tti_is_resource_error(status)) {
        fail_key(service, c, status);
        return;
    }
    if (status == TUTTI_OK) {
        answer_waiting(service, tti_request_key(c), key_length);
    }
    tti_reply(service, c, status, NULL, 0);
}

/* The status that answers every request; OK: requests are handled. */
static tutti_status failed_status(const struct tti_service *service)
{
    return atomic_load_explicit(&service->failed_status, memory_order_relaxed); /* the signal behind it orders */
}

void tti_connection_report_failure(struct tti_service *service, struct tti_connection *c)
{
    if (c->phase == TTI_WAITING && failed_status(service) != TUTTI_OK) {
        tti_reply(service, c, failed_status(service), NULL, 0);
    }
}

static void handle(struct tti_service *service, struct tti_connection *c)
{
    service->handed -= c->handed; /* the client has received the last reply */
    c->handed = 0;
    if (c->authenticated && failed_status(service) != TUTTI_OK) {
        tti_reply(service, c, failed_status(service), NULL, 0);
        return;
    }
    switch (c->request.type) {
    case TTI_FRAME_CHALLENGE:
        handle_challenge(service, c);
        break;
    case TTI_FRAME_PROOF:
        handle_proof(service, c);
        break;
    case TTI_FRAME_HELLO:
        handle_hello(service, c);
        break;
    case TTI_FRAME_SET:
    case TTI_FRAME_PUT_FD:
        handle_put(service, c);
        break;
    case TTI_FRAME_GET:
    case TTI_FRAME_GET_FD:
    case TTI_FRAME_GET_RANGE:
    case TTI_FRAME_GET_FDS:
        handle_get(service, c);
        break;
    default: /* TTI_FRAME_REMOVE: acceptable() lets nothing else in */
        tti_table_remove(&service->table, tti_request_key(c), c->request.key_length);
        tti_reply(service, c, TUTTI_OK, NULL, 0);
        break;
    }
}

/* Whether a well-formed header is a request that this connection may make now. */
static bool acceptable(const struct tti_service *service, const struct tti_connection *c)
{
    const struct tti_frame *request = &c->request;
    bool is_fd =
        request->type == TTI_FRAME_PUT_FD || request->type == TTI_FRAME_GET_FD || request->type == TTI_FRAME_GET_FDS;
    if (is_fd && !service->local) {
        return false;
    }
    if (request->type == TTI_FRAME_PUT_FD &&
        (c->received == -1 || request->number < 1 || request->number > INT32_MAX)) {
        return false;
    }
    if (request->type != TTI_FRAME_PUT_FD && c->received != -1) {
        return false;
    }
    switch (request->type) {
    case TTI_FRAME_CHALLENGE:
        return c->channel.stage == TTI_CHANNEL_OPEN && !c->authenticated && request->key_length == 0 &&
               request->value_length == TTI_CHANNEL_NONCE;
    case TTI_FRAME_PROOF:
        return c->channel.stage == TTI_CHANNEL_CHALLENGED && request->key_length == 0 &&
               request->value_length == TTI_CHANNEL_PROOF;
    case TTI_FRAME_HELLO:
        return !c->authenticated && c->channel.stage != TTI_CHANNEL_CHALLENGED && request->value_length == 0;
    default:
        break;
    }
    if (request->type != TTI_FRAME_SET && request->value_length != 0) {
        return false;
    }
    if (tti_is_range(c) && tti_range_count(request->number) == 0) {
        return false;
    }
    return c->authenticated && request->type != TTI_FRAME_REPLY && request->key_length > 0;
}

/* Reads into `bytes` until `length` bytes of the request from `start` on are there. */
static bool fill(struct tti_service *service, struct tti_connection *c, unsigned char *bytes, size_t start,
                 size_t length)
{
    while (c->got < start + length) {
        int descriptor = -1;
        ssize_t count = tti_wire_receive(c->fd, bytes + (c->got - start), start + length - c->got, &descriptor);
        tti_private_adopt(descriptor);
        if (descriptor != -1 && (c->received != -1 || c->got != 0)) {
            tti_private_close(descriptor); /* a second one, or one in the middle of a frame */
            count = -1;
            errno = EPROTO;
        } else if (descriptor != -1) {
            c->received = descriptor;
        }
        if (count < 0 && errno == EPROTO) {
            tti_connection_drop(service, c);
            return false;
        }
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return false;
        }
        if (count <= 0) {
            tti_connection_end(service, c);
            return false;
        }
        c->got += (size_t)count;
    }
    return true;
}

static size_t body_length(const struct tti_connection *c)
{
    return (size_t)c->request.key_length + c->request.value_length + tti_channel_surplus(&c->channel);
}

/* There is no memory for the value of a SET: it is read and dropped. The connection stays, so that the client can
 * report its failure to the others. */
static void skip_value(struct tti_service *service, struct tti_connection *c)
{
    const size_t key_length = c->request.key_length;
    const size_t end = TTI_FRAME_HEADER + body_length(c);
    static_assert(sizeof(c->few) >= 2 * TTI_STORE_KEY_MAX, "there is room behind a key");
    if (!fill(service, c, c->few, TTI_FRAME_HEADER, key_length)) {
        return;
    }
    while (c->got < end) {
        const size_t left = end - c->got;
        const size_t room = sizeof(c->few) - key_length;
        if (!fill(service, c, c->few + key_length, c->got, left < room ? left : room)) {
            return;
        }
    }
    if (tti_channel_skip(&c->channel)) { /* the key was encrypted with the value, so it is unknown */
        tti_reply(service, c, TUTTI_NO_MEMORY, NULL, 0);
    } else {
        fail_key(service, c, TUTTI_NO_MEMORY);
    }
}

static void read_request(struct tti_service *service, struct tti_connection *c)
{
    if (c->got < TTI_FRAME_HEADER) {
        if (!fill(service, c, c->header, 0, TTI_FRAME_HEADER)) {
            if (c->phase != TTI_DEAD && !tti_frame_may_begin(c->header, c->got)) {
                tti_connection_drop(service, c);
            }
            return;
        }
        if (!tti_frame_decode(c->header, &c->request) || !acceptable(service, c)) {
            tti_connection_drop(service, c);
            return;
        }
        const bool is_short = body_length(c) < sizeof(c->few);
        c->body = is_short ? c->few : malloc(body_length(c) + 1);
        c->skips = !c->body;
        c->body = c->skips ? c->few : c->body;
    }
    if (c->skips) {
        skip_value(service, c);
        return;
    }
    if (!fill(service, c, c->body, TTI_FRAME_HEADER, body_length(c))) {
        return;
    }
    if (tti_channel_decrypt(&c->channel, c->header, c->body, body_length(c) - tti_channel_surplus(&c->channel))) {
        handle(service, c);
    } else {
        tti_connection_drop(service, c);
    }
}

/* A client that waits for its reply sends nothing but the end of the connection. */
static void check_waiting_peer(struct tti_service *service, struct tti_connection *c)
{
    unsigned char byte;
    ssize_t count = recv(c->fd, &byte, 1, MSG_PEEK);
    if (count > 0) {
        tti_connection_drop(service, c);
    } else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        tti_connection_end(service, c);
    }
}

void tti_connection_ready(struct tti_service *service, struct tti_connection *c)
{
    if (c->phase == TTI_READING) {
        read_request(service, c);
    } else if (c->phase == TTI_WAITING) {
        check_waiting_peer(service, c);
    } else if (c->phase == TTI_WRITING) {
        tti_reply_go_on(service, c);
    }
}

void tti_connection_expire(struct tti_service *service, struct tti_connection *c)
{
    if (c->phase == TTI_WAITING && tti_is_range(c)) {
        tti_range_reply(service, c, TUTTI_TIMEOUT);
    } else if (c->phase == TTI_WAITING) {
        tti_reply(service, c, TUTTI_TIMEOUT, NULL, 0);
    } else {
        tti_connection_drop(service, c);
    }
}
