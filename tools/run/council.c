/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the launchers of several nodes end a job together. Node 0 leads:
 *
 *   - A launcher whose ranks fail says FAILED at once and ends its ranks. Node 0 tells the others to STOP; they note who
 *     has failed among their own ranks at that moment, end them, and ANSWER as soon as they know who was first here.
 *   - When every node has answered, is DONE, or is lost, node 0 picks one and tells all: the VERDICT. All name the same
 *     culprit and exit with the same code. Nobody leaves before the verdict, since ranks that ended well do not make a
 *     good job; node 0 leaves last.
 *   - A node that is silent is lost, and is the first thing to blame: what ranks say who miss a peer is its consequence.
 *     Whoever loses node 0 gives the verdict itself.
 *
 * Among ranks, one that was killed by a signal that programs do not send themselves goes before the others, as on one
 * node (verdict.c), then the order in which node 0 has heard of them counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "nodes.h"
#include "report.h"

struct member {
    struct tti_link *link; /* to this node; NULL: ourselves, or it is not our business */
    bool heard;            /* has answered, is done, or is lost */
    bool gone;             /* will say nothing any more */
    int order;             /* in which the first bad news came, from 1; 0 = none came */
    struct tti_report report;
};

struct tti_council {
    const struct tti_nodes *nodes;
    struct tti_mailbox box;
    struct member *members; /* node 0: of all; else only number 0 has a link */
    int bad_news;
    bool stopping;  /* something has failed somewhere, and we know */
    bool answered;  /* our own part has been told; ours is members[own].report */
    bool concluded; /* the verdict is known */
    struct tti_report verdict;
};

static bool leads(const struct tti_council *council)
{
    return council->nodes->node == 0;
}

/* ---- words --------------------------------------------------------------------------------------------------------- */

static void tell_verdict(const struct tti_council *council, struct tti_job *job)
{
    const struct tti_report *v = &council->verdict;
    const char *host = council->nodes->cards[v->node].host;
    char what[200];
    switch (v->fate) {
    case TTI_FATE_RANK:
        tti_job_describe(what, sizeof(what), v->status, (double)v->milliseconds / 1000, v->pid);
        tti_output_message(job->output, "rank %d on node %d (%s) %s%.199s", v->rank, v->node, host, what, v->text);
        break;
    case TTI_FATE_TIMEOUT:
        if (v->node != council->nodes->node) { /* who has ended it has said so */
            tti_output_message(job->output, "the job ran longer than the --timeout of node %d (%s): ending it", v->node,
                               host);
        }
        break;
    case TTI_FATE_LAUNCHER:
        if (v->status > TTI_EXIT_SIGNAL && sigabbrev_np(v->status - TTI_EXIT_SIGNAL)) {
            tti_output_message(job->output, "the launcher of node %d (%s) was told to end the job (SIG%s)", v->node,
                               host, sigabbrev_np(v->status - TTI_EXIT_SIGNAL));
        } else if (v->node != council->nodes->node) {
            tti_output_message(job->output, "the launcher of node %d (%s) has ended the job; it says why", v->node,
                               host);
        }
        break;
    case TTI_FATE_LOST:
        tti_output_message(job->output, "node %d (%s) is lost: %.199s", v->node, host, v->text);
        break;
    default:
        break;
    }
}

/* ---- our own part -------------------------------------------------------------------------------------------------- */

/* What has gone wrong on this node, once that is certain. False: not yet. */
static bool find_own(const struct tti_council *council, const struct tti_job *job, struct tti_report *report)
{
    *report = (struct tti_report){.fate = TTI_FATE_WELL, .node = council->nodes->node, .rank = -1};
    if (job->launcher_code != 0) {
        report->fate = job->launcher_code == TTI_EXIT_TIMEOUT ? TTI_FATE_TIMEOUT : TTI_FATE_LAUNCHER;
        report->status = job->launcher_code;
        return true;
    }
    if (!job->failed) {
        return false;
    }
    if (job->culprit >= 0) {
        const struct tti_rank *rank = &job->ranks[job->culprit];
        report->fate = TTI_FATE_RANK;
        report->rank = job->identity->first_rank + job->culprit;
        report->status = rank->status;
        report->pid = (int32_t)rank->pid;
        report->milliseconds = (int32_t)(tti_job_rank_seconds(rank) * 1000);
        tti_job_last(job, job->culprit, report->text, sizeof(report->text));
        return true;
    }
    return tti_job_is_judged(job);
}

static void note_bad_news(struct tti_council *council, struct member *member)
{
    if (member->order == 0) {
        member->order = ++council->bad_news;
    }
}

/* ---- node 0 -------------------------------------------------------------------------------------------------------- */

static void send_all(struct tti_council *council, enum tti_mail_kind kind, const struct tti_report *report)
{
    for (int r = 0; r < council->nodes->count; r++) {
        struct member *m = &council->members[r];
        if (m->link && !m->gone) {
            tti_link_send(m->link, kind, report);
        }
    }
}

/* Who has failed by now: what follows makes others fail. */
static void note_suspects(struct tti_job *job)
{
    if (!job->failed && job->launcher_code == 0) {
        tti_job_find_suspects(job);
        tti_job_judge(job);
    }
}

/* Ends the own ranks, and says first what they do if a --timeout has passed elsewhere. */
static void stop_own(struct tti_job *job, int32_t fate)
{
    if (fate == TTI_FATE_TIMEOUT && job->state == TTI_JOB_RUNNING && job->running > 0) {
        tti_output_message(job->output, "the --timeout of another node has passed; on this one:");
        tti_report_hang(job);
    }
    tti_job_stop(job);
}

static void begin_stop(struct tti_council *council, struct tti_job *job, int32_t fate)
{
    const struct tti_report why = {.fate = fate, .node = council->nodes->node, .rank = -1};
    if (!council->stopping) {
        council->stopping = true;
        note_suspects(job);
        send_all(council, TTI_MAIL_STOP, &why);
        stop_own(job, fate);
    }
}

static int weight(const struct tti_report *report)
{
    if (report->fate == TTI_FATE_LOST) {
        return 3;
    }
    return report->fate == TTI_FATE_RANK && tti_status_is_struck(report->status) ? 2 : 1;
}

static bool is_worse(const struct member *a, const struct member *b)
{
    const int difference = weight(&a->report) - weight(&b->report);
    return difference != 0 ? difference > 0 : a->order < b->order;
}

static void conclude(struct tti_council *council, struct tti_job *job)
{
    const struct member *worst = NULL;
    for (int r = 0; r < council->nodes->count; r++) {
        const struct member *m = &council->members[r];
        if (!m->heard) {
            return;
        }
        if (m->report.fate != TTI_FATE_WELL && (!worst || is_worse(m, worst))) {
            worst = m;
        }
    }
    council->verdict = worst ? worst->report : (struct tti_report){.fate = TTI_FATE_WELL, .rank = -1};
    if (!worst && council->stopping) { /* somebody failed and nobody knows who: an exit code all the same */
        council->verdict = (struct tti_report){.fate = TTI_FATE_LAUNCHER, .rank = -1, .status = TTI_EXIT_FAILED};
    }
    council->concluded = true;
    send_all(council, TTI_MAIL_VERDICT, &council->verdict);
    tell_verdict(council, job);
}

/* Mail to node 0. Whatever a report says, it is that of the node it comes from. */
static void hear_member(struct tti_council *council, struct tti_job *job, const struct tti_mail *mail)
{
    struct member *m = &council->members[mail->from];
    switch (mail->kind) {
    case TTI_MAIL_FAILED:
        m->heard = false; /* also if it was DONE: the answer that follows counts */
        note_bad_news(council, m);
        break;
    case TTI_MAIL_ANSWER:
    case TTI_MAIL_DONE:
        m->heard = true;
        m->report = mail->report;
        m->report.node = mail->from;
        if (m->report.fate != TTI_FATE_WELL) {
            note_bad_news(council, m);
        }
        break;
    case TTI_MAIL_BYE:
        m->gone = true;
        return;
    case TTI_MAIL_LOST:
        m->gone = true;
        if (!council->concluded) {
            m->heard = true;
            m->report = mail->report;
            m->report.node = mail->from;
            note_bad_news(council, m);
        }
        break;
    default:
        return;
    }
    if (council->bad_news > 0 && !council->concluded) {
        begin_stop(council, job, mail->report.fate);
    }
}

/* ---- the other nodes ----------------------------------------------------------------------------------------------- */

static void hear_leader(struct tti_council *council, struct tti_job *job, const struct tti_mail *mail)
{
    struct member *leader = &council->members[0];
    if (council->concluded) {
        return;
    }
    if (mail->kind == TTI_MAIL_STOP) {
        if (!council->stopping) {
            council->stopping = true;
            note_suspects(job);
            stop_own(job, mail->report.fate);
        }
    } else if (mail->kind == TTI_MAIL_VERDICT || mail->kind == TTI_MAIL_LOST) {
        const int node = mail->report.node;
        council->verdict = mail->report;
        council->verdict.node = node >= 0 && node < council->nodes->count ? node : 0;
        council->concluded = true;
        leader->gone = true;
        if (mail->kind == TTI_MAIL_VERDICT) {
            tti_link_send(leader->link, TTI_MAIL_BYE, NULL);
        }
        tell_verdict(council, job);
        tti_job_stop(job);
    }
}

/* ---- */

struct tti_council *tti_council_open(const struct tti_nodes *nodes)
{
    struct tti_council *council = calloc(1, sizeof(*council));
    if (!council) {
        return NULL;
    }
    council->nodes = nodes;
    council->members = calloc((size_t)nodes->count, sizeof(*council->members));
    bool good = council->members && tti_mailbox_open(&council->box);
    if (!good) {
        council->box.fd = -1;
    }
    const int first = nodes->node == 0 ? 1 : 0;
    const int last = nodes->node == 0 ? nodes->count - 1 : 0;
    for (int r = first; r <= last && good; r++) {
        struct member *m = &council->members[r];
        m->link = tti_link_open(nodes->store, &council->box, nodes->node, r, nodes->silence_ms);
        good = m->link != NULL;
    }
    if (!good) {
        tti_council_close(council);
        return NULL;
    }
    return council;
}

int tti_council_fd(const struct tti_council *council)
{
    return council->box.fd;
}

void tti_council_warn(struct tti_council *council)
{
    const struct tti_report why = {.fate = TTI_FATE_TIMEOUT, .node = council->nodes->node, .rank = -1};
    if (council->stopping) {
        return;
    }
    council->stopping = true;
    note_bad_news(council, &council->members[council->nodes->node]);
    if (leads(council)) {
        send_all(council, TTI_MAIL_STOP, &why);
    } else {
        tti_link_send(council->members[0].link, TTI_MAIL_FAILED, &why);
    }
}

void tti_council_step(struct tti_council *council, struct tti_job *job, bool own_over)
{
    struct member *own = &council->members[council->nodes->node];
    struct member *leader = &council->members[0];
    struct tti_mail mail;
    const bool failed = job->failed || job->launcher_code != 0;
    if (failed && !council->stopping) {
        note_bad_news(council, own);
        if (leads(council)) {
            begin_stop(council, job, TTI_FATE_WELL);
        } else {
            council->stopping = true;
            tti_link_send(leader->link, TTI_MAIL_FAILED, NULL);
        }
    }
    while (tti_mailbox_take(&council->box, &mail)) {
        if (leads(council)) {
            hear_member(council, job, &mail);
        } else {
            hear_leader(council, job, &mail);
        }
    }
    struct tti_report now;
    const bool known = find_own(council, job, &now);
    /* Somebody may want the job ended although our own ranks have ended well. */
    if ((known || own_over) &&
        (!council->answered || (now.fate != TTI_FATE_WELL && own->report.fate == TTI_FATE_WELL))) {
        council->answered = true;
        own->heard = true;
        own->report = now;
        if (own->report.fate != TTI_FATE_WELL) {
            note_bad_news(council, own);
        }
        if (!leads(council)) {
            tti_link_send(leader->link, council->stopping ? TTI_MAIL_ANSWER : TTI_MAIL_DONE, &own->report);
        }
    }
    if (leads(council) && !council->concluded) {
        conclude(council, job);
    }
}

bool tti_council_is_over(const struct tti_council *council)
{
    bool over = council->concluded;
    for (int r = 0; r < council->nodes->count; r++) {
        over = over && (!council->members[r].link || council->members[r].gone);
    }
    return over;
}

int tti_council_exit_code(const struct tti_council *council)
{
    const struct tti_report *v = &council->verdict;
    switch (v->fate) {
    case TTI_FATE_WELL:
        return 0;
    case TTI_FATE_RANK:
        return tti_nodes_failure(WIFSIGNALED(v->status) ? TTI_EXIT_SIGNAL + WTERMSIG(v->status)
                                                        : WEXITSTATUS(v->status));
    case TTI_FATE_LOST:
        return TTI_EXIT_FAILED;
    default:
        return tti_nodes_failure(v->status);
    }
}

void tti_council_close(struct tti_council *council)
{
    if (!council) {
        return;
    }
    for (int r = 0; council->members && r < council->nodes->count; r++) {
        tti_link_close(council->members[r].link);
    }
    tti_mailbox_close(&council->box);
    free(council->members);
    free(council);
}
