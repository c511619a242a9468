/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of servers: start, release, end. The thread of a server ends when it has to stop, or when the server is
 * released and no client is connected: the serving rank may leave without cutting off slower ones. The thread stays
 * joinable and its server in the list until it is joined: by the release if it ends at once, else by the next start,
 * else by tti_server_shutdown_all (at exit at the latest).
 */
#include "store/server/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/process/thread.h"
#include "store/fork_safety.h"
#include "store/server/reply.h"
#include "store/server/service.h"

struct tti_server {
    struct tti_server *next;
    struct tti_service service; /* types.h says which threads use it */
    pthread_t thread;
    /* All under the process lock: */
    int references; /* the store that started it, the list, and the thread that waits for it */
    bool released;
    bool stop;
    bool settled; /* released, but clients are connected */
    bool ended;
    bool joined; /* a thread joins it */
};

static struct tti_server *servers;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void forget_servers(void)
{
    servers = NULL;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* its waiters were the parent's threads */
}

int64_t tti_server_auth_failures(void)
{
    return tti_connection_auth_failures();
}

static void *serve(void *argument)
{
    struct tti_server *server = argument;
    for (;;) {
        tti_service_step(&server->service, true);
        tti_stores_lock();
        bool stop = server->stop;
        bool released = server->released;
        tti_stores_unlock();
        if (stop) {
            break;
        }
        if (released) {
            /* What the peers had sent before the release counts: connections and ends alike. */
            for (int round = 0; round < TTI_SERVICE_DRAIN && tti_service_step(&server->service, false); round++) {
            }
            if (server->service.clients == 0) {
                break;
            }
            tti_stores_lock();
            server->settled = true;
            pthread_cond_broadcast(&changed);
            tti_stores_unlock();
        }
    }
    tti_service_end(&server->service);
    tti_stores_lock();
    server->ended = true;
    pthread_cond_broadcast(&changed);
    tti_stores_unlock();
    return NULL;
}

/* The process lock is held. */
static void wake(struct tti_server *server)
{
    if (server->ended) {
        return; /* the thread that joins it closes the eventfd */
    }
    uint64_t one = 1;
    ssize_t written = write(server->service.wake, &one, sizeof(one));
    (void)written; /* fails only when it is signalled already */
}

/* Drops one reference; the process lock is held. */
static void drop(struct tti_server *server)
{
    if (--server->references == 0) {
        free(server);
    }
}

/* Joins a server that has ended and takes it out of the list. The process lock is held, and released meanwhile. */
static void join(struct tti_server *server)
{
    server->joined = true;
    tti_stores_unlock();
    pthread_join(server->thread, NULL);
    tti_private_close(server->service.wake);
    tti_stores_lock();
    struct tti_server **link = &servers;
    while (*link != server) {
        link = &(*link)->next;
    }
    *link = server->next;
    pthread_cond_broadcast(&changed);
    drop(server);
}

/* Joins what has ended by itself since the last time. */
static void join_ended(void)
{
    tti_stores_lock();
    struct tti_server *server = servers;
    while (server) {
        if (server->ended && !server->joined) {
            join(server);
            server = servers; /* the list may have changed */
        } else {
            server = server->next;
        }
    }
    tti_stores_unlock();
}

static tutti_status start_thread(struct tti_server *server, tutti_error *error)
{
    int code = tti_thread_create(&server->thread, NULL, serve, server);
    return code == 0 ? TUTTI_OK : tti_error_system(error, code, "the thread that serves the store cannot be started");
}

tutti_status tti_server_start(int listener, bool local, const char *job, const struct tti_secret *secret,
                              struct tti_server **server, tutti_error *error)
{
    join_ended();
    struct tti_server *made = calloc(1, sizeof(*made));
    if (!made) {
        tti_private_close(listener);
        return tti_error_set(error, TUTTI_NO_MEMORY, "out of memory for the server of a store");
    }
    tutti_status status = tti_service_begin(&made->service, listener, local, job, secret, error);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    made->references = 2;
    tti_stores_lock();
    tti_stores_forget_after_fork(forget_servers);
    made->next = servers;
    servers = made;
    status = start_thread(made, error);
    if (status != TUTTI_OK) {
        servers = made->next;
    }
    tti_stores_unlock();
    if (status != TUTTI_OK) {
        tti_service_end(&made->service);
        tti_private_close(made->service.wake);
        free(made);
        return status;
    }
    *server = made;
    return TUTTI_OK;
}

void tti_server_release(struct tti_server *server)
{
    if (!server) {
        return;
    }
    tti_stores_lock();
    server->released = true;
    wake(server);
    while (!server->settled && !server->ended) {
        tti_stores_wait(&changed);
    }
    if (server->ended && !server->joined) {
        join(server);
    }
    drop(server);
    tti_stores_unlock();
}

int64_t tti_server_refused_count(const struct tti_server *server)
{
    return tti_service_refused_count(&server->service);
}

void tti_server_fail(struct tti_server *server, tutti_status status)
{
    tti_stores_lock();
    tti_service_fail(&server->service, status);
    wake(server);
    tti_stores_unlock();
}

void tti_server_shutdown_all(void)
{
    tti_stores_lock();
    for (struct tti_server *server = servers; server; server = server->next) {
        server->stop = true;
        wake(server);
    }
    while (servers) {
        struct tti_server *server = servers;
        if (server->ended && !server->joined) {
            join(server);
        } else {
            server->stop = true; /* one that was started meanwhile */
            wake(server);
            tti_stores_wait(&changed);
        }
    }
    tti_stores_unlock();
}
