/* SPDX-License-Identifier: BSD-3-Clause */
/* A chained hash table that doubles when it is full. A rendezvous has tens of keys per rank, and most are removed
 * again. */
#include "store/server/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/fork_safety.h"

static uint64_t hash_of(const char *key, size_t length)
{
    return tti_hash_bytes(TTI_HASH_EMPTY, key, length);
}

static void free_entry(struct tti_table_entry *entry)
{
    tti_private_close(entry->fd);
    free(entry->key);
    free(entry->value);
    free(entry);
}

void tti_table_clear(struct tti_table *table)
{
    for (size_t i = 0; i < table->capacity; i++) {
        for (struct tti_table_entry *entry = table->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            free_entry(entry);
        }
    }
    free(table->buckets);
    memset(table, 0, sizeof(*table));
}

struct tti_table_entry *tti_table_find(const struct tti_table *table, const char *key, size_t key_length)
{
    if (table->capacity == 0) {
        return NULL;
    }
    uint64_t hash = hash_of(key, key_length);
    struct tti_table_entry *entry = table->buckets[hash & (table->capacity - 1)];
    while (entry &&
           (entry->hash != hash || entry->key_length != key_length || memcmp(entry->key, key, key_length) != 0)) {
        entry = entry->next;
    }
    return entry;
}

static tutti_status grow(struct tti_table *table)
{
    size_t capacity = table->capacity ? table->capacity * 2 : 64;
    struct tti_table_entry **buckets = calloc(capacity, sizeof(struct tti_table_entry *));
    if (!buckets) {
        return TUTTI_NO_MEMORY;
    }
    for (size_t i = 0; i < table->capacity; i++) {
        for (struct tti_table_entry *entry = table->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            struct tti_table_entry **bucket = &buckets[entry->hash & (capacity - 1)];
            entry->next = *bucket;
            *bucket = entry;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->capacity = capacity;
    return TUTTI_OK;
}

/* Adds an entry without content. */
static tutti_status add(struct tti_table *table, const char *key, size_t key_length, struct tti_table_entry **added)
{
    if (tti_table_find(table, key, key_length)) {
        return TUTTI_BUSY;
    }
    if (table->count == table->capacity && grow(table) != TUTTI_OK) {
        return TUTTI_NO_MEMORY;
    }
    struct tti_table_entry *entry = calloc(1, sizeof(*entry));
    char *copy = malloc(key_length + 1);
    if (!entry || !copy) {
        free(entry);
        free(copy);
        return TUTTI_NO_MEMORY;
    }
    memcpy(copy, key, key_length);
    copy[key_length] = '\0';
    entry->hash = hash_of(key, key_length);
    entry->key = copy;
    entry->key_length = key_length;
    entry->fd = -1;
    struct tti_table_entry **bucket = &table->buckets[entry->hash & (table->capacity - 1)];
    entry->next = *bucket;
    *bucket = entry;
    table->count++;
    *added = entry;
    return TUTTI_OK;
}

tutti_status tti_table_insert(struct tti_table *table, const char *key, size_t key_length, const void *value,
                              size_t length)
{
    unsigned char *copy = NULL;
    if (length) {
        copy = malloc(length);
        if (!copy) {
            return TUTTI_NO_MEMORY;
        }
        memcpy(copy, value, length);
    }
    struct tti_table_entry *entry;
    tutti_status status = add(table, key, key_length, &entry);
    if (status != TUTTI_OK) {
        free(copy);
        return status;
    }
    entry->value = copy;
    entry->length = length;
    return TUTTI_OK;
}

tutti_status tti_table_insert_fd(struct tti_table *table, const char *key, size_t key_length, int fd, int32_t readers)
{
    struct tti_table_entry *entry;
    tutti_status status = add(table, key, key_length, &entry);
    if (status == TUTTI_OK) {
        entry->fd = fd;
        entry->readers = readers;
    }
    return status;
}

/* Keeps the hash only: recording must not need memory. Another key with the same 64-bit hash would fail, too; that is
 * too rare to matter. */
void tti_table_fail_key(struct tti_table *table, const char *key, size_t key_length, tutti_status status)
{
    table->failed_keys[table->failure_count++ % TTI_TABLE_FAILED_KEYS] =
        (struct tti_table_failed_key){.hash = hash_of(key, key_length), .status = status};
}

tutti_status tti_table_key_failure(const struct tti_table *table, const char *key, size_t key_length)
{
    const unsigned count = table->failure_count < TTI_TABLE_FAILED_KEYS ? table->failure_count : TTI_TABLE_FAILED_KEYS;
    const uint64_t hash = count > 0 ? hash_of(key, key_length) : 0;
    for (unsigned i = 0; i < count; i++) {
        if (table->failed_keys[i].hash == hash) {
            return table->failed_keys[i].status;
        }
    }
    return TUTTI_OK;
}

void tti_table_served(struct tti_table *table, struct tti_table_entry *entry)
{
    if (--entry->readers == 0) {
        tti_table_remove(table, entry->key, entry->key_length);
    }
}

void tti_table_remove(struct tti_table *table, const char *key, size_t key_length)
{
    struct tti_table_entry *entry = tti_table_find(table, key, key_length);
    if (!entry) {
        return;
    }
    struct tti_table_entry **link = &table->buckets[entry->hash & (table->capacity - 1)];
    while (*link != entry) {
        link = &(*link)->next;
    }
    *link = entry->next;
    table->count--;
    free_entry(entry);
}

void tti_table_remove_below(struct tti_table *table, const char *prefix, size_t length)
{
    for (size_t i = 0; i < table->capacity; i++) {
        struct tti_table_entry **link = &table->buckets[i];
        while (*link) {
            struct tti_table_entry *entry = *link;
            if (entry->key_length >= length && memcmp(entry->key, prefix, length) == 0) {
                *link = entry->next;
                table->count--;
                free_entry(entry);
            } else {
                link = &entry->next;
            }
        }
    }
}
