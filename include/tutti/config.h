/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/config.h - the configuration of a group.
 *
 * The struct has the fields that most programs need. Everything else is a setting "key=value" from one table with type,
 * bounds, help text and environment variable: tutti_config_key, or `tutti info --config`. The first of these with a
 * value counts: the struct or its settings, the environment, the default. A misspelt variable TUTTI_... has no effect
 * and is no error: `tutti run`, `tutti info` and tutti_group_describe list those that no part of Tutti reads.
 */
#ifndef TUTTI_CONFIG_H
#define TUTTI_CONFIG_H

#include <stddef.h>
#include <tutti/status.h>

TUTTI_BEGIN_DECLS

#define TUTTI_FOREVER    (-1)
#define TUTTI_MAX_LANES  16
#define TUTTI_TIMEOUT_MS 300000 /* the default deadline: 5 minutes */

/**
 * A rendezvous of the caller (a torch Store, etcd, ...). Keys are NUL-terminated, at most 255 bytes; values are bytes.
 * `set` stores a value once. `get` waits up to timeout_ms for the key, writes up to `capacity` bytes and the full
 * length, and returns TUTTI_TIMEOUT if the key did not appear. Any thread may call both. They must stay valid until the
 * group and all groups made from it are destroyed.
 */
typedef struct tutti_store_callbacks {
    uint32_t size;
    uint32_t flags; /* 0 */
    void *user;
    tutti_status (*set)(void *user, const char *key, const void *value, size_t length);
    tutti_status (*get)(void *user, const char *key, void *value, size_t capacity, size_t *length, int64_t timeout_ms);
} tutti_store_callbacks;
TUTTI_STATIC_ASSERT(sizeof(tutti_store_callbacks) == 32, "no padding");

/** Sets every field to 0 and `size` to this library's. NULL is ignored. */
TUTTI_API void tutti_store_callbacks_init(tutti_store_callbacks *callbacks);

/**
 * The configuration of tutti_init and of new groups. Zero means default everywhere. TUTTI_CONFIG(...) and
 * tutti_config_init set `size`. Strings are read during the call only.
 */
typedef struct tutti_config {
    uint32_t size;
    uint32_t flags;       /* 0                                                                                     */
    int32_t rank;         /* this rank, below world_size; 0 if world_size is 0                                     */
    int32_t world_size;   /* 0 = rank and world size come from the environment                                     */
    int32_t lanes;        /* independent ordered streams of operations, 1..16; 0 = 1                               */
    int32_t device_index; /* if `device` is set; -1 = the rank on this host, modulo the number of devices          */
    int64_t timeout_ms;   /* default deadline of every call, init and destroy; 0 = 5 minutes, -1 = none            */
    const char *backend;  /* "auto" (NULL), "shm", "local", ... or one per device type: "cpu:shm,cuda:nccl"        */
    const char *device;   /* of the tensors: "cpu", "cuda", "rocm"; NULL = from the settings                       */
    const char *store;    /* URL of the rendezvous: unix:NAME, tcp://HOST:PORT, file:PATH, memory:NAME; NULL = env */
    const tutti_store_callbacks *store_callbacks; /* instead of `store`                                               */
    void *native_communicator;                    /* the engine's communicator to use (MPI_Comm *)                    */
    const char *const *settings;                  /* "key=value" strings, terminated by NULL                          */
} tutti_config;
TUTTI_STATIC_ASSERT(sizeof(tutti_config) == 80, "no padding");

/** TUTTI_CONFIG(.backend = "shm", .lanes = 2): a configuration for one call, in C. In C++: tutti/tutti.hpp. */
#define TUTTI_CONFIG(...) (&(const tutti_config){.size = (uint32_t)sizeof(tutti_config), __VA_ARGS__})

/** Sets every field to its default and `size` to this library's; for foreign languages. NULL is ignored. */
TUTTI_API void tutti_config_init(tutti_config *config);

/** The type of a setting's value. */
typedef int32_t tutti_config_type;
enum {
    TUTTI_CONFIG_INT = 0,    /* decimal, within minimum..maximum; or one of `choices`, if there are any */
    TUTTI_CONFIG_BYTES = 1,  /* the same with an optional K, M or G */
    TUTTI_CONFIG_BOOL = 2,   /* yes/no, on/off, true/false, 1/0     */
    TUTTI_CONFIG_CHOICE = 3, /* one of `choices`, separated by '|'  */
    TUTTI_CONFIG_STRING = 4,
    TUTTI_CONFIG_LIST = 5, /* "NAME=VALUE;NAME=VALUE"; the setting "KEY.NAME=VALUE" adds a pair to KEY's */
};

/** One row of the table of settings. All strings have static storage. */
typedef struct tutti_config_key_info {
    uint32_t size;
    tutti_config_type type;
    const char *key;         /* "engine.window"                                */
    const char *environment; /* "TUTTI_ENGINE_WINDOW"                          */
    const char *default_value;
    const char *choices; /* CHOICE: the values; LIST: the names, "" = any; numbers: names for some values; else "" */
    const char *help;
    int64_t minimum;
    int64_t maximum;
} tutti_config_key_info;
TUTTI_STATIC_ASSERT(sizeof(tutti_config_key_info) == 64, "no padding");

/** Sets every field to 0 and `size` to this library's. NULL is ignored. */
TUTTI_API void tutti_config_key_info_init(tutti_config_key_info *info);

/** Row `index` (from 0) of the table of settings. The caller sets `info->size`. NOT_FOUND after the last row. */
TUTTI_API tutti_status tutti_config_key(size_t index, tutti_config_key_info *info);

TUTTI_END_DECLS

#endif
