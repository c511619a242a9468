/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program on a device, like an application: it has streams and pinned memory of its own. The device is the double of
 * libcuda.so.1 (tests/doubles), whose memory traps when host code touches it, and which is slow.
 */
#ifndef TESTS_MULTI_DEVICE_DEVICE_SUPPORT_H
#define TESTS_MULTI_DEVICE_DEVICE_SUPPORT_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <tutti/memory.h>
#include <tutti/work.h>

#include "multi/expect.h"

static struct {
    int (*retain)(void **context, int device); /* cuDevicePrimaryCtxRetain */
    int (*push)(void *context);                /* cuCtxPushCurrent_v2 */
    int (*alloc_host)(void **memory, size_t bytes, unsigned flags);
    int (*free_host)(void *memory);
    int (*copy)(void *dst, const void *src, size_t bytes, void *stream); /* cuMemcpyAsync */
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*synchronize)(void *stream);
    int (*wait_value)(void *stream, const uint32_t *word, uint32_t value, unsigned flags); /* cuStreamWaitValue32_v2 */
} cuda;

static inline void *function_of(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return function;
}

/* Chooses the double. To be called before any function of Tutti. `orders` as in tests/doubles/README.md. */
static inline void device_choose(const char *orders)
{
    char path[4096];
    const char *build = getenv("TUTTI_BUILD");
    snprintf(path, sizeof(path), "%s/tests/doubles/cuda/libcuda.so.1", build ? build : ".");
    setenv("TUTTI_CUDA_LIBRARY", path, 1);
    setenv("TUTTI_DOUBLE_CUDA", orders, 1);
}

/* A group on the device, and the device current on this thread. */
static inline tutti_group *device_open(const tutti_config *config)
{
    tutti_group *g = NULL;
    void *context = NULL;
    if (tutti_init(config, &g, &err) != TUTTI_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    void *library = dlopen(getenv("TUTTI_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&cuda.retain = function_of(library, "cuDevicePrimaryCtxRetain");
    *(void **)&cuda.push = function_of(library, "cuCtxPushCurrent_v2");
    *(void **)&cuda.alloc_host = function_of(library, "cuMemHostAlloc");
    *(void **)&cuda.free_host = function_of(library, "cuMemFreeHost");
    *(void **)&cuda.copy = function_of(library, "cuMemcpyAsync");
    *(void **)&cuda.stream_create = function_of(library, "cuStreamCreate");
    *(void **)&cuda.stream_destroy = function_of(library, "cuStreamDestroy_v2");
    *(void **)&cuda.synchronize = function_of(library, "cuStreamSynchronize");
    *(void **)&cuda.wait_value = function_of(library, "cuStreamWaitValue32_v2");
    const DLDevice device = tutti_group_device(g);
    EXPECT(cuda.retain(&context, device.device_type == kDLCUDA ? device.device_id : 0) == 0 && cuda.push(context) == 0);
    return g;
}

/* `count` floats in the device's memory, and as many in pinned memory of the host. */
struct device_vector {
    int64_t count;
    float *host;
    void *there;
    DLTensor tensor;
};

static inline void vector_make(tutti_group *g, struct device_vector *v, int64_t count)
{
    v->count = count;
    EXPECT_OK(tutti_alloc(g, (size_t)count * sizeof(float), &v->there, &err));
    EXPECT(cuda.alloc_host((void **)&v->host, (size_t)count * sizeof(float), 0) == 0);
    v->tensor = tutti_tensor_1d(v->there, &v->count, TUTTI_F32);
    v->tensor.device = tutti_group_device(g);
}

static inline void vector_free(tutti_group *g, struct device_vector *v)
{
    EXPECT_OK(tutti_free(g, v->there, &err));
    EXPECT(cuda.free_host(v->host) == 0);
}

static inline void vector_send(const struct device_vector *v, void *stream)
{
    EXPECT(cuda.copy(v->there, v->host, (size_t)v->count * sizeof(float), stream) == 0);
}

static inline void vector_fetch(const struct device_vector *v, void *stream)
{
    EXPECT(cuda.copy(v->host, v->there, (size_t)v->count * sizeof(float), stream) == 0);
}

/* host[i] = i % 100 + what belongs to the rank and the round. */
static inline void vector_fill(const struct device_vector *v, int rank, int round)
{
    for (int64_t i = 0; i < v->count; i++) {
        v->host[i] = (float)(i % 100 + 3 * rank + round);
    }
}

static inline int64_t vector_wrong_sums(const struct device_vector *v, int ranks, int round)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < v->count; i++) {
        wrong += v->host[i] != (float)((i % 100 + round) * ranks + 3 * ranks * (ranks - 1) / 2);
    }
    return wrong;
}

#endif
