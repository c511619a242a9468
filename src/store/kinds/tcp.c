/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp://HOST:PORT[/JOB] - for jobs on several hosts. One side opens it with `serve`, binds the port and serves; the
 * others connect, again and again until the deadline, since they may be there first. HOST is a name, an IPv4 address or
 * an IPv6 address in brackets. A numeric host and "localhost" bind that address only; any other name binds all, because
 * hosts commonly resolve their own name to 127.0.1.1, which other hosts cannot reach. Port 0 (serving only) takes
 * a free one; the URL of the store names it.
 *
 * There is no user to check across hosts. If the job has a token (secret.h), both sides prove that they know it before
 * anything else, and all later frames are encrypted. Without a token every process that reaches the port is accepted.
 * JOB is a name that keeps jobs apart, and no secret: a client with another name is refused. If the port is taken, the
 * serving side becomes a client of the store of the same job there: the launcher may have been first.
 *
 * tcp://HOST:PORT,PORT,.../JOB - for launchers that cannot reserve a port. The serving side takes the first free one.
 * Clients try the ports until a store of their job answers, and ignore other listeners. Before serving, the server
 * checks whether an earlier store of the same job still answers on one of the ports.
 */
#include "store/kinds/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/wait/retry.h"
#include "store/client/client.h"
#include "store/fork_safety.h"
#include "store/server/server.h"

#define BACKLOG    1024
#define ATTEMPT_MS 3000 /* for one address, so that a dead one does not hide the next */
#define PORTS      8    /* at most, in one URL */

struct tcp_store {
    struct tti_client client;
    char host[256];
    char port[12];        /* the one in use, or being tried */
    int32_t ports[PORTS]; /* in the order of the URL; parse() checks them */
    int port_count;
    bool brackets;
    struct sockaddr_storage own; /* where the server of this store listens */
    socklen_t own_length;
};

static const char *const shape =
    "tcp://HOST:PORT or tcp://HOST:PORT/JOB, an IPv6 address in brackets; or up to 8 PORTs with commas, and a JOB";

static void write_port(struct tcp_store *self, int32_t port)
{
    snprintf(self->port, sizeof(self->port), "%d", (int)port);
}

/* Reads ports with commas between them. Returns what follows, or NULL if there is no port at all or no room for one. */
static const char *parse_ports(struct tcp_store *self, const char *text)
{
    do {
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 5 || self->port_count == PORTS) {
            return NULL;
        }
        self->ports[self->port_count++] = (int32_t)strtol(text, NULL, 10);
        text += digits;
    } while (*text++ == ',');
    return text - 1;
}

/* Port 0 lets the kernel choose, which only a server with a single port may do. */
static bool are_valid_ports(const struct tcp_store *self, bool serve)
{
    for (int i = 0; i < self->port_count; i++) {
        const int32_t port = self->ports[i];
        if (port > 65535 || (port == 0 && (!serve || self->port_count > 1))) {
            return false;
        }
    }
    return true;
}

/* Splits HOST:PORT[,PORT...][/JOB]. */
static tutti_status parse(struct tcp_store *self, const char *rest, bool serve, tutti_error *error)
{
    self->brackets = rest[0] == '[';
    const char *host = self->brackets ? rest + 1 : rest;
    size_t host_length = strcspn(host, self->brackets ? "]/" : ":/[]");
    const char *end = host + host_length;
    if (self->brackets && *end == ']') {
        end++;
    } else if (self->brackets) {
        end = "";
    }
    const char *after = *end == ':' ? parse_ports(self, end + 1) : NULL;
    if (host_length == 0 || host_length >= sizeof(self->host) || !after || (*after != '\0' && *after != '/') ||
        (self->port_count > 1 && after[0] == '\0')) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "\"tcp://%s\" is not %s", rest, shape);
    }
    const char *job = *after == '/' ? after + 1 : after;
    if (!are_valid_ports(self, serve)) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the port of \"tcp://%s\" is not in 1..65535", rest);
    }
    memcpy(self->host, host, host_length);
    write_port(self, self->ports[0]);
    snprintf(self->client.job, sizeof(self->client.job), "%s", job);
    return TUTTI_OK;
}

static tutti_status write_url(struct tcp_store *self, tutti_error *error)
{
    char *url = self->client.base.url;
    int length = snprintf(url, TTI_STORE_URL_MAX + 1, "tcp://%s%s%s:%s%s%s", self->brackets ? "[" : "", self->host,
                          self->brackets ? "]" : "", self->port, self->client.job[0] ? "/" : "", self->client.job);
    if (length < 0 || length > TTI_STORE_URL_MAX) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the store URL \"%.40s...\" has more than %d bytes", url,
                             TTI_STORE_URL_MAX);
    }
    return TUTTI_OK;
}

/* Resolves the host. NOT_FOUND with a sentence if there is no such host (yet). */
static tutti_status resolve(const struct tcp_store *self, int flags, struct addrinfo **found, tutti_error *error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    int code = getaddrinfo(flags & AI_PASSIVE ? NULL : self->host, self->port, &hints, found);
    if (code == EAI_SYSTEM) {
        return tti_error_system(error, errno, "the host \"%s\" cannot be looked up", self->host);
    }
    if (code != 0) {
        return tti_error_set(error, code == EAI_MEMORY ? TUTTI_NO_MEMORY : TUTTI_NOT_FOUND,
                             "the host \"%s\" cannot be looked up: %s", self->host, gai_strerror(code));
    }
    return TUTTI_OK;
}

/* A TCP client can connect to itself: the kernel may choose a free port of the own host as the source port, too. */
static bool connected_to_itself(int fd)
{
    struct sockaddr_storage own = {0};
    struct sockaddr_storage peer = {0};
    socklen_t own_length = sizeof(own);
    socklen_t peer_length = sizeof(peer);
    return getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 && own_length == peer_length &&
           memcmp(&own, &peer, own_length) == 0;
}

/* 0, or errno. */
static int connect_to(const struct sockaddr *address, socklen_t address_length, int64_t deadline_ns, int *fd)
{
    int made = tti_private_socket(address->sa_family);
    if (made < 0) {
        return errno;
    }
    int code = connect(made, address, address_length) == 0 ? 0 : errno;
    if (code == EINPROGRESS || code == EINTR) {
        int64_t attempt = tti_deadline_ns(tti_now_ns(), ATTEMPT_MS);
        int64_t until = deadline_ns < attempt ? deadline_ns : attempt;
        struct pollfd p = {.fd = made, .events = POLLOUT};
        int ready;
        do {
            ready = poll(&p, 1, tti_poll_ms(until));
        } while (ready < 0 && errno == EINTR);
        socklen_t length = sizeof(code);
        if (ready <= 0) {
            code = ETIMEDOUT;
        } else if (getsockopt(made, SOL_SOCKET, SO_ERROR, &code, &length) != 0) {
            code = errno;
        }
    }
    if (code == 0 && connected_to_itself(made)) {
        code = ECONNREFUSED;
    }
    if (code != 0) {
        tti_private_close(made);
        return code;
    }
    int one = 1;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    *fd = made;
    return 0;
}

static tutti_status connect_tcp(struct tti_client *client, int64_t deadline_ns, int *fd, tutti_error *error)
{
    struct tcp_store *self = (struct tcp_store *)client;
    int code = ECONNREFUSED;
    if (client->server) {
        code = connect_to((const struct sockaddr *)&self->own, self->own_length, deadline_ns, fd);
    } else {
        struct addrinfo *found = NULL;
        tutti_status resolved = resolve(self, 0, &found, error);
        if (resolved == TUTTI_NOT_FOUND) {
            return TUTTI_PEER_LEFT; /* the name may resolve later */
        }
        if (resolved != TUTTI_OK) {
            return resolved;
        }
        for (struct addrinfo *address = found; address; address = address->ai_next) {
            code = connect_to(address->ai_addr, address->ai_addrlen, deadline_ns, fd);
            if (code == 0 || code == EMFILE || code == ENFILE || code == ENOMEM) {
                break;
            }
        }
        freeaddrinfo(found);
    }
    if (code == 0) {
        return TUTTI_OK;
    }
    tutti_status status = tti_error_system(error, code, "cannot connect to the store %s", client->base.url);
    if (status == TUTTI_SYSTEM || code == EAGAIN) {
        status = TUTTI_PEER_LEFT; /* refused, unreachable, too slow: the next attempt may succeed */
        if (error) {
            error->status = status;
        }
    }
    return status;
}

static const struct tti_store_kind tcp_kind = {
    .set = tti_client_set,
    .get = tti_client_get,
    .remove = tti_client_remove,
    .get_range = tti_client_get_range,
    .served_here = tti_client_served_here,
    .refused_count = tti_client_refused_count,
    .fail = tti_client_fail,
    .set_response_timeout = tti_client_set_response_timeout,
    .close = tti_client_close,
};

static bool is_numeric(const char *host)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, NULL, &hints, &found) != 0) {
        return false;
    }
    freeaddrinfo(found);
    return true;
}

static int bind_to(const struct addrinfo *address, int *listener)
{
    int made = tti_private_socket(address->ai_family);
    if (made < 0) {
        return errno;
    }
    int one = 1;
    int zero = 0;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (address->ai_family == AF_INET6) {
        setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)); /* [::] is for IPv4, too */
    }
    if (bind(made, address->ai_addr, address->ai_addrlen) != 0 || listen(made, BACKLOG) != 0) {
        int code = errno;
        tti_private_close(made);
        return code;
    }
    *listener = made;
    return 0;
}

/* Binds the port and starts to serve. BUSY: it is taken. */
static tutti_status serve_tcp(struct tcp_store *self, tutti_error *error)
{
    bool exact = is_numeric(self->host) || strcmp(self->host, "localhost") == 0;
    struct addrinfo *found = NULL;
    tutti_status status = resolve(self, exact ? 0 : AI_PASSIVE, &found, error);
    if (status != TUTTI_OK) {
        return status;
    }
    int listener = -1;
    int code = EADDRNOTAVAIL;
    /* IPv6 first: its wildcard covers IPv4, not the other way round. */
    for (int round = 0; round < 2 && code != 0 && code != EADDRINUSE; round++) {
        for (struct addrinfo *address = found; address && code != 0 && code != EADDRINUSE; address = address->ai_next) {
            if ((address->ai_family == AF_INET6) == (round == 0)) {
                code = bind_to(address, &listener);
            }
        }
    }
    freeaddrinfo(found);
    if (code == EADDRINUSE) {
        return TUTTI_BUSY;
    }
    if (code != 0) {
        return tti_error_system(error, code, "the store %s cannot be bound on this host", self->client.base.url);
    }
    self->own_length = sizeof(self->own);
    if (getsockname(listener, (struct sockaddr *)&self->own, &self->own_length) != 0) {
        code = errno;
        tti_private_close(listener);
        return tti_error_system(error, code, "the port of the store %s cannot be read", self->client.base.url);
    }
    struct sockaddr_in6 *v6 = self->own.ss_family == AF_INET6 ? (struct sockaddr_in6 *)&self->own : NULL;
    write_port(self, ntohs(v6 ? v6->sin6_port : ((struct sockaddr_in *)&self->own)->sin_port));
    if (v6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)) { /* [::1] does not exist where IPv6 is switched off */
        inet_pton(AF_INET6, "::ffff:127.0.0.1", &v6->sin6_addr);
    }
    status = write_url(self, error);
    if (status != TUTTI_OK) {
        tti_private_close(listener);
        return status;
    }
    return tti_server_start(listener, false, self->client.job, &self->client.secret, &self->client.server, error);
}

/* Tries each port. PEER_LEFT: no store of this job answers now. `error` is never NULL. */
static tutti_status find_port(struct tcp_store *self, int64_t deadline_ns, tutti_error *error)
{
    tutti_status status = TUTTI_PEER_LEFT;
    tutti_error refused = {.status = TUTTI_OK};
    for (int i = 0; i < self->port_count && status == TUTTI_PEER_LEFT; i++) {
        /* Another program may listen there and not answer. */
        const int64_t attempt = tti_deadline_ns(tti_now_ns(), ATTEMPT_MS);
        write_port(self, self->ports[i]);
        status = write_url(self, error);
        if (status == TUTTI_OK) {
            status = tti_client_connect(&self->client, deadline_ns < attempt ? deadline_ns : attempt, error);
        }
        if (status == TUTTI_AUTH) { /* a better reason than a port without a listener */
            refused = *error;
        }
        if (status == TUTTI_AUTH || status == TUTTI_PROTOCOL || status == TUTTI_VERSION || status == TUTTI_TIMEOUT) {
            status = TUTTI_PEER_LEFT;
        }
    }
    if (status == TUTTI_PEER_LEFT && refused.status != TUTTI_OK) {
        *error = refused;
    }
    return status;
}

/* Serves at the first port that is free. BUSY: none is. */
static tutti_status serve_free_port(struct tcp_store *self, int64_t deadline_ns, tutti_error *error)
{
    tutti_status status = TUTTI_BUSY;
    for (int i = 0; i < self->port_count && status == TUTTI_BUSY; i++) {
        write_port(self, self->ports[i]);
        status = write_url(self, error);
        status = status == TUTTI_OK ? serve_tcp(self, error) : status;
    }
    return status == TUTTI_OK ? tti_client_connect(&self->client, deadline_ns, error) : status;
}

/* open_tcp() for a URL with several ports. */
static tutti_status open_ports(struct tcp_store *self, bool serve, int64_t timeout_ms, tutti_error *error)
{
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), timeout_ms);
    int pause = 0;
    tutti_error last;
    for (;;) {
        tutti_status status =
            self->client.server ? tti_client_connect(&self->client, deadline, &last) : find_port(self, deadline, &last);
        if (status == TUTTI_PEER_LEFT && serve && !self->client.server) {
            status = serve_free_port(self, deadline, &last);
        }
        if (status != TUTTI_PEER_LEFT && status != TUTTI_BUSY) {
            if (status != TUTTI_OK && error) {
                *error = last;
            }
            return status;
        }
        if (!tti_retry_sleep(&pause, deadline)) {
            return tti_error_set(error, TUTTI_TIMEOUT,
                                 "%s at one of the %d ports of the host %s within %lld ms (%s); TUTTI_STORE may name "
                                 "another place",
                                 serve ? "the store cannot be served" : "no store of this job has answered",
                                 self->port_count, self->host, (long long)timeout_ms,
                                 status == TUTTI_BUSY ? "all are taken" : last.message);
        }
    }
}

static tutti_status open_tcp(struct tcp_store *self, bool serve, int64_t timeout_ms, tutti_error *error)
{
    int64_t deadline = tti_deadline_ns(tti_now_ns(), timeout_ms);
    int pause = 0;
    tutti_error last;
    for (;;) {
        bool taken = false;
        if (serve && !self->client.server) {
            tutti_status status = serve_tcp(self, error);
            taken = status == TUTTI_BUSY;
            if (status != TUTTI_OK && !taken) {
                return status;
            }
        }
        tutti_status status = tti_client_connect(&self->client, deadline, &last);
        if (status == TUTTI_PROTOCOL && taken) {
            return tti_error_set(error, TUTTI_SYSTEM, "the port of the store %s is used by another program",
                                 self->client.base.url);
        }
        if (status != TUTTI_PEER_LEFT) {
            if (status != TUTTI_OK && error) {
                *error = last;
            }
            return status;
        }
        if (!tti_retry_sleep(&pause, deadline)) {
            return tti_error_set(error, TUTTI_TIMEOUT, "no store has answered at %s within %lld ms (%s)",
                                 self->client.base.url, (long long)timeout_ms, last.message);
        }
    }
}

tutti_status tti_store_open_tcp(const char *rest, struct tti_store_opening *opening, struct tti_store **store,
                                tutti_error *error)
{
    struct tcp_store *self = (struct tcp_store *)tti_client_make(sizeof(*self), &tcp_kind, opening->timeout_ms);
    if (!self) {
        return tti_store_error_no_memory(error);
    }
    tutti_status status = parse(self, rest, opening->serve, error);
    if (status == TUTTI_OK) {
        status = tti_secret_read(&self->client.secret, error);
    }
    if (status == TUTTI_OK) {
        self->client.connect = connect_tcp;
        status = write_url(self, error);
    }
    if (status == TUTTI_OK) {
        status = self->port_count > 1 ? open_ports(self, opening->serve, opening->timeout_ms, error)
                                      : open_tcp(self, opening->serve, opening->timeout_ms, error);
    }
    if (status != TUTTI_OK) {
        opening->origin = tti_store_resource_origin_of(&self->client.base);
        tti_client_free(&self->client);
        return status;
    }
    *store = &self->client.base;
    return TUTTI_OK;
}
