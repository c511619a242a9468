/* SPDX-License-Identifier: BSD-3-Clause */
/* The hang report, one page. The rank that delays the other ranks comes first. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "trace/record.h"

#define TEXT           256
#define WAITS          24 /* lines */
#define SUSPECTS_SHOWN 8
#define RECENT         5 /* operations of each rank */

struct page {
    FILE *out;
    const struct tti_rank_record *records;
    size_t count;
    struct tti_hang hang;
    int64_t now_ns;
    bool over; /* all processes have ended: the report shows what each was doing at its end */
};

static void process_text(const struct tti_rank_record *r, char *text, size_t capacity)
{
    if (r->ended_with >= 0 && WIFSIGNALED(r->ended_with)) {
        const char *name = tti_signal_name(WTERMSIG(r->ended_with));
        snprintf(text, capacity, "killed by %s", name ? name : "a signal");
    } else if (r->ended_with >= 0) {
        snprintf(text, capacity, "exited with code %d", WEXITSTATUS(r->ended_with));
    } else {
        snprintf(text, capacity, "%s", tti_proc_state_name(r->proc.state));
    }
}

/* "rank 2 (process 4711, stopped)" */
static void rank_text(const struct page *p, int node, char *text, size_t capacity)
{
    const struct tti_hang_node *n = &p->hang.nodes[node];
    const struct tti_rank_record *r = &p->records[n->process];
    char state[40];
    char rank[20] = "no rank";
    process_text(r, state, sizeof(state));
    if (n->rank >= 0) {
        snprintf(rank, sizeof(rank), "rank %d", n->rank);
    }
    if (r->process.pid == 0) {
        snprintf(text, capacity, "%s (no process has used Tutti)", rank);
    } else {
        snprintf(text, capacity, "%s (process %u, %s)", rank, r->process.pid, state);
    }
}

/* Whether its clock is ours, and still runs. */
static bool is_alive(const struct tti_rank_record *r)
{
    return r->ended_with < 0 && r->proc.state != TTI_PROC_UNKNOWN && r->proc.state < TTI_PROC_ZOMBIE;
}

/* ", for 10.2 s" if that is known. */
static void since_text(const struct page *p, int process, const struct tti_snapshot_op *op, char *text, size_t capacity)
{
    text[0] = '\0';
    if (op->begun_ns > 0 && p->now_ns >= op->begun_ns && is_alive(&p->records[process])) {
        snprintf(text, capacity, ", for %.1f s", (double)(p->now_ns - op->begun_ns) / 1e9);
    }
}

/* The rank of a node if its process has several ranks. Else -1: all operations of the process are the rank's. */
static int32_t rank_of_thread(const struct page *p, int node)
{
    const struct tti_hang *h = &p->hang;
    const int process = h->nodes[node].process;
    const bool before = node > 0 && h->nodes[node - 1].process == process;
    const bool after = node + 1 < h->node_count && h->nodes[node + 1].process == process;
    return before || after ? h->nodes[node].rank : -1;
}

static const struct tti_snapshot *snapshot_of(const struct page *p, int node)
{
    return &p->records[p->hang.nodes[node].process].snapshot;
}

static void print_suspect(const struct page *p, const struct tti_hang_suspect *c)
{
    char process[TEXT];
    char what[TEXT];
    char since[40];
    char last[TEXT];
    const struct tti_hang_wait *w = c->first_wait;
    rank_text(p, c->node_index, process, sizeof(process));
    tti_record_op_text(snapshot_of(p, w->node_index), w->op, what, sizeof(what));
    since_text(p, p->hang.nodes[w->node_index].process, w->op, since, sizeof(since));
    const struct tti_hang_node *node = &p->hang.nodes[c->node_index];
    const bool any =
        tti_record_last_text(&p->records[node->process], rank_of_thread(p, c->node_index), last, sizeof(last));
    fprintf(p->out, "suspect: %s %s %s, where %d rank%s wait%s for it%s; its last operation: %s\n", process,
            w->all_arrived                   ? "does not go on with"
            : tti_snapshot_is_message(w->op) ? "does not take its part in"
                                             : "has not arrived at",
            what, c->waiting, c->waiting == 1 ? "" : "s", c->waiting == 1 ? "s" : "", since, any ? last : "none yet");
}

static void print_circle(const struct page *p)
{
    fprintf(p->out, "deadlock: ");
    for (int i = 0; i < p->hang.cycle_count && i < WAITS; i++) {
        fprintf(p->out, "rank %d waits for ", p->hang.nodes[p->hang.cycle[i]].rank);
    }
    fprintf(p->out, "rank %d\n", p->hang.nodes[p->hang.cycle[0]].rank);
}

static void print_conclusion(const struct page *p)
{
    const struct tti_hang *h = &p->hang;
    for (int i = 0; i < h->suspect_count && i < SUSPECTS_SHOWN; i++) {
        print_suspect(p, &h->suspects[i]);
    }
    if (h->suspect_count > SUSPECTS_SHOWN) {
        fprintf(p->out, "... and %d more\n", h->suspect_count - SUSPECTS_SHOWN);
    }
    if (h->suspect_count == 0 && h->cycle_count > 0) {
        print_circle(p);
    } else if (h->suspect_count == 0 && h->wait_count == 0) {
        fprintf(p->out, "no rank %s for another one\n", p->over ? "was waiting" : "waits");
    } else if (h->suspect_count == 0) {
        int unseen = 0;
        for (int i = 0; i < h->wait_count; i++) {
            unseen += h->waits[i].unseen;
        }
        fprintf(p->out, unseen > 0 ? "no suspect among these ranks; those that are waited for are not seen here\n"
                                   : "no suspect: all have arrived at the operations they are in\n");
    }
}

static void print_wait(const struct page *p, const struct tti_hang_wait *w)
{
    char what[TEXT];
    char since[40];
    tti_record_op_text(snapshot_of(p, w->node_index), w->op, what, sizeof(what));
    since_text(p, p->hang.nodes[w->node_index].process, w->op, since, sizeof(since));
    fprintf(p->out, "  rank %d waits in %s%s for", p->hang.nodes[w->node_index].rank, what, since);
    for (int i = 0; i < w->missing_count && i < TTI_HANG_NAMED; i++) {
        fprintf(p->out, "%s rank %d", i > 0 ? "," : "", p->hang.nodes[w->missing[i]].rank);
    }
    if (w->missing_count > TTI_HANG_NAMED) {
        fprintf(p->out, " and %d more", w->missing_count - TTI_HANG_NAMED);
    }
    if (w->missing_count == 0) {
        fprintf(p->out, w->unseen > 0 ? " ranks that are not seen here (%d)" : " no rank: all have arrived at it",
                w->unseen);
    }
    fprintf(p->out, "\n");
}

/* The last operations, newest first. */
static void print_recent(const struct page *p, int process, int32_t rank)
{
    const struct tti_snapshot *s = &p->records[process].snapshot;
    const struct tti_snapshot_op *recent[RECENT];
    const size_t count = tti_record_newest(s, rank, recent, RECENT);
    for (size_t i = 0; i < count; i++) {
        const struct tti_snapshot_op *op = recent[i];
        char what[TEXT];
        tti_record_op_text(s, op, what, sizeof(what));
        fprintf(p->out, "      %s", what);
        if (tti_snapshot_is_running(op)) {
            char since[40];
            since_text(p, process, op, since, sizeof(since));
            fprintf(p->out, ": not ended%s", since);
        } else if (op->status != TUTTI_OK) {
            fprintf(p->out, ": %s", tutti_status_name(op->status));
        } else if (op->ended_ns > 0) {
            fprintf(p->out, ": ok, took %.3f ms", (double)(op->ended_ns - op->begun_ns) / 1e6);
        } else {
            fprintf(p->out, ": ok");
        }
        if (op->calls > 1) {
            fprintf(p->out, ", the last of %" PRIu64 " like it", op->calls);
        }
        fprintf(p->out, "\n");
    }
}

static void print_ranks(const struct page *p, int most)
{
    const struct tti_hang *h = &p->hang;
    for (int node = 0; node < h->node_count && node < most; node++) {
        const int process = h->nodes[node].process;
        const struct tti_rank_record *r = &p->records[process];
        const int32_t rank = rank_of_thread(p, node);
        const struct tti_snapshot_op *last;
        const bool any = r->has_snapshot && tti_record_newest(&r->snapshot, rank, &last, 1) > 0;
        char name[TEXT];
        rank_text(p, node, name, sizeof(name));
        fprintf(p->out, "  %s%s\n", name, any ? ", newest first:" : ": no operation recorded");
        if (any) {
            print_recent(p, process, rank);
        }
    }
    if (h->node_count > most) {
        fprintf(p->out, "  ... and %d more ranks: `tutti trace dump` describes all\n", h->node_count - most);
    }
    for (size_t i = 0; i < p->count; i++) {
        if (p->records[i].has_snapshot && p->records[i].snapshot.unrecorded > 0) {
            fprintf(p->out, "  process %u has made %u more groups, which are not recorded: it had %u at once\n",
                    p->records[i].process.pid, p->records[i].snapshot.unrecorded, TTI_FLIGHT_GROUPS);
        }
    }
}

static bool all_have_ended(const struct tti_rank_record *records, size_t count)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const bool ended = records[i].ended_with >= 0 || records[i].proc.state >= TTI_PROC_ZOMBIE;
        const bool begun = records[i].has_snapshot && records[i].process.pid != 0;
        if (begun && !ended) {
            return false;
        }
        any = any || begun;
    }
    return any;
}

void tti_record_hang_report(FILE *out, const struct tti_rank_record *records, size_t count, size_t most)
{
    struct page p = {.out = out, .records = records, .count = count, .now_ns = tti_now_ns()};
    struct tti_hang_rank *ranks = calloc(count + 1, sizeof(*ranks));
    p.over = all_have_ended(records, count);
    for (size_t i = 0; ranks && i < count; i++) {
        const struct tti_rank_record *r = &records[i];
        const enum tti_proc_state state = r->ended_with >= 0 ? TTI_PROC_GONE : r->proc.state;
        ranks[i] = (struct tti_hang_rank){.rank = r->rank,
                                          .snapshot = r->has_snapshot ? &r->snapshot : NULL,
                                          .before = r->has_before ? &r->before : NULL,
                                          .state = p.over ? TTI_PROC_UNKNOWN : state};
    }
    if (!ranks || !tti_hang_find(ranks, (int)count, &p.hang)) {
        fprintf(out, "there is no memory for a report\n");
    } else {
        if (p.over) {
            fprintf(out, "all processes have ended; this is what they were doing then:\n");
        }
        print_conclusion(&p);
        if (p.hang.wait_count > 0) {
            fprintf(out, "waits:\n");
        }
        for (int i = 0; i < p.hang.wait_count && i < WAITS; i++) {
            print_wait(&p, &p.hang.waits[i]);
        }
        if (p.hang.wait_count > WAITS) {
            fprintf(out, "  ... and %d more\n", p.hang.wait_count - WAITS);
        }
        fprintf(out, "what each has done last:\n");
        print_ranks(&p, most < INT_MAX ? (int)most : INT_MAX);
    }
    free(ranks);
    tti_hang_free(&p.hang);
}
