/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An event loop over non-blocking sockets. Unauthenticated connections are bounded: in number, in time (HELLO_MS until
 * the hello is complete), in memory (one frame per connection, connection.c). There are at most MAX_CONNECTIONS
 * clients; their keys stay in the table until they remove them.
 *
 * A connection may end in the middle of a round of events while later events still point at it. So it is closed at
 * once, but freed at the end of the step.
 */
#include "store/server/service.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/fork_safety.h"
#include "store/server/connection.h"
#include "store/server/reply.h"
#include "store/wire/peer_user.h"

#define EVENTS              64
#define ACCEPTED            16    /* in one step */
#define MAX_CONNECTIONS     16384 /* ranks and launchers have one each, and one more for each thread that waits */
#define MAX_UNAUTHENTICATED 256
#define HELLO_MS            10000
#define HANDED              65536 /* descriptors under way in replies with several */
#define UNDER_WAY           2 /* the kernel allows a user's processes as many as this process may open: a part of it */

static void free_dead(struct tti_service *service)
{
    struct tti_connection **link = &service->connections;
    while (*link) {
        struct tti_connection *c = *link;
        if (c->phase == TTI_DEAD) {
            *link = c->next;
            tti_connection_forget_frames(c);
            tti_channel_end(&c->channel);
            free(c);
        } else {
            link = &c->next;
        }
    }
}

/* Sends the reason, so that the client does not try again and again. The connection has no other bytes under way, so a
 * header fits into its buffer. */
static void send_refusal(int fd, tutti_status why)
{
    unsigned char bytes[TTI_FRAME_HEADER];
    const struct tti_frame frame = {.type = TTI_FRAME_REPLY, .status = (uint16_t)why, .number = TTI_PROTOCOL_VERSION};
    tti_frame_encode(&frame, bytes);
    tti_wire_send(fd, bytes, sizeof(bytes), -1);
}

/* Any host may connect to a tcp store, so only refused processes of this user (unix) are counted as the job's. */
static void count_refusal(struct tti_service *service)
{
    tti_connection_count_dropped();
    if (service->local) {
        atomic_fetch_add_explicit(&service->refused_count, 1, memory_order_relaxed); /* a number: orders nothing */
    }
}

static void refuse_connection(struct tti_service *service, int fd, tutti_status why)
{
    send_refusal(fd, why);
    tti_private_shutdown(fd);
    count_refusal(service);
}

/* A process of another user gets no reply. */
static bool is_accepted(const struct tti_service *service, int fd)
{
    if (service->local && !tti_peer_is_same_user(fd, NULL)) {
        tti_connection_count_dropped();
        tti_private_close(fd);
        return false;
    }
    return true;
}

static tutti_status resource_status(int code)
{
    return code == ENOMEM ? TUTTI_NO_MEMORY : TUTTI_NO_RESOURCE;
}

static void add_connection(struct tti_service *service, int fd)
{
    if (!is_accepted(service, fd)) {
        return;
    }
    if (service->clients >= MAX_CONNECTIONS) {
        refuse_connection(service, fd, TUTTI_NO_RESOURCE);
        return;
    }
    struct tti_connection *c = calloc(1, sizeof(*c));
    if (!c) {
        refuse_connection(service, fd, TUTTI_NO_MEMORY);
        return;
    }
    c->fd = fd;
    c->received = -1;
    c->deadline_ns = tti_deadline_ns(tti_now_ns(), HELLO_MS);
    if (!service->local) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(service->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        refuse_connection(service, fd, resource_status(errno));
        free(c);
        return;
    }
    c->next = service->connections;
    service->connections = c;
    service->unauthenticated++;
}

/* Makes room: drops the oldest connection without a hello. If only unauthenticated connections are too many, it gets no
 * reason, and its client tries again. */
static bool drop_oldest_unauthenticated(struct tti_service *service, bool out_of_descriptors)
{
    struct tti_connection *oldest = NULL;
    for (struct tti_connection *c = service->connections; c; c = c->next) {
        if (!c->authenticated && c->phase != TTI_DEAD) {
            oldest = c;
        }
    }
    if (oldest) {
        if (out_of_descriptors && oldest->phase == TTI_READING) {
            send_refusal(oldest->fd, TUTTI_NO_RESOURCE);
        }
        if (out_of_descriptors) {
            count_refusal(service);
            tti_connection_end(service, oldest);
        } else {
            tti_connection_drop(service, oldest);
        }
    }
    return oldest != NULL;
}

/* accept() reports EMFILE also when no connection is queued. */
static bool has_queued_connection(const struct tti_service *service)
{
    struct pollfd queue = {.fd = service->listener, .events = POLLIN};
    return poll(&queue, 1, 0) > 0;
}

static void open_reserve(struct tti_service *service)
{
    service->reserve = tti_private_adopt(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

/* Accepts at most ACCEPTED connections: new ones must not delay the requests of others, nor displace connections whose
 * hello has not been read yet. A step handles EVENTS events, enough for the three frames of a handshake of each
 * accepted one. */
static void accept_some(struct tti_service *service)
{
    if (service->reserve < 0) {
        open_reserve(service);
    }
    for (int tried = 0; tried < ACCEPTED; tried++) {
        int fd = tti_private_accept(service->listener);
        if (fd >= 0) {
            if (service->unauthenticated >= MAX_UNAUTHENTICATED) {
                drop_oldest_unauthenticated(service, false);
            }
            add_connection(service, fd);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED || errno == EPERM) {
            continue;
        }
        if ((errno != EMFILE && errno != ENFILE) || service->reserve < 0 || !has_queued_connection(service)) {
            return;
        }
        /* Out of descriptors: a connection that stays in the queue would make this loop spin, so it is refused. */
        if (!drop_oldest_unauthenticated(service, true)) {
            tti_private_close(service->reserve);
            service->reserve = -1;
            fd = tti_private_accept(service->listener);
            if (fd >= 0 && is_accepted(service, fd)) {
                refuse_connection(service, fd, TUTTI_NO_RESOURCE);
            }
            open_reserve(service);
        }
    }
}

/* Ends waits and missing hellos whose deadline has passed; returns the milliseconds until the next one, -1 for none. */
static int expire(struct tti_service *service)
{
    int64_t now = tti_now_ns();
    int64_t next = TTI_NEVER;
    for (struct tti_connection *c = service->connections; c; c = c->next) {
        bool timed = c->phase == TTI_WAITING || (c->phase != TTI_DEAD && !c->authenticated);
        if (timed && c->deadline_ns <= now) {
            tti_connection_expire(service, c);
        } else if (timed && c->deadline_ns < next) {
            next = c->deadline_ns;
        }
    }
    return tti_poll_ms(next);
}

/* After tti_service_fail: waiting connections get the status, too. */
static void fail_waiting(struct tti_service *service)
{
    for (struct tti_connection *c = service->connections; c; c = c->next) {
        tti_connection_report_failure(service, c);
    }
}

static void handle_event(struct tti_service *service, const struct epoll_event *event)
{
    if (event->data.ptr == service) {
        uint64_t count;
        ssize_t size = read(service->wake, &count, sizeof(count));
        (void)size; /* only resets it */
        fail_waiting(service);
    } else if (event->data.ptr == &service->listener) {
        accept_some(service);
    } else {
        tti_connection_ready(service, event->data.ptr);
    }
}

bool tti_service_step(struct tti_service *service, bool wait)
{
    int timeout = expire(service);
    free_dead(service);
    struct epoll_event events[EVENTS];
    int count = epoll_wait(service->epoll, events, EVENTS, wait ? timeout : 0);
    for (int i = 0; i < count; i++) {
        handle_event(service, &events[i]);
    }
    free_dead(service);
    return count > 0;
}

tutti_status tti_service_begin(struct tti_service *service, int listener, bool local, const char *job,
                               const struct tti_secret *secret, tutti_error *error)
{
    memset(service, 0, sizeof(*service));
    service->listener = listener;
    service->local = local;
    memcpy(service->job, job, strlen(job));
    if (secret) {
        service->secret = *secret;
    }
    service->wake = tti_private_adopt(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    service->epoll = tti_private_adopt(epoll_create1(EPOLL_CLOEXEC));
    open_reserve(service);
    struct rlimit limit;
    const bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < HANDED * UNDER_WAY;
    service->most_handed = known ? (uint32_t)(limit.rlim_cur / UNDER_WAY) : HANDED;
    struct epoll_event accepts = {.events = EPOLLIN, .data.ptr = &service->listener};
    struct epoll_event wakes = {.events = EPOLLIN, .data.ptr = service};
    if (service->wake < 0 || service->epoll < 0 || service->reserve < 0 ||
        epoll_ctl(service->epoll, EPOLL_CTL_ADD, listener, &accepts) != 0 ||
        epoll_ctl(service->epoll, EPOLL_CTL_ADD, service->wake, &wakes) != 0) {
        tutti_status status = tti_error_system(error, errno, "the server of a store cannot be set up");
        tti_service_end(service);
        tti_private_close(service->wake);
        return status;
    }
    return TUTTI_OK;
}

void tti_service_end(struct tti_service *service)
{
    tti_private_shutdown(service->listener);
    for (struct tti_connection *c = service->connections; c; c = c->next) {
        tti_connection_end(service, c);
    }
    free_dead(service);
    tti_private_close(service->epoll);
    tti_private_close(service->reserve);
    tti_table_clear(&service->table);
    tti_secret_wipe(&service->secret);
}

int64_t tti_service_refused_count(const struct tti_service *service)
{
    return atomic_load_explicit(&service->refused_count, memory_order_relaxed); /* a number: orders nothing */
}

void tti_service_fail(struct tti_service *service, tutti_status status)
{
    atomic_store_explicit(&service->failed_status, status, memory_order_relaxed); /* the signal behind it orders */
}
