/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ledger programs on a device. Two ranks are threads of this process with a device each, on the doubles of the vendors'
 * libraries (tests/doubles), whose memory traps when host code touches it. Two facts prove a collective on CUDA or ROCm
 * memory: its result, and the calls in the log of NCCL's double.
 */
#ifndef TESTS_API_LEDGER_LEDGER_DEVICE_H
#define TESTS_API_LEDGER_LEDGER_DEVICE_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <tutti/memory.h>
#include <tutti/work.h>
#include <unistd.h>

#include "ledger_support.h"
#include "time_limits.h"

enum { LEDGER_RANKS = 2, LEDGER_LENGTH = 12 };

struct ledger_vendor {
    const char *device;       /* "cuda", "rocm" */
    const char *driver;       /* of the double: "cuda/libcuda.so.1" */
    const char *library;      /* "nccl_new/libnccl.so.2"; NULL: none */
    const char *backend;      /* NULL: the device's best */
    const char *host_backend; /* NULL: the group's own */
    DLDeviceType type;
};

static struct {
    const struct ledger_vendor *vendor;
    char log[64]; /* of the double of NCCL or RCCL */
    int (*set_device)(int device);
    int (*copy)(void *dst, const void *src, size_t bytes, void *stream);                /* cuMemcpyAsync */
    int (*copy_kind)(void *dst, const void *src, size_t bytes, int kind, void *stream); /* hipMemcpyAsync */
    int (*synchronize)(void *stream);
    int (*retain)(void **context, int device);
    int (*push)(void *context);
} ledger_device;

/* Chooses the doubles; before anything else of Tutti. */
static inline void ledger_choose(const struct ledger_vendor *v)
{
    char path[4096];
    char orders[128];
    const char *build = getenv("TUTTI_BUILD");
    const bool rocm = v->type == kDLROCM;
    build = build ? build : ".";
    ledger_device.vendor = v;
    snprintf(path, sizeof(path), "%s/tests/doubles/%s", build, v->driver);
    setenv(rocm ? "TUTTI_HIP_LIBRARY" : "TUTTI_CUDA_LIBRARY", path, 1);
    setenv(rocm ? "TUTTI_DOUBLE_HIP" : "TUTTI_DOUBLE_CUDA", "devices=2,delay_us=0", 1);
    if (v->library) {
        snprintf(path, sizeof(path), "%s/tests/doubles/%s", build, v->library);
        setenv(rocm ? "TUTTI_RCCL_LIBRARY" : "TUTTI_NCCL_LIBRARY", path, 1);
        snprintf(ledger_device.log, sizeof(ledger_device.log), "ledger-%s-%d.log", v->backend, (int)getpid());
        snprintf(orders, sizeof(orders), "log=%s", ledger_device.log);
        setenv("TUTTI_DOUBLE_NCCL", orders, 1);
    }
}

static inline void *ledger_function(void *library, const char *name)
{
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) {
        printf("%s\n", dlerror());
        exit(1);
    }
    return function;
}

/* The vendor's functions as a program uses them, beside the library under test. */
static inline void ledger_open_driver(void)
{
    const bool rocm = ledger_device.vendor->type == kDLROCM;
    void *library = dlopen(getenv(rocm ? "TUTTI_HIP_LIBRARY" : "TUTTI_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    *(void **)&ledger_device.synchronize =
        ledger_function(library, rocm ? "hipStreamSynchronize" : "cuStreamSynchronize");
    if (rocm) {
        *(void **)&ledger_device.set_device = ledger_function(library, "hipSetDevice");
        *(void **)&ledger_device.copy_kind = ledger_function(library, "hipMemcpyAsync");
    } else {
        *(void **)&ledger_device.retain = ledger_function(library, "cuDevicePrimaryCtxRetain");
        *(void **)&ledger_device.push = ledger_function(library, "cuCtxPushCurrent_v2");
        *(void **)&ledger_device.copy = ledger_function(library, "cuMemcpyAsync");
    }
}

static inline void ledger_enter_device(int device)
{
    void *context = NULL;
    EXPECT(ledger_device.set_device ? ledger_device.set_device(device) == 0
                                    : ledger_device.retain(&context, device) == 0 && ledger_device.push(context) == 0);
}

static inline void ledger_copy(void *dst, const void *src, size_t bytes)
{
    const int code = ledger_device.copy ? ledger_device.copy(dst, src, bytes, NULL)
                                        : ledger_device.copy_kind(dst, src, bytes, 4 /* by the addresses */, NULL);
    EXPECT(code == 0 && ledger_device.synchronize(NULL) == 0);
}

/* A vector in the group's memory. */
struct ledger_vector {
    int64_t count;
    tutti_dtype dtype;
    void *memory;
    DLTensor tensor;
};

static inline size_t ledger_bytes(const struct ledger_vector *v)
{
    return (size_t)v->count * tutti_dtype_size(v->dtype);
}

static inline void ledger_make(tutti_group *group, struct ledger_vector *v, int64_t count, tutti_dtype dtype,
                               const void *values)
{
    unsigned char blank[256] = {0};
    tutti_error error = {.message = ""};
    *v = (struct ledger_vector){.count = count, .dtype = dtype};
    EXPECT(tutti_alloc(group, ledger_bytes(v), &v->memory, &error) == TUTTI_OK && v->memory);
    v->tensor = ledger_tensor(v->memory, &v->count, dtype);
    v->tensor.device = (DLDevice){ledger_device.vendor->type, tutti_group_rank(group)};
    if (v->memory) {
        ledger_copy(v->memory, values ? values : blank, ledger_bytes(v));
    }
}

static inline void ledger_fetch(const struct ledger_vector *v, void *values)
{
    if (v->memory) {
        ledger_copy(values, v->memory, ledger_bytes(v));
    }
}

typedef void (*ledger_rank)(tutti_group *group, int rank);

struct ledger_thread {
    pthread_t thread;
    int rank;
    const char *const *settings;
    const char *store;
    ledger_rank run;
};

static void *ledger_thread_main(void *argument)
{
    struct ledger_thread *t = argument;
    const struct ledger_vendor *v = ledger_device.vendor;
    tutti_group *group = NULL;
    tutti_error error = {.message = ""};
    const tutti_status status = tutti_init(
        TUTTI_CONFIG(.backend = v->backend, .device = v->device, .device_index = t->rank, .rank = t->rank,
                     .world_size = LEDGER_RANKS, .store = t->store, .timeout_ms = LONG_MS, .settings = t->settings),
        &group, &error);
    if (status != TUTTI_OK || !group) {
        printf("tutti_init: %s\n", error.message);
        EXPECT(!"a group on the device");
        return NULL;
    }
    ledger_ran();
    if (t->rank == 0) {
        ledger_say_backend(tutti_group_backend(group));
    }
    ledger_enter_device(t->rank);
    t->run(group, t->rank);
    EXPECT(tutti_group_destroy(group, NULL) == TUTTI_OK);
    EXPECT(tutti_group_destroy(group, NULL) == TUTTI_BAD_STATE);
    return NULL;
}

/* Runs a group of two ranks, each on a device of its own. */
static inline void ledger_on_devices(const char *store, const char *const *settings, ledger_rank run)
{
    struct ledger_thread threads[LEDGER_RANKS];
    atomic_int *ran = &ledger_share()->ranks_run;
    atomic_store(ran, 0);
    for (int r = 0; r < LEDGER_RANKS; r++) {
        threads[r] = (struct ledger_thread){.rank = r, .settings = settings, .store = store, .run = run};
        if (pthread_create(&threads[r].thread, NULL, ledger_thread_main, &threads[r]) != 0) {
            exit(1);
        }
    }
    for (int r = 0; r < LEDGER_RANKS; r++) {
        pthread_join(threads[r].thread, NULL);
    }
    EXPECT(atomic_load(ran) == LEDGER_RANKS);
}

/* Whether the double was called: "AllReduce". */
static inline bool ledger_logged(const char *function)
{
    char line[512];
    bool found = false;
    FILE *file = fopen(ledger_device.log, "r");
    while (file && !found && fgets(line, sizeof(line), file)) {
        found = strncmp(line, function, strlen(function)) == 0 && line[strlen(function)] == ' ';
    }
    if (file) {
        fclose(file);
    }
    return found;
}

/* ---- what every row of a collective on a device wants ------------------------------------------------------------ */

static inline double ledger_device_value(int rank, int64_t i)
{
    return (double)((rank * 5 + i * 3) % 7 + 1);
}

static inline void ledger_device_fill(float *data, int rank)
{
    for (int64_t i = 0; i < LEDGER_LENGTH; i++) {
        data[i] = (float)ledger_device_value(rank, i);
    }
}

static inline float ledger_device_fold(tutti_reduce_op op, int64_t i)
{
    const double a = ledger_device_value(0, i);
    const double b = ledger_device_value(1, i);
    return (float)(op == TUTTI_SUM       ? a + b
                   : op == TUTTI_AVG     ? (a + b) / 2
                   : op == TUTTI_PRODUCT ? a * b
                   : op == TUTTI_MIN     ? (a < b ? a : b)
                                         : (a > b ? a : b));
}

/* One reduction and its asynchronous form, with every operator; rank 1 is the root. */
static inline void ledger_device_reductions(tutti_group *group, int rank)
{
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_MAX, TUTTI_MIN, TUTTI_PRODUCT};
    for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
        float data[LEDGER_LENGTH];
        float out[LEDGER_LENGTH] = {0};
        struct ledger_vector in;
        struct ledger_vector result;
        tutti_work *work = NULL;
        ledger_device_fill(data, rank);
        ledger_make(group, &in, LEDGER_LENGTH, TUTTI_F32, data);
        for (int form = 0; form < 4; form++) {
            const bool here = form < 2 || rank == 1;
            ledger_make(group, &result, form == 3 ? LEDGER_LENGTH / 2 : LEDGER_LENGTH, TUTTI_F32, NULL);
            tutti_status status = TUTTI_INTERNAL;
            if (form == 0) {
                status = tutti_all_reduce(group, &in.tensor, &result.tensor, ops[o], NULL);
            } else if (form == 1) {
                status = tutti_all_reduce_async(group, &in.tensor, &result.tensor, ops[o], NULL, &work);
                EXPECT(ledger_end(&work) == TUTTI_OK);
            } else if (form == 2) {
                status = tutti_reduce(group, &in.tensor, &result.tensor, ops[o], 1, NULL);
            } else {
                status = tutti_reduce_scatter(group, &in.tensor, &result.tensor, ops[o], 0, NULL);
            }
            EXPECT(status == TUTTI_OK);
            ledger_fetch(&result, out);
            const int64_t from = form == 3 ? rank * LEDGER_LENGTH / 2 : 0;
            for (int64_t i = 0; i < result.count && (here || form == 3); i++) {
                EXPECT(out[i] == ledger_device_fold(ops[o], from + i));
            }
            EXPECT(tutti_free(group, result.memory, NULL) == TUTTI_OK);
        }
        EXPECT(tutti_free(group, in.memory, NULL) == TUTTI_OK);
    }
}

static inline void ledger_device_moves(tutti_group *group, int rank)
{
    float data[LEDGER_LENGTH];
    float out[2 * LEDGER_LENGTH] = {0};
    struct ledger_vector v;
    struct ledger_vector joined;
    tutti_work *work = NULL;
    for (int form = 0; form < 2; form++) {
        ledger_device_fill(data, rank);
        ledger_make(group, &v, LEDGER_LENGTH, TUTTI_F32, data);
        if (form == 0) {
            EXPECT(tutti_broadcast(group, &v.tensor, 1, NULL) == TUTTI_OK);
        } else {
            EXPECT(tutti_broadcast_async(group, &v.tensor, 1, NULL, &work) == TUTTI_OK);
            EXPECT(ledger_end(&work) == TUTTI_OK);
        }
        ledger_fetch(&v, out);
        for (int64_t i = 0; i < LEDGER_LENGTH; i++) {
            EXPECT(out[i] == (float)ledger_device_value(1, i));
        }
        EXPECT(tutti_free(group, v.memory, NULL) == TUTTI_OK);
    }
    ledger_device_fill(data, rank);
    ledger_make(group, &v, LEDGER_LENGTH, TUTTI_F32, data);
    ledger_make(group, &joined, 2 * LEDGER_LENGTH, TUTTI_F32, NULL);
    EXPECT(tutti_all_gather(group, &v.tensor, &joined.tensor, 0, NULL) == TUTTI_OK);
    ledger_fetch(&joined, out);
    for (int64_t i = 0; i < 2 * LEDGER_LENGTH; i++) {
        EXPECT(out[i] == (float)ledger_device_value((int)(i / LEDGER_LENGTH), i % LEDGER_LENGTH));
    }
    EXPECT(tutti_free(group, v.memory, NULL) == TUTTI_OK && tutti_free(group, joined.memory, NULL) == TUTTI_OK);
}

/* A rank that is late holds up a barrier: the other one has not left it before. */
static inline void ledger_device_barrier(tutti_group *group, int rank)
{
    static atomic_int late;
    tutti_work *work = NULL;
    EXPECT(tutti_barrier(group, NULL) == TUTTI_OK);
    atomic_store(&late, 0);
    EXPECT(tutti_barrier(group, NULL) == TUTTI_OK);
    if (rank == 1) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        atomic_store(&late, 1);
    }
    EXPECT(tutti_barrier(group, NULL) == TUTTI_OK);
    EXPECT(atomic_load(&late) == 1);
    EXPECT(tutti_barrier_async(group, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK);
}

/* Tensors that lie elsewhere are refused by every call, before anything happens. */
static inline void ledger_device_refusals(tutti_group *group)
{
    float host[LEDGER_LENGTH] = {0};
    const int64_t length = LEDGER_LENGTH;
    const int64_t half = LEDGER_LENGTH / 2;
    tutti_error error = {.message = ""};
    const tutti_call *call = TUTTI_CALL(.error = &error);
    DLTensor t = ledger_tensor(host, &length, TUTTI_F32);
    DLTensor part = ledger_tensor(host, &half, TUTTI_F32);
    EXPECT(tutti_all_reduce(group, &t, &t, TUTTI_SUM, call) == TUTTI_DEVICE_MISMATCH);
    EXPECT(strstr(error.message, "cpu:0") && strstr(error.message, ledger_device.vendor->device));
    EXPECT(tutti_reduce(group, &t, &t, TUTTI_SUM, 0, call) == TUTTI_DEVICE_MISMATCH);
    EXPECT(tutti_broadcast(group, &t, 0, call) == TUTTI_DEVICE_MISMATCH);
    EXPECT(tutti_all_gather(group, &part, &t, 0, call) == TUTTI_DEVICE_MISMATCH);
    EXPECT(tutti_reduce_scatter(group, &t, &part, TUTTI_SUM, 0, call) == TUTTI_DEVICE_MISMATCH);
    t.device = (DLDevice){ledger_device.vendor->type,
                          tutti_group_rank(group)}; /* the tensor claims device memory, but is host memory */
    EXPECT(tutti_broadcast(group, &t, 0, call) == TUTTI_DEVICE_MISMATCH);
}

#endif
