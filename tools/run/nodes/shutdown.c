/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the launchers of several nodes end a job together. Node 0 leads:
 *
 *   - A launcher whose ranks fail sends FAILED at once and ends its ranks. Node 0 sends STOP to the others. Each of
 *     them notes which of its ranks have failed at that moment, ends its ranks, and sends REPORT when it knows the
 *     first failure.
 *   - When every node has reported, is DONE, or is lost, node 0 picks one outcome and sends it to all: the DECISION.
 *     All launchers name the same rank and exit with the same code. No launcher leaves before the decision, since ranks
 *     that ended well do not make a good job. Node 0 leaves last.
 *   - A node that is silent is lost. Its loss goes before all other outcomes: ranks that miss a peer fail because of
 *     it. A launcher that loses node 0 decides alone.
 *
 * Among ranks, one that was killed by a signal that programs do not send themselves goes before the others, as on one
 * node (first_failure.c). Then the order counts in which the reports reached node 0.
 */
#include "run/nodes/shutdown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/exit_codes.h"
#include "run/job/first_failure.h"
#include "run/job/flight_report.h"
#include "run/job/output.h"
#include "run/job/supervise.h"
#include "run/nodes/link.h"
#include "run/nodes/rendezvous.h"

struct member {
    struct tti_link *link; /* to this node; NULL: this is the node itself, or it has no link to it */
    bool reported;         /* has reported, is done, or is lost */
    bool disconnected;     /* no message of it will arrive any more */
    int order;             /* of its first failure, from 1; 0 = it has none */
    struct tti_node_report report;
};

struct tti_shutdown {
    const struct tti_nodes *nodes;
    struct tti_message_queue queue;
    struct member *members; /* node 0: of all; else only number 0 has a link */
    int failure_count;
    bool stopping; /* a failure of any node is known here */
    bool answered; /* the report of this node, members[own].report, was sent */
    bool decided;  /* the decision is known */
    struct tti_node_report decision;
};

static bool is_leader(const struct tti_shutdown *shutdown)
{
    return shutdown->nodes->node == 0;
}

/* ---- sentences --------------------------------------------------------------------------------------------------- */

static void print_decision(const struct tti_shutdown *shutdown, struct tti_job *job)
{
    const struct tti_node_report *v = &shutdown->decision;
    const char *host = shutdown->nodes->infos[v->node].host;
    char what[200];
    switch (v->outcome) {
    case TTI_OUTCOME_RANK_FAILED:
        tti_job_describe(what, sizeof(what), v->status, (double)v->milliseconds / 1000, v->pid);
        tti_output_message(job->output, "rank %d on node %d (%s) %s%.199s", v->rank, v->node, host, what, v->text);
        break;
    case TTI_OUTCOME_TIMEOUT:
        if (v->node != shutdown->nodes->node) { /* that node has printed it already */
            tti_output_message(job->output, "the job ran longer than the --timeout of node %d (%s): ending it", v->node,
                               host);
        }
        break;
    case TTI_OUTCOME_LAUNCHER:
        if (v->status > TTI_EXIT_SIGNAL && sigabbrev_np(v->status - TTI_EXIT_SIGNAL)) {
            tti_output_message(job->output, "the launcher of node %d (%s) got SIG%s and has ended the job", v->node,
                               host, sigabbrev_np(v->status - TTI_EXIT_SIGNAL));
        } else if (v->node != shutdown->nodes->node) {
            tti_output_message(job->output, "the launcher of node %d (%s) has ended the job and prints the reason",
                               v->node, host);
        }
        break;
    case TTI_OUTCOME_NODE_LOST:
        tti_output_message(job->output, "node %d (%s) is lost: %.199s", v->node, host, v->text);
        break;
    default:
        break;
    }
}

/* ---- this node --------------------------------------------------------------------------------------------------- */

/* The outcome of this node, as soon as it is certain. False: not yet. */
static bool find_own_outcome(const struct tti_shutdown *shutdown, const struct tti_job *job,
                             struct tti_node_report *report)
{
    *report = (struct tti_node_report){.outcome = TTI_OUTCOME_OK, .node = shutdown->nodes->node, .rank = -1};
    if (job->launcher_code != 0) {
        report->outcome = job->launcher_code == TTI_EXIT_TIMEOUT ? TTI_OUTCOME_TIMEOUT : TTI_OUTCOME_LAUNCHER;
        report->status = job->launcher_code;
        return true;
    }
    if (!job->failed) {
        return false;
    }
    if (job->first_failed >= 0) {
        const struct tti_rank *rank = &job->ranks[job->first_failed];
        report->outcome = TTI_OUTCOME_RANK_FAILED;
        report->rank = job->identity->first_rank + job->first_failed;
        report->status = rank->status;
        report->pid = (int32_t)rank->pid;
        report->milliseconds = (int32_t)(tti_job_rank_seconds(rank) * 1000);
        tti_job_last_operation(job, job->first_failed, report->text, sizeof(report->text));
        return true;
    }
    return tti_job_suspects_ended(job);
}

static void note_node_failure(struct tti_shutdown *shutdown, struct member *member)
{
    if (member->order == 0) {
        member->order = ++shutdown->failure_count;
    }
}

/* ---- node 0 ------------------------------------------------------------------------------------------------------ */

static void send_all(struct tti_shutdown *shutdown, enum tti_node_message_kind kind,
                     const struct tti_node_report *report)
{
    for (int r = 0; r < shutdown->nodes->count; r++) {
        struct member *m = &shutdown->members[r];
        if (m->link && !m->disconnected) {
            tti_link_send(m->link, kind, report);
        }
    }
}

/* Notes which ranks have failed by now, before the end of the job makes others fail. */
static void note_suspects(struct tti_job *job)
{
    if (!job->failed && job->launcher_code == 0) {
        tti_job_find_suspects(job);
        tti_job_find_first_failed(job);
    }
}

/* Ends the ranks of this node. After a --timeout of another node it first prints what they are doing. */
static void stop_own(struct tti_job *job, int32_t outcome)
{
    if (outcome == TTI_OUTCOME_TIMEOUT && job->state == TTI_JOB_RUNNING && job->running > 0) {
        tti_output_message(job->output, "the --timeout of another node has passed; on this one:");
        tti_report_hang(job);
    }
    tti_job_stop(job);
}

static void begin_stop(struct tti_shutdown *shutdown, struct tti_job *job, int32_t outcome)
{
    const struct tti_node_report why = {.outcome = outcome, .node = shutdown->nodes->node, .rank = -1};
    if (!shutdown->stopping) {
        shutdown->stopping = true;
        note_suspects(job);
        send_all(shutdown, TTI_NODE_STOP, &why);
        stop_own(job, outcome);
    }
}

static int severity(const struct tti_node_report *report)
{
    if (report->outcome == TTI_OUTCOME_NODE_LOST) {
        return 3;
    }
    return report->outcome == TTI_OUTCOME_RANK_FAILED && tti_status_is_crash(report->status) ? 2 : 1;
}

static bool is_worse(const struct member *a, const struct member *b)
{
    const int difference = severity(&a->report) - severity(&b->report);
    return difference != 0 ? difference > 0 : a->order < b->order;
}

static void decide(struct tti_shutdown *shutdown, struct tti_job *job)
{
    const struct member *worst = NULL;
    for (int r = 0; r < shutdown->nodes->count; r++) {
        const struct member *m = &shutdown->members[r];
        if (!m->reported) {
            return;
        }
        if (m->report.outcome != TTI_OUTCOME_OK && (!worst || is_worse(m, worst))) {
            worst = m;
        }
    }
    shutdown->decision = worst ? worst->report : (struct tti_node_report){.outcome = TTI_OUTCOME_OK, .rank = -1};
    if (!worst && shutdown->stopping) { /* a failure without a known rank: the exit code must show it */
        shutdown->decision =
            (struct tti_node_report){.outcome = TTI_OUTCOME_LAUNCHER, .rank = -1, .status = TTI_EXIT_FAILED};
    }
    shutdown->decided = true;
    send_all(shutdown, TTI_NODE_DECISION, &shutdown->decision);
    print_decision(shutdown, job);
}

/* A message to node 0. A report counts for the node that sends it, whatever node it names. */
static void handle_member_message(struct tti_shutdown *shutdown, struct tti_job *job,
                                  const struct tti_node_message *message)
{
    struct member *m = &shutdown->members[message->from];
    switch (message->kind) {
    case TTI_NODE_FAILED:
        m->reported = false; /* also if it was DONE: the report that follows counts */
        note_node_failure(shutdown, m);
        break;
    case TTI_NODE_REPORT:
    case TTI_NODE_DONE:
        m->reported = true;
        m->report = message->report;
        m->report.node = message->from;
        if (m->report.outcome != TTI_OUTCOME_OK) {
            note_node_failure(shutdown, m);
        }
        break;
    case TTI_NODE_ACK:
        m->disconnected = true;
        return;
    case TTI_NODE_LOST:
        m->disconnected = true;
        if (!shutdown->decided) {
            m->reported = true;
            m->report = message->report;
            m->report.node = message->from;
            note_node_failure(shutdown, m);
        }
        break;
    default:
        return;
    }
    if (shutdown->failure_count > 0 && !shutdown->decided) {
        begin_stop(shutdown, job, message->report.outcome);
    }
}

/* ---- the other nodes --------------------------------------------------------------------------------------------- */

static void handle_leader_message(struct tti_shutdown *shutdown, struct tti_job *job,
                                  const struct tti_node_message *message)
{
    struct member *leader = &shutdown->members[0];
    if (shutdown->decided) {
        return;
    }
    if (message->kind == TTI_NODE_STOP) {
        if (!shutdown->stopping) {
            shutdown->stopping = true;
            note_suspects(job);
            stop_own(job, message->report.outcome);
        }
    } else if (message->kind == TTI_NODE_DECISION || message->kind == TTI_NODE_LOST) {
        const int node = message->report.node;
        shutdown->decision = message->report;
        shutdown->decision.node = node >= 0 && node < shutdown->nodes->count ? node : 0;
        shutdown->decided = true;
        leader->disconnected = true;
        if (message->kind == TTI_NODE_DECISION) {
            tti_link_send(leader->link, TTI_NODE_ACK, NULL);
        }
        print_decision(shutdown, job);
        tti_job_stop(job);
    }
}

/* ---- */

struct tti_shutdown *tti_shutdown_open(const struct tti_nodes *nodes)
{
    struct tti_shutdown *shutdown = calloc(1, sizeof(*shutdown));
    if (!shutdown) {
        return NULL;
    }
    shutdown->nodes = nodes;
    shutdown->members = calloc((size_t)nodes->count, sizeof(*shutdown->members));
    shutdown->queue = (struct tti_message_queue){.fd = -1, .input = -1};
    bool good = shutdown->members && tti_message_queue_open(&shutdown->queue);
    const int first = nodes->node == 0 ? 1 : 0;
    const int last = nodes->node == 0 ? nodes->count - 1 : 0;
    for (int r = first; r <= last && good; r++) {
        struct member *m = &shutdown->members[r];
        m->link = tti_link_open(nodes->store, &shutdown->queue, nodes->node, r, nodes->heartbeat_timeout_ms);
        good = m->link != NULL;
    }
    if (!good) {
        tti_shutdown_close(shutdown);
        return NULL;
    }
    return shutdown;
}

int tti_shutdown_fd(const struct tti_shutdown *shutdown)
{
    return shutdown->queue.fd;
}

void tti_shutdown_announce_timeout(struct tti_shutdown *shutdown)
{
    const struct tti_node_report why = {.outcome = TTI_OUTCOME_TIMEOUT, .node = shutdown->nodes->node, .rank = -1};
    if (shutdown->stopping) {
        return;
    }
    shutdown->stopping = true;
    note_node_failure(shutdown, &shutdown->members[shutdown->nodes->node]);
    if (is_leader(shutdown)) {
        send_all(shutdown, TTI_NODE_STOP, &why);
    } else {
        tti_link_send(shutdown->members[0].link, TTI_NODE_FAILED, &why);
    }
}

void tti_shutdown_step(struct tti_shutdown *shutdown, struct tti_job *job, bool local_done)
{
    struct member *own = &shutdown->members[shutdown->nodes->node];
    struct member *leader = &shutdown->members[0];
    struct tti_node_message message;
    const bool failed = job->failed || job->launcher_code != 0;
    if (failed && !shutdown->stopping) {
        note_node_failure(shutdown, own);
        if (is_leader(shutdown)) {
            begin_stop(shutdown, job, TTI_OUTCOME_OK);
        } else {
            shutdown->stopping = true;
            tti_link_send(leader->link, TTI_NODE_FAILED, NULL);
        }
    }
    while (tti_message_queue_pop(&shutdown->queue, &message)) {
        if (is_leader(shutdown)) {
            handle_member_message(shutdown, job, &message);
        } else {
            handle_leader_message(shutdown, job, &message);
        }
    }
    struct tti_node_report now;
    const bool known = find_own_outcome(shutdown, job, &now);
    /* Another node may end the job although all ranks of this one have ended well. */
    if ((known || local_done) &&
        (!shutdown->answered || (now.outcome != TTI_OUTCOME_OK && own->report.outcome == TTI_OUTCOME_OK))) {
        shutdown->answered = true;
        own->reported = true;
        own->report = now;
        if (own->report.outcome != TTI_OUTCOME_OK) {
            note_node_failure(shutdown, own);
        }
        if (!is_leader(shutdown)) {
            tti_link_send(leader->link, shutdown->stopping ? TTI_NODE_REPORT : TTI_NODE_DONE, &own->report);
        }
    }
    if (is_leader(shutdown) && !shutdown->decided) {
        decide(shutdown, job);
    }
}

bool tti_shutdown_is_done(const struct tti_shutdown *shutdown)
{
    bool over = shutdown->decided;
    for (int r = 0; r < shutdown->nodes->count; r++) {
        over = over && (!shutdown->members[r].link || shutdown->members[r].disconnected);
    }
    return over;
}

int tti_shutdown_exit_code(const struct tti_shutdown *shutdown)
{
    const struct tti_node_report *v = &shutdown->decision;
    switch (v->outcome) {
    case TTI_OUTCOME_OK:
        return 0;
    case TTI_OUTCOME_RANK_FAILED:
        return tti_nodes_failure_code(WIFSIGNALED(v->status) ? TTI_EXIT_SIGNAL + WTERMSIG(v->status)
                                                             : WEXITSTATUS(v->status));
    case TTI_OUTCOME_NODE_LOST:
        return TTI_EXIT_FAILED;
    default:
        return tti_nodes_failure_code(v->status);
    }
}

void tti_shutdown_close(struct tti_shutdown *shutdown)
{
    if (!shutdown) {
        return;
    }
    if (shutdown->queue.fd >= 0) {
        close(shutdown->queue.fd);
    }
    for (int r = 0; shutdown->members && r < shutdown->nodes->count; r++) {
        tti_link_close(shutdown->members[r].link);
    }
    if (shutdown->queue.input >= 0) {
        close(shutdown->queue.input);
    }
    free(shutdown->members);
    free(shutdown);
}
