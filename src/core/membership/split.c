/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A split: each rank publishes (colour, key) and reads those of all others. The ranks of one colour, sorted by key and
 * then by rank, form a group that is named by the number of the split (join.c). Ranks that share memory exchange the
 * entries there (backends/shm/split_ring.c), others through the store, n + 2 requests of each rank.
 *
 * A rank that is late finds all entries, also those of ranks that have given up and have gone on to the next split. So
 * every rank decides behind its exchange whether the split is complete or has failed, and the first decision counts for
 * all: a word in the shared memory, or the record `split/N/failed` in the store, which is short for a complete split.
 * Otherwise a late rank would stay a split behind the others.
 */
#include "core/membership/split.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/shm/shm.h"
#include "backends/shm/split_ring.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/wait/polled_wait.h"
#include "core/group/group_state.h"
#include "core/membership/formation_watch.h"
#include "core/membership/join.h"

#define STORE_SILENT_NS INT64_C(4000000000) /* a request that takes as long had no answer */
#define TOGETHER_NS     INT64_C(200000)     /* between calls of ranks that split at about the same time */

struct split_entry {
    int32_t color;
    int32_t key;
    int32_t rank;
};

static int by_key(const void *a, const void *b)
{
    const struct split_entry *x = a;
    const struct split_entry *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->rank < y->rank ? -1 : 1);
}

/* The entries of one split. */
struct split {
    const struct tti_group *parent;
    const tutti_rendezvous *rendezvous;
    struct tti_formation_watch *watch;
    uint32_t serial;
    int64_t timeout_ms;
    int64_t deadline_ns;
    struct split_entry *entries; /* of all ranks */
    int32_t rank;                /* that is awaited */
    bool stored;                 /* its entry was in the store */
};

/* Whether the ranks share memory. */
static bool has_memory(const struct tti_group *parent)
{
    return parent->backend == &tti_backend_shm;
}

static bool find_in_memory(const struct split *s, int32_t rank)
{
    struct split_entry e = {.rank = rank};
    if (!has_memory(s->parent) || !tti_shm_split_find(s->parent->state, rank, s->serial, &e.color, &e.key)) {
        return false;
    }
    s->entries[rank] = e;
    return true;
}

static bool has_put(void *user, int32_t rank)
{
    return find_in_memory(user, rank);
}

static tutti_status get_stored(const struct split *s, int64_t timeout_ms, tutti_error *error)
{
    char key[48];
    size_t length = 0;
    struct split_entry *e = &s->entries[s->rank];
    snprintf(key, sizeof(key), "split/%u/%d", s->serial, s->rank);
    tutti_status status = s->rendezvous->get(s->rendezvous->self, key, e, sizeof(*e), &length, timeout_ms, error);
    if (status == TUTTI_OK && (length != sizeof(*e) || e->rank != s->rank)) {
        status = tti_error_set(error, TUTTI_PROTOCOL,
                               "rank %d has put a record of another size than colour and key into the store", s->rank);
    }
    return status;
}

static tutti_status await_in_memory(void *user, int64_t slice_ms, tutti_error *error)
{
    struct split *s = user;
    (void)error;
    struct split_entry e = {.rank = s->rank};
    if (!s->stored && !tti_shm_split_await(s->parent->state, s->rank, s->serial, &e.color, &e.key,
                                           tti_deadline_ns(tti_now_ns(), slice_ms))) {
        return TUTTI_TIMEOUT;
    }
    if (!s->stored) {
        s->entries[s->rank] = e;
    }
    return TUTTI_OK;
}

/* A rank whose threads split the group at the same time puts its entry into the store. */
static tutti_status poll_store(void *user, tutti_error *error)
{
    struct split *s = user;
    const tutti_status status = tti_formation_poll(s->watch, error);
    const tutti_status found = status == TUTTI_OK ? get_stored(s, 0, error) : TUTTI_TIMEOUT;
    s->stored = found == TUTTI_OK;
    return found == TUTTI_PROTOCOL ? found : status;
}

static tutti_status await_entry(struct split *s, int64_t deadline, tutti_error *error)
{
    s->stored = false;
    if (!has_memory(s->parent)) {
        return get_stored(s, tti_remaining_ms(deadline), error);
    }
    if (find_in_memory(s, s->rank)) {
        return TUTTI_OK;
    }
    const struct tti_polled_wait wait = {
        .attempt = await_in_memory, .poll = poll_store, .user = s, .min_slice_ms = TTI_POLL_MIN_MS};
    return tti_wait_polling(&wait, deadline, error);
}

/* Whether the entries of all ranks are there now. Then this rank has them. */
static bool find_all(struct split *s)
{
    if (!s->entries) {
        return false;
    }
    for (s->rank = 0; s->rank < s->parent->size; s->rank++) {
        if (!find_in_memory(s, s->rank) && get_stored(s, 0, NULL) != TUTTI_OK) {
            return false;
        }
    }
    return true;
}

/* Gets the entries of all ranks. The wait polls for failures meanwhile: a rank that has put its entry may leave. */
static tutti_status collect_entries(struct split *s, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    for (int r = 0; r < s->parent->size && status == TUTTI_OK; r++) {
        s->rank = r;
        tti_error_clear(error);
        status = await_entry(s, s->deadline_ns, error);
        if (status == TUTTI_TIMEOUT && error->suspect < 0) {
            tti_error_set(error, TUTTI_TIMEOUT, "group_split waited %lld ms for rank %d to call it",
                          (long long)s->timeout_ms, r);
            error->suspect = r;
        }
    }
    return status;
}

static tutti_status store_entry(const struct split *s, const struct split_entry *own, tutti_error *error)
{
    char key[48];
    snprintf(key, sizeof(key), "split/%u/%d", s->serial, own->rank);
    return s->rendezvous->set(s->rendezvous->self, key, own, sizeof(*own), error);
}

/* ---- the decision ----------------------------------------------------------------------------------------------- */

#define COMPLETE_BYTES 1 /* of the record of a split that is complete; else it is a struct tti_outcome */
#define KEY_BYTES      48

/* That of the record, where ranks that wait look for a failure (formation_watch.c). */
static void name_decision(const struct split *s, char key[KEY_BYTES])
{
    snprintf(key, KEY_BYTES, "split/%u/failed", s->serial);
}

/* Reads the record of the decision. True: *decision is OK or the cause of the failure. False: *decision says why there
 * is none. */
static bool get_decision(const struct split *s, int64_t timeout_ms, tutti_status *decision, tutti_error *error)
{
    char key[KEY_BYTES];
    struct tti_outcome outcome;
    size_t length = 0;
    name_decision(s, key);
    *decision = s->rendezvous->get(s->rendezvous->self, key, &outcome, sizeof(outcome), &length, timeout_ms, error);
    if (*decision != TUTTI_OK || length == COMPLETE_BYTES) {
        return *decision == TUTTI_OK;
    }
    if (length != sizeof(outcome)) {
        *decision = tti_error_set(error, TUTTI_PROTOCOL, "the record of a split in the store has another size");
        return false;
    }
    *decision = tti_outcome_read(&outcome, s->parent->size, error);
    return true;
}

/* The first record counts. A store of the application may overwrite records, so a rank looks before it puts one. A
 * silent server is not asked to store a failure: that would take its time once more. `mine`: OK, or the failure. */
static tutti_status decide_in_store(const struct split *s, tutti_status mine, tutti_error *error)
{
    char key[KEY_BYTES];
    struct tti_outcome outcome;
    tutti_status decision;
    tutti_error theirs;
    tti_outcome_fill(&outcome, s->parent->rank, "", mine, error);
    name_decision(s, key);
    const int64_t asked_ns = tti_now_ns();
    bool decided = get_decision(s, 0, &decision, &theirs);
    if (!decided && decision == TUTTI_TIMEOUT && (mine == TUTTI_OK || tti_now_ns() - asked_ns < STORE_SILENT_NS)) {
        const size_t bytes = mine == TUTTI_OK ? COMPLETE_BYTES : sizeof(outcome);
        const tutti_status put = s->rendezvous->set(s->rendezvous->self, key, &outcome, bytes, &theirs);
        decided = put != TUTTI_OK && get_decision(s, 0, &decision, &theirs);
        decision = decided || put == TUTTI_BUSY ? decision : put; /* BUSY: another rank was first */
    }
    if (mine != TUTTI_OK) {
        return decided && decision == TUTTI_OK ? TUTTI_OK : mine;
    }
    /* If the store has ended, no rank decides any more, and the ranks that still need it find the cause. */
    if (decision == TUTTI_OK || (!decided && decision == TUTTI_PEER_LEFT)) {
        return TUTTI_OK;
    }
    *error = theirs;
    return decision;
}

/* Decides whether the split is complete, or takes the decision of another rank. `mine`: OK if this rank has all
 * entries, else its failure, with its sentence in *error. */
static tutti_status decide(struct split *s, tutti_status mine, tutti_error *error)
{
    const enum tti_split_decision decision = has_memory(s->parent)
                                                 ? tti_shm_split_decide(s->parent->state, s->serial, mine == TUTTI_OK)
                                                 : TTI_SPLIT_DECIDED_LATER;
    if (decision == TTI_SPLIT_COMPLETE) {
        return TUTTI_OK;
    }
    if (decision == TTI_SPLIT_FAILED && mine == TUTTI_OK) { /* the rank that has decided puts its record now */
        if (get_decision(s, tti_remaining_ms(s->deadline_ns), &mine, error)) {
            return mine;
        }
        if (mine == TUTTI_TIMEOUT && error->suspect < 0) {
            tti_error_set(error, TUTTI_TIMEOUT, "another rank has given up group_split before this rank called it");
        }
    }
    /* The word is about a later split. If it said before that this one had failed, there is a record; else it may have
     * said that it was complete. */
    tutti_status recorded;
    tutti_error theirs;
    if (decision == TTI_SPLIT_DECIDED_LATER && mine != TUTTI_OK && has_memory(s->parent) &&
        !get_decision(s, 0, &recorded, &theirs) && find_all(s)) {
        return TUTTI_OK;
    }
    return decide_in_store(s, mine, error);
}

/* Gets the entries of all ranks if they call at about the same time, without preparing for one that is late or
 * fails. */
static bool find_together(struct split *s)
{
    const int64_t limit_ns = tti_now_ns() + TOGETHER_NS;
    const int64_t until_ns = limit_ns < s->deadline_ns ? limit_ns : s->deadline_ns;
    bool found = true;
    for (int32_t r = 0; r < s->parent->size && found; r++) {
        struct split_entry *e = &s->entries[r];
        e->rank = r;
        found = tti_shm_split_await(s->parent->state, r, s->serial, &e->color, &e->key, until_ns);
    }
    return found;
}

/* Puts the own entry and reads those of all ranks. A rank that cannot (`ready` is the cause) reports it to the others.
 * `alone`: no other thread of this rank splits the group. */
static tutti_status exchange_entries(struct split *s, bool alone, const struct split_entry *own, tutti_status ready,
                                     tutti_error *error)
{
    const bool in_memory = ready == TUTTI_OK && alone && has_memory(s->parent);
    bool found = false;
    if (in_memory) {
        tti_shm_split_put(s->parent->state, s->serial, own->color, own->key);
        found = find_together(s);
        if (found && tti_shm_split_decide(s->parent->state, s->serial, true) == TTI_SPLIT_COMPLETE) {
            return tti_error_clear(error);
        }
    }
    const struct tti_group *parent = s->parent;
    struct tti_rendezvous rendezvous;
    struct tti_formation_watch watch = {.parent = parent, .count = parent->size};
    char name[24];
    tti_rendezvous_open(&rendezvous, parent->rendezvous.store, parent->rendezvous.name);
    snprintf(name, sizeof(name), "split/%u", s->serial);
    tti_formation_begin(&watch, &rendezvous, parent->size, name);
    watch.has_offered = ready == TUTTI_OK ? has_put : NULL;
    watch.offers = s;
    s->rendezvous = &rendezvous.table;
    s->watch = &watch;
    tutti_status mine = ready == TUTTI_OK && !in_memory ? store_entry(s, own, error) : ready;
    mine = mine == TUTTI_OK && !found ? collect_entries(s, error) : mine;
    tutti_status status = decide(s, mine, error);
    if (status == TUTTI_OK && mine != TUTTI_OK && !find_all(s)) {
        status = mine;
    }
    tti_rendezvous_close(&rendezvous);
    s->rendezvous = NULL;
    s->watch = NULL;
    return status == TUTTI_OK ? tti_error_clear(error) : status;
}

/* Sorts the entries by key, then by rank. Lists the ranks of a colour; returns their number, and this rank's place in
 * *own. */
static int32_t list_color(const struct split *s, int32_t color, int32_t *ranks, int32_t *own)
{
    int32_t count = 0;
    *own = -1;
    qsort(s->entries, (size_t)s->parent->size, sizeof(*s->entries), by_key);
    for (int i = 0; i < s->parent->size; i++) {
        if (s->entries[i].color == color) {
            *own = s->entries[i].rank == s->parent->rank ? count : *own;
            ranks[count++] = s->entries[i].rank;
        }
    }
    return count;
}

tutti_status tti_join_split(struct tti_group *parent, int32_t color, int32_t key, const tutti_config *config,
                            tutti_group **group, tutti_error *error)
{
    if (strcmp(parent->backend->name, "null") == 0 && parent->size > 1) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "group_split: the null backend cannot ask the other ranks for their colours; use "
                             "tutti_group_create");
    }
    tutti_error unused;
    struct tti_group_plan plan;
    error = error ? error : &unused;
    tutti_status status = tti_join_prepare(parent, TUTTI_OP_SPLIT, config, &plan, error);
    if (status != TUTTI_OK) {
        return status;
    }
    struct split s = {.parent = parent,
                      .timeout_ms = plan.watch.timeout_ms,
                      .deadline_ns = plan.watch.deadline_ns,
                      .entries = calloc((size_t)parent->size, sizeof(*s.entries))};
    int32_t *ranks = calloc((size_t)parent->size, sizeof(*ranks));
    pthread_mutex_lock(&parent->names_lock);
    s.serial = parent->splits++;
    const bool alone = parent->splitting++ == 0;
    pthread_mutex_unlock(&parent->names_lock);
    const struct split_entry own_entry = {.color = color, .key = key, .rank = parent->rank};
    if (!s.entries || !ranks) {
        status = tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a split of %d ranks", parent->size);
    }
    status = exchange_entries(&s, alone, &own_entry, status, error);
    pthread_mutex_lock(&parent->names_lock);
    parent->splitting--;
    pthread_mutex_unlock(&parent->names_lock);
    if (status == TUTTI_OK && color == -1) {
        *group = NULL;
    } else if (status == TUTTI_OK) {
        int32_t own;
        if (tti_remaining_ms(s.deadline_ns) == 0) { /* all have called in time: what is there already is found */
            plan.watch.deadline_ns = tti_deadline_ns(tti_now_ns(), 1);
        }
        const int32_t count = list_color(&s, color, ranks, &own);
        status = tti_join_part(&plan, ranks, count, own, s.serial, group, error);
    }
    tti_settings_release(plan.settings);
    free(s.entries);
    free(ranks);
    return status;
}
