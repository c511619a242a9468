/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=120 */
/*
 * The drivers cuda and rocm against the doubles of the vendors' libraries (tests/doubles), whose device memory no CPU
 * can touch, and whose streams are as late as real ones. A driver is started once per process and reads its environment
 * then, so each scenario is this program, executed anew with an environment of its own.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "device/device.h"
#include "tensor/strided.h"

enum { BYTES = 1 << 16, MANAGED_GLOBAL = 1 };

static const struct tti_device *d; /* of the scenario */
static bool is_cuda;
static tutti_error error;

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        const tutti_status ok_status = (call);                                                                         \
        if (ok_status != TUTTI_OK) {                                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, error.message);                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, error.message);    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A function of the double that the drivers do not use. */
static void *vendor(const char *cuda, const char *hip)
{
    void *file = dlopen(getenv(is_cuda ? "TUTTI_CUDA_LIBRARY" : "TUTTI_HIP_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    void *address = file ? dlsym(file, is_cuda ? cuda : hip) : NULL;
    CHECK(address);
    return address;
}

/* ---- scenarios ---- */

struct place {
    const char *name;
    unsigned char *memory;
    int32_t device; /* -1: the host's, which may be looked at */
};

static void await(void *stream)
{
    void *event;
    OK(d->event_create(&event, &error));
    OK(d->event_record(event, stream, &error));
    OK(tti_device_await(d, event, TTI_NEVER, &error));
    OK(d->event_destroy(event, &error));
}

static unsigned char byte_at(size_t i, unsigned seed)
{
    return (unsigned char)(i * 7 + i / 251 + seed);
}

static void fill(unsigned char *memory, unsigned seed)
{
    for (size_t i = 0; i < BYTES; i++) {
        memory[i] = byte_at(i, seed);
    }
}

/* Every direction between two devices, pinned and pageable host memory, by whole and by rows. */
static void copies(void)
{
    static const struct tti_device_rows shapes[] = {{.dst_pitch = 100, .src_pitch = 37, .width = 37, .rows = 50},
                                                    {.dst_pitch = 8, .src_pitch = 300, .width = 8, .rows = 200},
                                                    {.dst_pitch = 64, .src_pitch = 64, .width = 1, .rows = 1000},
                                                    {.dst_pitch = 5000000000, .src_pitch = 9, .width = 9, .rows = 1},
                                                    {.dst_pitch = 10, .src_pitch = 10, .width = 0, .rows = 5},
                                                    {.dst_pitch = 10, .src_pitch = 10, .width = 5, .rows = 0}};
    struct place places[] = {
        {"first device", NULL, 0}, {"second device", NULL, 1}, {"pinned", NULL, -1}, {"pageable", NULL, -1}};
    enum { PLACES = sizeof(places) / sizeof(places[0]) };
    struct tti_device_scope scope;
    struct tti_device_scope inner;
    unsigned char *source = malloc(BYTES); /* of what is in the source place, and of what comes from the target */
    unsigned char *target = malloc(BYTES);
    unsigned char *wanted = malloc(BYTES);
    void *stream;
    unsigned seed = 0;
    CHECK(source && target && wanted);
    OK(d->enter(0, &scope, &error));
    OK(d->stream_create(&stream, &error));
    OK(d->alloc(BYTES, (void **)&places[0].memory, &error));
    OK(d->enter(1, &inner, &error));
    OK(d->alloc(BYTES, (void **)&places[1].memory, &error));
    d->leave(&inner);
    OK(d->alloc_host(BYTES, (void **)&places[2].memory, &error));
    places[3].memory = malloc(BYTES);
    CHECK(places[3].memory);
    for (size_t from = 0; from < PLACES; from++) {
        for (size_t to = 0; to < PLACES; to++) {
            for (size_t shape = 0; from != to && shape <= sizeof(shapes) / sizeof(shapes[0]); shape++) {
                seed += 3;
                fill(source, seed);
                fill(wanted, seed + 1);
                OK(d->copy(places[from].memory, source, BYTES, stream, &error));
                OK(d->copy(places[to].memory, wanted, BYTES, stream, &error));
                if (shape == 0) {
                    memcpy(wanted + 3, source + 11, BYTES - 20);
                    OK(d->copy(places[to].memory + 3, places[from].memory + 11, BYTES - 20, stream, &error));
                    OK(d->copy(places[to].memory, places[from].memory, 0, stream, &error));
                } else {
                    struct tti_device_rows rows = shapes[shape - 1];
                    for (size_t i = 0; i < rows.rows; i++) {
                        memcpy(wanted + 5 + i * rows.dst_pitch, source + 1 + i * rows.src_pitch, rows.width);
                    }
                    rows.dst = places[to].memory + 5;
                    rows.src = places[from].memory + 1;
                    OK(d->copy_rows(&rows, stream, &error));
                }
                OK(d->copy(target, places[to].memory, BYTES, stream, &error));
                await(stream);
                if (memcmp(target, wanted, BYTES) != 0) {
                    fprintf(stderr, "from %s to %s, shape %zu: wrong bytes\n", places[from].name, places[to].name,
                            shape);
                    exit(1);
                }
            }
        }
    }
    OK(d->stream_destroy(stream, &error));
    OK(d->free(places[0].memory, &error));
    OK(d->free(places[1].memory, &error));
    OK(d->free_host(places[2].memory, &error));
    free(places[3].memory);
    free(source);
    free(target);
    free(wanted);
    d->leave(&scope);
}

/* Strided tensors on a device, against tensor/strided.h on the host. */
static void strided(void)
{
    static int64_t shapes[][4] = {{3, 4, 5, 6}, {10, 1, 7, 2}, {2, 2, 2, 64}};
    static int64_t strides[][4] = {{120, 30, 6, 1}, {1, 10, 20, 140}, {1000, 0, 128, 2}, {-300, 40, -8, 1}};
    struct tti_device_scope scope;
    unsigned char *before = malloc(BYTES);
    unsigned char *after = malloc(BYTES);
    unsigned char *wanted = malloc(BYTES);
    unsigned char *memory;
    unsigned char *compact;
    void *stream;
    CHECK(before && after && wanted);
    OK(d->enter(0, &scope, &error));
    OK(d->stream_create(&stream, &error));
    OK(d->alloc(BYTES, (void **)&memory, &error));
    OK(d->alloc(BYTES, (void **)&compact, &error));
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (size_t k = 0; k < sizeof(strides) / sizeof(strides[0]); k++) {
            DLTensor there = {
                .data = memory, .ndim = 4, .dtype = {kDLFloat, 32, 1}, .shape = shapes[i], .strides = strides[k]};
            there.byte_offset = 4 * (uint64_t)4000;
            DLTensor here = there;
            const size_t bytes = (size_t)tutti_tensor_count(&there) * 4;
            fill(before, (unsigned)k);
            fill(wanted, 50);
            OK(d->copy(memory, before, BYTES, stream, &error));
            OK(d->copy(compact, wanted, BYTES, stream, &error));
            OK(tti_device_pack(d, compact, &there, stream, &error));
            OK(d->copy(after, compact, BYTES, stream, &error));
            here.data = before;
            tti_tensor_pack(wanted, &here);
            await(stream);
            CHECK(memcmp(after, wanted, BYTES) == 0);
            if (!tti_tensor_self_overlaps(&there)) { /* and back, other values */
                fill(wanted, 99);
                OK(d->copy(compact, wanted, bytes, stream, &error));
                OK(tti_device_unpack(d, &there, compact, stream, &error));
                OK(d->copy(after, memory, BYTES, stream, &error));
                tti_tensor_unpack(&here, wanted);
                await(stream);
                CHECK(memcmp(after, before, BYTES) == 0);
            }
        }
    }
    OK(d->free(compact, &error));
    OK(d->free(memory, &error));
    OK(d->stream_destroy(stream, &error));
    free(before);
    free(after);
    free(wanted);
    d->leave(&scope);
}

/* HIP's last error of this thread: what failed inside is not left behind for the application. CUDA's driver has
 * none. */
static void check_nothing_left(void)
{
    if (!is_cuda) {
        int (*last)(void);
        *(void **)&last = vendor(NULL, "hipGetLastError");
        CHECK(last() == 0);
    }
}

/* Holds a stream until the gate, pinned memory, is opened. */
static void close_gate(void *stream, _Atomic uint32_t *gate)
{
    atomic_store_explicit(gate, 0, memory_order_relaxed);
    if (is_cuda) {
        int (*wait)(void *, unsigned long long, uint32_t, unsigned);
        *(void **)&wait = vendor("cuStreamWaitValue32_v2", NULL);
        CHECK(wait(stream, (uintptr_t)gate, 1, 0) == 0);
    } else {
        int (*wait)(void *, void *, uint32_t, unsigned, uint32_t);
        *(void **)&wait = vendor(NULL, "hipStreamWaitValue32");
        CHECK(wait(stream, (void *)gate, 1, 0, UINT32_MAX) == 0);
    }
}

/* Release: pairs with the acquire load of the double. */
static void open_gate(_Atomic uint32_t *gate)
{
    atomic_store_explicit(gate, 1, memory_order_release);
}

/* One stream is held; another waits for its event, and the host for that one. The default stream holds neither. */
static void order(void)
{
    struct tti_device_scope scope;
    _Atomic uint32_t *gate;
    unsigned char *source;
    unsigned char *target;
    void *middle;
    void *first;
    void *second;
    void *copied;
    void *done;
    OK(d->enter(0, &scope, &error));
    OK(d->alloc_host(sizeof(*gate), (void **)&gate, &error));
    OK(d->alloc_host(BYTES, (void **)&source, &error));
    OK(d->alloc_host(BYTES, (void **)&target, &error));
    OK(d->alloc(BYTES, &middle, &error));
    OK(d->stream_create(&first, &error));
    OK(d->stream_create(&second, &error));
    OK(d->event_create(&copied, &error));
    OK(d->event_create(&done, &error));
    int32_t finished = 0;
    OK(d->event_query(done, &finished, &error)); /* was never recorded */
    CHECK(finished == 1);
    for (unsigned round = 0; round < 3; round++) {
        fill(source, round);
        memset(target, 0, BYTES);
        close_gate(first, gate);
        OK(d->copy(middle, source, BYTES, first, &error));
        OK(d->event_record(copied, first, &error));
        OK(d->stream_wait_event(second, copied, &error));
        OK(d->copy(target, middle, BYTES, second, &error));
        OK(d->event_record(done, second, &error));
        OK(d->event_query(done, &finished, &error));
        CHECK(finished == 0);
        check_nothing_left();
        CHECK(tti_device_await(d, done, 0, &error) == TUTTI_TIMEOUT);
        CHECK(tti_device_await(d, done, tti_now_ns() + 10000000, &error) == TUTTI_TIMEOUT);
        CHECK(strstr(error.message, d->name));
        check_nothing_left();
        open_gate(gate);
        OK(tti_device_await(d, done, TTI_NEVER, &error));
        for (size_t i = 0; i < BYTES; i++) {
            CHECK(target[i] == byte_at(i, round));
        }
    }
    close_gate(NULL, gate);
    OK(d->copy(target, middle, BYTES, second, &error));
    OK(d->event_record(done, second, &error));
    OK(tti_device_await(d, done, tti_now_ns() + (int64_t)60 * 1000000000, &error));
    open_gate(gate);
    await(NULL);
    OK(d->event_destroy(copied, &error));
    OK(d->event_destroy(done, &error));
    OK(d->stream_destroy(first, &error));
    OK(d->stream_destroy(second, &error));
    OK(d->free(middle, &error));
    OK(d->free_host(gate, &error));
    OK(d->free_host(source, &error));
    OK(d->free_host(target, &error));
    d->leave(&scope);
}

/* A stream that the host holds back: what is queued behind the word happens when the word says so, and not before. */
static void word(void)
{
    struct tti_device_scope scope;
    _Atomic uint32_t *gate;
    unsigned char *source;
    unsigned char *target;
    void *middle; /* a copy within the host's memory would wait here */
    void *stream;
    void *done;
    int32_t finished = 1;
    if (!d->stream_wait_word) {
        CHECK(!is_cuda);
        return;
    }
    OK(d->enter(0, &scope, &error));
    OK(d->alloc_host(sizeof(*gate), (void **)&gate, &error));
    OK(d->alloc_host(BYTES, (void **)&source, &error));
    OK(d->alloc_host(BYTES, (void **)&target, &error));
    OK(d->alloc(BYTES, &middle, &error));
    OK(d->stream_create(&stream, &error));
    OK(d->event_create(&done, &error));
    memset(target, 0, BYTES);
    memset(source, 1, BYTES);
    atomic_store(gate, UINT32_MAX - 1); /* two behind 0, as signed difference */
    OK(d->stream_wait_word(stream, (const uint32_t *)gate, 0, &error));
    OK(d->copy(middle, source, BYTES, stream, &error));
    OK(d->copy(target, middle, BYTES, stream, &error));
    OK(d->event_record(done, stream, &error));
    CHECK(tti_device_await(d, done, tti_now_ns() + 20000000, &error) == TUTTI_TIMEOUT);
    atomic_store(gate, UINT32_MAX);
    CHECK(tti_device_await(d, done, tti_now_ns() + 20000000, &error) == TUTTI_TIMEOUT);
    memset(source, 2, BYTES);
    atomic_store(gate, 5); /* beyond is enough. The copy comes after: it sees the twos */
    OK(tti_device_await(d, done, TTI_NEVER, &error));
    CHECK(target[0] == 2 && memcmp(target, target + 1, BYTES - 1) == 0);
    OK(d->event_query(done, &finished, &error));
    CHECK(finished == 1);
    OK(d->event_destroy(done, &error));
    OK(d->stream_destroy(stream, &error));
    OK(d->free(middle, &error));
    OK(d->free_host(gate, &error));
    OK(d->free_host(source, &error));
    OK(d->free_host(target, &error));
    d->leave(&scope);
}

static void check_place(const void *memory, DLDeviceType type, int32_t index)
{
    DLDevice device = {kDLMetal, 77};
    OK(d->lookup(memory, &device, &error));
    if (device.device_type != type || device.device_id != index) {
        char text[24];
        fprintf(stderr, "%p is of %s\n", memory, tti_device_text(device, text));
    }
    CHECK(device.device_type == type && device.device_id == index);
}

static void lookup(void)
{
    static unsigned char constant[64];
    struct tti_device_scope scope;
    char *first;
    char *second;
    char *pinned;
    void *managed = NULL;
    char *plain = calloc(1, BYTES);
    char *page = aligned_alloc(4096, BYTES);
    unsigned long long pointer = 0;
    CHECK(plain && page);
    check_place(plain, kDLCPU, 0); /* no device was entered yet */
    OK(d->enter(0, &scope, &error));
    OK(d->alloc(BYTES, (void **)&first, &error));
    OK(d->alloc_host(BYTES, (void **)&pinned, &error));
    d->leave(&scope);
    OK(d->enter(2, &scope, &error));
    OK(d->alloc(BYTES, (void **)&second, &error));
    if (is_cuda) {
        int (*allocate)(unsigned long long *, size_t, unsigned);
        int (*pin)(void *, size_t, unsigned);
        *(void **)&allocate = vendor("cuMemAllocManaged", NULL);
        *(void **)&pin = vendor("cuMemHostRegister_v2", NULL);
        CHECK(allocate(&pointer, BYTES, MANAGED_GLOBAL) == 0);
        CHECK(pin(page, BYTES, 1) == 0);
        managed = (void *)(uintptr_t)pointer;
    } else {
        int (*allocate)(void **, size_t, unsigned);
        int (*pin)(void *, size_t, unsigned);
        *(void **)&allocate = vendor(NULL, "hipMallocManaged");
        *(void **)&pin = vendor(NULL, "hipHostRegister");
        CHECK(allocate(&managed, BYTES, MANAGED_GLOBAL) == 0);
        CHECK(pin(page, BYTES, 0) == 0);
    }
    d->leave(&scope);
    check_place(first, d->type, 0);
    check_place(first + BYTES - 1, d->type, 0);
    check_place(second + 100, d->type, 2);
    check_place(pinned + 5, d->host_type, 0);
    check_place(page + 5, d->host_type, 2);
    check_place((char *)managed + 9, d->managed_type, is_cuda ? 2 : 0);
    check_place(plain, kDLCPU, 0);
    check_place(&scope, kDLCPU, 0);
    check_place(constant, kDLCPU, 0);
    check_place(NULL, kDLCPU, 0);
    OK(d->enter(0, &scope, &error));
    OK(d->free(first, &error));
    OK(d->free_host(pinned, &error));
    check_place(first, kDLCPU, 0);
    check_nothing_left();
    d->leave(&scope);
    free(plain);
}

/* The current device of this thread as the vendor has it; -1: there is none. */
static int current(void)
{
    int (*ask)(int *);
    int device = -1;
    *(void **)&ask = vendor("cuCtxGetDevice", "hipGetDevice");
    return ask(&device) == 0 ? device : -1;
}

static void *enter_on_thread(void *user)
{
    struct tti_device_scope scope;
    (void)user;
    for (int32_t i = 0; i < 40; i++) {
        tutti_error mine;
        if (d->enter(i % 3, &scope, &mine) != TUTTI_OK || current() != i % 3) {
            return "failed";
        }
        d->leave(&scope);
    }
    return current() == (is_cuda ? -1 : 0) ? NULL : "left behind";
}

/* Scopes within scopes, on many threads. The environment lets a fourth primary context fail, so that one retained twice
 * is found. */
static void scopes(void)
{
    const int before = is_cuda ? -1 : 0;
    struct tti_device_scope outer;
    struct tti_device_scope inner;
    pthread_t threads[4];
    CHECK(d->count() == 4);
    CHECK(d->enter(4, &outer, &error) == TUTTI_INVALID_ARGUMENT);
    CHECK(strstr(error.message, is_cuda ? "cuda:4" : "rocm:4"));
    CHECK(d->enter(-1, &outer, &error) == TUTTI_INVALID_ARGUMENT);
    CHECK(d->enter(-1, &outer, NULL) == TUTTI_INVALID_ARGUMENT);
    CHECK(current() == before);
    for (size_t i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, enter_on_thread, NULL) == 0);
    }
    for (size_t i = 0; i < 4; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0 && !result);
    }
    OK(d->enter(1, &outer, &error));
    CHECK(current() == 1);
    OK(d->enter(2, &inner, &error));
    CHECK(current() == 2);
    d->leave(&inner);
    OK(d->enter(1, &inner, &error));
    d->leave(&inner);
    CHECK(current() == 1);
    d->leave(&outer);
    CHECK(current() == before);
    if (is_cuda) {
        CHECK(d->enter(3, &outer, &error) == TUTTI_NO_MEMORY);
        CHECK(strstr(error.message, "cuDevicePrimaryCtxRetain") && strstr(error.message, "cuda:3"));
        CHECK(error.vendor_code == 2);
    }
}

static void facts(void)
{
    unsigned char first[TTI_DEVICE_UUID];
    unsigned char second[TTI_DEVICE_UUID];
    char name[128] = "";
    char small[4] = "xyz";
    int32_t version = 0;
    OK(d->version(&version, &error));
    CHECK(version == (is_cuda ? 12030 : 60300000));
    OK(d->name_of(1, name, sizeof(name), &error));
    CHECK(strlen(name) > 3);
    OK(d->name_of(1, small, sizeof(small), &error));
    CHECK(strlen(small) < sizeof(small) && strncmp(name, small, strlen(small)) == 0);
    OK(d->uuid_of(0, first, &error));
    OK(d->uuid_of(1, second, &error));
    CHECK(memcmp(first, second, sizeof(first)) != 0);
    OK(d->uuid_of(0, second, &error));
    CHECK(memcmp(first, second, sizeof(first)) == 0);
    CHECK(d->name_of(4, name, sizeof(name), &error) == TUTTI_INVALID_ARGUMENT);
    CHECK(d->uuid_of(4, first, &error) == TUTTI_INVALID_ARGUMENT);
}

/* The environment orders: the second allocation fails with 2, the first copy with 700, the second record with 1. */
static void errors(void)
{
    struct tti_device_scope scope;
    void *memory;
    void *more = &scope;
    void *stream;
    void *event;
    OK(d->enter(1, &scope, &error));
    OK(d->alloc(100, &memory, &error));
    CHECK(d->alloc(12345, &more, &error) == TUTTI_NO_MEMORY);
    CHECK(more == &scope && error.vendor_code == 2);
    CHECK(
        strstr(error.message, is_cuda ? "cuMemAlloc of 12345 bytes on cuda:1" : "hipMalloc of 12345 bytes on rocm:1"));
    CHECK(strstr(error.message, is_cuda ? "(CUDA_ERROR_OUT_OF_MEMORY, 2)" : "(hipErrorOutOfMemory, 2)"));
    OK(d->stream_create(&stream, &error));
    OK(d->event_create(&event, &error));
    CHECK(d->copy(memory, &scope, 8, stream, NULL) == TUTTI_BACKEND);
    OK(d->event_record(event, stream, &error));
    CHECK(d->event_record(event, stream, &error) == TUTTI_BACKEND);
    CHECK(error.vendor_code == 1 && strstr(error.message, is_cuda ? "cuEventRecord" : "hipEventRecord"));
    CHECK(strstr(error.message, is_cuda ? "CUDA_ERROR_INVALID_VALUE" : "hipErrorInvalidValue"));
    CHECK(d->free((char *)memory + 1, &error) == TUTTI_BACKEND);
    OK(d->free(NULL, &error));
    OK(d->free_host(NULL, &error));
    CHECK(d->ipc_close(memory, &error) == TUTTI_BACKEND);
    unsigned char nonsense[TTI_DEVICE_IPC] = {1};
    CHECK(d->ipc_open(nonsense, &more, &error) == TUTTI_BACKEND && more == &scope);
    check_nothing_left();
    OK(d->alloc(0, &more, &error));
    CHECK(!more);
    OK(d->event_destroy(event, &error));
    OK(d->stream_destroy(stream, &error));
    OK(d->free(memory, &error));
    d->leave(&scope);
}

/* The environment orders: the work of the second copy fails. Whoever asks next is told. */
static void late_error(void)
{
    struct tti_device_scope scope;
    void *memory;
    void *stream;
    void *event;
    void *here; /* pinned: copies of pageable memory may wait, and then tell themselves */
    OK(d->enter(0, &scope, &error));
    OK(d->alloc_host(BYTES, &here, &error));
    OK(d->alloc(BYTES, &memory, &error));
    memset(here, 0, BYTES);
    OK(d->stream_create(&stream, &error));
    OK(d->event_create(&event, &error));
    OK(d->copy(memory, here, BYTES, stream, &error));
    OK(d->event_record(event, stream, &error));
    OK(tti_device_await(d, event, TTI_NEVER, &error));
    OK(d->copy(memory, here, BYTES, stream, &error));
    tutti_status status = d->event_record(event, stream, &error); /* may know it already */
    if (status == TUTTI_OK) {
        status = tti_device_await(d, event, TTI_NEVER, &error);
        CHECK(strstr(error.message, is_cuda ? "cuEventQuery" : "hipEventQuery"));
    }
    CHECK(status == TUTTI_BACKEND && error.vendor_code == 700);
    CHECK(strstr(error.message, is_cuda ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "hipErrorIllegalAddress"));
    d->leave(&scope);
}

static int run_again(const char *scenario, const char *driver, const char *argument);

/* Memory of this process is read and written by another one, which has the handle only. */
static void ipc(void)
{
    enum { SHIFT = 512 };
    struct tti_device_scope scope;
    unsigned char handle[TTI_DEVICE_IPC];
    char text[2 * TTI_DEVICE_IPC + 32];
    unsigned char *here = malloc(BYTES);
    char *memory;
    size_t offset = 0;
    void *stream;
    CHECK(here);
    OK(d->enter(1, &scope, &error));
    OK(d->alloc(BYTES, (void **)&memory, &error));
    OK(d->stream_create(&stream, &error));
    fill(here, 1);
    OK(d->copy(memory, here, BYTES, stream, &error));
    await(stream);
    OK(d->ipc_export(memory + SHIFT, handle, &offset, &error));
    CHECK(offset == SHIFT);
    for (size_t i = 0; i < sizeof(handle); i++) {
        snprintf(text + 2 * i, 3, "%02x", handle[i]);
    }
    CHECK(run_again("ipc_peer", d->name, text) == 0);
    OK(d->copy(here, memory, BYTES, stream, &error));
    await(stream);
    for (size_t i = 0; i < BYTES; i++) {
        CHECK(here[i] == byte_at(i, i < SHIFT ? 1 : 2));
    }
    CHECK(d->ipc_export(here, handle, &offset, &error) == TUTTI_BACKEND);
    OK(d->stream_destroy(stream, &error));
    OK(d->free(memory, &error));
    free(here);
    d->leave(&scope);
}

static void ipc_peer(const char *text)
{
    enum { SHIFT = 512 };
    struct tti_device_scope scope;
    unsigned char handle[TTI_DEVICE_IPC];
    unsigned char *here = malloc(BYTES);
    char *allocation;
    void *stream;
    CHECK(here);
    for (size_t i = 0; i < sizeof(handle); i++) {
        unsigned byte;
        CHECK(sscanf(text + 2 * i, "%2x", &byte) == 1);
        handle[i] = (unsigned char)byte;
    }
    OK(d->enter(1, &scope, &error));
    OK(d->ipc_open(handle, (void **)&allocation, &error));
    OK(d->stream_create(&stream, &error));
    OK(d->copy(here, allocation, BYTES, stream, &error));
    await(stream);
    for (size_t i = 0; i < BYTES; i++) {
        CHECK(here[i] == byte_at(i, 1));
    }
    fill(here, 2);
    OK(d->copy(allocation + SHIFT, here + SHIFT, BYTES - SHIFT, stream, &error));
    await(stream);
    OK(d->stream_destroy(stream, &error));
    OK(d->ipc_close(allocation, &error));
    free(here);
    d->leave(&scope);
}

/* A fork's child is told, and does not crash; its parent is not disturbed. */
static void forked(void)
{
    struct tti_device_scope scope;
    void *memory;
    int result;
    OK(d->enter(0, &scope, &error));
    d->leave(&scope);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char why[256];
        DLDevice device;
        const bool fine = d->enter(0, &scope, &error) == TUTTI_FORKED && strstr(error.message, "fork") &&
                          d->available(why, sizeof(why)) == 0 && strstr(why, "fork") && d->count() == 0 &&
                          d->lookup(why, &device, &error) == TUTTI_FORKED;
        _exit(fine ? 0 : 1);
    }
    CHECK(waitpid(child, &result, 0) == child && result == 0);
    OK(d->enter(0, &scope, &error));
    OK(d->alloc(10, &memory, &error));
    OK(d->free(memory, &error));
    d->leave(&scope);
}

/* Not available, and `argument` says why; and every function says so, too. */
static void unavailable(const char *argument)
{
    struct tti_device_scope scope;
    unsigned char uuid[TTI_DEVICE_UUID];
    char why[256] = "";
    char again[256] = "";
    char cut[8] = "";
    DLDevice device = {kDLMetal, 5};
    int32_t version = -1;
    CHECK(d->available(why, sizeof(why)) == 0);
    if (!strstr(why, argument)) {
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", argument, why);
        exit(1);
    }
    CHECK(d->available(again, sizeof(again)) == 0 && strcmp(why, again) == 0);
    CHECK(d->available(cut, sizeof(cut)) == 0 && strlen(cut) == 7 && strncmp(cut, why, 7) == 0);
    CHECK(d->available(NULL, 0) == 0);
    CHECK(d->count() == 0);
    CHECK(d->enter(0, &scope, &error) == TUTTI_NOT_AVAILABLE && strstr(error.message, argument));
    CHECK(d->lookup(why, &device, &error) == TUTTI_NOT_AVAILABLE && device.device_id == 5);
    CHECK(d->version(&version, &error) == TUTTI_NOT_AVAILABLE && version == -1);
    CHECK(d->name_of(0, why, sizeof(why), &error) == TUTTI_NOT_AVAILABLE);
    CHECK(d->uuid_of(0, uuid, &error) == TUTTI_NOT_AVAILABLE);
}

/* An older library has not everything, and is used as far as it goes. */
static void old(void)
{
    struct tti_device_scope scope;
    unsigned char uuid[TTI_DEVICE_UUID];
    uint32_t *gate;
    void *stream;
    OK(d->uuid_of(0, uuid, &error));
    OK(d->enter(0, &scope, &error));
    OK(d->stream_create(&stream, &error));
    OK(d->alloc_host(sizeof(*gate), (void **)&gate, &error));
    *gate = 0;
    CHECK(d->stream_wait_word(stream, gate, 1, &error) == TUTTI_UNSUPPORTED);
    OK(d->free_host(gate, &error));
    OK(d->stream_destroy(stream, &error));
    d->leave(&scope);
}

/* The process has opened another library of that kind itself, from a later place in the order. */
static void loaded(const char *soname)
{
    int32_t version = 0;
    CHECK(dlopen(soname, RTLD_NOW | RTLD_LOCAL));
    OK(d->version(&version, &error));
    CHECK(version / 10000000 == 6);
}

static const struct {
    const char *name;
    void (*run)(void);
    void (*run_with)(const char *argument);
} scenarios[] = {
    {"copies", copies, NULL},
    {"strided", strided, NULL},
    {"order", order, NULL},
    {"word", word, NULL},
    {"lookup", lookup, NULL},
    {"scopes", scopes, NULL},
    {"facts", facts, NULL},
    {"errors", errors, NULL},
    {"late_error", late_error, NULL},
    {"ipc", ipc, NULL},
    {"ipc_peer", NULL, ipc_peer},
    {"forked", forked, NULL},
    {"unavailable", NULL, unavailable},
    {"old", old, NULL},
    {"loaded", NULL, loaded},
};

static int run_scenario(const char *name, const char *driver, const char *argument)
{
    d = tti_device_named(driver);
    is_cuda = d == &tti_device_cuda;
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        if (strcmp(scenarios[i].name, name) == 0) {
            if (scenarios[i].run_with) {
                scenarios[i].run_with(argument);
            } else {
                scenarios[i].run();
            }
            return 0;
        }
    }
    fprintf(stderr, "no scenario %s\n", name);
    return 1;
}

/* ---- the tests ---- */

/* This program as a process of its own, in the environment of this one. */
static int run_again(const char *scenario, const char *driver, const char *argument)
{
    int result = -1;
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "device_drivers", scenario, driver, argument, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &result, 0) == child ? result : -1;
}

/* A library of the doubles: the folder says which. */
static const char *double_of(const char *folder)
{
    static char path[4096];
    static const struct {
        const char *folder;
        const char *file;
    } files[] = {{"cuda", "libcuda.so.1"},     {"cuda_old", "libcuda.so.1"}, {"hip5", "libamdhip64.so.5"},
                 {"hip6", "libamdhip64.so.6"}, {"hip7", "libamdhip64.so.7"}, {"hip_old", "libamdhip64.so.5"}};
    const char *build = getenv("TUTTI_BUILD");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (strcmp(files[i].folder, folder) == 0) {
            snprintf(path, sizeof(path), "%s/tests/doubles/%s/%s", build ? build : ".", folder, files[i].file);
            return path;
        }
    }
    return folder; /* a name for the loader */
}

struct run {
    const char *scenario;
    const char *driver;
    const char *library; /* a double, or a name for the loader; "": not named in the environment */
    const char *orders;  /* for the double */
    const char *argument;
};

static void check_runs(const struct run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bool cuda = strcmp(runs[i].driver, "cuda") == 0;
        setenv(cuda ? "TUTTI_CUDA_LIBRARY" : "TUTTI_HIP_LIBRARY", double_of(runs[i].library), 1);
        setenv(cuda ? "TUTTI_DOUBLE_CUDA" : "TUTTI_DOUBLE_HIP", runs[i].orders ? runs[i].orders : "", 1);
        const int result = run_again(runs[i].scenario, runs[i].driver, runs[i].argument ? runs[i].argument : "");
        if (result != 0) {
            fail_msg("%s of %s with %s and \"%s\" ended with %#x", runs[i].scenario, runs[i].driver, runs[i].library,
                     runs[i].orders ? runs[i].orders : "", (unsigned)result);
        }
    }
}

#define CHECK_RUNS(runs) check_runs(runs, sizeof(runs) / sizeof((runs)[0]))

static void test_copies(void **state)
{
    static const struct run runs[] = {{"copies", "cuda", "cuda", NULL, NULL},
                                      {"copies", "rocm", "hip6", NULL, NULL},
                                      {"strided", "cuda", "cuda", NULL, NULL},
                                      {"strided", "rocm", "hip7", NULL, NULL}};
    (void)state;
    CHECK_RUNS(runs);
}

static void test_order(void **state)
{
    static const struct run runs[] = {{"order", "cuda", "cuda", NULL, NULL},
                                      {"order", "rocm", "hip7", NULL, NULL},
                                      {"word", "cuda", "cuda", NULL, NULL},
                                      {"word", "rocm", "hip6", NULL, NULL}};
    (void)state;
    CHECK_RUNS(runs);
}

static void test_lookup(void **state)
{
    static const struct run runs[] = {{"lookup", "cuda", "cuda", NULL, NULL},
                                      {"lookup", "rocm", "hip5", NULL, NULL},
                                      {"lookup", "rocm", "hip6", NULL, NULL},
                                      {"lookup", "rocm", "hip7", NULL, NULL}};
    (void)state;
    CHECK_RUNS(runs);
}

static void test_scopes(void **state)
{
    static const struct run runs[] = {{"scopes", "cuda", "cuda", "fail=cuDevicePrimaryCtxRetain:4+=2", NULL},
                                      {"scopes", "rocm", "hip6", NULL, NULL},
                                      {"facts", "cuda", "cuda", "version=12030", NULL},
                                      {"facts", "rocm", "hip6", "version=60300000", NULL}};
    (void)state;
    CHECK_RUNS(runs);
}

static void test_errors(void **state)
{
    static const struct run runs[] = {
        {"errors", "cuda", "cuda", "fail=cuMemAlloc_v2:2=2,fail=cuMemcpyAsync:1=700,fail=cuEventRecord:2=1", NULL},
        {"errors", "rocm", "hip7", "fail=hipMalloc:2=2,fail=hipMemcpyAsync:1=700,fail=hipEventRecord:2=1", NULL},
        {"late_error", "cuda", "cuda", "async_error=cuMemcpyAsync:2=700", NULL},
        {"late_error", "rocm", "hip6", "async_error=hipMemcpyAsync:2=700", NULL}};
    (void)state;
    CHECK_RUNS(runs);
}

static void test_processes(void **state)
{
    static const struct run runs[] = {{"ipc", "cuda", "cuda", NULL, NULL},    {"ipc", "rocm", "hip5", NULL, NULL},
                                      {"ipc", "rocm", "hip6", NULL, NULL},    {"ipc", "rocm", "hip7", NULL, NULL},
                                      {"forked", "cuda", "cuda", NULL, NULL}, {"forked", "rocm", "hip6", NULL, NULL}};
    (void)state;
    CHECK_RUNS(runs);
}

static void test_unavailable(void **state)
{
    static const struct run runs[] = {
        {"unavailable", "cuda", "/nonexistent/libcuda.so.1", NULL, "no driver: /nonexistent/libcuda.so.1: cannot open"},
        {"unavailable", "cuda", "/nonexistent/libcuda.so.1", NULL, "TUTTI_CUDA_LIBRARY"},
        {"unavailable", "rocm", "/nonexistent/libamdhip64.so", NULL,
         "no driver: /nonexistent/libamdhip64.so: cannot open"},
        {"unavailable", "rocm", "/nonexistent/libamdhip64.so", NULL, "TUTTI_HIP_LIBRARY"},
        {"unavailable", "cuda", "libm.so.6", NULL, "libm.so.6 has no cuInit"},
        {"unavailable", "rocm", "libm.so.6", NULL, "libm.so.6 has no hipRuntimeGetVersion"},
        {"unavailable", "cuda", "cuda", "devices=0", "CUDA_ERROR_NO_DEVICE, 100"},
        {"unavailable", "rocm", "hip6", "devices=0", "hipErrorNoDevice, 100"},
        {"unavailable", "cuda", "cuda", "init=34", "cuInit failed: "},
        {"unavailable", "cuda", "cuda", "init=34", "(CUDA_ERROR_STUB_LIBRARY, 34)"},
        {"unavailable", "cuda", "cuda", "fail=cuDeviceGetCount=3", "cuDeviceGetCount failed: "},
        {"unavailable", "rocm", "hip6", "fail=hipGetDeviceCount=101", "(hipErrorInvalidDevice, 101)"},
        {"old", "cuda", "cuda_old", NULL, NULL},
        {"unavailable", "rocm", "hip_old", NULL, "libamdhip64.so.5 has no hip"}};
    (void)state;
    CHECK_RUNS(runs);
}

/* Without the variables: the loader's own way, and a library that is in the process before a newer one that is not. */
static void test_search(void **state)
{
    static const struct run found[] = {{"facts", "cuda", "", "version=12030", NULL},
                                       {"loaded", "rocm", "", NULL, "libamdhip64.so.6"}};
    static const struct run next[] = {{"facts", "rocm", "", "version=60300000", NULL}};
    static const struct run missing[] = {
        {"unavailable", "cuda", "", NULL, "no driver: libcuda.so.1: cannot open shared object file"},
        {"unavailable", "rocm", "", NULL, "no driver: libamdhip64.so.7: cannot open shared object file"}};
    const char *build = getenv("TUTTI_BUILD");
    const char *before = getenv("LD_LIBRARY_PATH");
    char *saved = before ? strdup(before) : NULL;
    char paths[8192];
    (void)state;
    snprintf(paths, sizeof(paths), "%s/tests/doubles/cuda:%s/tests/doubles/hip7:%s/tests/doubles/hip6", build, build,
             build);
    setenv("LD_LIBRARY_PATH", paths, 1);
    CHECK_RUNS(found);
    snprintf(paths, sizeof(paths), "%s/tests/doubles/hip6", build);
    setenv("LD_LIBRARY_PATH", paths, 1);
    CHECK_RUNS(next);
    if (saved) {
        setenv("LD_LIBRARY_PATH", saved, 1);
        free(saved);
    } else {
        unsetenv("LD_LIBRARY_PATH");
    }
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) { /* unless a machine has them */
        void *there = dlopen(i == 0 ? "libcuda.so.1" : "libamdhip64.so.7", RTLD_LAZY | RTLD_LOCAL);
        if (!there) {
            check_runs(&missing[i], 1);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies), cmocka_unit_test(test_order),       cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_scopes), cmocka_unit_test(test_errors),      cmocka_unit_test(test_processes),
        cmocka_unit_test(test_search), cmocka_unit_test(test_unavailable),
    };
    if (argc == 4) {
        return run_scenario(argv[1], argv[2], argv[3]);
    }
    if (!getenv("TUTTI_BUILD")) {
        fprintf(stderr, "TUTTI_BUILD does not name the build tree, in which the doubles lie\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
