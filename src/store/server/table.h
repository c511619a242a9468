/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table from keys to values or descriptors, as the memory store and the server hold it. It has no lock: the memory
 * store guards it with its own, the server's belongs to one thread.
 */
#ifndef TTI_STORE_SERVER_TABLE_H
#define TTI_STORE_SERVER_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <tutti/status.h>

struct tti_table_entry {
    struct tti_table_entry *next;
    uint64_t hash;
    char *key; /* key_length bytes and a NUL */
    size_t key_length;
    unsigned char *value; /* NULL if length is 0 */
    size_t length;
    int fd;          /* -1: the entry is a value */
    int32_t readers; /* how many more times fd is handed out */
};

/* The last keys that could not be stored because of a resource error: a get of one of them fails at once. */
#define TTI_TABLE_FAILED_KEYS 32
struct tti_table_failed_key {
    uint64_t hash;
    tutti_status status; /* the resource error */
};

struct tti_table {
    struct tti_table_entry **buckets;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
    struct tti_table_failed_key failed_keys[TTI_TABLE_FAILED_KEYS];
    unsigned failure_count; /* since the start; the next one overwrites the oldest */
};

/* All zero is an empty table. */
void tti_table_clear(struct tti_table *table);

/* The entry of a key, or NULL. Valid until the table changes. */
struct tti_table_entry *tti_table_find(const struct tti_table *table, const char *key, size_t key_length);

/* OK, BUSY (the key exists) or NO_MEMORY. */
tutti_status tti_table_insert(struct tti_table *table, const char *key, size_t key_length, const void *value,
                              size_t length);

/* The same for a private descriptor, which the table owns from then on; on failure it stays the caller's. */
tutti_status tti_table_insert_fd(struct tti_table *table, const char *key, size_t key_length, int fd, int32_t readers);

/* Records that the resource error `status` kept this key out / reads that back; OK if there was none. */
void tti_table_fail_key(struct tti_table *table, const char *key, size_t key_length, tutti_status status);
tutti_status tti_table_key_failure(const struct tti_table *table, const char *key, size_t key_length);

/* One of the readers of a descriptor has been served; after the last one the entry is removed. */
void tti_table_served(struct tti_table *table, struct tti_table_entry *entry);

void tti_table_remove(struct tti_table *table, const char *key, size_t key_length);

/* All keys that begin with `prefix`. Cost: a look at each key of the table. */
void tti_table_remove_below(struct tti_table *table, const char *prefix, size_t length);

#endif
