/* SPDX-License-Identifier: BSD-3-Clause */
/* The hang report. One page: whoever reads it wants to know which rank to look at, so that comes first. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "record.h"

#define TEXT     256
#define WAITS    24 /* lines */
#define CULPRITS 8
#define RECENT   5 /* operations of each rank */

struct page {
    FILE *out;
    const struct tti_record *records;
    struct tti_hang hang;
    int64_t now_ns;
};

static void process_text(const struct tti_record *r, char *text, size_t capacity)
{
    if (r->ended_with >= 0 && WIFSIGNALED(r->ended_with)) {
        const char *name = tti_signal_name(WTERMSIG(r->ended_with));
        snprintf(text, capacity, "killed by %s", name ? name : "a signal");
    } else if (r->ended_with >= 0) {
        snprintf(text, capacity, "exited with code %d", WEXITSTATUS(r->ended_with));
    } else {
        snprintf(text, capacity, "%s", tti_proc_state_name(r->look.state));
    }
}

/* "rank 2 (process 4711, stopped)" */
static void who_text(const struct page *p, int node, char *text, size_t capacity)
{
    const struct tti_hang_node *n = &p->hang.nodes[node];
    const struct tti_record *r = &p->records[n->process];
    char state[40];
    process_text(r, state, sizeof(state));
    snprintf(text, capacity, "rank %d (process %u, %s)", n->rank, r->process.pid, state);
}

/* ", for 10.2 s" if that is known. */
static void since_text(const struct page *p, const struct tti_snapshot_op *op, char *text, size_t capacity)
{
    text[0] = '\0';
    if (op->begun_ns > 0 && p->now_ns >= op->begun_ns) {
        snprintf(text, capacity, ", for %.1f s", (double)(p->now_ns - op->begun_ns) / 1e9);
    }
}

static const struct tti_snapshot *snapshot_of(const struct page *p, int node)
{
    return &p->records[p->hang.nodes[node].process].snapshot;
}

static void print_culprit(const struct page *p, const struct tti_hang_culprit *c)
{
    char who[TEXT];
    char what[TEXT];
    char since[40];
    char last[TEXT];
    const struct tti_hang_wait *w = c->for_what;
    who_text(p, c->who, who, sizeof(who));
    tti_record_op_text(snapshot_of(p, w->who), w->op, what, sizeof(what));
    since_text(p, w->op, since, sizeof(since));
    const bool any = tti_record_last_text(&p->records[p->hang.nodes[c->who].process], last, sizeof(last));
    fprintf(p->out, "culprit: %s %s %s, where %d rank%s wait%s for it%s; its last operation: %s\n", who,
            w->all_came                      ? "does not go on with"
            : tti_snapshot_is_message(w->op) ? "has no part in"
                                             : "has not come to",
            what, c->waiting, c->waiting == 1 ? "" : "s", c->waiting == 1 ? "s" : "", since, any ? last : "none yet");
}

static void print_circle(const struct page *p)
{
    fprintf(p->out, "deadlock: ");
    for (int i = 0; i < p->hang.circle_count && i < WAITS; i++) {
        fprintf(p->out, "rank %d waits for ", p->hang.nodes[p->hang.circle[i]].rank);
    }
    fprintf(p->out, "rank %d\n", p->hang.nodes[p->hang.circle[0]].rank);
}

static void print_verdict(const struct page *p)
{
    const struct tti_hang *h = &p->hang;
    for (int i = 0; i < h->culprit_count && i < CULPRITS; i++) {
        print_culprit(p, &h->culprits[i]);
    }
    if (h->culprit_count > CULPRITS) {
        fprintf(p->out, "... and %d more\n", h->culprit_count - CULPRITS);
    }
    if (h->culprit_count == 0 && h->circle_count > 0) {
        print_circle(p);
    } else if (h->culprit_count == 0 && h->wait_count == 0) {
        fprintf(p->out, "no rank waits for another one\n");
    } else if (h->culprit_count == 0) {
        fprintf(p->out, "no culprit among these ranks\n");
    }
}

static void print_wait(const struct page *p, const struct tti_hang_wait *w)
{
    char what[TEXT];
    char since[40];
    tti_record_op_text(snapshot_of(p, w->who), w->op, what, sizeof(what));
    since_text(p, w->op, since, sizeof(since));
    fprintf(p->out, "  rank %d waits in %s%s for", p->hang.nodes[w->who].rank, what, since);
    for (int i = 0; i < w->missing_count && i < TTI_HANG_NAMED; i++) {
        fprintf(p->out, "%s rank %d", i > 0 ? "," : "", p->hang.nodes[w->missing[i]].rank);
    }
    if (w->missing_count > TTI_HANG_NAMED) {
        fprintf(p->out, " and %d more", w->missing_count - TTI_HANG_NAMED);
    }
    if (w->missing_count == 0) {
        fprintf(p->out, w->unseen > 0 ? " ranks that are not seen here (%d)" : " nobody: all have come to it",
                w->unseen);
    }
    fprintf(p->out, "\n");
}

static int compare_newest(const void *a, const void *b)
{
    const struct tti_snapshot_op *x = *(const struct tti_snapshot_op *const *)a;
    const struct tti_snapshot_op *y = *(const struct tti_snapshot_op *const *)b;
    const bool rx = tti_snapshot_is_running(x);
    const bool ry = tti_snapshot_is_running(y);
    if (rx != ry) {
        return (ry ? 1 : 0) - (rx ? 1 : 0);
    }
    const uint64_t sx = x->sequence == 0 ? UINT64_MAX : x->sequence; /* refused before it got a number */
    const uint64_t sy = y->sequence == 0 ? UINT64_MAX : y->sequence;
    return sx != sy ? (sx < sy) - (sx > sy) : (x->number < y->number) - (x->number > y->number);
}

/* The last operations, newest first. Entries and tallies are each in order already, so a few of both hold the newest. */
static void print_recent(const struct page *p, const struct tti_record *r)
{
    const struct tti_snapshot *s = &r->snapshot;
    const struct tti_snapshot_op *recent[4 * RECENT];
    size_t count = 0;
    int entries = 0;
    int tallies = 0;
    for (size_t i = s->op_count; i-- > 0 && count < sizeof(recent) / sizeof(recent[0]);) {
        const struct tti_snapshot_op *op = &s->ops[i];
        int *of_kind = op->number != 0 ? &entries : &tallies;
        if (*of_kind < 2 * RECENT) {
            recent[count++] = op;
            ++*of_kind;
        }
    }
    qsort(recent, count, sizeof(recent[0]), compare_newest);
    for (size_t i = 0; i < count && i < RECENT; i++) {
        const struct tti_snapshot_op *op = recent[i];
        char what[TEXT];
        tti_record_op_text(s, op, what, sizeof(what));
        fprintf(p->out, "      %s", what);
        if (tti_snapshot_is_running(op)) {
            char since[40];
            since_text(p, op, since, sizeof(since));
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

static void print_ranks(const struct page *p, size_t count, size_t most)
{
    for (size_t i = 0; i < count && i < most; i++) {
        const struct tti_record *r = &p->records[i];
        char state[40];
        process_text(r, state, sizeof(state));
        const bool named = r->has_snapshot && r->snapshot.rank >= 0;
        fprintf(p->out, "  rank %d (process %u, %s)%s\n", named ? r->snapshot.rank : r->rank, r->process.pid, state,
                r->has_snapshot && r->snapshot.op_count > 0 ? ", newest first:" : ": no operation recorded");
        if (r->has_snapshot) {
            print_recent(p, r);
        }
    }
    if (count > most) {
        fprintf(p->out, "  ... and %zu more ranks: `tutti trace dump` describes all\n", count - most);
    }
}

void tti_record_page(FILE *out, const struct tti_record *records, size_t count, size_t most)
{
    struct page p = {.out = out, .records = records, .now_ns = tti_now_ns()};
    struct tti_hang_rank *ranks = calloc(count + 1, sizeof(*ranks));
    for (size_t i = 0; ranks && i < count; i++) {
        const struct tti_record *r = &records[i];
        ranks[i] = (struct tti_hang_rank){.rank = r->rank,
                                          .snapshot = r->has_snapshot ? &r->snapshot : NULL,
                                          .before = r->has_before ? &r->before : NULL,
                                          .state = r->ended_with >= 0 ? TTI_PROC_GONE : r->look.state};
    }
    if (!ranks || !tti_hang_find(ranks, (int)count, &p.hang)) {
        fprintf(out, "there is no memory for a report\n");
    } else {
        print_verdict(&p);
        if (p.hang.wait_count > 0) {
            fprintf(out, "who waits for whom:\n");
        }
        for (int i = 0; i < p.hang.wait_count && i < WAITS; i++) {
            print_wait(&p, &p.hang.waits[i]);
        }
        if (p.hang.wait_count > WAITS) {
            fprintf(out, "  ... and %d more\n", p.hang.wait_count - WAITS);
        }
        fprintf(out, "what each has done last:\n");
        print_ranks(&p, count, most);
    }
    free(ranks);
    tti_hang_free(&p.hang);
}
