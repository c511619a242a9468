/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unix:NAME - an abstract unix socket: nothing is in the file system, and the kernel removes the name with its last
 * descriptor. The first process that binds the name serves; every process, that of the server included, is a client.
 * The name contains the user's number, and both sides check the other's user: another user can occupy the name, but not
 * join.
 *
 * socket:PATH - the same with a name in the file system, which every network namespace sees that sees the directory.
 * The server removes it at its end. After SIGKILL it stays, without harm: such names are random and used once.
 *
 * If the name is taken but refuses connections, a server has just ended or is about to listen; then bind and connect
 * are tried again until the deadline.
 */
#include "store/kinds/unix.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/wait/retry.h"
#include "store/client/client.h"
#include "store/client/exchange.h"
#include "store/fork_safety.h"
#include "store/server/server.h"
#include "store/wire/peer_user.h"

#define BACKLOG 1024

struct unix_store {
    struct tti_client client;
    struct sockaddr_un address;
    socklen_t address_length;
};

static tutti_status connect_unix(struct tti_client *client, int64_t deadline_ns, int *fd, tutti_error *error)
{
    struct unix_store *self = (struct unix_store *)client;
    int made = tti_private_socket(AF_UNIX);
    if (made < 0) {
        return tti_error_system(error, errno, "no socket for the store %s", client->base.url);
    }
    int code;
    int pause = 0;
    do { /* EAGAIN: the queue of the listener is full; the server is about to accept */
        code = connect(made, (const struct sockaddr *)&self->address, self->address_length) == 0 ? 0 : errno;
    } while ((code == EAGAIN || code == EINTR) && tti_retry_sleep(&pause, deadline_ns));
    if (code != 0) {
        tti_private_close(made);
        const bool absent = code == ENOENT && self->address.sun_path[0] != '\0';
        if (code == ECONNREFUSED || code == EAGAIN || code == EINTR || code == ECONNRESET || absent) {
            /* relaxed: only for error sentences */
            const bool was_served = atomic_load_explicit(&client->server_pid, memory_order_relaxed) > 0;
            return was_served
                       ? tti_exchange_lost(client, error)
                       : tti_error_set(error, TUTTI_PEER_LEFT, "no process serves the store %s", client->base.url);
        }
        return tti_error_system(error, code, "cannot connect to the store %s", client->base.url);
    }
    int pid;
    if (!tti_peer_is_same_user(made, &pid)) {
        tti_private_close(made);
        return tti_error_set(error, TUTTI_AUTH, "the name of the store %s is held by another user's process",
                             client->base.url);
    }
    /* relaxed: only for error sentences */
    atomic_store_explicit(&client->server_pid, pid, memory_order_relaxed);
    *fd = made;
    return TUTTI_OK;
}

/* Before the server ends, so that a later process finds no name without a server. */
static void close_unix(struct tti_store *store)
{
    struct unix_store *self = (struct unix_store *)store;
    if (self->client.server && self->address.sun_path[0] != '\0') {
        unlink(self->address.sun_path);
    }
    tti_client_close(store);
}

static const struct tti_store_kind unix_kind = {
    .set = tti_client_set,
    .get = tti_client_get,
    .remove = tti_client_remove,
    .put_fd = tti_client_put_fd,
    .get_fd = tti_client_get_fd,
    .get_range = tti_client_get_range,
    .served_here = tti_client_served_here,
    .refused_count = tti_client_refused_count,
    .fail = tti_client_fail,
    .set_response_timeout = tti_client_set_response_timeout,
    .close = close_unix,
};

/* Binds the name and starts to serve. BUSY: it is taken. */
static tutti_status serve(struct unix_store *self, tutti_error *error)
{
    int listener = tti_private_socket(AF_UNIX);
    if (listener < 0) {
        return tti_error_system(error, errno, "no socket for the store %s", self->client.base.url);
    }
    if (bind(listener, (const struct sockaddr *)&self->address, self->address_length) != 0 ||
        listen(listener, BACKLOG) != 0) {
        int code = errno;
        tti_private_close(listener);
        if (code == EADDRINUSE) {
            return TUTTI_BUSY;
        }
        return tti_error_system(error, code, "the socket of the store %s cannot be bound", self->client.base.url);
    }
    const tutti_status status = tti_server_start(listener, true, "", NULL, &self->client.server, error);
    if (status != TUTTI_OK && self->address.sun_path[0] != '\0') {
        unlink(self->address.sun_path);
    }
    return status;
}

static tutti_status open_unix(struct unix_store *self, bool may_serve, int64_t timeout_ms, tutti_error *error)
{
    int64_t deadline = tti_deadline_ns(tti_now_ns(), timeout_ms);
    int pause = 0;
    for (;;) {
        tutti_status status = self->client.server || !may_serve ? TUTTI_OK : serve(self, error);
        if (status == TUTTI_OK || status == TUTTI_BUSY) {
            status = tti_client_connect(&self->client, deadline, error);
        }
        if (status != TUTTI_PEER_LEFT) {
            return status;
        }
        if (tti_retry_sleep(&pause, deadline)) {
            continue;
        }
        if (!may_serve) {
            return tti_error_set(error, TUTTI_TIMEOUT, "no process has served the store %s within %lld ms",
                                 self->client.base.url, (long long)timeout_ms);
        }
        return tti_error_set(error, TUTTI_TIMEOUT,
                             "the name of the store %s is taken, but no server has answered there within %lld ms",
                             self->client.base.url, (long long)timeout_ms);
    }
}

tutti_status tti_store_open_unix(const char *rest, bool in_files, struct tti_store_opening *opening,
                                 struct tti_store **store, tutti_error *error)
{
    const char *scheme = in_files ? "socket" : "unix";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    /* An abstract name begins with a NUL byte and ends where the length says. */
    size_t room = sizeof(address.sun_path) - 1;
    int length = in_files ? snprintf(address.sun_path, room, "%s", rest)
                          : snprintf(address.sun_path + 1, room, "tutti-%u-%s", (unsigned)geteuid(), rest);
    if (length < 0 || (size_t)length >= room) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "the name of the store %s:%.120s has %zu bytes; at most %zu fit into a socket's name",
                             scheme, rest, strlen(rest), strlen(rest) + room - 1 - (size_t)length);
    }
    if (!tti_user_is_distinct()) {
        return tti_error_set(error, TUTTI_AUTH,
                             "the store %s:%.120s would be open to all users: in this user namespace the kernel shows "
                             "this process as user %u, as it shows every user that is not mapped here; map its user "
                             "(unshare --map-user, or the container's mapping of users)",
                             scheme, rest, (unsigned)geteuid());
    }
    struct unix_store *self = (struct unix_store *)tti_client_make(sizeof(*self), &unix_kind, opening->timeout_ms);
    if (!self) {
        return tti_store_error_no_memory(error);
    }
    self->client.connect = connect_unix;
    self->address = address;
    self->address_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    snprintf(self->client.base.url, sizeof(self->client.base.url), "%s:%s", scheme, rest);
    tutti_status status = open_unix(self, opening->may_serve, opening->timeout_ms, error);
    if (status != TUTTI_OK) {
        opening->origin = tti_store_resource_origin_of(&self->client.base);
        close_unix(&self->client.base);
        free(self);
        return status;
    }
    *store = &self->client.base;
    return TUTTI_OK;
}
