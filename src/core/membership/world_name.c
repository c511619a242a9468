/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All ranks of a world have to compute the same name without asking one another, since the name is the prefix of their
 * keys in the store. It is the number of worlds that this process has joined there before as that rank ("w0", "w1",
 * ...), with a code of the setting `name` ("w0.811c9dc5"): worlds of each name are counted for themselves.
 *
 * A store is known by a random number under which the rank finds it again, and not by its URL, under which a new store
 * may have taken the place of an old one. So the ranks of a new job meet, however many worlds each of them has made at
 * that address. The store of the job before may also go on, if its server finds the new processes' connections before
 * it has seen the old ones end. Then a new process skips the worlds of the process whose place it takes, and those in
 * which nobody lives.
 *
 * In a store that lasts (file:), every process does so for its first world, since a later job may have more ranks.
 * There a rank that has destroyed its group counts as ended, too: a process of another machine cannot be checked.
 *
 * Cost: two requests for the first world of a store, then one. A process that is not the first one of its rank, or
 * whose store lasts, reads one record of each rank for each world.
 */
#include "core/membership/world_name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/process/fork.h"
#include "core/group/records/hello.h"
#include "core/membership/same_host.h"
#include "store/store.h"

#define NAME_CODE 12 /* "." and eight digits; "": there is no setting `name` */

/* How many worlds of a name this process has joined at a store as a rank. */
struct join_count {
    struct join_count *next;
    uint64_t store;
    uint64_t place; /* a hash of the store's URL: a new store there takes the place of the old one in this list, too */
    char code[NAME_CODE];
    int32_t rank;
    unsigned count;
    bool is_successor; /* another process was this rank at the store before */
};

static struct tti_fork_mutex counts_lock = TTI_FORK_MUTEX_INIT;
static struct join_count *counts;

static void encode_name(const char *setting, char code[NAME_CODE])
{
    code[0] = '\0';
    if (setting[0] != '\0') {
        snprintf(code, NAME_CODE, ".%08x", (unsigned)tti_hash_fold(tti_hash_text(TTI_HASH_EMPTY, setting)));
    }
}

/* The number of the store; *found: another world of the rank has put it, perhaps one of an earlier process. Each rank
 * has its own number, since a store of the application may overwrite what another rank has put. */
static tutti_status know_store(struct tti_store *store, int32_t rank, uint64_t *number, bool *found, tutti_error *error)
{
    char key[24];
    size_t length = 0;
    snprintf(key, sizeof(key), "instance/%d", rank);
    tutti_status status = tti_store_get(store, key, number, sizeof(*number), &length, 0, error);
    *found = status == TUTTI_OK;
    if (status != TUTTI_TIMEOUT) {
        return status;
    }
    if (getrandom(number, sizeof(*number), 0) != sizeof(*number)) {
        return tti_error_system(error, errno, "no random number for a store");
    }
    status = tti_store_set(store, key, number, sizeof(*number), error);
    if (status == TUTTI_BUSY) { /* another thread of this rank joins another world */
        status = tti_store_get(store, key, number, sizeof(*number), &length, 0, error);
    }
    return status;
}

static bool is_of(const struct join_count *c, const struct join_count *joined)
{
    return c->rank == joined->rank && c->store == joined->store;
}

static bool has_name(const struct join_count *c, const struct join_count *joined)
{
    return c->rank == joined->rank && strcmp(c->code, joined->code) == 0;
}

/* The entry of these worlds, new or as it is; NULL: there is no memory. Under the lock. */
static struct join_count *find_or_add(const struct join_count *joined)
{
    struct join_count *same = NULL;  /* of these worlds */
    struct join_count *other = NULL; /* of another name at the same store */
    struct join_count *old = NULL;   /* of an earlier store at the same place */
    for (struct join_count *c = counts; c; c = c->next) {
        same = is_of(c, joined) && has_name(c, joined) ? c : same;
        other = is_of(c, joined) ? c : other;
        old = has_name(c, joined) && c->place == joined->place ? c : old;
    }
    if (same) {
        return same;
    }
    struct join_count *added = old ? old : calloc(1, sizeof(*added));
    if (!added) {
        return NULL;
    }
    struct join_count *const next = old ? old->next : counts;
    const bool is_successor = other ? other->is_successor : joined->is_successor;
    *added = *joined;
    added->next = next;
    added->is_successor = is_successor;
    counts = old ? counts : added;
    return added;
}

/* Counts one more world. *joined becomes the entry, with the number of worlds before. */
static tutti_status count_join(struct join_count *joined, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    tti_fork_mutex_lock(&counts_lock);
    struct join_count *c = find_or_add(joined);
    if (c) {
        *joined = *c;
        c->count++;
    } else {
        status = tti_error_set(error, TUTTI_NO_MEMORY, "no memory to join a job");
    }
    tti_fork_mutex_unlock(&counts_lock);
    return status;
}

/* Whether the process of this record has ended, or has destroyed its group in a store that lasts. */
static bool has_ended(struct tti_store *store, const char *name, int32_t rank, const struct tti_hello *hello)
{
    char key[96];
    char record[1];
    size_t length = 0;
    snprintf(key, sizeof(key), "%s/gone/%d", name, rank);
    return tti_same_host_has_ended(hello) ||
           (tti_store_lasts(store) && tti_store_get(store, key, record, sizeof(record), &length, 0, NULL) == TUTTI_OK);
}

/* Whether an earlier process of this rank has left its record in the world, or all processes that have left one have
 * ended. One that has ended is not enough: it may be a rank of the new job, which the others report. */
static bool is_over(struct tti_store *store, const char *name, int32_t rank, int32_t size)
{
    bool replaced = false;
    int32_t ended = 0;
    int32_t others = 0;
    for (int32_t r = 0; r < size && !replaced; r++) {
        struct tti_hello hello;
        char key[96];
        size_t length = 0;
        snprintf(key, sizeof(key), "%s/hello/%d", name, r);
        if (tti_store_get(store, key, &hello, sizeof(hello), &length, 0, NULL) == TUTTI_OK && length == sizeof(hello)) {
            const bool is_gone = has_ended(store, name, r, &hello);
            replaced = r == rank && is_gone;
            ended += is_gone;
            others += !is_gone;
        }
    }
    return replaced || (ended > 0 && others == 0);
}

tutti_status tti_world_name(struct tti_store *store, const char *url, const char *setting, int32_t rank, int32_t size,
                            bool counted, char *name, size_t capacity, tutti_error *error)
{
    struct join_count joined = {.place = tti_hash_text(TTI_HASH_EMPTY, url), .rank = rank};
    encode_name(setting, joined.code);
    snprintf(name, capacity, "w0%s", joined.code);
    if (!counted) {
        return TUTTI_OK;
    }
    tutti_status status = know_store(store, rank, &joined.store, &joined.is_successor, error);
    joined.is_successor |= tti_store_lasts(store);
    status = status == TUTTI_OK ? count_join(&joined, error) : status;
    const bool skips = joined.is_successor && joined.count == 0;
    snprintf(name, capacity, "w%u%s", joined.count, joined.code);
    while (status == TUTTI_OK && skips && is_over(store, name, rank, size)) {
        status = count_join(&joined, error);
        snprintf(name, capacity, "w%u%s", joined.count, joined.code);
    }
    return status;
}
