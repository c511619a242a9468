/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of a rank of a case: the driver's double, the board, communicators. */
#include <dlfcn.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "nccl.h"

static struct {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int index);
    int (*retain)(void **context, int device);
    int (*set_context)(void *context);
    int (*set_device)(int device);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_query)(void *stream);
    int (*stream_wait)(void *stream);
    int (*cuda_alloc)(uint64_t *memory, size_t bytes);
    int (*cuda_free)(uint64_t memory);
    int (*cuda_copy)(uint64_t dst, uint64_t src, size_t bytes, void *stream);
    int (*hip_alloc)(void **memory, size_t bytes);
    int (*hip_free)(void *memory);
    int (*hip_copy)(void *dst, const void *src, size_t bytes, int kind, void *stream);
} driver;

static void find(void *library, const char *name, void *place)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "the double lacks %s\n", name);
        exit(1);
    }
    memcpy(place, &found, sizeof(found));
}

static void *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return library;
}

static void load_driver(const char *path, bool rccl)
{
    void *library = load(path);
    find(library, rccl ? "hipInit" : "cuInit", &driver.init);
    find(library, rccl ? "hipStreamCreateWithFlags" : "cuStreamCreate", &driver.stream_create);
    find(library, rccl ? "hipStreamQuery" : "cuStreamQuery", &driver.stream_query);
    find(library, rccl ? "hipStreamSynchronize" : "cuStreamSynchronize", &driver.stream_wait);
    if (rccl) {
        find(library, "hipSetDevice", &driver.set_device);
        find(library, "hipMalloc", &driver.hip_alloc);
        find(library, "hipFree", &driver.hip_free);
        find(library, "hipMemcpyAsync", &driver.hip_copy);
    } else {
        find(library, "cuDeviceGet", &driver.device_get);
        find(library, "cuDevicePrimaryCtxRetain", &driver.retain);
        find(library, "cuCtxPushCurrent_v2", &driver.set_context);
        find(library, "cuMemAlloc_v2", &driver.cuda_alloc);
        find(library, "cuMemFree_v2", &driver.cuda_free);
        find(library, "cuMemcpyAsync", &driver.cuda_copy);
    }
}

/* DRIVER LIBRARY RANK RANKS BOARD, as the runner gives them. */
struct rank rank_begin(char **arguments)
{
    struct rank result = {.rank = atoi(arguments[2]), .ranks = atoi(arguments[3])};
    struct rank *t = &result;
    t->rccl = strstr(arguments[1], "rccl") != NULL;
    t->board = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(arguments[4]), 0);
    CHECK(t->board != MAP_FAILED);
    load_driver(arguments[0], t->rccl);
    void *library = load(arguments[1]);
    void *found;
#define FIND(name)                                                                                                     \
    found = dlsym(library, "nccl" #name);                                                                              \
    memcpy(&t->name, &found, sizeof(found));
    NCCL_FUNCTIONS(FIND)
#undef FIND
    CHECK(driver.init(0) == 0);
    CHECK(t->GetVersion(&t->version) == ncclSuccess);
    t->stream = device_use(t, t->rank);
    return result;
}

void *device_use(struct rank *t, int device)
{
    void *stream;
    if (t->rccl) {
        CHECK(driver.set_device(device) == 0);
    } else {
        int found;
        void *context;
        CHECK(driver.device_get(&found, device) == 0);
        CHECK(driver.retain(&context, found) == 0);
        CHECK(driver.set_context(context) == 0);
    }
    CHECK(driver.stream_create(&stream, 1) == 0); /* 1: does not wait for the default stream */
    return stream;
}

void *device_alloc(struct rank *t, size_t bytes)
{
    void *memory = NULL;
    uint64_t address = 0;
    if (t->rccl) {
        CHECK(driver.hip_alloc(&memory, bytes) == 0);
        return memory;
    }
    CHECK(driver.cuda_alloc(&address, bytes) == 0);
    return (void *)(uintptr_t)address;
}

void device_free(struct rank *t, void *memory)
{
    CHECK((t->rccl ? driver.hip_free(memory) : driver.cuda_free((uintptr_t)memory)) == 0);
}

static void copy(struct rank *t, void *dst, const void *src, size_t bytes)
{
    enum { ANY = 4 };
    CHECK((t->rccl ? driver.hip_copy(dst, src, bytes, ANY, t->stream)
                   : driver.cuda_copy((uintptr_t)dst, (uintptr_t)src, bytes, t->stream)) == 0);
    device_wait(t, t->stream);
}

void device_put(struct rank *t, void *memory, const void *from, size_t bytes)
{
    copy(t, memory, from, bytes);
}

void device_get(struct rank *t, void *to, const void *memory, size_t bytes)
{
    copy(t, to, memory, bytes);
}

void device_wait(struct rank *t, void *stream)
{
    CHECK(driver.stream_wait(stream) == 0);
}

bool device_done(struct rank *t, void *stream)
{
    enum { NOT_READY = 600 };
    const int code = driver.stream_query(stream);
    CHECK(code == 0 || code == NOT_READY);
    return code == 0;
}

void barrier(struct rank *t)
{
    const int code = pthread_barrier_wait(&t->board->barrier);
    CHECK(code == 0 || code == PTHREAD_BARRIER_SERIAL_THREAD);
}

void share(struct rank *t, void *bytes, size_t count)
{
    CHECK(count <= NOTE);
    if (t->rank == 0) {
        memcpy(t->board->notes[0], bytes, count);
    }
    barrier(t);
    memcpy(bytes, t->board->notes[0], count);
    barrier(t);
}

ncclUniqueId share_id(struct rank *t)
{
    ncclUniqueId id = {{0}};
    if (t->rank == 0) {
        CHECK(t->GetUniqueId(&id) == ncclSuccess);
    }
    share(t, &id, sizeof(id));
    return id;
}

ncclComm_t comm_blocking(struct rank *t)
{
    ncclComm_t comm = NULL;
    const ncclUniqueId id = share_id(t);
    CHECK(t->CommInitRank(&comm, t->ranks, id, t->rank) == ncclSuccess);
    CHECK(comm != NULL);
    return comm;
}

struct old_config config_undefined(void)
{
    return (struct old_config){.size = sizeof(struct old_config),
                               .magic = 0xcafebeef,
                               .version = 21805,
                               .blocking = INT_MIN,
                               .cga_cluster_size = INT_MIN,
                               .min_ctas = INT_MIN,
                               .max_ctas = INT_MIN,
                               .split_share = INT_MIN};
}

ncclComm_t comm_nonblocking(struct rank *t)
{
    ncclComm_t comm = NULL;
    const ncclUniqueId id = share_id(t);
    struct old_config config = config_undefined();
    config.blocking = 0;
    CHECK(t->CommInitRankConfig(&comm, t->ranks, id, t->rank, (ncclConfig_t *)(void *)&config) == ncclInProgress);
    CHECK(comm != NULL);
    CHECK(comm_await(t, comm) == ncclSuccess);
    return comm;
}

ncclResult_t comm_await(struct rank *t, ncclComm_t comm)
{
    const struct timespec pause = {.tv_nsec = 100000};
    ncclResult_t result = ncclInProgress;
    while (result == ncclInProgress) {
        CHECK(t->CommGetAsyncError(comm, &result) == ncclSuccess);
        nanosleep(&pause, NULL);
    }
    return result;
}
