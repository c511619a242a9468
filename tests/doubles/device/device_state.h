/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of the core. One lock guards everything, and one condition is signalled at every change: the
 * doubles are for tests, where being obviously right is worth more than speed. Only the work itself (copies, host
 * functions, kernels) is done without the lock.
 */
#ifndef TESTS_DOUBLES_DEVICE_DEVICE_STATE_H
#define TESTS_DOUBLES_DEVICE_DEVICE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "device.h"

/* An operation in a stream. Kinds of operations embed it as their first member. Once queued it is the stream's. */
struct tti_double_op {
    struct tti_double_op *next;
    uint64_t sequence; /* over all streams: in the order of queueing */
    bool hangs;        /* ordered: never done */
    int fails;         /* ordered: the error of the device */
    bool calls_out;    /* runs code that is not the double's own, which may take forever */
    bool polls;        /* `ready` depends on memory, and no signal announces its change */
    /* Under the lock: whether it may begin. NULL: as soon as the work before it has ended. */
    bool (*ready)(const struct tti_double_op *op);
    /* Without the lock. NULL: there is nothing to do. `code`: the error of the device that keeps it from being done. */
    int (*run)(struct tti_double_op *op, int code);
    /* Under the lock, when it is done or dropped; it is freed afterwards. */
    void (*finish)(struct tti_double_op *op, int code);
};

struct tti_double_stream {
    pthread_cond_t wanted; /* the thread waits here while it has nothing to do, so that others' ends do not wake it */
    struct tti_double_stream *next;
    int device;
    bool blocking; /* waits for the default stream of its device, and that one for it */
    bool started;  /* has its thread */
    bool closing;  /* destroyed: its thread ends when the queue is empty */
    bool dropped;  /* the device was reset: queued work is dropped */
    int users;     /* threads that wait for it */
    uint64_t random;
    uint64_t thread; /* of per-thread default streams: the owner */
    struct tti_double_op *head;
    struct tti_double_op **tail;
};

struct tti_double_block {
    uintptr_t begin; /* as handed out */
    size_t bytes;
    size_t mapped; /* whole pages from begin on, with the guard; 0 for registered memory */
    char *shadow;  /* where the double reads and writes; begin for host memory */
    enum tti_double_kind kind;
    int device;
    unsigned flags;
    int fd;
    uint64_t id;
    int users; /* operations that are queued */
    bool dead; /* freed: the last user unmaps it */
    struct tti_double_block *next_dead;
    int opened;
    uint64_t inode; /* of the file behind device memory: its name between processes */
};

struct tti_double_device {
    int physical;
    int error;
    size_t used;
    struct tti_double_stream *null_stream;
};

struct tti_double_state {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* waits by CLOCK_MONOTONIC */
    bool initialised;
    bool ending;
    int workers; /* threads of streams, without those that run host functions or kernels */
    uint64_t sequence;
    int count;
    struct tti_double_device devices[TTI_DOUBLE_DEVICES];
    struct tti_double_stream *streams; /* also default streams and streams that are closing */
};
extern struct tti_double_state tti_double;

/* Whether this thread runs a host function or a kernel, which may not call the library. 1: it begins, -1: it ends. */
bool tti_double_foreign_code(int change);

/* Waits for a change, at most so long. */
void tti_double_sleep(int64_t nanoseconds);
int64_t tti_double_now(void);

/* ---- device_rules.c: what TUTTI_DOUBLE_* orders ---- */

struct tti_double_settings {
    int devices;
    int version;
    int init;
    int delay_us; /* -1: a few, at random */
    uint64_t seed;
    size_t memory;
};
/* Read once; an unknown word ends the process. */
const struct tti_double_settings *tti_double_settings(void);

enum tti_double_fault { TTI_DOUBLE_FAIL, TTI_DOUBLE_HANG, TTI_DOUBLE_ASYNC };
/* Counts a call, under the lock: 0, or the code that was ordered for it (1 for hang). */
int tti_double_fault_for_call(enum tti_double_fault what, const char *function);

/* ---- handles: numbers that are never reused and that no program can dereference ---- */

enum tti_double_handle { TTI_DOUBLE_STREAM_HANDLE, TTI_DOUBLE_EVENT_HANDLE, TTI_DOUBLE_HANDLES };
/* Under the lock. NULL: no memory; no such handle. */
void *tti_double_handle_new(enum tti_double_handle type, void *object);
void *tti_double_handle_get(enum tti_double_handle type, const void *handle);
void tti_double_handle_drop(enum tti_double_handle type, const void *handle);
/* Drops all handles whose object `of` accepts, which may free it. */
void tti_double_handle_drop_all(enum tti_double_handle type, int device, bool (*of)(void *object, int device));

/* ---- between the files; under the lock unless noted ---- */

/* NULL if there is no such stream. */
struct tti_double_stream *tti_double_stream_find(int device, void *stream);
/* Takes the operation over, also when it fails. */
int tti_double_enqueue(const char *function, struct tti_double_stream *stream, struct tti_double_op *op);
/* Waits until all work up to `sequence` has ended; returns the error of the device. */
int tti_double_stream_drain(struct tti_double_stream *stream, uint64_t sequence);
int tti_double_device_drain(int device);
/* Whether the stream has work up to `sequence`; of a default stream also in the streams that it waits for. */
bool tti_double_stream_busy(const struct tti_double_stream *stream, uint64_t sequence);
void tti_double_streams_close(int device);
void tti_double_events_close(int device);
void tti_double_blocks_close(int device);

/* The block that contains an address; NULL if none. */
struct tti_double_block *tti_double_block_at(uintptr_t address);
/* Whether any part of the range is memory of ours that may not be taken for the application's: another's or freed. */
bool tti_double_block_touches(uintptr_t begin, size_t bytes);
bool tti_double_block_add(struct tti_double_block *block);
void tti_double_block_remove(struct tti_double_block *block);
struct tti_double_block *tti_double_block_imported(uint64_t inode, int device);
/* Maps `fd` twice: without access rights for the program, and with them for the double. */
bool tti_double_block_map(struct tti_double_block *block);
void tti_double_block_use(struct tti_double_block *block);
void tti_double_block_release(struct tti_double_block *block);

#endif
