/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=120 */
/* The drivers cuda and rocm: where memory is, also in other processes, which device is current, and error messages. */
#include <pthread.h>

#include "device_support.h"

enum { MANAGED_GLOBAL = 1 };

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

/* The environment makes the work of the second copy fail. The next query reports it. */
static void late_error(void)
{
    struct tti_device_scope scope;
    void *memory;
    void *stream;
    void *event;
    void *here; /* pinned: a copy of pageable memory may wait, and then returns the error itself */
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
    tutti_status status = d->event_record(event, stream, &error); /* this call may return the error already */
    if (status == TUTTI_OK) {
        status = tti_device_await(d, event, TTI_NEVER, &error);
        CHECK(strstr(error.message, is_cuda ? "cuEventQuery" : "hipEventQuery"));
    }
    CHECK(status == TUTTI_BACKEND && error.vendor_code == 700);
    CHECK(strstr(error.message, is_cuda ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "hipErrorIllegalAddress"));
    d->leave(&scope);
}

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

/* A forked child gets FORKED and does not crash; its parent is not disturbed. */
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

static const struct scenario scenarios[] = {
    {"lookup", lookup, NULL}, {"scopes", scopes, NULL},     {"errors", errors, NULL}, {"late_error", late_error, NULL},
    {"ipc", ipc, NULL},       {"ipc_peer", NULL, ipc_peer}, {"forked", forked, NULL},
};

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
                                      {"scopes", "rocm", "hip6", NULL, NULL}};
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_processes),
    };
    DEVICE_MAIN(argc, argv, scenarios, tests);
}
