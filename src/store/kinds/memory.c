/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory:NAME - a table inside this process. All stores that open the same name share one table, which ends with the
 * last of them. A get waits on a condition variable that every change wakes: a rendezvous has few waiters and few
 * changes.
 */
#include "store/kinds/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "store/fork_safety.h"
#include "store/server/table.h"

struct shared_table {
    struct shared_table *next; /* next and stores: under the process lock */
    int stores;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tti_table table;
    char name[TTI_STORE_URL_MAX + 1];
};

struct memory_store {
    struct tti_store base;
    struct shared_table *shared;
};

/* By a hash of the name: a program may have thousands of groups that it opened by themselves. */
#define BUCKETS 256
static struct shared_table *tables[BUCKETS];

static void forget_tables(void)
{
    memset(tables, 0, sizeof(tables));
}

static struct shared_table **bucket_of(const char *name)
{
    return &tables[tti_hash_fold(tti_hash_text(TTI_HASH_EMPTY, name)) % BUCKETS];
}

static struct shared_table *shared_of(struct tti_store *store)
{
    return ((struct memory_store *)store)->shared;
}

static tutti_status memory_set(struct tti_store *store, const char *key, const void *value, size_t length,
                               tutti_error *error)
{
    struct shared_table *shared = shared_of(store);
    pthread_mutex_lock(&shared->lock);
    tutti_status status = tti_table_insert(&shared->table, key, strlen(key), value, length);
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
    if (status == TUTTI_BUSY) {
        return tti_store_error_exists(store, key, error);
    }
    return status == TUTTI_OK ? TUTTI_OK : tti_store_error_no_memory(error);
}

/* Waits for the key with the table locked; NULL when the deadline has passed. */
static struct tti_table_entry *await(struct shared_table *shared, const char *key, int64_t timeout_ms)
{
    int64_t deadline = tti_deadline_ns(tti_now_ns(), timeout_ms);
    struct timespec until = {.tv_sec = (time_t)(deadline / 1000000000), .tv_nsec = (long)(deadline % 1000000000)};
    struct tti_table_entry *entry;
    int waited = 0;
    while (!(entry = tti_table_find(&shared->table, key, strlen(key))) && timeout_ms != 0 && waited == 0) {
        if (deadline == TTI_NEVER) {
            pthread_cond_wait(&shared->changed, &shared->lock);
        } else {
            waited = pthread_cond_timedwait(&shared->changed, &shared->lock, &until);
        }
    }
    return entry ? entry : tti_table_find(&shared->table, key, strlen(key));
}

static tutti_status memory_get(struct tti_store *store, const char *key, void *value, size_t capacity, size_t *length,
                               int64_t timeout_ms, tutti_error *error)
{
    struct shared_table *shared = shared_of(store);
    pthread_mutex_lock(&shared->lock);
    struct tti_table_entry *entry = await(shared, key, timeout_ms);
    bool found = entry != NULL;
    bool is_value = found && entry->fd < 0;
    size_t full = is_value ? entry->length : 0;
    if (full && capacity) {
        memcpy(value, entry->value, full < capacity ? full : capacity);
    }
    pthread_mutex_unlock(&shared->lock);
    if (!found) {
        return tti_store_error_timeout(store, key, timeout_ms, error);
    }
    if (!is_value) {
        return tti_store_error_content(store, key, error);
    }
    *length = full;
    return full <= capacity ? TUTTI_OK : tti_store_error_too_long(store, key, full, capacity, error);
}

static tutti_status memory_remove(struct tti_store *store, const char *key, tutti_error *error)
{
    (void)error;
    struct shared_table *shared = shared_of(store);
    pthread_mutex_lock(&shared->lock);
    tti_table_remove(&shared->table, key, strlen(key));
    pthread_mutex_unlock(&shared->lock);
    return TUTTI_OK;
}

static void memory_remove_below(struct tti_store *store, const char *prefix)
{
    struct shared_table *shared = shared_of(store);
    pthread_mutex_lock(&shared->lock);
    tti_table_remove_below(&shared->table, prefix, strlen(prefix));
    pthread_mutex_unlock(&shared->lock);
}

static tutti_status memory_put_fd(struct tti_store *store, const char *key, int fd, int32_t readers, tutti_error *error)
{
    int copy = tti_private_adopt(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (copy < 0) {
        return tti_error_system(error, errno, "descriptor %d cannot be duplicated for the key \"%s\"", fd, key);
    }
    struct shared_table *shared = shared_of(store);
    pthread_mutex_lock(&shared->lock);
    tutti_status status = tti_table_insert_fd(&shared->table, key, strlen(key), copy, readers);
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
    if (status == TUTTI_OK) {
        return TUTTI_OK;
    }
    tti_private_close(copy);
    return status == TUTTI_BUSY ? tti_store_error_exists(store, key, error) : tti_store_error_no_memory(error);
}

static tutti_status memory_get_fd(struct tti_store *store, const char *key, int *fd, int64_t timeout_ms,
                                  tutti_error *error)
{
    struct shared_table *shared = shared_of(store);
    pthread_mutex_lock(&shared->lock);
    struct tti_table_entry *entry = await(shared, key, timeout_ms);
    bool found = entry != NULL;
    bool is_fd = found && entry->fd >= 0;
    int copy = -1;
    int code = 0;
    if (is_fd) {
        copy = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
        code = errno;
        if (copy >= 0) {
            tti_table_served(&shared->table, entry);
        }
    }
    pthread_mutex_unlock(&shared->lock);
    if (!found) {
        return tti_store_error_timeout(store, key, timeout_ms, error);
    }
    if (!is_fd) {
        return tti_store_error_content(store, key, error);
    }
    if (copy < 0) {
        return tti_error_system(error, code, "the descriptor \"%s\" cannot be duplicated", key);
    }
    *fd = copy;
    return TUTTI_OK;
}

/* Each store that has opened the table serves it: the table ends with the last of them. */
static bool memory_served_here(const struct tti_store *store)
{
    (void)store;
    return true;
}

static void memory_close(struct tti_store *store)
{
    struct shared_table *shared = shared_of(store);
    tti_stores_lock();
    bool last = --shared->stores == 0;
    if (last) {
        struct shared_table **link = bucket_of(shared->name);
        while (*link != shared) {
            link = &(*link)->next;
        }
        *link = shared->next;
    }
    tti_stores_unlock();
    if (last) {
        tti_table_clear(&shared->table);
        pthread_cond_destroy(&shared->changed);
        pthread_mutex_destroy(&shared->lock);
        free(shared);
    }
}

static const struct tti_store_kind memory_kind = {
    .set = memory_set,
    .get = memory_get,
    .remove = memory_remove,
    .remove_below = memory_remove_below,
    .put_fd = memory_put_fd,
    .get_fd = memory_get_fd,
    .served_here = memory_served_here,
    .close = memory_close,
};

/* The table of that name, made if there is none; called with the process lock held. */
static struct shared_table *find_or_make(const char *name)
{
    struct shared_table **bucket = bucket_of(name);
    struct shared_table *shared = *bucket;
    while (shared && strcmp(shared->name, name) != 0) {
        shared = shared->next;
    }
    if (shared) {
        return shared;
    }
    shared = calloc(1, sizeof(*shared));
    if (!shared) {
        return NULL;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&shared->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&shared->lock, NULL);
    strcpy(shared->name, name); /* store.c has checked the length */
    shared->next = *bucket;
    *bucket = shared;
    return shared;
}

tutti_status tti_store_open_memory(const char *rest, struct tti_store **store, tutti_error *error)
{
    struct memory_store *memory = calloc(1, sizeof(*memory));
    if (!memory) {
        return tti_store_error_no_memory(error);
    }
    tti_stores_lock();
    tti_stores_forget_after_fork(forget_tables);
    memory->shared = find_or_make(rest);
    if (memory->shared) {
        memory->shared->stores++;
    }
    tti_stores_unlock();
    if (!memory->shared) {
        free(memory);
        return tti_store_error_no_memory(error);
    }
    memory->base.kind = &memory_kind;
    *store = &memory->base;
    return TUTTI_OK;
}
