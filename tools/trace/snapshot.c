/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies a recorder's memory, then checks it field by field. The ring is read again for its position, and each group
 * for its identity, to find what the writer has overwritten meanwhile.
 */
#include "trace/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE_MOST   (1 << 20) /* largest plausible group */
#define STATUS_MOST 127

/* Copies an untrusted text: terminated, and without bytes that a terminal or a parser interprets. */
static void take_text(char *to, const char *from, size_t capacity)
{
    size_t length = strnlen(from, capacity - 1);
    for (size_t i = 0; i < length; i++) {
        const bool plain = from[i] >= ' ' && from[i] <= '~' && from[i] != '"' && from[i] != '\\' && from[i] != '\'';
        to[i] = plain ? from[i] : '?';
    }
    to[length] = '\0';
}

static bool take_head(const struct tti_flight_head *h, struct tti_snapshot *s)
{
    if (h->magic != TTI_FLIGHT_MAGIC || h->abi != TTI_FLIGHT_ABI || h->bytes != TTI_FLIGHT_BYTES) {
        return false;
    }
    take_text(s->host, h->host, sizeof(s->host));
    take_text(s->job, h->job, sizeof(s->job));
    s->process = (struct tti_proc_id){.pid = h->owner, .started = h->started, .space = h->space};
    const bool ranked = h->world_size > 0 && h->world_size <= SIZE_MOST && h->rank >= 0 && h->rank < h->world_size;
    s->rank = ranked ? h->rank : -1;
    s->world_size = ranked ? h->world_size : 0;
    s->begun_ns = h->begun_ns;
    s->realtime_offset_ns =
        h->realtime_offset_ns > 0 && h->realtime_offset_ns < INT64_MAX / 2 ? h->realtime_offset_ns : 0;
    s->full = h->full != 0;
    s->unrecorded = h->unrecorded;
    for (int i = 0; i < TTI_FLIGHT_KINDS; i++) {
        const struct tti_flight_counter *c = &h->counters[i];
        s->counters[i] = (struct tti_snapshot_counter){.calls = c->calls, .bytes = c->bytes, .failures = c->failures};
    }
    return true;
}

static void take_group(const struct tti_flight_group *g, uint32_t slot, struct tti_snapshot *s)
{
    if (g->state < TTI_FLIGHT_ALIVE || g->state > TTI_FLIGHT_OPENING || TTI_FLIGHT_SLOT(g->id) != slot ||
        g->size <= 0 || g->size > SIZE_MOST || g->rank < 0 || g->rank >= g->size || g->lanes < 1 ||
        g->lanes > TTI_FLIGHT_LANES || g->world_rank < 0 || g->world_rank > SIZE_MOST) {
        return;
    }
    struct tti_snapshot_group *to = &s->groups[s->group_count++];
    *to = (struct tti_snapshot_group){.rank = g->rank,
                                      .size = g->size,
                                      .world_rank = g->world_rank,
                                      .lanes = g->lanes,
                                      .opened_ns = g->opened_ns,
                                      .alive = g->state == TTI_FLIGHT_ALIVE,
                                      .opening = g->state == TTI_FLIGHT_OPENING,
                                      .id = g->id};
    take_text(to->name, g->name, sizeof(to->name));
    take_text(to->backend, g->backend, sizeof(to->backend));
    for (int l = 0; l < TTI_FLIGHT_LANES; l++) {
        to->last[l] = g->last[l];
        to->running[l] = -1;
    }
}

static int find_group(const struct tti_snapshot *s, uint32_t id)
{
    for (int i = 0; i < s->group_count; i++) {
        if (s->groups[i].id == id) {
            return i;
        }
    }
    return -1;
}

static bool is_possible(const struct tti_snapshot_group *g, const struct tti_flight_op *w)
{
    const bool kind = w->kind >= TUTTI_OP_ALL_REDUCE && w->kind <= TUTTI_OP_RECV;
    return kind && w->dtype < TUTTI_DTYPE_COUNT && w->redop < TUTTI_REDUCE_OP_COUNT && w->lane < g->lanes &&
           w->root >= -1 && w->root < g->size;
}

/* Adds a checked operation, and updates its lane. */
static void add_op(struct tti_snapshot *s, const struct tti_snapshot_op *op)
{
    struct tti_snapshot_group *g = &s->groups[op->group];
    uint64_t *last = &g->last[op->what.lane];
    if (!tti_snapshot_is_message(op)) {
        const bool ended = !tti_snapshot_is_running(op) || (op->number == 0 && op->calls > 0);
        *last = ended && op->sequence > *last ? op->sequence : *last;
        if (tti_snapshot_is_running(op)) {
            g->running[op->what.lane] = (int32_t)s->op_count;
        }
    }
    s->ops[s->op_count++] = *op;
}

static void take_entry(const struct tti_flight_entry *e, uint64_t number, struct tti_snapshot *s)
{
    const int group = e->number == number ? find_group(s, e->group) : -1;
    if (group < 0 || !is_possible(&s->groups[group], &e->what) || e->status < TTI_FLIGHT_RUNNING ||
        e->status > STATUS_MOST) {
        return;
    }
    const bool message = e->what.kind == TUTTI_OP_SEND || e->what.kind == TUTTI_OP_RECV;
    const struct tti_snapshot_op op = {.what = e->what,
                                       .group = group,
                                       .tag = message ? e->tag : 0,
                                       .status = e->status,
                                       .number = number,
                                       .calls = !message && e->tag > 0 ? (uint64_t)e->tag : 1,
                                       .sequence = e->sequence,
                                       .begun_ns = e->begun_ns > 0 ? e->begun_ns : 0,
                                       .ended_ns = e->ended_ns >= e->begun_ns && e->begun_ns > 0 ? e->ended_ns : 0};
    add_op(s, &op);
}

static void take_tally(const struct tti_flight_tally *t, struct tti_snapshot *s)
{
    if (!t->used || t->what.kind >= TTI_FLIGHT_KINDS) {
        return;
    }
    s->counters[t->what.kind].calls += t->ended;
    s->counters[t->what.kind].bytes += t->ended * t->what.bytes;
    const int group = find_group(s, t->group);
    if (group < 0 || t->begun == 0 || !is_possible(&s->groups[group], &t->what)) {
        return;
    }
    const bool running = t->begun == t->ended + 1;
    const struct tti_snapshot_op op = {.what = t->what,
                                       .group = group,
                                       .tag = t->tag,
                                       .status = running ? TTI_FLIGHT_RUNNING : TUTTI_OK,
                                       .calls = t->ended,
                                       .sequence = t->last,
                                       .begun_ns = running && t->since_ns > 0 ? t->since_ns : 0};
    add_op(s, &op);
}

static int compare_sequences(const void *a, const void *b)
{
    const uint64_t x = ((const struct tti_snapshot_op *)a)->sequence;
    const uint64_t y = ((const struct tti_snapshot_op *)b)->sequence;
    return (x > y) - (x < y);
}

/* A group that is being opened is a running operation. */
static void take_opening(const struct tti_flight_group *g, struct tti_snapshot *s)
{
    const int group = g->state == TTI_FLIGHT_OPENING ? find_group(s, g->id) : -1;
    if (group >= 0 && g->opened_by > TUTTI_OP_RECV && g->opened_by < TTI_FLIGHT_KINDS) {
        s->ops[s->op_count++] = (struct tti_snapshot_op){.what = {.kind = (uint8_t)g->opened_by, .root = -1},
                                                         .group = group,
                                                         .status = TTI_FLIGHT_RUNNING,
                                                         .calls = 1,
                                                         .begun_ns = g->opened_ns > 0 ? g->opened_ns : 0};
    }
}

/* A running tally becomes two operations: the ended calls and the running one. Then running collectives get numbers. */
static void settle(struct tti_snapshot *s, size_t tallies_from)
{
    qsort(s->ops + tallies_from, s->op_count - tallies_from, sizeof(*s->ops), compare_sequences);
    const size_t count = s->op_count;
    for (size_t i = tallies_from; i < count; i++) {
        struct tti_snapshot_op *op = &s->ops[i];
        if (tti_snapshot_is_running(op) && op->calls > 0) {
            s->ops[s->op_count] = *op;
            s->ops[s->op_count++].calls = 0;
            op->status = TUTTI_OK;
            op->begun_ns = 0;
        }
    }
    for (size_t i = 0; i < s->op_count; i++) {
        struct tti_snapshot_op *op = &s->ops[i];
        if (tti_snapshot_is_running(op) && !tti_snapshot_is_message(op)) {
            struct tti_snapshot_group *g = &s->groups[op->group];
            g->running[op->what.lane] = (int32_t)i;
            op->calls = 1;
            op->sequence = op->number != 0 && op->sequence != 0 ? op->sequence : g->last[op->what.lane] + 1;
        }
    }
}

/* Entries up to number `gone` may have been overwritten. */
static bool parse(const unsigned char *m, uint64_t gone, struct tti_snapshot *s, const char **why)
{
    const struct tti_flight_group *groups = (const struct tti_flight_group *)(m + TTI_FLIGHT_AT_GROUPS);
    if (!take_head((const struct tti_flight_head *)m, s)) {
        *why = "it is no record of this version of Tutti";
        return false;
    }
    const uint64_t next = ((const struct tti_flight_head *)m)->next;
    s->ops = malloc((TTI_FLIGHT_RING + 2 * TTI_FLIGHT_TALLIES + TTI_FLIGHT_GROUPS) * sizeof(*s->ops));
    if (!s->ops) {
        *why = "there is no memory for it";
        return false;
    }
    for (uint32_t i = 0; i < TTI_FLIGHT_GROUPS; i++) {
        take_group(&groups[i], i, s);
    }
    /* The oldest first. A hostile `next` may wrap: then no entry has the expected number. */
    uint64_t first = next > TTI_FLIGHT_RING ? next - TTI_FLIGHT_RING : 0;
    first = gone > first ? gone : first;
    for (uint64_t i = first; i < next; i++) {
        take_entry((const struct tti_flight_entry *)(m + TTI_FLIGHT_AT_RING) + i % TTI_FLIGHT_RING, i + 1, s);
    }
    const size_t tallies_from = s->op_count;
    for (uint32_t i = 0; i < TTI_FLIGHT_TALLIES; i++) {
        take_tally((const struct tti_flight_tally *)(m + TTI_FLIGHT_AT_TALLIES) + i, s);
    }
    settle(s, tallies_from);
    for (uint32_t i = 0; i < TTI_FLIGHT_GROUPS; i++) {
        take_opening(&groups[i], s);
    }
    struct tti_snapshot_op *fitting = realloc(s->ops, (s->op_count + 1) * sizeof(*s->ops)); /* reports hold many */
    s->ops = fitting ? fitting : s->ops;
    return true;
}

bool tti_snapshot_parse(const void *bytes, size_t size, struct tti_snapshot *s, const char **why)
{
    *s = (struct tti_snapshot){.op_count = 0};
    if (size != TTI_FLIGHT_BYTES) {
        *why = "it is no record of this version of Tutti";
        return false;
    }
    return parse(bytes, 0, s, why);
}

/* Returns fewer bytes at the end of the file or after an error. */
static size_t read_part(int fd, void *bytes, size_t size, size_t at)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t n = pread(fd, (char *)bytes + done, size - done, (off_t)(at + done));
        if (n == 0 || (n < 0 && errno != EINTR)) {
            break;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return done;
}

/* Drops a group whose slot another group has taken during the copy. The state and the fields behind the name may
 * change. */
static void drop_torn_groups(int fd, unsigned char *m)
{
    static const size_t from = offsetof(struct tti_flight_group, id);
    static const size_t to = offsetof(struct tti_flight_group, backend);
    struct tti_flight_group *groups = (struct tti_flight_group *)(m + TTI_FLIGHT_AT_GROUPS);
    for (uint32_t i = 0; i < TTI_FLIGHT_GROUPS; i++) {
        struct tti_flight_group again;
        const size_t at = TTI_FLIGHT_AT_GROUPS + i * sizeof(again);
        if (groups[i].state != TTI_FLIGHT_FREE &&
            (read_part(fd, &again, sizeof(again), at) != sizeof(again) ||
             memcmp((const char *)&again + from, (const char *)&groups[i] + from, to - from) != 0)) {
            groups[i].state = TTI_FLIGHT_FREE;
        }
    }
}

bool tti_snapshot_read(int fd, struct tti_snapshot *s, const char **why)
{
    unsigned char *bytes = aligned_alloc(64, TTI_FLIGHT_BYTES);
    *s = (struct tti_snapshot){.op_count = 0};
    if (!bytes) {
        *why = "there is no memory for it";
        return false;
    }
    uint64_t next = 0;
    bool good = read_part(fd, bytes, TTI_FLIGHT_BYTES, 0) == TTI_FLIGHT_BYTES;
    if (good) {
        drop_torn_groups(fd, bytes);
        good = read_part(fd, &next, sizeof(next), offsetof(struct tti_flight_head, next)) == sizeof(next);
    }
    *why = "it is no record of this version of Tutti";
    good = good && parse(bytes, next > TTI_FLIGHT_RING ? next - TTI_FLIGHT_RING : 0, s, why);
    free(bytes);
    return good;
}

void tti_snapshot_free(struct tti_snapshot *s)
{
    free(s->ops);
    s->ops = NULL;
    s->op_count = 0;
}
