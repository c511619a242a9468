/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that are host memory and threads: the common part of the doubles of libcuda.so.1 and libamdhip64.so. The two
 * front ends (cuda*.c, hip*.c) implement the vendors' interfaces; the rest is here. README.md describes for users what
 * the doubles do and what they refuse.
 *
 * Codes are the vendors' own: HIP took over the numbers of CUDA's driver interface, so the core gives the same ones to
 * both.
 */
#ifndef TESTS_DOUBLES_DEVICE_DEVICE_H
#define TESTS_DOUBLES_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TTI_DOUBLE_OK = 0,
    TTI_DOUBLE_INVALID_VALUE = 1,
    TTI_DOUBLE_OUT_OF_MEMORY = 2,
    TTI_DOUBLE_NOT_INITIALIZED = 3,
    TTI_DOUBLE_DEINITIALIZED = 4,
    TTI_DOUBLE_NO_DEVICE = 100,
    TTI_DOUBLE_INVALID_DEVICE = 101,
    TTI_DOUBLE_INVALID_CONTEXT = 201,
    TTI_DOUBLE_MAP_FAILED = 205,
    TTI_DOUBLE_INVALID_HANDLE = 400,
    TTI_DOUBLE_NOT_FOUND = 500,
    TTI_DOUBLE_NOT_READY = 600,
    TTI_DOUBLE_CONTEXT_IS_DESTROYED = 709,
    TTI_DOUBLE_ALREADY_REGISTERED = 712,
    TTI_DOUBLE_NOT_REGISTERED = 713,
    TTI_DOUBLE_NOT_PERMITTED = 800,
    TTI_DOUBLE_NOT_SUPPORTED = 801
};

enum { TTI_DOUBLE_DEVICES = 16, TTI_DOUBLE_UUID = 16, TTI_DOUBLE_IPC = 64 };

/* What differs between the vendors. Each front end defines it once. */
struct tti_double_vendor {
    const char *variable; /* of the environment: devices, delays and faults */
    const char *visible;  /* of the environment: which of the devices a process sees */
    int version;          /* of the driver, unless `version=` gives another */
    bool stages;          /* small copies from pageable memory are taken over at the call; else it waits for them */
    bool host_waits;      /* copies from host to host memory wait, pinned or not */
};
extern const struct tti_double_vendor tti_double_vendor;

/* ---- device.c: the whole ---- */

/* Every function of a front end begins with it. Counts the call, and returns the code to return at once: in a fork's
 * child, before the start or after the end, inside a host function, or for an ordered fault. */
int tti_double_enter(const char *function);
/* The same without the check that init was called. */
int tti_double_enter_early(const char *function);
int tti_double_init(void);
int tti_double_count(void);
int tti_double_version(void);
/* Of the machine, whichever devices the process sees. */
int tti_double_physical(int device);
void tti_double_uuid(int device, unsigned char uuid[TTI_DOUBLE_UUID]);
/* The error of an operation on the device, which is final; 0 if none has failed. */
int tti_double_sticky(int device);
/* Waits for everything that was queued on the device until now. */
int tti_double_synchronize(int device);
/* Frees all objects of the device: memory, streams, events and the error. Queued work is dropped. */
void tti_double_reset(int device);

/* ---- device_memory.c ---- */

enum tti_double_kind {
    TTI_DOUBLE_DEVICE,     /* no CPU may touch it */
    TTI_DOUBLE_MANAGED,    /* managed: migrates between host and device */
    TTI_DOUBLE_PINNED,     /* of the host, allocated here */
    TTI_DOUBLE_REGISTERED, /* of the host, allocated elsewhere */
    TTI_DOUBLE_IMPORTED    /* of a device, allocated by another process */
};

struct tti_double_memory {
    enum tti_double_kind kind;
    int device;
    unsigned flags; /* as they were given when it was allocated */
    void *base;
    size_t bytes;
    uint64_t id; /* never given twice */
};

int tti_double_alloc(enum tti_double_kind kind, int device, size_t bytes, unsigned flags, void **memory);
/* `memory` is where an allocation of one of the kinds begins: bit 1 << kind is set in `kinds`. Waits for its device. */
int tti_double_free(unsigned kinds, void *memory);
int tti_double_register(int device, void *memory, size_t bytes, unsigned flags);
/* The live allocation that contains an address. */
bool tti_double_lookup(const void *address, struct tti_double_memory *memory);
void tti_double_memory_info(int device, size_t *free, size_t *total);

/* ---- device_ipc.c ---- */

int tti_double_ipc_export(const void *memory, unsigned char handle[TTI_DOUBLE_IPC]);
/* The same allocation opened twice is counted and has one address. */
int tti_double_ipc_open(int device, const unsigned char handle[TTI_DOUBLE_IPC], void **memory);
int tti_double_ipc_close(void *memory);

/* ---- device_stream.c. `device` is the current one: the default stream (NULL) is its own. ---- */

int tti_double_stream_create(int device, bool blocking, void **stream);
int tti_double_stream_destroy(int device, void *stream);
int tti_double_stream_query(int device, void *stream);
int tti_double_stream_synchronize(int device, void *stream);
/* The device of a stream, and whether it waits for the default stream. */
int tti_double_stream_info(int device, void *stream, int *owner, bool *blocking);

/* ---- device_event.c ---- */

int tti_double_event_create(int device, void **event);
int tti_double_event_destroy(void *event);
int tti_double_event_record(const char *function, int device, void *event, void *stream);
int tti_double_event_query(void *event);
int tti_double_event_synchronize(void *event);
int tti_double_stream_wait_event(const char *function, int device, void *stream, void *event);

/* ---- device_queue.c: what else is queued ---- */

struct tti_double_copy {
    void *dst;
    size_t dst_pitch;
    const void *src;
    size_t src_pitch;
    size_t width;
    size_t rows;
};

int tti_double_copy(const char *function, int device, const struct tti_double_copy *copy, void *stream);
int tti_double_fill(const char *function, int device, void *dst, unsigned char byte, size_t bytes, void *stream);
/* One at a time in the whole process, and may not call the library: as the vendors have it. */
int tti_double_host_function(const char *function, int device, void *stream, void (*run)(void *), void *data);

struct tti_double_word {
    const void *address;
    uint32_t value;
    uint32_t mask;
    /* Whether the masked word has the value that the stream waits for. */
    bool (*holds)(uint32_t word, uint32_t value);
};

int tti_double_wait_word(const char *function, int device, void *stream, const struct tti_double_word *word);
/* Conditions that both vendors have. */
static inline bool tti_double_equal(uint32_t word, uint32_t value)
{
    return word == value;
}
static inline bool tti_double_shares_a_bit(uint32_t word, uint32_t value)
{
    return word & value;
}
static inline bool tti_double_lacks_a_bit(uint32_t word, uint32_t value)
{
    return ~(word | value);
}

/* ---- exported beside the vendor's functions, for the doubles of NCCL and RCCL ---- */

#define TTI_DOUBLE_EXPORT __attribute__((visibility("default")))

/* The shadow address of [pointer, pointer + bytes), or NULL unless one live allocation contains it. Host memory is its
 * own shadow; its device is -1. */
TTI_DOUBLE_EXPORT void *tti_double_shadow(const void *pointer, size_t bytes, int *device);
/*
 * Queues the stand-in of a kernel. `run` is called once, on a thread of the stream, in the order of the stream and
 * beside other streams. It may wait for another kernel and use tti_double_shadow, but no other function of the library.
 * `code` is 0, or the error of the device that keeps the kernel from running: then `run` only releases `data`. A result
 * other than 0 becomes the device's error. Returns the vendor's code; a stream of another device than the current one
 * is refused. `run` is not called after the process has begun to end.
 */
TTI_DOUBLE_EXPORT int tti_double_launch(void *stream, int (*run)(void *data, int code), void *data);
/* The device of a stream, -1 if there is no such stream. */
TTI_DOUBLE_EXPORT int tti_double_stream_device(void *stream);

/* The current device of this thread, from the front end; -1 and the code if there is none. */
int tti_double_current(int *code);

#endif
