/* SPDX-License-Identifier: BSD-3-Clause */
/* In which order a double runs queued work, and on which thread. */
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "device.h"

void check_order(void)
{
    struct gate gate = GATE;
    EXPECT(OK, vendor_begin(0));
    void *stopped = stream();
    void *free_stream = stream();
    void *waiting = stream();
    void *e = event();
    void *f = event();
    unsigned char *out = host_alloc(4);
    unsigned char *memory = alloc(4);
    EXPECT(OK, double_launch(stopped, pass_kernel, &gate));
    EXPECT(OK, vendor_fill(memory, 1, 4, stopped));
    EXPECT(OK, vendor_event_record(e, stopped));
    EXPECT(OK, vendor_stream_wait(waiting, e));
    EXPECT(OK, vendor_copy(out, memory, 4, waiting));
    EXPECT(OK, vendor_event_record(f, waiting));
    EXPECT(OK, vendor_event_record(event(), free_stream));
    EXPECT(OK, vendor_stream_synchronize(free_stream)); /* streams are independent */
    EXPECT(NOT_READY, vendor_stream_query(stopped));
    EXPECT(NOT_READY, vendor_event_query(e));
    EXPECT(NOT_READY, vendor_event_query(f));
    EXPECT(OK, vendor_event_record(e, free_stream)); /* a wait is for the record before it */
    EXPECT(OK, vendor_event_synchronize(e));
    EXPECT(NOT_READY, vendor_event_query(f));
    EXPECT(OK, vendor_event_destroy(e));
    open_gate(&gate);
    EXPECT(OK, vendor_event_synchronize(f));
    CHECK(out[0] == 1 && out[3] == 1);
    EXPECT(OK, vendor_stream_query(waiting));
}

/* The default stream waits for blocking streams, and they for it; other streams do not take part. */
void check_default_stream(void)
{
    struct gate first = GATE;
    struct gate second = GATE;
    void *blocking = NULL;
    EXPECT(OK, vendor_begin(0));
    EXPECT(OK, vendor_stream(&blocking, true));
    void *independent = stream();
    void *e = event();
    void *f = event();
    EXPECT(OK, double_launch(blocking, pass_kernel, &first));
    EXPECT(OK, double_launch(NULL, pass_kernel, &second));
    EXPECT(OK, vendor_event_record(e, NULL));
    EXPECT(OK, vendor_event_record(f, blocking));
    EXPECT(OK, vendor_event_record(event(), independent));
    EXPECT(OK, vendor_stream_synchronize(independent));
    await_entry(&first);
    CHECK(!second.entered);
    EXPECT(NOT_READY, vendor_stream_query(NULL));
    open_gate(&first);
    await_entry(&second);
    EXPECT(NOT_READY, vendor_event_query(f));
    EXPECT(OK, vendor_event_record(event(), independent));
    EXPECT(OK, vendor_stream_synchronize(independent));
    open_gate(&second);
    EXPECT(OK, vendor_event_synchronize(f));
    EXPECT(OK, vendor_event_query(e));
    EXPECT(OK, vendor_stream_synchronize(NULL));
}

/* Pinned memory is read when the copy runs: used again too early, it gives what came later. */
void check_pinned_reuse(void)
{
    struct gate gate = GATE;
    EXPECT(OK, vendor_begin(0));
    void *s = stream();
    char *source = host_alloc(10);
    char *back = host_alloc(10);
    char *memory = alloc(10);
    memset(source, 'a', 10);
    EXPECT(OK, double_launch(s, pass_kernel, &gate));
    EXPECT(OK, vendor_copy(memory, source, 10, s));
    memset(source, 'b', 10);
    open_gate(&gate);
    EXPECT(OK, vendor_copy(back, memory, 10, s));
    EXPECT(OK, vendor_stream_synchronize(s));
    CHECK(back[0] == 'b' && back[9] == 'b');
}

/* Pageable memory may be used again at once: CUDA has taken it over, HIP has waited. A copy to it is done on return. */
void check_pageable_reuse(void)
{
    struct gate gate = GATE;
    char source[10];
    char back[10] = {0};
    EXPECT(OK, vendor_begin(0));
    void *s = stream();
    char *memory = alloc(10);
    memset(source, 'a', 10);
    if (!hip) {
        EXPECT(OK, double_launch(s, pass_kernel, &gate));
    }
    EXPECT(OK, vendor_copy(memory, source, 10, s));
    EXPECT(hip ? OK : NOT_READY, vendor_stream_query(s));
    memset(source, 'b', 10);
    open_gate(&gate);
    EXPECT(OK, vendor_copy(back, memory, 10, s));
    CHECK(back[0] == 'a' && back[9] == 'a');
}

void check_wait_word(void)
{
    EXPECT(OK, vendor_begin(0));
    if (old) {
        CHECK(!vendor_has("cuStreamWaitValue32_v2") && !vendor_has("cuStreamWaitValue32"));
        CHECK(!vendor_has("hipStreamWaitValue32"));
        return;
    }
    void *s = stream();
    void *e = event();
    /* Shared with a thread of the double: every access is atomic. */
    _Atomic uint32_t *word = host_alloc(8);
    atomic_store_explicit(&word[0], UINT32_MAX - 1, memory_order_relaxed);
    EXPECT(OK, vendor_stream_wait_word(s, (const uint32_t *)(void *)word, UINT32_MAX));
    EXPECT(OK, vendor_event_record(e, s));
    usleep(1000);
    EXPECT(NOT_READY, vendor_event_query(e));
    atomic_store_explicit(&word[0], UINT32_MAX, memory_order_release);
    EXPECT(OK, vendor_event_synchronize(e));
    /* 1 comes after the greatest number for CUDA only. */
    EXPECT(OK, vendor_stream_wait_word(s, (const uint32_t *)(void *)word, hip ? UINT32_MAX : 1));
    EXPECT(OK, vendor_event_record(e, s));
    if (!hip) {
        usleep(1000);
        EXPECT(NOT_READY, vendor_event_query(e));
        atomic_store_explicit(&word[0], 1, memory_order_release);
    }
    EXPECT(OK, vendor_event_synchronize(e));
    EXPECT(INVALID_VALUE, vendor_stream_wait_word(s, (const uint32_t *)(const void *)((char *)word + 1), 0));
}

static int asked;

static void ask(void *data)
{
    (void)data;
    asked = vendor_stream_query(NULL);
}

/* Host functions may not call the library, and run one at a time. */
void check_host_functions(void)
{
    struct gate first = GATE;
    struct gate second = GATE;
    EXPECT(OK, vendor_begin(0));
    if (old) {
        CHECK(!vendor_has("cuLaunchHostFunc") && !vendor_has("hipLaunchHostFunc"));
        return;
    }
    void *s = stream();
    void *t = stream();
    EXPECT(OK, vendor_host_function(s, ask, NULL));
    EXPECT(OK, vendor_stream_synchronize(s));
    CHECK(asked == NOT_PERMITTED);
    EXPECT(OK, vendor_host_function(s, pass, &first));
    await_entry(&first);
    EXPECT(OK, vendor_host_function(t, pass, &second));
    usleep(2000);
    pthread_mutex_lock(&second.lock);
    CHECK(!second.entered);
    pthread_mutex_unlock(&second.lock);
    open_gate(&second);
    EXPECT(NOT_READY, vendor_stream_query(t));
    open_gate(&first);
    EXPECT(OK, vendor_stream_synchronize(t));
}

struct rendezvous {
    pthread_barrier_t barrier;
    char *memory;
};

static int barrier_kernel(void *data, int code)
{
    struct rendezvous *rendezvous = data;
    int device = -1;
    char *shadow = double_shadow(rendezvous->memory, 10, &device);
    pthread_barrier_wait(&rendezvous->barrier);
    return code || !shadow || device != 0;
}

static int fail(void *data, int code)
{
    (void)data;
    return code ? 0 : LAUNCH_FAILED;
}

static int see_drop(void *data, int code)
{
    if (code == LAUNCH_FAILED) {
        sem_post(data);
    }
    return 0;
}

/* Kernels of different streams run beside one another. An error of one ends the device. */
void check_kernels(void)
{
    struct rendezvous rendezvous;
    struct gate gate = GATE;
    sem_t dropped;
    void *more = NULL;
    sem_init(&dropped, 0, 0);
    EXPECT(OK, vendor_begin(0));
    void *s = stream();
    void *t = stream();
    void *e = event();
    rendezvous.memory = alloc(10);
    pthread_barrier_init(&rendezvous.barrier, NULL, 2);
    EXPECT(OK, double_launch(s, barrier_kernel, &rendezvous));
    EXPECT(OK, double_launch(t, barrier_kernel, &rendezvous));
    EXPECT(OK, vendor_stream_synchronize(s));
    EXPECT(OK, vendor_stream_synchronize(t));
    pthread_barrier_destroy(&rendezvous.barrier);
    EXPECT(OK, double_launch(s, pass_kernel, &gate));
    EXPECT(OK, double_launch(s, fail, NULL));
    EXPECT(OK, double_launch(s, see_drop, &dropped));
    EXPECT(OK, vendor_event_record(e, s));
    open_gate(&gate);
    EXPECT(LAUNCH_FAILED, vendor_event_synchronize(e));
    EXPECT(LAUNCH_FAILED, vendor_event_query(e));
    EXPECT(LAUNCH_FAILED, vendor_alloc(&more, 10));
    EXPECT(LAUNCH_FAILED, vendor_stream_query(s));
    EXPECT(LAUNCH_FAILED, vendor_copy(rendezvous.memory, &gate, 1, t));
    sem_wait(&dropped);          /* work queued behind it gets the error */
    EXPECT(OK, vendor_begin(1)); /* the other processes continue */
    EXPECT(OK, vendor_free(alloc(10)));
}

static void *use_streams(void *data)
{
    enum { FLOATS = 1000 };
    const int which = *(int *)data;
    EXPECT(OK, vendor_begin(which % 2));
    for (int round = 0; round < 20; round++) {
        void *s = stream();
        void *e = event();
        float *in = host_alloc(FLOATS * sizeof(float));
        float *out = host_alloc(FLOATS * sizeof(float));
        void *memory = alloc(FLOATS * sizeof(float));
        for (int i = 0; i < FLOATS; i++) {
            in[i] = (float)(which * 1000 + round + i);
        }
        EXPECT(OK, vendor_copy(memory, in, FLOATS * sizeof(float), s));
        EXPECT(OK, vendor_event_record(e, s));
        EXPECT(OK, vendor_copy(out, memory, FLOATS * sizeof(float), s));
        EXPECT(OK, vendor_stream_synchronize(s));
        EXPECT(OK, vendor_event_query(e));
        CHECK(memcmp(in, out, FLOATS * sizeof(float)) == 0);
        EXPECT(OK, vendor_event_destroy(e));
        EXPECT(OK, vendor_stream_destroy(s));
        EXPECT(OK, vendor_free(memory));
        EXPECT(OK, vendor_host_free(in));
        EXPECT(OK, vendor_host_free(out));
    }
    return NULL;
}

void check_threads(void)
{
    pthread_t thread[4];
    int which[4];
    for (int i = 0; i < 4; i++) {
        which[i] = i;
        EXPECT(0, pthread_create(&thread[i], NULL, use_streams, &which[i]));
    }
    for (int i = 0; i < 4; i++) {
        EXPECT(0, pthread_join(thread[i], NULL));
    }
}
