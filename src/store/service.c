/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An event loop over non-blocking sockets. A connection is in one of three phases: reading a request, waiting for a key,
 * or writing a reply; it is heard again only after its reply is out. Everything a client can make the server hold is
 * bounded: connections, strangers (who have not said hello yet, and get HELLO_MS for it), one frame per connection.
 * Bytes that are not a request in its place cost the connection, never more; they are counted.
 *
 * Connections die in the middle of a round of events while later events may still point at them, so they are closed at
 * once but freed at the end of the step.
 */
#include "store/service.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/process.h"

#define EVENTS          64
#define MAX_CONNECTIONS 4096
#define MAX_STRANGERS   256
#define HELLO_MS        10000

enum phase { READING, WAITING, WRITING, DEAD };

struct tti_connection {
    struct tti_connection *next;
    int fd;
    enum phase phase;
    bool greeted;
    int received;        /* a private descriptor that came with the request, or -1 */
    int64_t deadline_ns; /* of the hello, or of the wait */
    struct tti_frame request;
    size_t got; /* bytes of the request so far */
    unsigned char header[TTI_FRAME_HEADER];
    unsigned char *body; /* key, then value */
    unsigned char *reply;
    size_t reply_length;
    size_t reply_sent;
};

static atomic_llong dropped;

int64_t tti_service_dropped(void)
{
    return atomic_load_explicit(&dropped, memory_order_relaxed); /* a statistic: orders nothing */
}

static void count_dropped(void)
{
    atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed); /* a statistic: orders nothing */
}

static void disconnect(struct tti_service *service, struct tti_connection *c)
{
    if (c->phase == DEAD) {
        return;
    }
    if (c->greeted) {
        service->clients--;
    } else {
        service->strangers--;
    }
    c->phase = DEAD;
    tti_private_hang_up(c->fd);
    tti_private_close(c->received);
    c->received = -1;
}

static void disconnect_for_garbage(struct tti_service *service, struct tti_connection *c)
{
    count_dropped();
    disconnect(service, c);
}

static void free_dead(struct tti_service *service)
{
    struct tti_connection **link = &service->connections;
    while (*link) {
        struct tti_connection *c = *link;
        if (c->phase == DEAD) {
            *link = c->next;
            free(c->body);
            free(c->reply);
            free(c);
        } else {
            link = &c->next;
        }
    }
}

/* Registers for `events` of the connection, which is known to epoll already if `known`. */
static bool watch(struct tti_service *service, struct tti_connection *c, uint32_t events, bool known)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    return epoll_ctl(service->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &event) == 0;
}

/* The request has been answered: the next one may come. */
static void next_request(struct tti_connection *c)
{
    free(c->body);
    free(c->reply);
    c->body = NULL;
    c->reply = NULL;
    c->got = 0;
    c->phase = READING;
    c->deadline_ns = TTI_NEVER;
    tti_private_close(c->received);
    c->received = -1;
}

static void go_on_writing(struct tti_service *service, struct tti_connection *c)
{
    while (c->reply_sent < c->reply_length) {
        ssize_t sent = tti_wire_send(c->fd, c->reply + c->reply_sent, c->reply_length - c->reply_sent, -1);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                disconnect(service, c);
            } else if (c->phase != WRITING) {
                c->phase = WRITING;
                c->deadline_ns = TTI_NEVER;
                if (!watch(service, c, EPOLLOUT, true)) {
                    disconnect(service, c);
                }
            }
            return;
        }
        c->reply_sent += (size_t)sent;
    }
    if (c->phase == WRITING && !watch(service, c, EPOLLIN, true)) {
        disconnect(service, c);
        return;
    }
    next_request(c);
}

static void reply(struct tti_service *service, struct tti_connection *c, tutti_status status, const void *value,
                  size_t length)
{
    struct tti_frame frame = {.type = TTI_FRAME_REPLY,
                              .status = (uint16_t)status,
                              .value_length = (uint32_t)length,
                              .number = TTI_PROTOCOL_VERSION};
    c->reply = malloc(TTI_FRAME_HEADER + length);
    if (!c->reply) {
        disconnect(service, c);
        return;
    }
    tti_frame_encode(&frame, c->reply);
    if (length) {
        memcpy(c->reply + TTI_FRAME_HEADER, value, length);
    }
    c->reply_length = TTI_FRAME_HEADER + length;
    c->reply_sent = 0;
    go_on_writing(service, c);
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
    } else if (sent < 0 && (errno == ETOOMANYREFS || errno == ENOMEM || errno == ENOBUFS)) {
        reply(service, c, TUTTI_NO_RESOURCE, NULL, 0);
    } else {
        disconnect(service, c);
    }
}

static const char *key_of(const struct tti_connection *c)
{
    return (const char *)c->body;
}

/* Answers a get if its key is there. */
static bool answer(struct tti_service *service, struct tti_connection *c)
{
    struct tti_table_entry *entry = tti_table_find(&service->table, key_of(c), c->request.key_length);
    if (!entry) {
        return false;
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

/* A key has come: everyone who waits for it is answered. Descriptors may run out on the way. */
static void answer_waiting(struct tti_service *service, const char *key, size_t key_length)
{
    for (struct tti_connection *c = service->connections; c; c = c->next) {
        if (c->phase == WAITING && c->request.key_length == key_length && memcmp(c->body, key, key_length) == 0) {
            answer(service, c);
        }
    }
}

static void handle_hello(struct tti_service *service, struct tti_connection *c)
{
    tutti_status status = TUTTI_OK;
    size_t length = strlen(service->token);
    if (c->request.number != TTI_PROTOCOL_VERSION) {
        status = TUTTI_VERSION;
    } else if (c->request.key_length != length || (length && memcmp(c->body, service->token, length) != 0)) {
        status = TUTTI_AUTH;
    }
    if (status != TUTTI_OK) {
        reply(service, c, status, NULL, 0); /* goes out at once: nothing is before it */
        disconnect_for_garbage(service, c);
        return;
    }
    c->greeted = true;
    service->strangers--;
    service->clients++;
    reply(service, c, TUTTI_OK, NULL, 0);
}

static void handle_get(struct tti_service *service, struct tti_connection *c)
{
    if (answer(service, c)) {
        return;
    }
    if (c->request.timeout_ms == 0) {
        reply(service, c, TUTTI_TIMEOUT, NULL, 0);
        return;
    }
    c->deadline_ns = tti_deadline_ns(tti_now_ns(), c->request.timeout_ms);
    c->phase = WAITING;
}

/* Stores what a SET or PUT_FD brought. The key outlives its answer: waiters are told before the body is freed. */
static void handle_put(struct tti_service *service, struct tti_connection *c)
{
    size_t key_length = c->request.key_length;
    tutti_status status;
    if (c->request.type == TTI_FRAME_SET) {
        status = tti_table_set(&service->table, key_of(c), key_length, c->body + key_length, c->request.value_length);
    } else {
        status = tti_table_put_fd(&service->table, key_of(c), key_length, c->received, (int32_t)c->request.number);
        if (status == TUTTI_OK) {
            c->received = -1; /* the table's now */
        }
    }
    if (status == TUTTI_OK) {
        answer_waiting(service, key_of(c), key_length);
    }
    reply(service, c, status, NULL, 0);
}

static void handle(struct tti_service *service, struct tti_connection *c)
{
    switch (c->request.type) {
    case TTI_FRAME_HELLO:
        handle_hello(service, c);
        break;
    case TTI_FRAME_SET:
    case TTI_FRAME_PUT_FD:
        handle_put(service, c);
        break;
    case TTI_FRAME_GET:
    case TTI_FRAME_GET_FD:
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
    bool is_fd = request->type == TTI_FRAME_PUT_FD || request->type == TTI_FRAME_GET_FD;
    if (is_fd && !service->local) {
        return false;
    }
    if (request->type == TTI_FRAME_PUT_FD && (c->received < 0 || request->number < 1 || request->number > INT32_MAX)) {
        return false;
    }
    if (request->type != TTI_FRAME_PUT_FD && c->received >= 0) {
        return false;
    }
    if (request->type != TTI_FRAME_SET && request->value_length != 0) {
        return false;
    }
    if (request->type == TTI_FRAME_HELLO) {
        return !c->greeted;
    }
    return c->greeted && request->type != TTI_FRAME_REPLY && request->key_length > 0;
}

/* Reads into `bytes` until `length` bytes of the request from `start` on are there. */
static bool fill(struct tti_service *service, struct tti_connection *c, unsigned char *bytes, size_t start,
                 size_t length)
{
    while (c->got < start + length) {
        int came = -1;
        ssize_t count = tti_wire_receive(c->fd, bytes + (c->got - start), start + length - c->got, &came);
        tti_private_adopt(came);
        if (came >= 0 && (c->received >= 0 || c->got != 0)) {
            tti_private_close(came); /* a second one, or one in the middle of a frame */
            count = -1;
            errno = EPROTO;
        } else if (came >= 0) {
            c->received = came;
        }
        if (count < 0 && errno == EPROTO) {
            disconnect_for_garbage(service, c);
            return false;
        }
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return false;
        }
        if (count <= 0) {
            disconnect(service, c);
            return false;
        }
        c->got += (size_t)count;
    }
    return true;
}

static void read_request(struct tti_service *service, struct tti_connection *c)
{
    if (c->got < TTI_FRAME_HEADER) {
        if (!fill(service, c, c->header, 0, TTI_FRAME_HEADER)) {
            return;
        }
        if (!tti_frame_decode(c->header, &c->request) || !acceptable(service, c)) {
            disconnect_for_garbage(service, c);
            return;
        }
        c->body = malloc((size_t)c->request.key_length + c->request.value_length + 1);
        if (!c->body) {
            disconnect(service, c);
            return;
        }
    }
    if (fill(service, c, c->body, TTI_FRAME_HEADER, (size_t)c->request.key_length + c->request.value_length)) {
        handle(service, c);
    }
}

/* A client that waits for its answer has nothing to say, except that it is gone. */
static void hear_waiting(struct tti_service *service, struct tti_connection *c)
{
    unsigned char byte;
    ssize_t count = recv(c->fd, &byte, 1, MSG_PEEK);
    if (count > 0) {
        disconnect_for_garbage(service, c);
    } else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        disconnect(service, c);
    }
}

static bool same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

static void welcome(struct tti_service *service, int fd)
{
    if (service->clients >= MAX_CONNECTIONS || (service->local && !same_user(fd))) {
        count_dropped();
        tti_private_close(fd);
        return;
    }
    struct tti_connection *c = calloc(1, sizeof(*c));
    if (!c) {
        tti_private_close(fd);
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
    if (!watch(service, c, EPOLLIN, false)) {
        tti_private_close(fd);
        free(c);
        return;
    }
    c->next = service->connections;
    service->connections = c;
    service->strangers++;
}

/* Makes room by giving up the stranger who has been silent for longest. */
static bool drop_oldest_stranger(struct tti_service *service)
{
    struct tti_connection *oldest = NULL;
    for (struct tti_connection *c = service->connections; c; c = c->next) {
        if (!c->greeted && c->phase != DEAD) {
            oldest = c;
        }
    }
    if (oldest) {
        disconnect_for_garbage(service, oldest);
    }
    return oldest != NULL;
}

static void accept_all(struct tti_service *service)
{
    for (;;) {
        int fd = tti_private_accept(service->listener);
        if (fd >= 0) {
            if (service->strangers >= MAX_STRANGERS) {
                drop_oldest_stranger(service);
            }
            welcome(service, fd);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED || errno == EPERM) {
            continue;
        }
        if ((errno != EMFILE && errno != ENFILE) || service->reserve < 0) {
            return;
        }
        /* Out of descriptors: a connection that stays in the queue would make this loop spin, so it is refused. */
        if (!drop_oldest_stranger(service)) {
            tti_private_close(service->reserve);
            service->reserve = -1;
            tti_private_close(tti_private_accept(service->listener));
            count_dropped();
            service->reserve = tti_private_adopt(open("/dev/null", O_RDONLY | O_CLOEXEC));
        }
    }
}

/* Ends waits and unsaid hellos whose time is over; returns the milliseconds until the next one, -1 for none. */
static int expire(struct tti_service *service)
{
    int64_t now = tti_now_ns();
    int64_t next = TTI_NEVER;
    for (struct tti_connection *c = service->connections; c; c = c->next) {
        bool timed = c->phase == WAITING || (c->phase == READING && !c->greeted);
        if (timed && c->deadline_ns <= now) {
            if (c->phase == WAITING) {
                reply(service, c, TUTTI_TIMEOUT, NULL, 0);
            } else {
                disconnect_for_garbage(service, c);
            }
        } else if (timed && c->deadline_ns < next) {
            next = c->deadline_ns;
        }
    }
    int64_t left = tti_remaining_ms(next);
    return left > INT_MAX ? INT_MAX : (int)left;
}

static void handle_event(struct tti_service *service, const struct epoll_event *event)
{
    if (event->data.ptr == service) {
        uint64_t count;
        ssize_t size = read(service->wake, &count, sizeof(count));
        (void)size; /* only resets it */
    } else if (event->data.ptr == &service->listener) {
        accept_all(service);
    } else {
        struct tti_connection *c = event->data.ptr;
        if (c->phase == READING) {
            read_request(service, c);
        } else if (c->phase == WAITING) {
            hear_waiting(service, c);
        } else if (c->phase == WRITING) {
            go_on_writing(service, c);
        }
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

tutti_status tti_service_begin(struct tti_service *service, int listener, bool local, const char *token,
                               tutti_error *error)
{
    memset(service, 0, sizeof(*service));
    service->listener = listener;
    service->local = local;
    memcpy(service->token, token, strlen(token));
    service->wake = tti_private_adopt(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    service->epoll = tti_private_adopt(epoll_create1(EPOLL_CLOEXEC));
    service->reserve = tti_private_adopt(open("/dev/null", O_RDONLY | O_CLOEXEC));
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
    tti_private_close(service->listener);
    for (struct tti_connection *c = service->connections; c; c = c->next) {
        disconnect(service, c);
    }
    free_dead(service);
    tti_private_close(service->epoll);
    tti_private_close(service->reserve);
    tti_table_clear(&service->table);
}
