/* SPDX-License-Identifier: BSD-3-Clause */
/* Cost: the groups of all ranks are sorted by name once; each wait looks at the members of its group. */
#include "diag/hang.h"

#include <stdlib.h>
#include <string.h>

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
    int *blamed; /* by how many waits, for each node */
    int *first;  /* of those, the first; -1 = none */
    int *own;    /* the first wait of each; -1 = it does not wait */
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a;
    const struct member *y = b;
    const int by_name = strcmp(x->group->name, y->group->name);
    return by_name != 0 ? by_name : (x->group->rank > y->group->rank) - (x->group->rank < y->group->rank);
}

/* The nodes of a process follow one another, from `first` on. */
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

static bool is_from_root(int kind)
{
    return kind == TUTTI_OP_BROADCAST || kind == TUTTI_OP_SCATTER;
}

/* Whether the operation can be held up by that member. */
static bool needs(const struct tti_snapshot_op *op, const struct tti_snapshot_group *own,
                  const struct tti_snapshot_group *other)
{
    const bool rooted =
        is_from_root(op->what.kind) || op->what.kind == TUTTI_OP_REDUCE || op->what.kind == TUTTI_OP_GATHER;
    if (tti_snapshot_is_message(op)) {
        return op->what.root < 0 || other->rank == op->what.root;
    }
    return !rooted || own->rank == op->what.root || other->rank == op->what.root;
}

static bool does_not_run(enum tti_proc_state state)
{
    return state >= TTI_PROC_STOPPED;
}

static void miss(struct tti_hang_wait *w, int who)
{
    if (w->missing_count < TTI_HANG_NAMED) {
        w->missing[w->missing_count] = who;
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

static void add_wait(struct finder *f, int process, const struct tti_snapshot_op *op)
{
    const struct tti_snapshot_group *own = &f->ranks[process].snapshot->groups[op->group];
    const size_t first = first_member(f, own->name);
    const int who = member_node(f, own, first);
    struct tti_hang_wait *w = &f->hang->waits[f->hang->wait_count];
    *w = (struct tti_hang_wait){.who = who, .op = op};
    const bool message = tti_snapshot_is_message(op);
    int seen = 0;
    for (int pass = 0; pass < 2 && w->missing_count == 0; pass++) { /* who has not come; else who cannot go on */
        w->all_came = pass == 1 && !message;
        seen = 0;
        for (size_t i = first; i < f->member_count && strcmp(f->members[i].group->name, own->name) == 0; i++) {
            const struct member *m = &f->members[i];
            seen++;
            if (m->group == own || !needs(op, own, m->group)) {
                continue;
            }
            const bool late = message || has_begun(f, m, op->what.lane) < op->sequence;
            if (pass == 0 ? late : does_not_run(f->ranks[m->process].state)) {
                miss(w, m->node);
            }
        }
    }
    w->unseen = own->size > seen ? own->size - seen : 0;
    const int index = f->hang->wait_count++;
    f->own[who] = f->own[who] < 0 ? index : f->own[who];
    for (int i = 0; i < w->missing_count && i < TTI_HANG_NAMED; i++) {
        f->first[w->missing[i]] = f->blamed[w->missing[i]] == 0 ? index : f->first[w->missing[i]];
        f->blamed[w->missing[i]]++;
    }
}

/* Whether it was running a moment ago as well. */
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
                              : b->number == 0 && b->sequence == op->sequence && b->what.lane == op->what.lane;
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

/* An ended process waits for nobody. */
static void collect_waits(struct finder *f)
{
    for (int i = 0; i < f->count; i++) {
        const struct tti_hang_rank *r = &f->ranks[i];
        for (size_t j = 0; r->snapshot && r->state < TTI_PROC_DUMPING && j < r->snapshot->op_count; j++) {
            const struct tti_snapshot_op *op = &r->snapshot->ops[j];
            if (tti_snapshot_is_running(op) && r->snapshot->groups[op->group].alive &&
                is_stuck(op, r->snapshot, r->before)) {
                add_wait(f, i, op);
            }
        }
    }
}

static int compare_culprits(const void *a, const void *b)
{
    const struct tti_hang_culprit *x = a;
    const struct tti_hang_culprit *y = b;
    return x->waiting != y->waiting ? (x->waiting < y->waiting) - (x->waiting > y->waiting)
                                    : (x->who > y->who) - (x->who < y->who);
}

static void collect_culprits(struct finder *f)
{
    struct tti_hang *h = f->hang;
    for (int i = 0; i < h->node_count; i++) {
        if (f->blamed[i] > 0 && (f->own[i] < 0 || does_not_run(f->ranks[h->nodes[i].process].state))) {
            h->culprits[h->culprit_count++] =
                (struct tti_hang_culprit){.who = i, .waiting = f->blamed[i], .for_what = &h->waits[f->first[i]]};
        }
    }
    if (h->culprit_count > 0) {
        qsort(h->culprits, (size_t)h->culprit_count, sizeof(*h->culprits), compare_culprits);
    }
}

/* Nobody is to blame alone: from any wait on, the ranks that are waited for lead into a circle. */
static void find_circle(struct finder *f)
{
    struct tti_hang *h = f->hang;
    int at = h->waits[0].who;
    for (int steps = 0; steps < 2 * h->node_count; steps++) { /* the first half leads into it, the second goes round */
        const struct tti_hang_wait *w = f->own[at] >= 0 ? &h->waits[f->own[at]] : NULL;
        if (!w || w->missing_count == 0) {
            h->circle_count = 0;
            return;
        }
        if (steps >= h->node_count) {
            if (h->circle_count > 0 && h->circle[0] == at) {
                return;
            }
            h->circle[h->circle_count++] = at;
        }
        at = w->missing[0];
    }
}

bool tti_hang_find(const struct tti_hang_rank *ranks, int count, struct tti_hang *hang)
{
    size_t running = 1;
    size_t groups = 1;
    *hang = (struct tti_hang){.wait_count = 0};
    for (int i = 0; i < count; i++) {
        running += (size_t)count_running(&ranks[i]);
        groups += ranks[i].snapshot ? (size_t)ranks[i].snapshot->group_count : 0;
    }
    const size_t n = groups; /* at most so many nodes, and one more */
    int *numbers = calloc(4 * n, sizeof(*numbers));
    struct finder f = {.ranks = ranks, .count = count, .hang = hang, .members = calloc(groups, sizeof(*f.members))};
    hang->waits = calloc(running, sizeof(*hang->waits));
    hang->culprits = calloc(n, sizeof(*hang->culprits));
    hang->nodes = calloc(n, sizeof(*hang->nodes));
    hang->circle = numbers;
    const bool good = numbers && f.members && hang->waits && hang->culprits && hang->nodes;
    if (good) {
        f.blamed = numbers + n;
        f.first = numbers + 2 * n;
        f.own = numbers + 3 * n;
        for (size_t i = 0; i < n; i++) {
            f.first[i] = f.own[i] = -1;
        }
        collect_members(&f);
        collect_waits(&f);
        collect_culprits(&f);
        if (hang->culprit_count == 0 && hang->wait_count > 0) {
            find_circle(&f);
        }
    }
    free(f.members);
    return good;
}

void tti_hang_free(struct tti_hang *hang)
{
    free(hang->nodes);
    free(hang->waits);
    free(hang->culprits);
    free(hang->circle);
    *hang = (struct tti_hang){.wait_count = 0};
}
