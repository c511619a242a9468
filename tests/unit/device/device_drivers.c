/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=120 */
/*
 * The drivers cuda and rocm: copies in every direction, of rows and of strided tensors; and which work streams, events
 * and host words hold back.
 */
#include "device_support.h"

#include "tensor/strided.h"

struct place {
    const char *name;
    unsigned char *memory;
    int32_t device; /* -1: the host's, which may be looked at */
};

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
    unsigned char *source = malloc(BYTES); /* source: the expected bytes in the source place; target: those read back */
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

/* A stream waits for a host word: later work starts when the word has its value, not before. */
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
    atomic_store(gate, 5); /* a value beyond is enough; the copy follows and sees the twos */
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

static const struct scenario scenarios[] = {
    {"copies", copies, NULL},
    {"strided", strided, NULL},
    {"order", order, NULL},
    {"word", word, NULL},
};

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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_order),
    };
    DEVICE_MAIN(argc, argv, scenarios, tests);
}
