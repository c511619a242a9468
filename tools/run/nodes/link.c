/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two launchers. A message is a key of the store: message/FROM-TO/NUMBER. One side writes it once, the
 * other side waits for it and removes it. Each link has two threads, so the loop of the launcher never waits for the
 * network. The reader puts what arrives into the queue. The writer sends what is queued, and a heartbeat when nothing
 * is. So silence means that the other launcher, its host or the link is lost.
 *
 * Node 0 serves the store and always reaches it, so it waits the whole time-out for a message. The others wait half of
 * the time-out for the message and half for the store's answer that there is none.
 */
#include "run/nodes/link.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/nodes/rendezvous.h"

#define HEARTBEATS      4    /* in the time-out of the link */
#define MAX_INTERVAL_MS 1000 /* between two heartbeats */
#define KEY_BYTES       64
#define MESSAGES        8 /* on one link; a launcher sends four at most: FAILED, DONE, REPORT, ACK */

struct tti_link {
    struct tti_store *store;
    struct tti_message_queue *queue;
    int own;
    int peer;
    int64_t heartbeat_timeout_ms;
    pthread_t reader;
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tti_node_message messages[MESSAGES]; /* to be sent, in their order; from here on under the lock */
    int queued;
    int sent;
    bool closing;
    bool dead; /* LOST has been delivered */
};

/* ---- the queue --------------------------------------------------------------------------------------------------- */

static_assert(sizeof(struct tti_node_message) <= PIPE_BUF, "a pipe takes and gives a message as a whole");

bool tti_message_queue_open(struct tti_message_queue *queue)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *queue = (struct tti_message_queue){.fd = ends[0], .input = ends[1]};
    return true;
}

bool tti_message_queue_pop(struct tti_message_queue *queue, struct tti_node_message *message)
{
    return read(queue->fd, message, sizeof(*message)) == (ssize_t)sizeof(*message);
}

/* Waits while the pipe is full. */
static void queue_push(struct tti_message_queue *queue, const struct tti_node_message *message)
{
    ssize_t written = 0;
    do {
        written = write(queue->input, message, sizeof(*message));
    } while (written < 0 && errno == EINTR); /* EPIPE: the launcher reads no more */
}

static struct tti_node_message message_of(int kind, int from, const struct tti_node_report *report)
{
    struct tti_node_message message = {.kind = kind, .from = from};
    if (report) {
        message.report = *report;
    }
    return message;
}

/* ---- the threads ------------------------------------------------------------------------------------------------- */

/* Reports once that nothing can arrive from the other side any more. */
static void give_up(struct tti_link *link, tutti_status status, const char *message)
{
    struct tti_node_report report = {.outcome = TTI_OUTCOME_NODE_LOST, .node = link->peer, .rank = -1};
    if (status == TUTTI_PEER_LEFT) {
        snprintf(report.text, sizeof(report.text), "its launcher has ended");
    } else if (status == TUTTI_TIMEOUT) {
        snprintf(report.text, sizeof(report.text),
                 "no message of it has arrived for %.1f s (--node-timeout): its host, its link or its launcher is lost",
                 (double)link->heartbeat_timeout_ms / 1000);
    } else {
        snprintf(report.text, sizeof(report.text), "%.199s", message);
    }
    pthread_mutex_lock(&link->lock);
    const bool first = !link->dead;
    link->dead = true;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    if (first) {
        const struct tti_node_message lost = message_of(TTI_NODE_LOST, link->peer, &report);
        queue_push(link->queue, &lost);
    }
}

static bool is_dead(struct tti_link *link)
{
    pthread_mutex_lock(&link->lock);
    const bool dead = link->dead;
    pthread_mutex_unlock(&link->lock);
    return dead;
}

/* Whether the other side may send this kind: node 0 leads, the others answer. Only the link itself makes LOST. */
static bool is_expected(const struct tti_link *link, int32_t kind)
{
    switch (kind) {
    case TTI_NODE_HEARTBEAT:
        return true;
    case TTI_NODE_STOP:
    case TTI_NODE_DECISION:
        return link->peer == 0;
    case TTI_NODE_FAILED:
    case TTI_NODE_REPORT:
    case TTI_NODE_DONE:
    case TTI_NODE_ACK:
        return link->own == 0;
    default:
        return false;
    }
}

static void *receive_thread_main(void *argument)
{
    struct tti_link *link = argument;
    const int64_t timeout_ms = link->own == 0 ? link->heartbeat_timeout_ms : link->heartbeat_timeout_ms / 2;
    for (unsigned long number = 0; !is_dead(link); number++) {
        struct tti_node_message message;
        char key[KEY_BYTES];
        size_t length = 0;
        tutti_error error;
        snprintf(key, sizeof(key), "message/%d-%d/%lu", link->peer, link->own, number);
        const tutti_status status =
            tti_store_get(link->store, key, &message, sizeof(message), &length, timeout_ms, &error);
        if (status != TUTTI_OK || length != sizeof(message) || !is_expected(link, message.kind)) {
            give_up(link, status, status == TUTTI_OK ? "it sends messages that no launcher sends" : error.message);
            break;
        }
        tti_store_remove(link->store, key, NULL); /* if that fails, so does the next get */
        message.from = link->peer;
        tti_nodes_sanitize_text(message.report.text, sizeof(message.report.text));
        if (message.kind != TTI_NODE_HEARTBEAT) {
            queue_push(link->queue, &message);
        }
        if (message.kind == TTI_NODE_DECISION || message.kind == TTI_NODE_ACK) {
            break;
        }
    }
    return NULL;
}

/* The next message, or a heartbeat; false when the link is closed or dead. */
static bool next_message(struct tti_link *link, int64_t heartbeat_ms, struct tti_node_message *message)
{
    const int64_t until = tti_deadline_ns(tti_now_ns(), heartbeat_ms);
    const struct timespec time = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    pthread_mutex_lock(&link->lock);
    while (link->sent == link->queued && !link->closing && !link->dead && tti_now_ns() < until) {
        pthread_cond_timedwait(&link->changed, &link->lock, &time);
    }
    const bool waits = link->sent < link->queued;
    const bool ends = link->dead || (link->closing && !waits);
    *message = waits ? link->messages[link->sent++] : message_of(TTI_NODE_HEARTBEAT, link->own, NULL);
    pthread_mutex_unlock(&link->lock);
    return !ends;
}

/* Delivers one message; tries again while the store does not answer. False: the link is lost and has reported that. */
static bool deliver(struct tti_link *link, unsigned long number, const struct tti_node_message *message)
{
    char key[KEY_BYTES];
    tutti_error error;
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), link->heartbeat_timeout_ms);
    snprintf(key, sizeof(key), "message/%d-%d/%lu", link->own, link->peer, number);
    for (;;) {
        const tutti_status status = tti_store_set(link->store, key, message, sizeof(*message), &error);
        if (status == TUTTI_OK || status == TUTTI_BUSY) { /* BUSY: it has arrived, only the answer has not */
            return true;
        }
        if (status != TUTTI_TIMEOUT || tti_now_ns() >= deadline || is_dead(link)) {
            give_up(link, status, error.message);
            return false;
        }
    }
}

static void *send_thread_main(void *argument)
{
    struct tti_link *link = argument;
    const int64_t share = link->heartbeat_timeout_ms / HEARTBEATS;
    const int64_t heartbeat_ms = share < MAX_INTERVAL_MS ? share : MAX_INTERVAL_MS;
    struct tti_node_message message;
    bool good = true;
    for (unsigned long number = 0; good && next_message(link, heartbeat_ms, &message); number++) {
        good = deliver(link, number, &message);
    }
    return NULL;
}

struct tti_link *tti_link_open(struct tti_store *store, struct tti_message_queue *queue, int own, int peer,
                               int64_t heartbeat_timeout_ms)
{
    struct tti_link *link = calloc(1, sizeof(*link));
    pthread_condattr_t monotonic;
    if (!link) {
        return NULL;
    }
    *link = (struct tti_link){
        .store = store, .queue = queue, .own = own, .peer = peer, .heartbeat_timeout_ms = heartbeat_timeout_ms};
    pthread_mutex_init(&link->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&link->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bool reads = pthread_create(&link->reader, NULL, receive_thread_main, link) == 0;
    if (reads && pthread_create(&link->writer, NULL, send_thread_main, link) == 0) {
        return link;
    }
    if (reads) {
        give_up(link, TUTTI_NO_RESOURCE, "no thread for its messages");
        pthread_join(link->reader, NULL);
    }
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    free(link);
    return NULL;
}

void tti_link_send(struct tti_link *link, enum tti_node_message_kind kind, const struct tti_node_report *report)
{
    pthread_mutex_lock(&link->lock);
    if (link->queued < MESSAGES) {
        link->messages[link->queued++] = message_of((int)kind, link->own, report);
    }
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

void tti_link_close(struct tti_link *link)
{
    if (!link) {
        return;
    }
    pthread_mutex_lock(&link->lock);
    link->closing = true;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    pthread_join(link->writer, NULL);
    pthread_join(link->reader, NULL);
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    free(link);
}
