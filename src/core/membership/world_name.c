/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All ranks of a world have to compute the same name without asking one another, since the name is the prefix of their
 * keys in the store. It is the number of worlds that this process has joined there before as that rank ("w0", "w1",
 * ...), with a code of the setting `name` ("w0.811c9dc5"): worlds of each name are counted for themselves.
 *
 * A store is known by a random number under which the rank finds it again, and not by its URL, under which a new store
 * may have taken the place of an old one. So the ranks of a new job meet, however many worlds each of them has made at
 * that address. The store of the job before may also go on, if its server finds the new processes' connections before
 * it has seen the old ones end. Then a new process skips the worlds in which a process that has ended has left a
 * record.
 *
 * Cost: two requests for the first world of a store, then one. A process that is not the first one of its rank reads
 * one record of each rank for each world.
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
    char code[NAME_CODE];
    int32_t rank;
    unsigned count;
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

static tutti_status count_join(uint64_t store, const char *code, int32_t rank, unsigned *count, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    tti_fork_mutex_lock(&counts_lock);
    struct join_count *c = counts;
    while (c && (c->rank != rank || c->store != store || strcmp(c->code, code) != 0)) {
        c = c->next;
    }
    if (!c && (c = calloc(1, sizeof(*c)))) {
        snprintf(c->code, sizeof(c->code), "%s", code);
        c->store = store;
        c->rank = rank;
        c->next = counts;
        counts = c;
    }
    if (c) {
        *count = c->count++;
    } else {
        status = tti_error_set(error, TUTTI_NO_MEMORY, "no memory to join a job");
    }
    tti_fork_mutex_unlock(&counts_lock);
    return status;
}

/* Whether a process that has joined this world has ended. */
static bool is_over(struct tti_store *store, const char *name, int32_t size)
{
    bool over = false;
    for (int32_t r = 0; r < size && !over; r++) {
        struct tti_hello hello;
        char key[96];
        size_t length = 0;
        snprintf(key, sizeof(key), "%s/hello/%d", name, r);
        over = tti_store_get(store, key, &hello, sizeof(hello), &length, 0, NULL) == TUTTI_OK &&
               length == sizeof(hello) && tti_same_host_has_ended(&hello);
    }
    return over;
}

tutti_status tti_world_name(struct tti_store *store, const char *setting, int32_t rank, int32_t size, bool counted,
                            char *name, size_t capacity, tutti_error *error)
{
    char code[NAME_CODE];
    uint64_t number = 0;
    unsigned count = 0;
    bool found = false;
    encode_name(setting, code);
    snprintf(name, capacity, "w%u%s", count, code);
    tutti_status status = counted ? know_store(store, rank, &number, &found, error) : TUTTI_OK;
    if (counted && status == TUTTI_OK) {
        status = count_join(number, code, rank, &count, error);
    }
    const bool is_successor = found && count == 0;
    snprintf(name, capacity, "w%u%s", count, code);
    while (status == TUTTI_OK && is_successor && is_over(store, name, size)) {
        status = count_join(number, code, rank, &count, error);
        snprintf(name, capacity, "w%u%s", count, code);
    }
    return status;
}
