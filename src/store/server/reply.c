/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a request: its reply, or the end of the connection. A reply is written as far as the socket takes it, the
 * rest when epoll reports room; then the connection reads the next request.
 */
#include "store/server/reply.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "store/fork_safety.h"

static atomic_llong dropped;
static atomic_llong auth_failures;

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
    return atomic_load_explicit(&auth_failures, memory_order_relaxed); /* a statistic: orders nothing */
}

void tti_connection_count_auth_failure(void)
{
    atomic_fetch_add_explicit(&auth_failures, 1, memory_order_relaxed); /* a statistic: orders nothing */
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
        tti_connection_count_auth_failure();
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

/* The request has been answered: the next one may arrive. */
void tti_reply_done(struct tti_connection *c)
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

void tti_reply_go_on(struct tti_service *service, struct tti_connection *c)
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
    tti_reply_done(c);
}

void tti_reply_number(struct tti_service *service, struct tti_connection *c, tutti_status status, uint32_t number,
                      const void *value, size_t length)
{
    struct tti_frame frame = {
        .type = TTI_FRAME_REPLY, .status = (uint16_t)status, .value_length = (uint32_t)length, .number = number};
    const size_t whole = TTI_FRAME_HEADER + length + tti_channel_surplus(&c->channel);
    c->reply = whole <= sizeof(c->short_reply) ? c->short_reply : malloc(whole);
    if (!c->reply) { /* its reply fits into short_reply */
        tti_reply_number(service, c, TUTTI_NO_MEMORY, TTI_PROTOCOL_VERSION, NULL, 0);
        return;
    }
    tti_frame_encode(&frame, c->reply);
    if (length) {
        memcpy(c->reply + TTI_FRAME_HEADER, value, length);
    }
    tti_channel_encrypt(&c->channel, c->reply, c->reply + TTI_FRAME_HEADER, length);
    c->reply_length = whole;
    c->reply_sent = 0;
    tti_reply_go_on(service, c);
}

void tti_reply(struct tti_service *service, struct tti_connection *c, tutti_status status, const void *value,
               size_t length)
{
    tti_reply_number(service, c, status, TTI_PROTOCOL_VERSION, value, length);
}

/* Sends the reason and closes. The reply is sent at once, since the connection has no other bytes under way. */
void tti_reply_refuse(struct tti_service *service, struct tti_connection *c, tutti_status status, uint32_t number)
{
    tti_reply_number(service, c, status, number, NULL, 0);
    tti_connection_drop(service, c);
}

void tti_reply_no_fd(struct tti_service *service, struct tti_connection *c, ssize_t sent)
{
    if (sent < 0 && (errno == ETOOMANYREFS || errno == ENOMEM || errno == ENOBUFS)) {
        tti_reply(service, c, TUTTI_NO_RESOURCE, NULL, 0);
    } else {
        tti_connection_end(service, c);
    }
}
