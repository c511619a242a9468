/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of the backends nccl and rccl without the core. Each rank is a process, forked before the device's driver or
 * the library is in use. The rendezvous is a table in shared memory. The libraries are the doubles of tests/doubles.
 */
#ifndef TESTS_UNIT_BACKENDS_NCCL_NCCL_SUPPORT_H
#define TESTS_UNIT_BACKENDS_NCCL_NCCL_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format off: cmocka needs the ones above first */
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/nccl/nccl.h"
#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"
#include "tensor/dtype.h"

enum { MOST_RANKS = 4, ENTRIES = 96, VALUE = 4096, TABLES = 2, WATCHDOG_SECONDS = 500 };

/* ---- the rendezvous ---------------------------------------------------------------------------------------------- */

struct entry {
    _Atomic int32_t there; /* release: after the rest; acquire: before it is read */
    size_t length;
    char key[48];
    unsigned char value[VALUE];
};

struct rendezvous_table {
    _Atomic bool is_patient; /* gets wait beyond their deadlines, so that the library's own waits time out */
    _Atomic uint32_t used;
    _Atomic int32_t arrived; /* for pass_all */
    struct entry entries[ENTRIES];
};

static tutti_status table_set(void *self, const char *key, const void *value, size_t length, tutti_error *error)
{
    struct rendezvous_table *m = self;
    const uint32_t i = atomic_fetch_add(&m->used, 1);
    if (i >= ENTRIES || length > VALUE) {
        return tti_error_set(error, TUTTI_NO_RESOURCE, "the rendezvous table is full");
    }
    snprintf(m->entries[i].key, sizeof(m->entries[i].key), "%s", key);
    memcpy(m->entries[i].value, value, length);
    m->entries[i].length = length;
    atomic_store_explicit(&m->entries[i].there, 1, memory_order_release);
    return TUTTI_OK;
}

static tutti_status table_get(void *self, const char *key, void *value, size_t capacity, size_t *length,
                              int64_t timeout_ms, tutti_error *error)
{
    struct rendezvous_table *m = self;
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), timeout_ms);
    do {
        for (uint32_t i = 0; i < ENTRIES; i++) {
            struct entry *e = &m->entries[i];
            if (atomic_load_explicit(&e->there, memory_order_acquire) && strcmp(e->key, key) == 0) {
                *length = e->length;
                memcpy(value, e->value, e->length < capacity ? e->length : capacity);
                return TUTTI_OK;
            }
        }
        usleep(1000);
    } while (atomic_load(&m->is_patient) || tti_now_ns() < deadline);
    return tti_error_set(error, TUTTI_TIMEOUT, "the key %s has not been set", key);
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

struct rank {
    int32_t rank;
    int32_t size;
    int32_t lanes;
    int32_t device;     /* as the rank itself */
    int64_t timeout_ms; /* of the group */
    const tutti_backend *backend;
    const void *scenario;
    void *parent_state;
    bool native_min_max;            /* the setting */
    struct rendezvous_table *table; /* another one follows, for a second group */
    const struct tti_device *driver;
    void *state;
};

/* A check in a rank, which cmocka does not run. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, r->rank, #condition);                          \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

#define CHECK_OK(call)                                                                                                 \
    do {                                                                                                               \
        const tutti_status check_status = (call);                                                                      \
        if (check_status != TUTTI_OK) {                                                                                \
            fprintf(stderr, "%s:%d: rank %d: %s: %s: %s\n", __FILE__, __LINE__, r->rank, #call,                        \
                    tutti_status_name(check_status), error.message);                                                   \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static const char *rank_setting(const void *settings, const char *key)
{
    const struct rank *r = settings;
    return strcmp(key + 5, "native_min_max") == 0 ? r->native_min_max ? "1" : "0" : NULL;
}

static tutti_status rank_open(struct rank *r, tutti_error *error)
{
    static const int32_t global[MOST_RANKS] = {0, 1, 2, 3};
    const tutti_rendezvous rendezvous = {
        .size = sizeof(rendezvous), .self = r->table, .set = table_set, .get = table_get};
    const tutti_open_info info = {.size = sizeof(info),
                                  .rank = r->rank,
                                  .world_size = r->size,
                                  .lanes = r->lanes,
                                  .timeout_ms = r->timeout_ms,
                                  .device = {r->driver->type, r->device},
                                  .rendezvous = &rendezvous,
                                  .global_ranks = global,
                                  .settings = r,
                                  .setting = rank_setting,
                                  .parent_state = r->parent_state};
    return r->backend->ops->open(&info, &r->state, error);
}

static void rank_close(struct rank *r)
{
    r->backend->ops->close(r->state);
    r->state = NULL;
}

/* A barrier without the library. `times` counts the calls, from 1. */
static inline void pass_all(const struct rank *r, int32_t times)
{
    atomic_fetch_add(&r->table->arrived, 1);
    while (atomic_load(&r->table->arrived) < times * r->size) {
        usleep(1000);
    }
}

struct job {
    const tutti_backend *backend;
    int32_t size;
    int32_t lanes;
    int64_t timeout_ms;
    const char *library;      /* the double's folder in tests/doubles; NULL: the newest */
    const char *words;        /* value of TUTTI_DOUBLE_NCCL for the library's double; NULL: none */
    const char *words_of_one; /* for the last rank, instead of `words` */
    const void *scenario;
    void (*run)(struct rank *r);
};

/* <build>/tests/doubles/FOLDER/FILE in a variable. */
static void name_double(const char *variable, const char *folder, const char *file)
{
    char path[512];
    const char *build = getenv("TUTTI_BUILD");
    snprintf(path, sizeof(path), "%s/tests/doubles/%s/%s", build ? build : ".", folder, file);
    setenv(variable, path, 1);
}

static void rank_main(const struct job *job, int32_t rank, struct rendezvous_table *table)
{
    const bool rocm = job->backend == &tti_backend_rccl;
    struct rank r = {.rank = rank,
                     .size = job->size,
                     .lanes = job->lanes ? job->lanes : 1,
                     .device = rank,
                     .timeout_ms = job->timeout_ms ? job->timeout_ms : 20000,
                     .backend = job->backend,
                     .scenario = job->scenario,
                     .table = table,
                     .driver = tti_device_of(rocm ? kDLROCM : kDLCUDA)};
    const char *words = rank == job->size - 1 && job->words_of_one ? job->words_of_one : job->words;
    if (words) {
        setenv("TUTTI_DOUBLE_NCCL", words, 1);
    }
    name_double("TUTTI_CUDA_LIBRARY", "cuda", "libcuda.so.1");
    name_double("TUTTI_HIP_LIBRARY", "hip6", "libamdhip64.so.6");
    name_double(rocm ? "TUTTI_RCCL_LIBRARY" : "TUTTI_NCCL_LIBRARY",
                job->library ? job->library
                : rocm       ? "rccl_new"
                             : "nccl_new",
                rocm ? "librccl.so.1" : "libnccl.so.2");
    alarm(WATCHDOG_SECONDS);
    job->run(&r);
    _exit(0); /* threads of the doubles still run, and leak checkers cannot see their thread-local memory */
}

static void run_job(const struct job *job)
{
    struct rendezvous_table *table =
        mmap(NULL, TABLES * sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t ranks[MOST_RANKS];
    bool fine = true;
    assert_true(table != MAP_FAILED);
    fflush(NULL);
    for (int32_t i = 0; i < job->size; i++) {
        ranks[i] = fork();
        assert_true(ranks[i] >= 0);
        if (ranks[i] == 0) {
            rank_main(job, i, table);
        }
    }
    for (int32_t i = 0; i < job->size; i++) {
        int status = -1;
        assert_int_equal(waitpid(ranks[i], &status, 0), ranks[i]);
        if (status != 0) {
            fprintf(stderr, "rank %d ended with %#x\n", i, (unsigned)status);
            fine = false;
        }
    }
    munmap(table, TABLES * sizeof(*table));
    assert_true(fine);
}

/* ---- the device's memory ----------------------------------------------------------------------------------------- */

/* Copies and waits. */
static inline void device_copy(const struct rank *r, void *dst, const void *src, size_t bytes)
{
    struct tti_device_scope scope;
    void *stream = NULL;
    void *event = NULL;
    tutti_error error;
    tti_error_clear(&error);
    CHECK_OK(r->driver->enter(r->device, &scope, &error));
    CHECK_OK(r->driver->stream_create(&stream, &error));
    CHECK_OK(r->driver->event_create(&event, &error));
    CHECK_OK(r->driver->copy(dst, src, bytes, stream, &error));
    CHECK_OK(r->driver->event_record(event, stream, &error));
    CHECK_OK(tti_device_await(r->driver, event, TTI_NEVER, &error));
    CHECK_OK(r->driver->event_destroy(event, &error));
    CHECK_OK(r->driver->stream_destroy(stream, &error));
    r->driver->leave(&scope);
}

static void *device_alloc(const struct rank *r, size_t bytes)
{
    struct tti_device_scope scope;
    void *memory = NULL;
    tutti_error error;
    tti_error_clear(&error);
    CHECK_OK(r->driver->enter(r->device, &scope, &error));
    CHECK_OK(r->driver->alloc(bytes ? bytes : 1, &memory, &error));
    r->driver->leave(&scope);
    return memory;
}

static void device_free(const struct rank *r, void *memory)
{
    struct tti_device_scope scope;
    tutti_error error;
    tti_error_clear(&error);
    CHECK_OK(r->driver->enter(r->device, &scope, &error));
    CHECK_OK(r->driver->free(memory, &error));
    r->driver->leave(&scope);
}

/* An operation with the fields that every call has. */
static inline tutti_op op_of(tutti_operation kind, tutti_dtype dtype, tutti_reduce_op redop)
{
    return (tutti_op){.size = sizeof(tutti_op),
                      .kind = kind,
                      .dtype = dtype,
                      .redop = redop,
                      .scale = 1,
                      .timeout_ms = 15000,
                      .on_device = 1};
}

#endif
