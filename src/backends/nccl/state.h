/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The types that the files of the backends nccl and rccl share: group, lane, call.
 *
 * A lane has one communicator of the library and one stream of the device. A communicator takes one thread at a time,
 * and the library's functions return before their work is done (from 2.14 on before it has begun). So each use is
 * short: acquire the communicator, call one function, release it and poll until the work is launched (communicator.h,
 * call.h). A rank that fails the group takes the communicators away and aborts each in a thread of its own, since an
 * abort may hang.
 */
#ifndef TTI_BACKENDS_NCCL_STATE_H
#define TTI_BACKENDS_NCCL_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tutti/backend.h>

#include "backends/nccl/library/library.h"

/* How long a communicator may take to be finalised, and then again to be aborted, before its group is left behind. */
#define TTI_NCCL_TEARDOWN_NS INT64_C(2000000000)

struct tti_nccl_lane {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    tti_nccl_comm comm;     /* under the lock; NULL: not made yet, or taken away */
    bool acquired;          /* under the lock: a thread uses the communicator */
    bool ending;            /* under the lock: a thread of its own ends the communicator */
    bool lost;              /* under the lock: a thread has not returned from the library, so the communicator stays */
    /* Only the thread that runs the lane uses the rest. */
    void *stream;
    void *event;
    void *barrier_word; /* of the device: a barrier reduces it */
    unsigned char *scratch;
    size_t scratch_bytes;
    void *outgrown[64]; /* earlier scratch memory; each at least twice as large as the one before */
    int32_t outgrown_count;
    _Atomic int64_t calls;           /* relaxed: the lane's thread counts, describe reads */
    _Atomic(const char *) algorithm; /* relaxed: static text */
};

struct tti_nccl_heap;

struct tti_nccl_group {
    const struct tti_nccl_library *library;
    const struct tti_device *device;
    int32_t index; /* of the device */
    int32_t rank;
    int32_t size;
    int32_t lanes;
    bool nonblocking;
    bool native_min_max;        /* MIN and MAX of floats run in the library, which drops NaNs */
    char name[96];              /* of the device */
    char setting_warnings[512]; /* for describe */
    struct tti_nccl_heap *heap;
    const tutti_wait_registry *wait_registry; /* NULL: there is none, so a TIMEOUT names no suspect */
    _Atomic int32_t failed; /* a status; release after the cause is written (failure.c), acquire before it is read */
    pthread_mutex_t lock;   /* protects the writing of the cause */
    tutti_error cause;
    struct tti_nccl_group *next_leaked;
    struct tti_nccl_lane lane[TUTTI_MAX_LANES];
};

/* One collective. */
struct tti_nccl_call {
    struct tti_nccl_group *group;
    struct tti_nccl_lane *lane;
    tutti_op *op;
    tutti_error *error;
    int64_t started_ns;
    int64_t deadline_ns;
    int64_t report_ns; /* when this rank reports to the wait registry that it waits */
    bool reported;
};

#endif
