/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined timeout=120 */
/*
 * Which engine a group on a device gets, and the errors for requests that cannot be met. Two ranks are threads. They
 * use two devices, doubles of the vendors' libraries, and the double of NCCL. `auto` takes NCCL only if each rank has a
 * device of its own.
 */
#include "api/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <tutti/backend.h>
#include <unistd.h>

/* The request of a rank, and the expected result: a group on that backend, or a status and a word of the message. */
struct wish {
    const char *backend;
    const char *device;
    int32_t index;
    const char *const *settings;
    const char *gets;
    tutti_status status;
    const char *word;
    int after_ms; /* how long this rank lets the others be first */
};

struct rank {
    pthread_t thread;
    int number;
    const char *store;
    struct wish wish;
};

static void *join(void *argument)
{
    const struct rank *r = argument;
    const struct wish *w = &r->wish;
    tutti_group *g = NULL;
    tutti_error e;
    usleep((useconds_t)w->after_ms * 1000);
    const tutti_config *config =
        TUTTI_CONFIG(.backend = w->backend, .device = w->device, .device_index = w->index, .rank = r->number,
                     .world_size = 2, .store = r->store, .timeout_ms = 20000, .settings = w->settings);
    const tutti_status status = tutti_init(config, &g, &e);
    if (w->status != TUTTI_OK || status != TUTTI_OK) {
        test_status(__FILE__, __LINE__, r->store, status, w->status, &e, w->word);
        return NULL;
    }
    const char *backend = tutti_group_backend(g);
    if (!backend || strcmp(backend, w->gets) != 0) {
        test_fail(__FILE__, __LINE__, r->store);
        fprintf(stderr, "  on backend %s, not %s\n", backend, w->gets);
    }
    EXPECT_OK(tutti_barrier(g, NULL));
    EXPECT_OK(tutti_group_destroy(g, &e));
    return NULL;
}

static void pair(const char *store, struct wish first, struct wish second)
{
    struct rank ranks[2] = {{.number = 0, .store = store, .wish = first},
                            {.number = 1, .store = store, .wish = second}};
    for (int r = 0; r < 2; r++) {
        if (pthread_create(&ranks[r].thread, NULL, join, &ranks[r]) != 0) {
            abort();
        }
    }
    for (int r = 0; r < 2; r++) {
        pthread_join(ranks[r].thread, NULL);
    }
}

static void both(const char *store, struct wish wish)
{
    struct wish other = wish;
    other.index = wish.index == 0 && wish.status == TUTTI_OK ? 1 : wish.index;
    pair(store, wish, other);
}

/* Sub-groups may use another engine; inherited settings stay. */
static tutti_status children(tutti_group *g, void *user)
{
    (void)user;
    const int32_t me[] = {tutti_group_rank(g)};
    tutti_group *child = NULL;
    tutti_error e;
    EXPECT_OK(tutti_group_create(g, me, 1, TUTTI_CONFIG(.device = "cuda", .device_index = 1, .backend = "local"),
                                 &child, &e));
    EXPECT(tutti_group_device(child).device_type == kDLCUDA && tutti_group_device(child).device_id == 1);
    tutti_group *grandchild = NULL;
    const int32_t first[] = {0};
    EXPECT_OK(tutti_group_create(child, first, 1, NULL, &grandchild, &e));
    EXPECT(tutti_group_device(grandchild).device_type == kDLCUDA && tutti_group_device(grandchild).device_id == 1);
    EXPECT_OK(tutti_group_destroy(grandchild, &e));
    EXPECT_OK(tutti_group_destroy(child, &e));
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

static void choose_doubles(void)
{
    char path[4096];
    const char *build = getenv("TUTTI_BUILD");
    build = build ? build : ".";
    snprintf(path, sizeof(path), "%s/tests/doubles/cuda/libcuda.so.1", build);
    setenv("TUTTI_CUDA_LIBRARY", path, 1);
    snprintf(path, sizeof(path), "%s/tests/doubles/nccl_new/libnccl.so.2", build);
    setenv("TUTTI_NCCL_LIBRARY", path, 1);
    setenv("TUTTI_DOUBLE_CUDA", "devices=2,delay_us=0", 1);
}

int main(void)
{
    static const char *const lent[] = {"nccl.host_staging=yes", NULL};
    static const char *const small[] = {"device.chunk=64K", NULL};
    choose_doubles();
    both("memory:named", (struct wish){.backend = "local", .device = "cuda", .gets = "local"});
    both("memory:own-devices", (struct wish){.device = "cuda", .gets = "nccl"});
    both("memory:by-rank", (struct wish){.backend = "nccl", .gets = "nccl"}); /* its device, each rank its own */
    both("memory:lent", (struct wish){.backend = "nccl", .device = "cpu", .settings = lent, .gets = "nccl"});
    both("memory:pairs", (struct wish){.backend = "cpu:shm,cuda:local", .device = "cuda", .gets = "local"});
    both("memory:pairs-beside", (struct wish){.backend = "cpu:local,cuda:nccl", .device = "cuda", .gets = "nccl"});
    both("memory:only-cuda", (struct wish){.backend = "cuda:nccl", .gets = "nccl"});
    const struct wish first = {.device = "cuda", .gets = "local"};
    pair("memory:shared-device", first, first);

    const struct wish beyond = {
        .backend = "local", .device = "cuda", .index = 7, .status = TUTTI_NOT_AVAILABLE, .word = "cuda:0 to cuda:1"};
    both("memory:beyond", beyond);
    /* the other rank gets the cause as well, also if it joins later */
    const struct wish refused = {
        .backend = "local", .device = "cuda", .status = TUTTI_NOT_AVAILABLE, .word = "rank 0 cannot"};
    struct wish later = refused;
    later.after_ms = 300;
    pair("memory:one-beyond", beyond, refused);
    pair("memory:one-beyond-late", beyond, later);
    both("memory:no-rocm",
         (struct wish){.backend = "local", .device = "rocm", .status = TUTTI_NOT_AVAILABLE, .word = "rocm"});
    both("memory:nccl-on-cpu",
         (struct wish){.backend = "nccl", .device = "cpu", .status = TUTTI_NOT_AVAILABLE, .word = "nccl.host_staging"});
    both("memory:below",
         (struct wish){.device = "cuda", .index = -2, .status = TUTTI_INVALID_ARGUMENT, .word = "config.device_index"});
    pair("memory:unlike", (struct wish){.device = "cuda", .status = TUTTI_MISMATCH, .word = "cpu"},
         (struct wish){.device = "cpu", .status = TUTTI_MISMATCH, .word = "cuda"});
    pair("memory:chunks",
         (struct wish){
             .backend = "local", .device = "cuda", .settings = small, .status = TUTTI_MISMATCH, .word = "device.chunk"},
         (struct wish){.backend = "local", .device = "cuda", .status = TUTTI_MISMATCH, .word = "device.chunk"});
    pair("memory:same-device",
         (struct wish){.backend = "nccl", .device = "cuda", .status = TUTTI_NOT_AVAILABLE, .word = "same device"},
         (struct wish){.backend = "nccl", .device = "cuda", .status = TUTTI_NOT_AVAILABLE, .word = "same device"});
    test_ranks(2, children);
    return test_result();
}
