/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launchers of a job find one another. The one of node 0 serves a store at --master-addr and --master-port, the
 * others try to reach it until --join-timeout has passed. Each leaves a card there and reads everybody's; a node's ranks
 * are numbered after those of the nodes before it, so every node may have another number of ranks. All judge the same
 * cards by the same rules, so all of them give up for the same reason. Cost: nodes^2 small requests. If the job has a token
 * (TUTTI_JOB_TOKEN), the store lets in only who knows it, launchers and ranks alike, and their mail goes the same way.
 *
 * Nothing runs yet, so whatever signal comes may simply end the launcher.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "base/clock.h"
#include "nodes.h"
#include "store/server/server.h"
#include "store/wire/secret.h"

#define CARD_MAGIC   0x74757275u
#define PROTOCOL     1
#define SERVE_MS     10000 /* to find out who has the port if it is taken */
#define SLICE_MS     1000  /* of waiting, before looking whether somebody was refused */
#define TELL_MS      10000 /* of waiting, before saying for whom */
#define FAREWELL_MS  5000  /* node 0 stays so long for others to read why */
#define NAMES_LENGTH 200

struct meeting {
    struct tti_nodes *nodes;
    const struct tti_run_options *options;
    struct tti_node_card own;
    char where[300]; /* HOST:PORT */
    int64_t deadline_ns;
    bool told;    /* that we wait */
    bool refused; /* another launcher is this node */
};

static void fill_card(struct meeting *m, const struct tti_job_identity *identity, int code, const char *why)
{
    struct tti_node_card *card = &m->own;
    *card = (struct tti_node_card){
        .magic = CARD_MAGIC,
        .protocol = PROTOCOL,
        .node = m->options->node_rank,
        .nodes = m->options->nodes,
        .ranks = m->options->ranks,
        .pid = getpid(),
        .torch_port = identity->port,
        .silence_ms = (int32_t)m->options->node_timeout_ms,
        .code = code,
    };
    snprintf(card->version, sizeof(card->version), "%s", tutti_version_string());
    snprintf(card->why, sizeof(card->why), "%.199s", why);
    /* What a test bench calls a host tells more than the name that its hosts have in common. */
    const char *host = getenv("TUTTI_HOST_ID");
    if (host && *host) {
        snprintf(card->host, sizeof(card->host), "%.63s", host);
    } else if (gethostname(card->host, sizeof(card->host) - 1) != 0) {
        snprintf(card->host, sizeof(card->host), "unknown");
    }
}

static int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int fail(const char *format, ...)
{
    va_list arguments;
    char text[1024];
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(stderr, "tutti run: %s\n", text); /* one write: launchers share terminals */
    return TTI_EXIT_FAILED;
}

void tti_nodes_tame(char *text, size_t capacity)
{
    text[capacity - 1] = '\0';
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        const bool high = c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0; /* U+0080 to U+009F, in UTF-8 */
        if (*c < 0x20 || *c == 0x7f || high) {
            c[high] = '?';
            c[0] = '?';
        }
    }
}

int tti_nodes_failure(int code)
{
    return code > 0 && code < 256 ? code : TTI_EXIT_FAILED;
}

static bool read_card(struct meeting *m, int node, int64_t timeout_ms, struct tti_node_card *card, tutti_error *error)
{
    char key[32];
    size_t length = 0;
    snprintf(key, sizeof(key), "node/%d", node);
    tutti_status status = tti_store_get(m->nodes->store, key, card, sizeof(*card), &length, timeout_ms, error);
    const bool other = length > sizeof(*card) || (status == TUTTI_OK && length < sizeof(*card));
    if (status != TUTTI_OK || other) {
        memset(card, 0, sizeof(*card)); /* a launcher of another version: check_card says so */
    }
    tti_nodes_tame(card->version, sizeof(card->version));
    tti_nodes_tame(card->host, sizeof(card->host));
    tti_nodes_tame(card->why, sizeof(card->why));
    return status == TUTTI_OK || other;
}

/* ---- reaching the store -------------------------------------------------------------------------------------------- */

/* Whether the sentence about it says itself what to do: it is the token, not the address. */
static bool concerns_token(tutti_status status)
{
    return status == TUTTI_AUTH || status == TUTTI_NOT_AVAILABLE || status == TUTTI_INVALID_ARGUMENT;
}

static int cannot_serve(const struct meeting *m, const tutti_error *error)
{
    return fail("node 0 (%s) cannot serve at %s: %s%s", m->own.host, m->where, error->message,
                concerns_token(error->status) ? ""
                                              : "; --master-addr must be an address of this host, and --master-port "
                                                "one that is free, the same on all nodes");
}

static int serve(struct meeting *m, const char *url)
{
    tutti_error error;
    struct tti_node_card card;
    if (tti_store_open(url, true, SERVE_MS, &m->nodes->store, &error) != TUTTI_OK) {
        return cannot_serve(m, &error);
    }
    if (tti_store_served_here(m->nodes->store)) {
        return 0;
    }
    if (read_card(m, 0, 0, &card, &error)) {
        return fail(
            "node 0 (%s) cannot serve at %s: the launcher with process number %d on host %s does already; end that "
            "job, choose another --master-port, or give each node a --node-rank of its own",
            m->own.host, m->where, card.pid, card.host);
    }
    snprintf(error.message, sizeof(error.message), "another job's store is there");
    return cannot_serve(m, &error);
}

static int reach(struct meeting *m, const char *url)
{
    tutti_error error;
    int64_t left = tti_remaining_ms(m->deadline_ns);
    int64_t first = left >= 0 && left < TELL_MS ? left : TELL_MS;
    tutti_status status = tti_store_open(url, false, first, &m->nodes->store, &error);
    if (status == TUTTI_TIMEOUT && (left = tti_remaining_ms(m->deadline_ns)) != 0) {
        fprintf(stderr, "tutti run: node %d (%s) waits for the launcher of node 0 at %s\n", m->own.node, m->own.host,
                m->where);
        m->told = true;
        status = tti_store_open(url, false, left, &m->nodes->store, &error);
    }
    if (status == TUTTI_TIMEOUT) {
        return fail(
            "node %d (%s) has not reached the launcher of node 0 at %s within %.1f s (--join-timeout): %s; is it "
            "started there with --node-rank 0, with the same --master-addr and --master-port, and does no "
            "firewall stand between?",
            m->own.node, m->own.host, m->where, (double)m->options->join_timeout_ms / 1000, error.message);
    }
    return status == TUTTI_OK
               ? 0
               : fail("node %d (%s) cannot join the launcher of node 0 at %s: %s%s", m->own.node, m->own.host, m->where,
                      error.message, concerns_token(status) ? "" : "; check --master-addr and --master-port");
}

static int open_store(struct meeting *m)
{
    char url[320];
    const struct tti_run_options *options = m->options;
    const bool v6 = strchr(options->master_addr, ':') != NULL;
    snprintf(m->where, sizeof(m->where), "%s%s%s:%d", v6 ? "[" : "", options->master_addr, v6 ? "]" : "",
             options->master_port);
    snprintf(url, sizeof(url), "tcp://%s", m->where);
    m->deadline_ns = tti_deadline_ns(tti_now_ns(), options->join_timeout_ms);
    const int code = m->own.node == 0 ? serve(m, url) : reach(m, url);
    if (code == 0) {
        tti_store_set_patience(m->nodes->store, options->node_timeout_ms);
    }
    return code;
}

/* ---- the cards ----------------------------------------------------------------------------------------------------- */

/* Leaves the own card. If somebody else is this node already, the others must know: the node that was meant is missing. */
static int introduce(struct meeting *m)
{
    tutti_error error;
    char key[32];
    snprintf(key, sizeof(key), "node/%d", m->own.node);
    const tutti_status status = tti_store_set(m->nodes->store, key, &m->own, sizeof(m->own), &error);
    if (status == TUTTI_OK) {
        return 0;
    }
    struct tti_node_card other;
    if (status != TUTTI_BUSY || !read_card(m, m->own.node, 0, &other, &error)) {
        return fail("node %d (%s) cannot join the job at %s: %s", m->own.node, m->own.host, m->where, error.message);
    }
    char text[400];
    snprintf(
        text, sizeof(text),
        "--node-rank %d was given twice: to host %s (process %d) and to host %s (process %d); each node needs one of "
        "its own, from 0 to %d",
        m->own.node, other.host, other.pid, m->own.host, m->own.pid, m->own.nodes - 1);
    m->refused = true;
    tti_store_set(m->nodes->store, "refused", text, strlen(text), NULL);
    return fail("%s", text);
}

/* Whether node `r` fits; all nodes see the same. */
static int check_card(const struct meeting *m, const struct tti_node_card *card, int r)
{
    const struct tti_node_card *own = &m->own;
    if (card->magic != CARD_MAGIC || card->protocol != PROTOCOL || strcmp(card->version, own->version) != 0) {
        return fail(
            "node %d (%s) has version %s of Tutti, but node %d (%s) has version %s: install the same on all nodes", r,
            card->magic == CARD_MAGIC ? card->host : "its host is unknown",
            card->version[0] ? card->version : "(another)", own->node, own->host, own->version);
    }
    if (card->ranks < 1 || card->ranks > TTI_MAX_RANKS || card->silence_ms < 1000 || card->torch_port < 1 ||
        card->torch_port > 65535) {
        return fail("what is at %s as node %d is not a launcher of Tutti", m->where, r);
    }
    if (card->nodes != own->nodes) {
        return fail("node %d (%s) was given --nnodes %d, but node %d (%s) --nnodes %d: say the same on all nodes", r,
                    card->host, card->nodes, own->node, own->host, own->nodes);
    }
    if (card->code != 0) {
        fail("node %d (%s) cannot start its ranks: %s", r, card->host, card->why);
        return tti_nodes_failure(card->code);
    }
    return 0;
}

/* "1, 4" */
static void list_missing(struct meeting *m, char *names, size_t capacity)
{
    names[0] = '\0';
    for (int r = 0; r < m->own.nodes; r++) {
        struct tti_node_card card;
        const size_t used = strlen(names);
        if (!read_card(m, r, 0, &card, NULL)) {
            snprintf(names + used, capacity - used, "%s%d", used ? ", " : "", r);
        }
    }
}

/* Those who are missing may have come, and not have been let in. */
static const char *tell_refused(char *text, size_t capacity)
{
    const long long refused = (long long)tti_server_refused();
    text[0] = '\0';
    if (refused > 0) {
        snprintf(text, capacity, "; %lld times somebody came who did not know this job's token (%s)", refused,
                 TTI_TOKEN_VARIABLE);
    }
    return text;
}

/* Waits for one card. */
static int await_card(struct meeting *m, int r)
{
    const int64_t told_at = tti_deadline_ns(tti_now_ns(), TELL_MS);
    for (;;) {
        tutti_error error;
        char names[NAMES_LENGTH];
        char text[400];
        size_t length = 0;
        const int64_t left = tti_remaining_ms(m->deadline_ns);
        if (read_card(m, r, left >= 0 && left < SLICE_MS ? left : SLICE_MS, &m->nodes->cards[r], &error)) {
            return 0;
        }
        if (error.status != TUTTI_TIMEOUT) {
            return fail("node %d (%s) has lost the launcher of node 0 at %s while it waited for node %d: %s",
                        m->own.node, m->own.host, m->where, r, error.message);
        }
        memset(text, 0, sizeof(text));
        if (tti_store_get(m->nodes->store, "refused", text, sizeof(text) - 1, &length, 0, NULL) == TUTTI_OK) {
            tti_nodes_tame(text, sizeof(text));
            return fail("%s", text);
        }
        if (left == 0) {
            list_missing(m, names, sizeof(names));
            return fail(
                "node %d (%s) has waited %.1f s (--join-timeout) at %s; of %d nodes these have not come: %s; start "
                "`tutti run` there with the same --nnodes, --master-addr and --master-port%s",
                m->own.node, m->own.host, (double)m->options->join_timeout_ms / 1000, m->where, m->own.nodes, names,
                tell_refused(text, sizeof(text)));
        }
        if (!m->told && tti_now_ns() >= told_at) {
            list_missing(m, names, sizeof(names));
            fprintf(stderr, "tutti run: node %d (%s) waits at %s for node %s of %d%s\n", m->own.node, m->own.host,
                    m->where, names, m->own.nodes, tell_refused(text, sizeof(text)));
            m->told = true;
        }
    }
}

static int exchange(struct meeting *m)
{
    int code = introduce(m);
    for (int r = 0; r < m->own.nodes && code == 0; r++) {
        code = await_card(m, r);
        code = code == 0 ? check_card(m, &m->nodes->cards[r], r) : code;
    }
    return code;
}

/* When the meeting has failed, the launcher that serves the store stays until those who have come know why. */
static void say_farewell(struct meeting *m)
{
    char key[32];
    char nothing[8];
    size_t length = 0;
    if (m->refused) { /* it is the other one, which has the same number, that must be heard */
        return;
    }
    snprintf(key, sizeof(key), "seen/%d", m->own.node);
    tti_store_set(m->nodes->store, key, "", 0, NULL);
    if (!tti_store_served_here(m->nodes->store)) {
        return;
    }
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), FAREWELL_MS);
    for (int r = 1; r < m->own.nodes; r++) {
        struct tti_node_card card;
        if (read_card(m, r, 0, &card, NULL)) {
            snprintf(key, sizeof(key), "seen/%d", r);
            tti_store_get(m->nodes->store, key, nothing, sizeof(nothing), &length, tti_remaining_ms(deadline), NULL);
        }
    }
}

/* ---- */

/* What follows from the cards. */
static int number_ranks(struct meeting *m, struct tti_job_identity *identity)
{
    const struct tti_run_options *options = m->options;
    int64_t before = 0;
    int64_t all = 0;
    for (int r = 0; r < m->own.nodes; r++) {
        before += r < m->own.node ? m->nodes->cards[r].ranks : 0;
        all += m->nodes->cards[r].ranks;
        /* Who waits least decides how often all give signs of life. */
        m->nodes->silence_ms =
            m->nodes->cards[r].silence_ms < m->nodes->silence_ms ? m->nodes->cards[r].silence_ms : m->nodes->silence_ms;
    }
    /* half of the silence for the letter, half for the answer that there is none (link.c) */
    tti_store_set_patience(m->nodes->store, m->nodes->silence_ms / 2);
    if (all > TTI_MAX_RANKS) {
        return fail("the %d nodes have %lld ranks together; a job has at most %d", m->own.nodes, (long long)all,
                    TTI_MAX_RANKS);
    }
    if (options->only_rank >= all) { /* the other nodes have begun already: no reason to take the job from them */
        fprintf(stderr, "tutti run: --only-rank %d shows nothing: the job has ranks 0 to %lld\n", options->only_rank,
                (long long)all - 1);
    }
    identity->first_rank = (int)before;
    identity->world_size = (int)all;
    identity->port = m->nodes->cards[0].torch_port;
    snprintf(identity->store, sizeof(identity->store), "tcp://%s", m->where);
    return 0;
}

int tti_nodes_meet(struct tti_nodes *nodes, const struct tti_run_options *options, struct tti_job_identity *identity,
                   int code, const char *why)
{
    struct meeting m = {.nodes = nodes, .options = options};
    *nodes =
        (struct tti_nodes){.node = options->node_rank, .count = options->nodes, .silence_ms = options->node_timeout_ms};
    nodes->cards = calloc((size_t)options->nodes, sizeof(*nodes->cards));
    if (!nodes->cards) {
        return fail("out of memory for %d nodes", options->nodes);
    }
    fill_card(&m, identity, code, why);
    int result = open_store(&m);
    if (result == 0 && (result = exchange(&m)) == 0) {
        result = number_ranks(&m, identity);
    }
    if (result != 0 && nodes->store) {
        say_farewell(&m);
    }
    return result;
}

void tti_nodes_part(struct tti_nodes *nodes)
{
    tti_store_release(nodes->store);
    free(nodes->cards);
    *nodes = (struct tti_nodes){0};
}
