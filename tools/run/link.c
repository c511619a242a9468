/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mail between two launchers. A letter is a key of the store: mail/FROM-TO/NUMBER, written once by one side, waited for
 * and removed by the other. Each link has two threads that do nothing but that, so that the launcher's own loop never
 * waits for the network: the reader puts what comes into the mailbox, the writer sends what is queued, and a sign of
 * life when nothing is. So silence means that the other launcher, its host or the link has gone.
 *
 * Node 0 serves the store, so it reaches it whatever happens, and only the other side's silence tells. The others wait
 * half of the time for the letter and half for the store's answer that there is none.
 */
#include "nodes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

#define BEATS      4    /* in the time after which silence is death */
#define SLOWEST_MS 1000 /* between two signs of life */
#define KEY_BYTES  64

struct tti_letter {
    struct tti_letter *next;
    struct tti_mail mail;
};

struct tti_link {
    struct tti_store *store;
    struct tti_mailbox *box;
    int own;
    int peer;
    int64_t silence_ms;
    pthread_t reader;
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tti_letter *first; /* to be sent; from here on under the lock */
    struct tti_letter **last;
    bool closing;
    bool dead; /* LOST has been delivered */
};

/* ---- the mailbox --------------------------------------------------------------------------------------------------- */

bool tti_mailbox_open(struct tti_mailbox *box)
{
    *box = (struct tti_mailbox){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    box->last = &box->first;
    return box->fd >= 0 && pthread_mutex_init(&box->lock, NULL) == 0;
}

static struct tti_letter *write_letter(int kind, int from, const struct tti_report *report)
{
    struct tti_letter *letter = calloc(1, sizeof(*letter));
    if (letter) {
        letter->mail.kind = kind;
        letter->mail.from = from;
        if (report) {
            letter->mail.report = *report;
        }
    }
    return letter;
}

/* A letter that there is no memory for is lost like the memory: the job ends by silence. */
static void put_into(struct tti_mailbox *box, struct tti_letter *letter)
{
    if (!letter) {
        return;
    }
    const uint64_t one = 1;
    pthread_mutex_lock(&box->lock);
    *box->last = letter;
    box->last = &letter->next;
    pthread_mutex_unlock(&box->lock);
    ssize_t written = write(box->fd, &one, sizeof(one));
    (void)written; /* fails only when it is signalled already */
}

bool tti_mailbox_take(struct tti_mailbox *box, struct tti_mail *mail)
{
    uint64_t count;
    pthread_mutex_lock(&box->lock);
    struct tti_letter *letter = box->first;
    if (letter) {
        box->first = letter->next;
        box->last = box->first ? box->last : &box->first;
    } else if (read(box->fd, &count, sizeof(count)) < 0) {
        count = 0; /* nothing was signalled */
    }
    pthread_mutex_unlock(&box->lock);
    if (letter) {
        *mail = letter->mail;
        free(letter);
    }
    return letter != NULL;
}

void tti_mailbox_close(struct tti_mailbox *box)
{
    struct tti_mail mail;
    if (box->fd < 0) {
        return;
    }
    while (tti_mailbox_take(box, &mail)) {
    }
    pthread_mutex_destroy(&box->lock);
    close(box->fd);
}

/* ---- the threads --------------------------------------------------------------------------------------------------- */

/* Says once that nothing will come from the other side any more. */
static void give_up(struct tti_link *link, tutti_status status, const char *message)
{
    struct tti_report report = {.fate = TTI_FATE_LOST, .node = link->peer, .rank = -1};
    if (status == TUTTI_PEER_LEFT) {
        snprintf(report.text, sizeof(report.text), "its launcher has gone");
    } else if (status == TUTTI_TIMEOUT) {
        snprintf(report.text, sizeof(report.text),
                 "nothing was heard of it for %.1f s (--node-timeout): its host, its link or its launcher has gone",
                 (double)link->silence_ms / 1000);
    } else {
        snprintf(report.text, sizeof(report.text), "%.199s", message);
    }
    pthread_mutex_lock(&link->lock);
    const bool first = !link->dead;
    link->dead = true;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    if (first) {
        put_into(link->box, write_letter(TTI_MAIL_LOST, link->peer, &report));
    }
}

static bool is_dead(struct tti_link *link)
{
    pthread_mutex_lock(&link->lock);
    const bool dead = link->dead;
    pthread_mutex_unlock(&link->lock);
    return dead;
}

/* Whether this is for the other side to say: node 0 leads, the others answer. That a node is lost is said by the link
 * alone. */
static bool is_fit(const struct tti_link *link, int32_t kind)
{
    switch (kind) {
    case TTI_MAIL_BEAT:
        return true;
    case TTI_MAIL_STOP:
    case TTI_MAIL_VERDICT:
        return link->peer == 0;
    case TTI_MAIL_FAILED:
    case TTI_MAIL_ANSWER:
    case TTI_MAIL_DONE:
    case TTI_MAIL_BYE:
        return link->own == 0;
    default:
        return false;
    }
}

static void *read_mail(void *argument)
{
    struct tti_link *link = argument;
    const int64_t patience = link->own == 0 ? link->silence_ms : link->silence_ms / 2;
    for (unsigned long number = 0; !is_dead(link); number++) {
        struct tti_mail mail;
        char key[KEY_BYTES];
        size_t length = 0;
        tutti_error error;
        snprintf(key, sizeof(key), "mail/%d-%d/%lu", link->peer, link->own, number);
        const tutti_status status = tti_store_get(link->store, key, &mail, sizeof(mail), &length, patience, &error);
        if (status != TUTTI_OK || length != sizeof(mail) || !is_fit(link, mail.kind)) {
            give_up(link, status, status == TUTTI_OK ? "it sends what no launcher sends" : error.message);
            break;
        }
        tti_store_remove(link->store, key, NULL); /* if that fails, so does the next get */
        mail.from = link->peer;
        tti_nodes_tame(mail.report.text, sizeof(mail.report.text));
        if (mail.kind != TTI_MAIL_BEAT) {
            put_into(link->box, write_letter(mail.kind, link->peer, &mail.report));
        }
        if (mail.kind == TTI_MAIL_VERDICT || mail.kind == TTI_MAIL_BYE) {
            break;
        }
    }
    return NULL;
}

/* The next letter, or a sign of life; NULL when the link is closed or dead. */
static struct tti_letter *next_letter(struct tti_link *link, int64_t beat_ms)
{
    struct tti_letter *letter = NULL;
    const int64_t until = tti_deadline_ns(tti_now_ns(), beat_ms);
    const struct timespec time = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    pthread_mutex_lock(&link->lock);
    while (!link->first && !link->closing && !link->dead && tti_now_ns() < until) {
        pthread_cond_timedwait(&link->changed, &link->lock, &time);
    }
    const bool ends = link->dead || (link->closing && !link->first);
    if (!ends && link->first) {
        letter = link->first;
        link->first = letter->next;
        link->last = link->first ? link->last : &link->first;
    }
    pthread_mutex_unlock(&link->lock);
    return ends ? NULL : letter ? letter : write_letter(TTI_MAIL_BEAT, link->own, NULL);
}

/* Delivers one letter, again and again while the store is silent. False: it cannot be done, and that has been told. */
static bool deliver(struct tti_link *link, unsigned long number, const struct tti_mail *mail)
{
    char key[KEY_BYTES];
    tutti_error error;
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), link->silence_ms);
    snprintf(key, sizeof(key), "mail/%d-%d/%lu", link->own, link->peer, number);
    for (;;) {
        const tutti_status status = tti_store_set(link->store, key, mail, sizeof(*mail), &error);
        if (status == TUTTI_OK || status == TUTTI_BUSY) { /* BUSY: it has arrived, only the answer has not */
            return true;
        }
        if (status != TUTTI_TIMEOUT || tti_now_ns() >= deadline || is_dead(link)) {
            give_up(link, status, error.message);
            return false;
        }
    }
}

static void *write_mail(void *argument)
{
    struct tti_link *link = argument;
    const int64_t share = link->silence_ms / BEATS;
    const int64_t beat_ms = share < SLOWEST_MS ? share : SLOWEST_MS;
    struct tti_letter *letter;
    bool good = true;
    for (unsigned long number = 0; good && (letter = next_letter(link, beat_ms)) != NULL; number++) {
        good = deliver(link, number, &letter->mail);
        free(letter);
    }
    return NULL;
}

struct tti_link *tti_link_open(struct tti_store *store, struct tti_mailbox *box, int own, int peer, int64_t silence_ms)
{
    struct tti_link *link = calloc(1, sizeof(*link));
    pthread_condattr_t monotonic;
    if (!link) {
        return NULL;
    }
    *link = (struct tti_link){.store = store, .box = box, .own = own, .peer = peer, .silence_ms = silence_ms};
    link->last = &link->first;
    pthread_mutex_init(&link->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&link->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bool reads = pthread_create(&link->reader, NULL, read_mail, link) == 0;
    if (reads && pthread_create(&link->writer, NULL, write_mail, link) == 0) {
        return link;
    }
    if (reads) {
        give_up(link, TUTTI_NO_RESOURCE, "no thread for its mail");
        pthread_join(link->reader, NULL);
    }
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    free(link);
    return NULL;
}

void tti_link_send(struct tti_link *link, enum tti_mail_kind kind, const struct tti_report *report)
{
    struct tti_letter *letter = write_letter((int)kind, link->own, report);
    if (!letter) {
        return;
    }
    pthread_mutex_lock(&link->lock);
    *link->last = letter;
    link->last = &letter->next;
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
    while (link->first) {
        struct tti_letter *letter = link->first;
        link->first = letter->next;
        free(letter);
    }
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    free(link);
}
