/* SPDX-License-Identifier: BSD-3-Clause */
/* A table between processes, as the caller's own rendezvous. */
#ifndef TESTS_API_GROUP_STORE_TABLE_H
#define TESTS_API_GROUP_STORE_TABLE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <tutti/status.h>

struct table {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int used;
    int refused; /* second values for a key */
    struct entry {
        char key[256];
        char value[2048];
        size_t length;
    } entries[512];
};

static inline struct entry *table_find(struct table *t, const char *key)
{
    for (int i = 0; i < t->used; i++) {
        if (strcmp(t->entries[i].key, key) == 0) {
            return &t->entries[i];
        }
    }
    return NULL;
}

static inline tutti_status table_set(void *user, const char *key, const void *value, size_t length)
{
    struct table *t = user;
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&t->lock);
    if (table_find(t, key)) {
        t->refused++;
        status = TUTTI_BUSY;
    } else if (t->used == 512 || strlen(key) > 255 || length > sizeof(t->entries[0].value)) {
        status = TUTTI_NO_RESOURCE;
    } else {
        struct entry *e = &t->entries[t->used++];
        strcpy(e->key, key);
        memcpy(e->value, value, length);
        e->length = length;
        pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

static inline tutti_status table_get(void *user, const char *key, void *value, size_t capacity, size_t *length,
                                     int64_t timeout_ms)
{
    struct table *t = user;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms < 0 ? 1000000 : timeout_ms / 1000;
    until.tv_nsec += timeout_ms < 0 ? 0 : timeout_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&t->lock);
    struct entry *e = table_find(t, key);
    for (int code = 0; !e && code == 0; e = table_find(t, key)) {
        code = pthread_cond_timedwait(&t->changed, &t->lock, &until);
    }
    if (e) {
        *length = e->length;
        memcpy(value, e->value, e->length < capacity ? e->length : capacity);
    }
    pthread_mutex_unlock(&t->lock);
    return e ? TUTTI_OK : TUTTI_TIMEOUT;
}

static inline struct table *table_make(void)
{
    struct table *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&t->lock, &mutex);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &condition);
    return t;
}

#endif
