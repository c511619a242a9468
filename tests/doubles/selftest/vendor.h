/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One way to call the doubles of both vendors, for the self-test. The functions are declared here once more, from the
 * vendors' documentation and not from the doubles' sources. CUDA's device pointers are numbers as wide as pointers;
 * they are passed in the same registers.
 */
#ifndef TESTS_DOUBLES_SELFTEST_VENDOR_H
#define TESTS_DOUBLES_SELFTEST_VENDOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_CONTEXT = 201,
    MAP_FAILED_CODE = 205,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    CONTEXT_IS_DESTROYED = 709,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    LAUNCH_FAILED = 719,
    NOT_PERMITTED = 800,
    NOT_SUPPORTED = 801
};

enum place { ELSEWHERE, HOST, DEVICE, MANAGED };

struct rows {
    void *dst;
    size_t dst_pitch;
    const void *src;
    size_t src_pitch;
    size_t width;
    size_t rows;
};

struct ipc {
    char bytes[64];
};

extern int hip;  /* 0: CUDA; else HIP's major version */
extern bool old; /* without what newer versions brought */

/* Loads the double; `path` also selects CUDA or HIP. */
void vendor_load(const char *path);
bool vendor_has(const char *function);
/* Starts it on a device: cuInit and a primary context that is current, or hipSetDevice. */
int vendor_begin(int device);
int vendor_count(int *count);
int vendor_init(void);

int vendor_alloc(void **memory, size_t bytes);
int vendor_free(void *memory);
int vendor_managed(void **memory, size_t bytes);
int vendor_host_alloc(void **memory, size_t bytes);
int vendor_host_free(void *memory);
int vendor_register(void *memory, size_t bytes);
int vendor_unregister(void *memory);
int vendor_range(void **base, size_t *bytes, void *memory);
/* The attributes of an address. */
int vendor_place(const void *memory, enum place *place, int *device);
int vendor_copy(void *dst, const void *src, size_t bytes, void *stream);
int vendor_copy_rows(const struct rows *rows, void *stream);
int vendor_fill(void *dst, int byte, size_t bytes, void *stream);
int vendor_stream(void **stream, bool blocking);
int vendor_stream_destroy(void *stream);
int vendor_stream_query(void *stream);
int vendor_stream_synchronize(void *stream);
int vendor_stream_wait(void *stream, void *event);
int vendor_stream_wait_word(void *stream, const uint32_t *word, uint32_t value);
int vendor_host_function(void *stream, void (*function)(void *), void *data);
int vendor_event(void **event);
int vendor_event_destroy(void *event);
int vendor_event_record(void *event, void *stream);
int vendor_event_query(void *event);
int vendor_event_synchronize(void *event);
int vendor_ipc_export(struct ipc *handle, void *memory);
int vendor_ipc_open(void **memory, const struct ipc *handle);
int vendor_ipc_close(void *memory);
void *double_shadow(const void *memory, size_t bytes, int *device);
int double_launch(void *stream, int (*run)(void *, int), void *data);

/* CUDA only. */
int cuda_push(int device);
int cuda_pop(void);
int cuda_release(int device);
int cuda_copy_as(int type, const struct rows *rows, void *stream);

#endif
