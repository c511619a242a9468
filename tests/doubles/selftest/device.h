/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the parts of the self-test of devices: comparing results, stopping a stream, and the list of
 * checks. Each runs in a process of its own.
 */
#ifndef TESTS_DOUBLES_SELFTEST_DEVICE_H
#define TESTS_DOUBLES_SELFTEST_DEVICE_H

#include <pthread.h>

#include "vendor.h"

/* Ends the process unless the call gives the code. */
#define EXPECT(code, call) expect(__FILE__, __LINE__, #call, (code), (call))
#define CHECK(condition)   expect(__FILE__, __LINE__, #condition, 1, (condition) ? 1 : 0)
void expect(const char *file, int line, const char *what, int wanted, int got);

/* A thread that passes waits until it is open. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    bool entered;
};

#define GATE ((struct gate){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false})

void pass(void *data);
int pass_kernel(void *data, int code);
void open_gate(struct gate *gate);
void await_entry(struct gate *gate);
void *alloc(size_t bytes);
void *host_alloc(size_t bytes);
void *stream(void);
void *event(void);
int no_stream(void);

/* device_memory.c */
void check_cuda_contexts(void);
void check_devices(void);
void check_places(void);
void check_refused(void);
void check_round_trip(void);
void check_touch(void);
void check_touch_freed_host(void);

/* device_order.c */
void check_default_stream(void);
void check_host_functions(void);
void check_kernels(void);
void check_order(void);
void check_pageable_reuse(void);
void check_pinned_reuse(void);
void check_threads(void);
void check_wait_word(void);

/* device_faults.c */
void check_fault_async(void);
void check_fault_fail(void);
void check_fault_hang(void);
void check_fault_init(void);
void check_fault_memory(void);
void check_forked(void);
void check_no_devices(void);
void check_nonsense(void);
void check_processes(void);

#endif
