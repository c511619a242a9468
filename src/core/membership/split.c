/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A split: each rank publishes (colour, key) and reads those of all others. The ranks of one colour, sorted by key and
 * then by rank, form a group that is named by the number of the split (join.c). Ranks that share memory exchange the
 * entries there (backends/shm/split_ring.c), others through the store, n gets on each rank.
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

/* Puts the own entry where the others find it. */
static tutti_status put_entry(const struct split *s, const struct split_entry *own, bool alone, tutti_error *error)
{
    char key[48];
    if (alone && has_memory(s->parent)) {
        tti_shm_split_put(s->parent->state, s->serial, own->color, own->key);
        return TUTTI_OK;
    }
    snprintf(key, sizeof(key), "split/%u/%d", s->serial, own->rank);
    return s->rendezvous->set(s->rendezvous->self, key, own, sizeof(*own), error);
}

/* Puts the own entry and reads those of all ranks. A rank that cannot (`ready` is the cause) reports it to the others.
 * `alone`: no other thread of this rank splits the group. */
static tutti_status exchange_entries(struct split *s, bool alone, const struct split_entry *own, tutti_status ready,
                                     tutti_error *error)
{
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
    tutti_status status = ready == TUTTI_OK ? put_entry(s, own, alone, error) : ready;
    if (status == TUTTI_OK) {
        status = collect_entries(s, error);
    } else {
        struct tti_outcome outcome;
        tti_outcome_fill(&outcome, parent->rank, "", status, error);
        tti_formation_abort(&watch, &outcome);
    }
    tti_rendezvous_close(&rendezvous);
    s->rendezvous = NULL;
    s->watch = NULL;
    return status;
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
    tutti_status status = tti_join_prepare(parent, config, &plan, error);
    if (status != TUTTI_OK) {
        return status;
    }
    struct split s = {.parent = parent,
                      .timeout_ms = plan.opening_ms,
                      .deadline_ns = tti_deadline_ns(tti_now_ns(), plan.opening_ms),
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
        const int64_t left = tti_remaining_ms(s.deadline_ns);
        plan.opening_ms = left == 0 ? 1 : left; /* all have called in time: what is there already is found */
        const int32_t count = list_color(&s, color, ranks, &own);
        status = tti_join_part(&plan, ranks, count, own, s.serial, group, error);
    }
    tti_settings_release(plan.settings);
    free(s.entries);
    free(ranks);
    return status;
}
