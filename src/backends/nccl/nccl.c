/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of the two backends. They differ in the library and the kind of device. */
#include "backends/nccl/nccl.h"

#include "backends/nccl/abort.h"
#include "backends/nccl/close.h"
#include "backends/nccl/collectives/reductions.h"
#include "backends/nccl/collectives/run.h"
#include "backends/nccl/failure.h"
#include "backends/nccl/memory.h"
#include "backends/nccl/open.h"

static int32_t available(const char *backend, char *why, size_t capacity)
{
    return tti_nccl_library(backend, why, capacity) != NULL;
}

static int32_t nccl_available(char *why, size_t capacity)
{
    return available("nccl", why, capacity);
}

static int32_t rccl_available(char *why, size_t capacity)
{
    return available("rccl", why, capacity);
}

static tutti_status nccl_open(const tutti_open_info *info, void **state, tutti_error *error)
{
    return tti_nccl_open("nccl", info, state, error);
}

static tutti_status rccl_open(const tutti_open_info *info, void **state, tutti_error *error)
{
    return tti_nccl_open("rccl", info, state, error);
}

static uint32_t capabilities(void *state)
{
    const struct tti_nccl_group *g = state;
    const uint32_t device = g->device->type == kDLCUDA ? TUTTI_CAP_CUDA : TUTTI_CAP_ROCM;
    return device | TUTTI_CAP_NO_HOST | (tti_nccl_has_heap(g->library) ? TUTTI_CAP_HEAP : 0) |
           (g->native_min_max ? TUTTI_CAP_DROPS_NAN : 0);
}

static const char *algorithm(void *state, int32_t lane)
{
    struct tti_nccl_group *g = state;
    return atomic_load_explicit(&g->lane[lane].algorithm, memory_order_relaxed);
}

static void *native(void *state)
{
    struct tti_nccl_group *g = state;
    pthread_mutex_lock(&g->lane[0].lock);
    const tti_nccl_comm comm = g->lane[0].comm;
    pthread_mutex_unlock(&g->lane[0].lock);
    return comm;
}

#define COMMON_OPS                                                                                                     \
    .size = sizeof(tutti_backend_ops), .close = tti_nccl_close, .supports = tti_nccl_supports, .run = tti_nccl_run,    \
    .describe = tti_nccl_describe, .failure = tti_nccl_failure, .capabilities = capabilities, .abort = tti_nccl_abort, \
    .alloc = tti_nccl_alloc, .release = tti_nccl_release, .register_memory = tti_nccl_register,                        \
    .unregister_memory = tti_nccl_unregister, .algorithm = algorithm, .native = native

static const tutti_backend_ops nccl_ops = {COMMON_OPS, .available = nccl_available, .open = nccl_open};
static const tutti_backend_ops rccl_ops = {COMMON_OPS, .available = rccl_available, .open = rccl_open};

const tutti_backend tti_backend_nccl = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(tutti_backend),
    .name = "nccl",
    .priority = 100,
    .capabilities = TUTTI_CAP_CUDA | TUTTI_CAP_NO_HOST,
    .ops = &nccl_ops,
};

const tutti_backend tti_backend_rccl = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(tutti_backend),
    .name = "rccl",
    .priority = 90,
    .capabilities = TUTTI_CAP_ROCM | TUTTI_CAP_NO_HOST,
    .ops = &rccl_ops,
};
