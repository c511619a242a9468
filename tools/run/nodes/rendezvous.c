/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous of the launchers. Node 0 serves a store at --master-addr and --master-port. The others connect to it
 * until --join-timeout has passed. Each launcher writes its info there and reads the infos of all nodes. The ranks of a
 * node are numbered after those of the nodes before it, so each node may have another number of ranks. All launchers
 * judge the same infos by the same rules, so all of them give up for the same reason. Cost: nodes^2 small requests. If
 * the job has a token (TUTTI_JOB_TOKEN), the store refuses each launcher and rank that does not prove it.
 *
 * No rank runs yet, so any signal may end the launcher at once.
 */
#include "run/nodes/rendezvous.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/exit_codes.h"
#include "store/server/server.h"
#include "store/wire/secret.h"

#define NODE_INFO_MAGIC 0x74757275u
#define PROTOCOL        1
#define SERVE_MS        10000 /* to find out which launcher has the port if it is taken */
#define SLICE_MS        1000  /* of waiting, between two checks for a refused launcher */
#define ANNOUNCE_MS     10000 /* of waiting, before naming the missing nodes */
#define READERS_MS      5000  /* node 0 serves so long after a failure, so that others read the reason */
#define NAMES_LENGTH    200

struct rendezvous {
    struct tti_nodes *nodes;
    const struct tti_run_options *options;
    struct tti_node_info own;
    const char *where; /* HOST:PORT */
    int64_t deadline_ns;
    bool announced; /* that we wait */
    bool refused;   /* another launcher is this node */
};

static void fill_node_info(struct rendezvous *m, const struct tti_job_identity *identity, int code, const char *why)
{
    struct tti_node_info *info = &m->own;
    *info = (struct tti_node_info){
        .magic = NODE_INFO_MAGIC,
        .protocol = PROTOCOL,
        .node = m->options->node_rank,
        .nodes = m->options->nodes,
        .ranks = m->options->ranks,
        .pid = getpid(),
        .torch_port = identity->port,
        .heartbeat_timeout_ms = (int32_t)m->options->node_timeout_ms,
        .code = code,
    };
    snprintf(info->version, sizeof(info->version), "%s", tutti_version_string());
    snprintf(info->why, sizeof(info->why), "%.199s", why);
    /* Hosts of a test may share a name; the test gives each an identifier. */
    const char *host = getenv("TUTTI_HOST_ID");
    if (host && *host) {
        snprintf(info->host, sizeof(info->host), "%.63s", host);
    } else if (gethostname(info->host, sizeof(info->host) - 1) != 0) {
        snprintf(info->host, sizeof(info->host), "unknown");
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

void tti_nodes_sanitize_text(char *text, size_t capacity)
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

int tti_nodes_failure_code(int code)
{
    return code > 0 && code < 256 ? code : TTI_EXIT_FAILED;
}

static bool read_node_info(struct rendezvous *m, int node, int64_t timeout_ms, struct tti_node_info *info,
                           tutti_error *error)
{
    char key[32];
    size_t length = 0;
    snprintf(key, sizeof(key), "node/%d", node);
    tutti_status status = tti_store_get(m->nodes->store, key, info, sizeof(*info), &length, timeout_ms, error);
    const bool other = length > sizeof(*info) || (status == TUTTI_OK && length < sizeof(*info));
    if (status != TUTTI_OK || other) {
        memset(info, 0, sizeof(*info)); /* a launcher of another version: check_node_info refuses it */
    }
    tti_nodes_sanitize_text(info->version, sizeof(info->version));
    tti_nodes_sanitize_text(info->host, sizeof(info->host));
    tti_nodes_sanitize_text(info->why, sizeof(info->why));
    return status == TUTTI_OK || other;
}

/* ---- reaching the store ------------------------------------------------------------------------------------------ */

/* Whether the cause is the token, not the address. The sentence then has its own advice. */
static bool concerns_token(tutti_status status)
{
    return status == TUTTI_AUTH || status == TUTTI_NOT_AVAILABLE || status == TUTTI_INVALID_ARGUMENT;
}

static int cannot_serve(const struct rendezvous *m, const tutti_error *error)
{
    return fail("node 0 (%s) cannot serve at %s: %s%s", m->own.host, m->where, error->message,
                concerns_token(error->status) ? ""
                                              : "; --master-addr must be an address of this host, and --master-port "
                                                "one that is free, the same on all nodes");
}

static int serve(struct rendezvous *m, const char *url)
{
    tutti_error error;
    struct tti_node_info info;
    if (tti_store_open(url, true, SERVE_MS, &m->nodes->store, &error) != TUTTI_OK) {
        return cannot_serve(m, &error);
    }
    if (tti_store_served_here(m->nodes->store)) {
        return 0;
    }
    if (read_node_info(m, 0, 0, &info, &error)) {
        return fail(
            "node 0 (%s) cannot serve at %s: the launcher with process number %d on host %s does already; end that "
            "job, choose another --master-port, or give each node a --node-rank of its own",
            m->own.host, m->where, info.pid, info.host);
    }
    snprintf(error.message, sizeof(error.message), "another job's store is there");
    return cannot_serve(m, &error);
}

static int reach(struct rendezvous *m, const char *url)
{
    tutti_error error;
    int64_t left = tti_remaining_ms(m->deadline_ns);
    int64_t first = left >= 0 && left < ANNOUNCE_MS ? left : ANNOUNCE_MS;
    tutti_status status = tti_store_open(url, false, first, &m->nodes->store, &error);
    if (status == TUTTI_TIMEOUT && (left = tti_remaining_ms(m->deadline_ns)) != 0) {
        fprintf(stderr, "tutti run: node %d (%s) waits for the launcher of node 0 at %s\n", m->own.node, m->own.host,
                m->where);
        m->announced = true;
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

static int open_store(struct rendezvous *m, const char *url)
{
    const struct tti_run_options *options = m->options;
    m->deadline_ns = tti_deadline_ns(tti_now_ns(), options->join_timeout_ms);
    const int code = m->own.node == 0 ? serve(m, url) : reach(m, url);
    if (code == 0) {
        tti_store_set_response_timeout(m->nodes->store, options->node_timeout_ms);
    }
    return code;
}

/* ---- the infos --------------------------------------------------------------------------------------------------- */

/* Writes the own info. If another launcher is this node already, all must know: the node that was meant is missing. */
static int publish_own_info(struct rendezvous *m)
{
    tutti_error error;
    char key[32];
    snprintf(key, sizeof(key), "node/%d", m->own.node);
    const tutti_status status = tti_store_set(m->nodes->store, key, &m->own, sizeof(m->own), &error);
    if (status == TUTTI_OK) {
        return 0;
    }
    struct tti_node_info other;
    if (status != TUTTI_BUSY || !read_node_info(m, m->own.node, 0, &other, &error)) {
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
static int check_node_info(const struct rendezvous *m, const struct tti_node_info *info, int r)
{
    const struct tti_node_info *own = &m->own;
    if (info->magic != NODE_INFO_MAGIC || info->protocol != PROTOCOL || strcmp(info->version, own->version) != 0) {
        return fail(
            "node %d (%s) has version %s of Tutti, but node %d (%s) has version %s: install the same on all nodes", r,
            info->magic == NODE_INFO_MAGIC ? info->host : "its host is unknown",
            info->version[0] ? info->version : "(another)", own->node, own->host, own->version);
    }
    if (info->ranks < 1 || info->ranks > TTI_MAX_RANKS || info->heartbeat_timeout_ms < 1000 || info->torch_port < 1 ||
        info->torch_port > 65535) {
        return fail("what is at %s as node %d is not a launcher of Tutti", m->where, r);
    }
    if (info->nodes != own->nodes) {
        return fail("node %d (%s) was given --nnodes %d, but node %d (%s) --nnodes %d: give all nodes the same", r,
                    info->host, info->nodes, own->node, own->host, own->nodes);
    }
    if (info->code != 0) {
        fail("node %d (%s) cannot start its ranks: %s", r, info->host, info->why);
        return tti_nodes_failure_code(info->code);
    }
    return 0;
}

/* "1, 4" */
static void list_missing(struct rendezvous *m, char *names, size_t capacity)
{
    names[0] = '\0';
    for (int r = 0; r < m->own.nodes; r++) {
        struct tti_node_info info;
        const size_t used = strlen(names);
        if (!read_node_info(m, r, 0, &info, NULL)) {
            snprintf(names + used, capacity - used, "%s%d", used ? ", " : "", r);
        }
    }
}

/* Missing launchers may have been refused. */
static const char *describe_refused(char *text, size_t capacity)
{
    const long long refused = (long long)tti_server_auth_failures();
    text[0] = '\0';
    if (refused > 0) {
        snprintf(text, capacity, "; %lld connections without this job's token were refused (%s)", refused,
                 TTI_TOKEN_VARIABLE);
    }
    return text;
}

/* Waits for the info of one node. */
static int await_node_info(struct rendezvous *m, int r)
{
    const int64_t announce_at = tti_deadline_ns(tti_now_ns(), ANNOUNCE_MS);
    for (;;) {
        tutti_error error;
        char names[NAMES_LENGTH];
        char text[400];
        size_t length = 0;
        const int64_t left = tti_remaining_ms(m->deadline_ns);
        if (read_node_info(m, r, left >= 0 && left < SLICE_MS ? left : SLICE_MS, &m->nodes->infos[r], &error)) {
            return 0;
        }
        if (error.status != TUTTI_TIMEOUT) {
            return fail("node %d (%s) has lost the launcher of node 0 at %s while it waited for node %d: %s",
                        m->own.node, m->own.host, m->where, r, error.message);
        }
        memset(text, 0, sizeof(text));
        if (tti_store_get(m->nodes->store, "refused", text, sizeof(text) - 1, &length, 0, NULL) == TUTTI_OK) {
            tti_nodes_sanitize_text(text, sizeof(text));
            return fail("%s", text);
        }
        if (left == 0) {
            list_missing(m, names, sizeof(names));
            return fail(
                "node %d (%s) has waited %.1f s (--join-timeout) at %s; of %d nodes these have not joined: %s; start "
                "`tutti run` there with the same --nnodes, --master-addr and --master-port%s",
                m->own.node, m->own.host, (double)m->options->join_timeout_ms / 1000, m->where, m->own.nodes, names,
                describe_refused(text, sizeof(text)));
        }
        if (!m->announced && tti_now_ns() >= announce_at) {
            list_missing(m, names, sizeof(names));
            fprintf(stderr, "tutti run: node %d (%s) waits at %s for node %s of %d%s\n", m->own.node, m->own.host,
                    m->where, names, m->own.nodes, describe_refused(text, sizeof(text)));
            m->announced = true;
        }
    }
}

static int exchange(struct rendezvous *m)
{
    int code = publish_own_info(m);
    for (int r = 0; r < m->own.nodes && code == 0; r++) {
        code = await_node_info(m, r);
        code = code == 0 ? check_node_info(m, &m->nodes->infos[r], r) : code;
    }
    return code;
}

/* If the rendezvous has failed, the launcher that serves the store stays until the others have read the reason. */
static void await_readers(struct rendezvous *m)
{
    char key[32];
    char nothing[8];
    size_t length = 0;
    if (m->refused) { /* the other launcher with the same number signs */
        return;
    }
    snprintf(key, sizeof(key), "seen/%d", m->own.node);
    tti_store_set(m->nodes->store, key, "", 0, NULL);
    if (!tti_store_served_here(m->nodes->store)) {
        return;
    }
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), READERS_MS);
    for (int r = 1; r < m->own.nodes; r++) {
        struct tti_node_info info;
        if (read_node_info(m, r, 0, &info, NULL)) {
            snprintf(key, sizeof(key), "seen/%d", r);
            tti_store_get(m->nodes->store, key, nothing, sizeof(nothing), &length, tti_remaining_ms(deadline), NULL);
        }
    }
}

/* ---- */

/* Numbers the ranks by the infos. */
static int number_ranks(struct rendezvous *m, struct tti_job_identity *identity)
{
    const struct tti_run_options *options = m->options;
    int64_t before = 0;
    int64_t all = 0;
    for (int r = 0; r < m->own.nodes; r++) {
        before += r < m->own.node ? m->nodes->infos[r].ranks : 0;
        all += m->nodes->infos[r].ranks;
        /* the shortest time-out decides how often all send heartbeats */
        m->nodes->heartbeat_timeout_ms = m->nodes->infos[r].heartbeat_timeout_ms < m->nodes->heartbeat_timeout_ms
                                             ? m->nodes->infos[r].heartbeat_timeout_ms
                                             : m->nodes->heartbeat_timeout_ms;
    }
    /* half of the time-out for the message, half for the answer that there is none (link.c) */
    tti_store_set_response_timeout(m->nodes->store, m->nodes->heartbeat_timeout_ms / 2);
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
    identity->port = m->nodes->infos[0].torch_port;
    return 0;
}

int tti_nodes_rendezvous(struct tti_nodes *nodes, const struct tti_run_options *options,
                         struct tti_job_identity *identity, int code, const char *why)
{
    struct rendezvous m = {.nodes = nodes, .options = options, .where = identity->store + strlen("tcp://")};
    *nodes = (struct tti_nodes){
        .node = options->node_rank, .count = options->nodes, .heartbeat_timeout_ms = options->node_timeout_ms};
    nodes->infos = calloc((size_t)options->nodes, sizeof(*nodes->infos));
    if (!nodes->infos) {
        return fail("out of memory for %d nodes", options->nodes);
    }
    fill_node_info(&m, identity, code, why);
    int result = open_store(&m, identity->store);
    if (result == 0 && (result = exchange(&m)) == 0) {
        result = number_ranks(&m, identity);
    }
    if (result != 0 && nodes->store) {
        await_readers(&m);
    }
    return result;
}

void tti_nodes_close(struct tti_nodes *nodes)
{
    tti_store_release(nodes->store);
    free(nodes->infos);
    *nodes = (struct tti_nodes){0};
}
