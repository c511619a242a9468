/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The members of all groups are sorted by name, then by rank. Each wait searches the members of its group. If there is
 * no suspect, a depth-first search finds a cycle. Cost: O(m log m) for m members, O(members of its group) for each
 * wait.
 */
#include "trace/hang.h"

#include <stdlib.h>
#include <string.h>

#include "base/operation.h"

struct member {
    const struct tti_snapshot_group *group;
    int process;
    int node;
};

struct finder {
    const struct tti_hang_rank *ranks;
    int count;
    struct member *members; /* of all groups, by name, then by rank */
    size_t member_count;
    struct tti_hang *hang;
    int *waiter_counts; /* of each node: the number of waits for it */
    int *first;         /* the first of them; -1 = none */
    int *own;           /* of each node: its first wait; -1 = none */
    int *next;          /* of each wait: the next one of the same node; -1 = none */
    int *from;          /* of each node in the depth-first search: its predecessor */
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a;
    const struct member *y = b;
    const int by_name = strcmp(x->group->name, y->group->name);
    return by_name != 0 ? by_name : (x->group->rank > y->group->rank) - (x->group->rank < y->group->rank);
}

/* The process's nodes begin at `first`. */
static int node_of(struct tti_hang *h, int first, int process, int32_t rank)
{
    for (int i = first; i < h->node_count; i++) {
        if (h->nodes[i].rank == rank) {
            return i;
        }
    }
    h->nodes[h->node_count] = (struct tti_hang_node){.process = process, .rank = rank};
    return h->node_count++;
}

static void collect_members(struct finder *f)
{
    for (int i = 0; i < f->count; i++) {
        const struct tti_snapshot *s = f->ranks[i].snapshot;
        const int first = f->hang->node_count;
        for (int g = 0; s && g < s->group_count; g++) {
            const int node = node_of(f->hang, first, i, s->groups[g].world_rank);
            f->members[f->member_count++] = (struct member){&s->groups[g], i, node};
        }
        if (f->hang->node_count == first) {
            node_of(f->hang, first, i, f->ranks[i].rank);
        }
    }
    qsort(f->members, f->member_count, sizeof(*f->members), compare_members);
}

/* The first member of the group with that name. */
static size_t first_member(const struct finder *f, const char *name)
{
    size_t low = 0;
    size_t high = f->member_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(f->members[middle].group->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The number of the last collective that a member has begun on a lane. */
static uint64_t has_begun(const struct finder *f, const struct member *m, int lane)
{
    const int32_t running = m->group->running[lane];
    return running >= 0 ? f->ranks[m->process].snapshot->ops[running].sequence : m->group->last[lane];
}

/* Whether only one member can delay it: the root, or the peer. */
static bool needs_one(const struct tti_snapshot_op *op, const struct tti_snapshot_group *own)
{
    return tti_snapshot_is_message(op) ? op->what.root >= 0
                                       : tti_operation_is_rooted(op->what.kind) && own->rank != op->what.root;
}

/* Whether that member can delay the operation. */
static bool needs(const struct tti_snapshot_op *op, const struct tti_snapshot_group *own,
                  const struct tti_snapshot_group *other)
{
    return !needs_one(op, own) || other->rank == op->what.root;
}

static bool does_not_run(enum tti_proc_state state)
{
    return state >= TTI_PROC_STOPPED;
}

static void add_missing(struct tti_hang_wait *w, int node_index)
{
    if (w->missing_count < TTI_HANG_NAMED) {
        w->missing[w->missing_count] = node_index;
    }
    w->missing_count++;
}

static int member_node(const struct finder *f, const struct tti_snapshot_group *group, size_t first)
{
    while (f->members[first].group != group) {
        first++;
    }
    return f->members[first].node;
}

static bool is_same_group(const struct tti_snapshot_group *a, const struct tti_snapshot_group *b)
{
    return strcmp(a->name, b->name) == 0;
}

/* The members that have not begun the operation; if all have, those that do not run. */
static void find_missing(const struct finder *f, struct tti_hang_wait *w, const struct tti_snapshot_group *own,
                         size_t first)
{
    const bool message = tti_snapshot_is_message(w->op);
    const int needed = needs_one(w->op, own) ? 1 : own->size - 1;
    for (int pass = 0; pass < 2 && w->missing_count == 0; pass++) {
        int seen = 0;
        w->all_arrived = pass == 1 && !message;
        for (size_t i = first; i < f->member_count && is_same_group(f->members[i].group, own); i++) {
            const struct member *m = &f->members[i];
            if (m->group == own || !needs(w->op, own, m->group)) {
                continue;
            }
            seen++;
            const bool late = message || has_begun(f, m, w->op->what.lane) < w->op->sequence;
            if (pass == 0 ? late : does_not_run(f->ranks[m->process].state)) {
                add_missing(w, m->node);
            }
        }
        w->unseen = needed > seen ? needed - seen : 0;
    }
}

/* Whether that rank of a world is one of these members, or listed as missing. */
static bool is_accounted(const struct finder *f, const struct tti_hang_wait *w, const struct member *members,
                         size_t count, int32_t rank)
{
    size_t low = 0; /* binary search: the members are sorted by rank */
    while (count > 0) {
        const size_t half = count / 2;
        const bool above = members[low + half].group->rank < rank;
        low = above ? low + half + 1 : low;
        count = above ? count - half - 1 : half;
    }
    const struct member *found = &members[low];
    if (found < f->members + f->member_count && is_same_group(found->group, members->group) &&
        found->group->rank == rank) {
        return true;
    }
    for (int i = 0; i < w->missing_count && i < TTI_HANG_NAMED; i++) {
        if (f->hang->nodes[w->missing[i]].rank == rank) {
            return true;
        }
    }
    return false;
}

/* The members that do not open the group. Those of a world of processes are known if their ranks are those of the job.
 * Of other groups only the members that have begun are known. */
static void find_absent(const struct finder *f, struct tti_hang_wait *w, const struct tti_snapshot_group *own,
                        size_t first)
{
    bool known = tti_snapshot_is_world(own) && !strchr(own->name, '-');
    size_t opening = 0;
    while (first + opening < f->member_count && is_same_group(f->members[first + opening].group, own)) {
        const struct member *m = &f->members[first + opening++];
        known = known && f->hang->nodes[m->node].rank == m->group->rank;
    }
    for (int node = 0; known && node < f->hang->node_count; node++) {
        const int32_t rank = f->hang->nodes[node].rank;
        if (rank >= 0 && rank < own->size && !is_accounted(f, w, &f->members[first], opening, rank)) {
            add_missing(w, node);
        }
    }
    const int seen = (int)opening + w->missing_count;
    w->unseen = own->size > seen ? own->size - seen : 0;
    if (w->missing_count == 0 && w->unseen == 0) {
        find_missing(f, w, own, first);
    }
}

static void add_wait(struct finder *f, int process, const struct tti_snapshot_op *op)
{
    const struct tti_snapshot_group *own = &f->ranks[process].snapshot->groups[op->group];
    const size_t first = first_member(f, own->name);
    const int node_index = member_node(f, own, first);
    const int index = f->hang->wait_count++;
    struct tti_hang_wait *w = &f->hang->waits[index];
    *w = (struct tti_hang_wait){.node_index = node_index, .op = op};
    if (tti_snapshot_is_opening(op)) {
        find_absent(f, w, own, first);
    } else {
        find_missing(f, w, own, first);
    }
    if (w->missing_count == 0 && w->unseen == 0) { /* all have begun and run: it ends soon */
        return;
    }
    int *end = &f->own[node_index];
    while (*end >= 0) {
        end = &f->next[*end];
    }
    *end = index;
    for (int i = 0; i < w->missing_count && i < TTI_HANG_NAMED; i++) {
        f->first[w->missing[i]] = f->waiter_counts[w->missing[i]] == 0 ? index : f->first[w->missing[i]];
        f->waiter_counts[w->missing[i]]++;
    }
}

/* Whether it was running in the earlier snapshot, too. */
static bool is_stuck(const struct tti_snapshot_op *op, const struct tti_snapshot *now,
                     const struct tti_snapshot *before)
{
    if (!before) {
        return true;
    }
    for (size_t i = 0; i < before->op_count; i++) {
        const struct tti_snapshot_op *b = &before->ops[i];
        const bool same = op->number != 0 || tti_snapshot_is_message(op)
                              ? b->number == op->number
                              : b->number == 0 && b->sequence == op->sequence && b->what.lane == op->what.lane &&
                                    b->what.kind == op->what.kind;
        if (tti_snapshot_is_running(b) && same && before->groups[b->group].id == now->groups[op->group].id) {
            return true;
        }
    }
    return false;
}

static int count_running(const struct tti_hang_rank *r)
{
    int n = 0;
    for (size_t i = 0; r->snapshot && i < r->snapshot->op_count; i++) {
        n += tti_snapshot_is_running(&r->snapshot->ops[i]);
    }
    return n;
}

/* An ended process does not wait. */
static void collect_waits(struct finder *f)
{
    for (int i = 0; i < f->count; i++) {
        const struct tti_hang_rank *r = &f->ranks[i];
        for (size_t j = 0; r->snapshot && r->state < TTI_PROC_DUMPING && j < r->snapshot->op_count; j++) {
            const struct tti_snapshot_op *op = &r->snapshot->ops[j];
            const struct tti_snapshot_group *g = &r->snapshot->groups[op->group];
            if (tti_snapshot_is_running(op) && (g->alive || tti_snapshot_is_opening(op)) &&
                is_stuck(op, r->snapshot, r->before)) {
                add_wait(f, i, op);
            }
        }
    }
}

static int compare_suspects(const void *a, const void *b)
{
    const struct tti_hang_suspect *x = a;
    const struct tti_hang_suspect *y = b;
    return x->waiting != y->waiting ? (x->waiting < y->waiting) - (x->waiting > y->waiting)
                                    : (x->node_index > y->node_index) - (x->node_index < y->node_index);
}

static void collect_suspects(struct finder *f)
{
    struct tti_hang *h = f->hang;
    for (int i = 0; i < h->node_count; i++) {
        if (f->waiter_counts[i] > 0 && (f->own[i] < 0 || does_not_run(f->ranks[h->nodes[i].process].state))) {
            h->suspects[h->suspect_count++] = (struct tti_hang_suspect){
                .node_index = i, .waiting = f->waiter_counts[i], .first_wait = &h->waits[f->first[i]]};
        }
    }
    if (h->suspect_count > 0) {
        qsort(h->suspects, (size_t)h->suspect_count, sizeof(*h->suspects), compare_suspects);
    }
}

enum { UNKNOWN = -1, ROOT = -2, DONE = -3 }; /* in `from`, beside nodes */

/* The node for which this node waits, number `edge` over all its waits; -1 = there are fewer. */
static int waited_for(const struct finder *f, int node, int edge)
{
    for (int wait = f->own[node]; wait >= 0; wait = f->next[wait]) {
        const struct tti_hang_wait *w = &f->hang->waits[wait];
        const int count = w->missing_count < TTI_HANG_NAMED ? w->missing_count : TTI_HANG_NAMED;
        if (edge < count) {
            return w->missing[edge];
        }
        edge -= count;
    }
    return -1;
}

/* Depth-first search from `start`; `edges` counts the edges visited of each node. */
static bool find_cycle_from(struct finder *f, int *edges, int start)
{
    struct tti_hang *h = f->hang;
    int at = start;
    f->from[start] = ROOT;
    while (at >= 0) {
        const int to = waited_for(f, at, edges[at]++);
        if (to < 0) {
            const int back = f->from[at];
            f->from[at] = DONE;
            at = back;
        } else if (f->from[to] == UNKNOWN) {
            f->from[to] = at;
            at = to;
        } else if (f->from[to] != DONE) { /* it is on the path: a cycle */
            for (int i = at; i != to; i = f->from[i]) {
                h->cycle_count++;
            }
            int place = ++h->cycle_count;
            for (int i = at; place > 1; i = f->from[i]) {
                h->cycle[--place] = i;
            }
            h->cycle[0] = to;
            return true;
        }
    }
    return false;
}

/* There are waits and no suspect, so the graph has a cycle. */
static void find_cycle(struct finder *f, int *edges)
{
    bool found = false;
    for (int i = 0; i < f->hang->node_count && !found; i++) {
        found = f->own[i] >= 0 && f->from[i] == UNKNOWN && find_cycle_from(f, edges, i);
    }
}

bool tti_hang_find(const struct tti_hang_rank *ranks, int count, struct tti_hang *hang)
{
    size_t running = 1;
    size_t n = 1 + (size_t)count; /* most nodes: a process has one for each group, or one */
    *hang = (struct tti_hang){.wait_count = 0};
    for (int i = 0; i < count; i++) {
        running += (size_t)count_running(&ranks[i]);
        n += ranks[i].snapshot ? (size_t)ranks[i].snapshot->group_count : 0;
    }
    int *numbers = calloc(6 * n + running, sizeof(*numbers));
    struct finder f = {.ranks = ranks, .count = count, .hang = hang, .members = calloc(n, sizeof(*f.members))};
    hang->waits = calloc(running, sizeof(*hang->waits));
    hang->suspects = calloc(n, sizeof(*hang->suspects));
    hang->nodes = calloc(n, sizeof(*hang->nodes));
    hang->cycle = numbers;
    const bool good = numbers && f.members && hang->waits && hang->suspects && hang->nodes;
    if (good) {
        int *edges = numbers + n;
        f.waiter_counts = numbers + 2 * n;
        f.first = numbers + 3 * n;
        f.own = numbers + 4 * n;
        f.from = numbers + 5 * n;
        f.next = numbers + 6 * n;
        for (size_t i = 3 * n; i < 6 * n + running; i++) {
            numbers[i] = UNKNOWN;
        }
        collect_members(&f);
        collect_waits(&f);
        collect_suspects(&f);
        if (hang->suspect_count == 0 && hang->wait_count > 0) {
            find_cycle(&f, edges);
        }
    }
    free(f.members);
    return good;
}

void tti_hang_free(struct tti_hang *hang)
{
    free(hang->nodes);
    free(hang->waits);
    free(hang->suspects);
    free(hang->cycle);
    *hang = (struct tti_hang){.wait_count = 0};
}
