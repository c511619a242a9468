/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection is in one of three phases: reading a request, waiting for a key, or writing a reply. The next request is
 * read only after the reply is sent, so a connection holds one frame at most. Bytes that are not a valid request end
 * the connection, and nothing else; such connections are counted.
 */
#include "store/server/connection.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/fork_safety.h"

static atomic_llong dropped;
static atomic_llong refused;

int64_t tti_connection_dropped(void)
{
    return atomic_load_explicit(&dropped, memory_order_relaxed); /* a statistic: orders nothing */
}

void tti_connection_count_dropped(void)
{
    atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed); /* a statistic: orders nothing */
}

int64_t tti_connection_auth_failures(void)
{
    return atomic_load_explicit(&refused, memory_order_relaxed); /* a statistic: orders nothing */
}

static void count_auth_failure(void)
{
    atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed); /* a statistic: orders nothing */
}

void tti_connection_end(struct tti_service *service, struct tti_connection *c)
{
    if (c->phase == TTI_DEAD) {
        return;
    }
    if (c->authenticated) {
        service->clients--;
    } else {
        service->unauthenticated--;
    }
    if (c->channel.stage == TTI_CHANNEL_CHALLENGED) { /* the client has read our proof and found another token */
        count_auth_failure();
    }
    c->phase = TTI_DEAD;
    service->handed -= c->handed;
    c->handed = 0;
    /* close() alone does not end the events while a forked child holds a copy. */
    epoll_ctl(service->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    tti_private_shutdown(c->fd);
    tti_private_close(c->received);
    c->received = -1;
}

void tti_connection_drop(struct tti_service *service, struct tti_connection *c)
{
    tti_connection_count_dropped();
    tti_connection_end(service, c);
}

/* Changes which events of the connection are reported. */
static bool watch(struct tti_service *service, struct tti_connection *c, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    return epoll_ctl(service->epoll, EPOLL_CTL_MOD, c->fd, &event) == 0;
}

void tti_connection_forget_frames(struct tti_connection *c)
{
    if (c->body != c->few) {
        free(c->body);
    }
    if (c->reply != c->short_reply) {
        free(c->reply);
    }
    c->body = NULL;
    c->reply = NULL;
}

/* The request has been answered: the next one may come. */
static void next_request(struct tti_connection *c)
{
    tti_connection_forget_frames(c);
    c->got = 0;
    c->phase = TTI_READING;
    if (c->authenticated) { /* else the deadline of the hello still counts */
        c->deadline_ns = TTI_NEVER;
    }
    tti_private_close(c->received);
    c->received = -1;
}

static void go_on_writing(struct tti_service *service, struct tti_connection *c)
{
    while (c->reply_sent < c->reply_length) {
        ssize_t sent = tti_wire_send(c->fd, c->reply + c->reply_sent, c->reply_length - c->reply_sent, -1);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                tti_connection_end(service, c);
            } else if (c->phase != TTI_WRITING) {
                c->phase = TTI_WRITING;
                if (!watch(service, c, EPOLLOUT)) {
                    tti_connection_end(service, c);
                }
            }
            return;
        }
        c->reply_sent += (size_t)sent;
    }
    if (c->phase == TTI_WRITING && !watch(service, c, EPOLLIN)) {
        tti_connection_end(service, c);
        return;
    }
    next_request(c);
}

static void reply_with(struct tti_service *service, struct tti_connection *c, tutti_status status, uint32_t number,
                       const void *value, size_t length)
{
    struct tti_frame frame = {
        .type = TTI_FRAME_REPLY, .status = (uint16_t)status, .value_length = (uint32_t)length, .number = number};
    const size_t whole = TTI_FRAME_HEADER + length + tti_channel_surplus(&c->channel);
    c->reply = whole <= sizeof(c->short_reply) ? c->short_reply : malloc(whole);
    if (!c->reply) { /* its reply fits into short_reply */
        reply_with(service, c, TUTTI_NO_MEMORY, TTI_PROTOCOL_VERSION, NULL, 0);
        return;
    }
    tti_frame_encode(&frame, c->reply);
    if (length) {
        memcpy(c->reply + TTI_FRAME_HEADER, value, length);
    }
    tti_channel_encrypt(&c->channel, c->reply, c->reply + TTI_FRAME_HEADER, length);
    c->reply_length = whole;
    c->reply_sent = 0;
    go_on_writing(service, c);
}

static void reply(struct tti_service *service, struct tti_connection *c, tutti_status status, const void *value,
                  size_t length)
{
    reply_with(service, c, status, TTI_PROTOCOL_VERSION, value, length);
}

/* Sends the reason and closes. The reply is sent at once, since the connection has no other bytes under way. */
static void refuse(struct tti_service *service, struct tti_connection *c, tutti_status status, uint32_t number)
{
    reply_with(service, c, status, number, NULL, 0);
    tti_connection_drop(service, c);
}

static void fd_not_sent(struct tti_service *service, struct tti_connection *c, ssize_t sent)
{
    if (sent < 0 && (errno == ETOOMANYREFS || errno == ENOMEM || errno == ENOBUFS)) {
        reply(service, c, TUTTI_NO_RESOURCE, NULL, 0);
    } else {
        tti_connection_end(service, c);
    }
}

static void reply_with_fd(struct tti_service *service, struct tti_connection *c, struct tti_table_entry *entry)
{
    struct tti_frame frame = {.type = TTI_FRAME_REPLY, .status = TUTTI_OK, .number = TTI_PROTOCOL_VERSION};
    unsigned char bytes[TTI_FRAME_HEADER];
    tti_frame_encode(&frame, bytes);
    /* The connection has no other bytes under way, so a header goes out whole or not at all. */
    ssize_t sent = tti_wire_send(c->fd, bytes, sizeof(bytes), entry->fd);
    if (sent == TTI_FRAME_HEADER) {
        tti_table_served(&service->table, entry);
        next_request(c);
    } else {
        fd_not_sent(service, c, sent);
    }
}

static const char *key_of(const struct tti_connection *c)
{
    return (const char *)c->body;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

static bool is_range(const struct tti_connection *c)
{
    return c->request.type == TTI_FRAME_GET_RANGE || c->request.type == TTI_FRAME_GET_FDS;
}

#define RANGE_KEY (TTI_STORE_KEY_MAX + 12)

static size_t range_key(const struct tti_connection *c, uint32_t member, char key[RANGE_KEY])
{
    return (size_t)snprintf(key, RANGE_KEY, "%.*s/%u", (int)c->request.key_length, key_of(c),
                            tti_range_first(c->request.number) + member);
}

static struct tti_table_entry *find_member(const struct tti_service *service, const struct tti_connection *c,
                                           uint32_t member)
{
    char key[RANGE_KEY];
    const size_t length = range_key(c, member, key);
    return tti_table_find(&service->table, key, length);
}

static bool is_member_failed(const struct tti_service *service, const struct tti_connection *c, uint32_t member)
{
    char key[RANGE_KEY];
    const size_t length = range_key(c, member, key);
    return tti_table_key_failure(&service->table, key, length) != TUTTI_OK;
}

/* Whether the range can be answered without more waiting: all keys are there, or one will not come. */
static bool is_range_complete(struct tti_service *service, struct tti_connection *c)
{
    const uint32_t count = tti_range_count(c->request.number);
    while (c->found < count && find_member(service, c, c->found)) {
        c->found++;
    }
    return c->found == count || is_member_failed(service, c, c->found);
}

static void reply_with_values(struct tti_service *service, struct tti_connection *c)
{
    size_t length = 0;
    uint32_t count = 0;
    const struct tti_table_entry *entry = NULL;
    unsigned char *values = malloc(TTI_STORE_VALUE_MAX);
    while (values && count < c->found && (entry = find_member(service, c, count)) && entry->fd < 0 &&
           length + TTI_FRAME_LENGTH + entry->length <= TTI_STORE_VALUE_MAX) {
        tti_range_put_length(values + length, (uint32_t)entry->length);
        if (entry->length) {
            memcpy(values + length + TTI_FRAME_LENGTH, entry->value, entry->length);
        }
        length += TTI_FRAME_LENGTH + entry->length;
        count++;
    }
    const tutti_status none = !values ? TUTTI_NO_MEMORY : entry ? TUTTI_PROTOCOL : TUTTI_TIMEOUT;
    reply_with(service, c, count > 0 ? TUTTI_OK : none, count, values, length);
    free(values);
}

static ssize_t send_fds(const struct tti_connection *c, const int *fds, uint32_t count)
{
    const struct tti_frame frame = {.type = TTI_FRAME_REPLY, .status = TUTTI_OK, .number = count};
    unsigned char bytes[TTI_FRAME_HEADER];
    tti_frame_encode(&frame, bytes);
    return tti_wire_send_fds(c->fd, bytes, sizeof(bytes), fds, count);
}

/* The kernel refuses to send when too many descriptors of a user are under way. So a client gets several at once only
 * as long as few are, and else one, as from GET_FD. */
static void reply_with_fds(struct tti_service *service, struct tti_connection *c)
{
    struct tti_table_entry *entries[TTI_FRAME_FDS] = {NULL};
    int fds[TTI_FRAME_FDS];
    const uint32_t room = service->most_handed > service->handed ? service->most_handed - service->handed : 1;
    const uint32_t most = room < TTI_FRAME_FDS ? room : TTI_FRAME_FDS;
    uint32_t count = 0;
    while (count < c->found && count < most && (entries[count] = find_member(service, c, count)) &&
           entries[count]->fd >= 0) {
        fds[count] = entries[count]->fd;
        count++;
    }
    if (count == 0) {
        reply(service, c, entries[0] ? TUTTI_PROTOCOL : TUTTI_TIMEOUT, NULL, 0);
        return;
    }
    ssize_t sent = send_fds(c, fds, count);
    if (sent < 0 && errno == ETOOMANYREFS && count > 1) { /* other jobs of this user have many under way */
        count = 1;
        sent = send_fds(c, fds, count);
    }
    if (sent == TTI_FRAME_HEADER) {
        for (uint32_t i = 0; i < count; i++) {
            tti_table_served(&service->table, entries[i]);
        }
        c->handed = count;
        service->handed += count;
        next_request(c);
    } else {
        fd_not_sent(service, c, sent);
    }
}

/* What is there; nothing: `otherwise`, or why the first key will not come. */
static void reply_with_range(struct tti_service *service, struct tti_connection *c, tutti_status otherwise)
{
    char key[RANGE_KEY];
    if (c->found == 0) {
        const size_t length = range_key(c, 0, key);
        const tutti_status failure = tti_table_key_failure(&service->table, key, length);
        reply(service, c, failure != TUTTI_OK ? failure : otherwise, NULL, 0);
    } else if (c->request.type == TTI_FRAME_GET_FDS) {
        reply_with_fds(service, c);
    } else {
        reply_with_values(service, c);
    }
}

/* A key has come, or will not come. */
static void answer_range(struct tti_service *service, struct tti_connection *c, const char *key, size_t key_length)
{
    char awaited[RANGE_KEY];
    const size_t stem = c->request.key_length;
    if (key_length > stem && memcmp(key_of(c), key, stem) == 0 && range_key(c, c->found, awaited) == key_length &&
        memcmp(awaited, key, key_length) == 0 && is_range_complete(service, c)) {
        reply_with_range(service, c, TUTTI_TIMEOUT);
    }
}

/* ---- gets -------------------------------------------------------------------------------------------------------- */

/* Answers a get if its key is there. */
static bool answer(struct tti_service *service, struct tti_connection *c)
{
    struct tti_table_entry *entry = tti_table_find(&service->table, key_of(c), c->request.key_length);
    if (!entry) {
        const tutti_status failure = tti_table_key_failure(&service->table, key_of(c), c->request.key_length);
        if (failure != TUTTI_OK) {
            reply(service, c, failure, NULL, 0);
        }
        return failure != TUTTI_OK;
    }
    bool want_fd = c->request.type == TTI_FRAME_GET_FD;
    if (want_fd != (entry->fd >= 0)) {
        reply(service, c, TUTTI_PROTOCOL, NULL, 0);
    } else if (want_fd) {
        reply_with_fd(service, c, entry);
    } else {
        reply(service, c, TUTTI_OK, entry->value, entry->length);
    }
    return true;
}

/* A key has come: every connection that waits for it is answered, as long as descriptors last. */
static void answer_waiting(struct tti_service *service, const char *key, size_t key_length)
{
    for (struct tti_connection *c = service->connections; c; c = c->next) {
        if (c->phase == TTI_WAITING && is_range(c)) {
            answer_range(service, c, key, key_length);
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
        refuse(service, c, TUTTI_VERSION, TTI_PROTOCOL_VERSION);
    } else if (!service->secret.known) {
        refuse(service, c, TUTTI_AUTH, TTI_REFUSED_NO_TOKEN);
    } else if (!tti_channel_answer(&c->channel, &service->secret, c->header, c->body, answer)) {
        tti_connection_end(service, c);
    } else {
        reply(service, c, TUTTI_OK, answer, sizeof(answer));
    }
}

static void handle_proof(struct tti_service *service, struct tti_connection *c)
{
    if (!tti_channel_check(&c->channel, &service->secret, c->body)) {
        refuse(service, c, TUTTI_AUTH, TTI_REFUSED_PROOF);
        return;
    }
    reply(service, c, TUTTI_OK, NULL, 0); /* the last frame that is not encrypted: it has no content */
    tti_channel_seal(&c->channel, &service->secret, false);
}

static void handle_hello(struct tti_service *service, struct tti_connection *c)
{
    const size_t length = strlen(service->job);
    if (c->request.number != TTI_PROTOCOL_VERSION) {
        refuse(service, c, TUTTI_VERSION, TTI_PROTOCOL_VERSION);
    } else if (service->secret.known && c->channel.stage != TTI_CHANNEL_SEALED) {
        count_auth_failure();
        refuse(service, c, TUTTI_AUTH, TTI_REFUSED_NO_PROOF);
    } else if (c->request.key_length != length || (length && memcmp(c->body, service->job, length) != 0)) {
        refuse(service, c, TUTTI_AUTH, TTI_REFUSED_JOB);
    } else {
        c->authenticated = true;
        service->unauthenticated--;
        service->clients++;
        reply(service, c, TUTTI_OK, NULL, 0);
    }
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void handle_get(struct tti_service *service, struct tti_connection *c)
{
    c->found = 0;
    if (is_range(c) && (is_range_complete(service, c) || c->request.timeout_ms == 0)) {
        reply_with_range(service, c, TUTTI_TIMEOUT);
        return;
    }
    if (!is_range(c) && answer(service, c)) {
        return;
    }
    if (c->request.timeout_ms == 0) {
        reply(service, c, TUTTI_TIMEOUT, NULL, 0);
        return;
    }
    c->deadline_ns = tti_deadline_ns(tti_now_ns(), c->request.timeout_ms);
    c->phase = TTI_WAITING;
}

/* Its key cannot be stored: every get of the key gets the cause. */
static void fail_key(struct tti_service *service, struct tti_connection *c, tutti_status cause)
{
    tti_table_fail_key(&service->table, key_of(c), c->request.key_length, cause);
    answer_waiting(service, key_of(c), c->request.key_length);
    reply(service, c, cause, NULL, 0);
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
        status =
            tti_table_insert(&service->table, key_of(c), key_length, c->body + key_length, c->request.value_length);
    } else {
        status = tti_table_insert_fd(&service->table, key_of(c), key_length, c->received, (int32_t)c->request.number);
        if (status == TUTTI_OK) {
            c->received = -1; /* the table's now */
        }
    }
    if (tti_is_resource_error(status)) {
        fail_key(service, c, status);
        return;
    }
    if (status == TUTTI_OK) {
        answer_waiting(service, key_of(c), key_length);
    }
    reply(service, c, status, NULL, 0);
}

/* The status that answers every request; OK: requests are handled. */
static tutti_status failed_status(const struct tti_service *service)
{
    return atomic_load_explicit(&service->failed_status, memory_order_relaxed); /* the signal behind it orders */
}

void tti_connection_report_failure(struct tti_service *service, struct tti_connection *c)
{
    if (c->phase == TTI_WAITING && failed_status(service) != TUTTI_OK) {
        reply(service, c, failed_status(service), NULL, 0);
    }
}

static void handle(struct tti_service *service, struct tti_connection *c)
{
    service->handed -= c->handed; /* the client has received the last reply */
    c->handed = 0;
    if (c->authenticated && failed_status(service) != TUTTI_OK) {
        reply(service, c, failed_status(service), NULL, 0);
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
        tti_table_remove(&service->table, key_of(c), c->request.key_length);
        reply(service, c, TUTTI_OK, NULL, 0);
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
    if (is_range(c) && tti_range_count(request->number) == 0) {
        return false;
    }
    return c->authenticated && request->type != TTI_FRAME_REPLY && request->key_length > 0;
}

/* Reads into `bytes` until `length` bytes of the request from `start` on are there. */
static bool fill(struct tti_service *service, struct tti_connection *c, unsigned char *bytes, size_t start,
                 size_t length)
{
    while (c->got < start + length) {
        int came = -1;
        ssize_t count = tti_wire_receive(c->fd, bytes + (c->got - start), start + length - c->got, &came);
        tti_private_adopt(came);
        if (came != -1 && (c->received != -1 || c->got != 0)) {
            tti_private_close(came); /* a second one, or one in the middle of a frame */
            count = -1;
            errno = EPROTO;
        } else if (came != -1) {
            c->received = came;
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
        reply(service, c, TUTTI_NO_MEMORY, NULL, 0);
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
        go_on_writing(service, c);
    }
}

void tti_connection_expire(struct tti_service *service, struct tti_connection *c)
{
    if (c->phase == TTI_WAITING && is_range(c)) {
        reply_with_range(service, c, TUTTI_TIMEOUT);
    } else if (c->phase == TTI_WAITING) {
        reply(service, c, TUTTI_TIMEOUT, NULL, 0);
    } else {
        tti_connection_drop(service, c);
    }
}
