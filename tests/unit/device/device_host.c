/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/*
 * The functions above a device's table, without a driver: the host's own table, waiting, and packing of strided tensors
 * by two-dimensional copies. The device for packing is made of memcpy and refuses what copy engines refuse. The
 * reference finds each element by division.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "device/device.h"
#include "tensor/strided.h"
#include "tests/unit/strided_place.h"

enum { BYTES = 16384, MIDDLE = 8192 };

static unsigned char memory[BYTES];
static unsigned char expected[BYTES];
static unsigned char packed[BYTES];

static int copies; /* that the device below has made */
static void *const the_stream = &copies;

static tutti_status plain_copy(void *dst, const void *src, size_t bytes, void *stream, tutti_error *error)
{
    (void)error;
    assert_ptr_equal(stream, the_stream);
    copies++;
    memcpy(dst, src, bytes);
    return TUTTI_OK;
}

static tutti_status plain_copy_rows(const struct tti_device_rows *rows, void *stream, tutti_error *error)
{
    (void)error;
    assert_ptr_equal(stream, the_stream);
    assert_true(rows->rows > 1);
    assert_true(rows->dst_pitch >= rows->width);
    assert_true(rows->src_pitch >= rows->width);
    copies++;
    for (size_t i = 0; i < rows->rows; i++) {
        memcpy((char *)rows->dst + i * rows->dst_pitch, (const char *)rows->src + i * rows->src_pitch, rows->width);
    }
    return TUTTI_OK;
}

static const struct tti_device plain = {
    .name = "plain", .type = kDLCUDA, .copy = plain_copy, .copy_rows = plain_copy_rows};

/* Packs and unpacks, and returns how many copies one of them took. */
static int check_copies(const struct tti_device *device, const DLTensor *t, bool overlaps)
{
    const size_t size = t->dtype.bits / 8u;
    const int64_t count = tutti_tensor_count(t);
    char *first = tti_tensor_data(t);
    for (size_t i = 0; i < BYTES; i++) {
        memory[i] = (unsigned char)(i * 31 + i / 256);
    }
    memcpy(expected, memory, BYTES);
    memset(packed, 0xee, sizeof(packed));
    copies = 0;
    assert_int_equal(tti_device_pack(device, packed, t, the_stream, NULL), TUTTI_OK);
    const int taken = copies;
    assert_memory_equal(memory, expected, BYTES);
    for (int64_t i = 0; i < count; i++) {
        assert_memory_equal(packed + (size_t)i * size, first + place_of(t, i), size);
    }
    for (size_t i = (size_t)count * size; i < BYTES; i++) {
        assert_int_equal(packed[i], 0xee);
    }
    if (overlaps) {
        return taken; /* no destination */
    }
    for (int64_t i = 0; i < count; i++) {
        unsigned char *element = packed + (size_t)i * size;
        for (size_t b = 0; b < size; b++) {
            element[b] = (unsigned char)~element[b];
        }
        memcpy(expected + ((unsigned char *)first - memory) + place_of(t, i), element, size);
    }
    copies = 0;
    assert_int_equal(tti_device_unpack(device, t, packed, the_stream, NULL), TUTTI_OK);
    assert_memory_equal(memory, expected, BYTES);
    assert_int_equal(copies, taken);
    return taken;
}

static DLTensor tensor_of(unsigned bits, int32_t ndim, int64_t *shape, int64_t *strides)
{
    return (DLTensor){.data = memory + MIDDLE,
                      .device = {kDLCUDA, 0},
                      .ndim = ndim,
                      .dtype = {.code = kDLUInt, .bits = (uint8_t)bits, .lanes = 1},
                      .shape = shape,
                      .strides = strides};
}

/* Layouts that come up in training, and in how few copies each can be moved. */
static void test_few_copies(void **state)
{
    static const struct {
        const char *what;
        int32_t ndim;
        int64_t shape[4];
        int64_t strides[4];
        int copies;
    } cases[] = {
        {"compact", 3, {3, 4, 5}, {20, 5, 1}, 1},
        {"a scalar", 0, {0}, {0}, 1},
        {"columns of a matrix", 2, {7, 3}, {20, 1}, 1},
        {"rows of a matrix", 2, {3, 20}, {20, 1}, 1},
        {"every other element", 1, {50}, {2}, 1},
        {"a block of a cube", 3, {4, 3, 5}, {100, 10, 1}, 3},
        {"planes of a cube", 3, {4, 3, 10}, {60, 10, 1}, 1},
        {"a transposed matrix", 2, {6, 4}, {1, 6}, 4},
        {"channels last", 3, {3, 4, 5}, {1, 15, 3}, 3},
        {"one index each", 4, {1, 6, 1, 2}, {999, 10, 77, 1}, 1},
        {"a row for each", 2, {4, 6}, {0, 1}, 4},
        {"one value for all", 1, {9}, {0}, 9},
        {"rows that overlap", 2, {5, 4}, {2, 1}, 5},
        {"backwards", 2, {4, 3}, {-8, 1}, 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t shape[4];
        int64_t strides[4];
        memcpy(shape, cases[i].shape, sizeof(shape));
        memcpy(strides, cases[i].strides, sizeof(strides));
        DLTensor t = tensor_of(32, cases[i].ndim, shape, strides);
        const int taken = check_copies(&plain, &t, tti_tensor_self_overlaps(&t));
        if (taken != cases[i].copies) {
            fail_msg("%s: %d copies instead of %d", cases[i].what, taken, cases[i].copies);
        }
    }
    int64_t none[] = {3, 0, 2};
    DLTensor empty = tensor_of(32, 3, none, NULL);
    assert_int_equal(check_copies(&plain, &empty, false), 0);
}

/* Random layouts: permuted, sliced, broadcast and reversed dimensions. */
static void test_random(void **state)
{
    uint32_t random = 20240229;
    int plain_ones = 0;
    (void)state;
    for (int round = 0; round < 4000; round++) {
        int64_t shape[6];
        int64_t strides[6];
        int32_t order[6];
        const int32_t ndim = (int32_t)random_below(&random, 7);
        const unsigned bits = 8u << random_below(&random, 4);
        for (int32_t i = 0; i < ndim; i++) {
            order[i] = i;
            shape[i] = 1 + random_below(&random, 4);
        }
        for (int32_t i = ndim - 1; i > 0 && random_below(&random, 2) == 0; i--) {
            const int32_t other = (int32_t)random_below(&random, (uint32_t)i + 1);
            const int32_t kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        int64_t stride = 1;
        for (int32_t i = ndim - 1; i >= 0; i--) {
            const int32_t d = order[i];
            stride *= 1 + (random_below(&random, 6) == 0);
            strides[d] = random_below(&random, 12) == 0 ? 0 : stride;
            strides[d] *= random_below(&random, 12) == 0 ? -1 : 1;
            stride *= shape[d];
        }
        uintptr_t begin;
        uintptr_t end;
        DLTensor t = tensor_of(bits, ndim, shape, strides);
        t.byte_offset = random_below(&random, 3) * (bits / 8);
        assert_true(tti_tensor_span(&t, &begin, &end));
        if (begin < (uintptr_t)memory || end > (uintptr_t)memory + BYTES ||
            tutti_tensor_count(&t) * (int64_t)(bits / 8) > BYTES) {
            continue;
        }
        const bool overlaps = tti_tensor_self_overlaps(&t);
        check_copies(&plain, &t, overlaps);
        copies = 0;
        check_copies(&tti_device_host, &t, overlaps);
        assert_int_equal(copies, 0); /* the host's way makes no calls */
        plain_ones += !overlaps;
    }
    assert_true(plain_ones > 1000);
}

static tutti_status failing_copy(void *dst, const void *src, size_t bytes, void *stream, tutti_error *error)
{
    return copies == 2 ? TUTTI_BACKEND : plain_copy(dst, src, bytes, stream, error);
}

static void test_failure_ends_it(void **state)
{
    const struct tti_device failing = {.name = "failing", .type = kDLROCM, .copy = failing_copy};
    int64_t shape[] = {5};
    int64_t strides[] = {-1};
    DLTensor t = tensor_of(8, 1, shape, strides);
    (void)state;
    copies = 0;
    assert_int_equal(tti_device_pack(&failing, packed, &t, the_stream, NULL), TUTTI_BACKEND);
    assert_int_equal(copies, 2);
}

static void test_names(void **state)
{
    char text[24];
    (void)state;
    assert_ptr_equal(tti_device_of(kDLCPU), &tti_device_host);
    assert_ptr_equal(tti_device_of(kDLCUDA), &tti_device_cuda);
    assert_ptr_equal(tti_device_of(kDLCUDAHost), &tti_device_cuda);
    assert_ptr_equal(tti_device_of(kDLCUDAManaged), &tti_device_cuda);
    assert_ptr_equal(tti_device_of(kDLROCM), &tti_device_rocm);
    assert_ptr_equal(tti_device_of(kDLROCMHost), &tti_device_rocm);
    assert_null(tti_device_of(kDLMetal));
    assert_null(tti_device_of((DLDeviceType)0));
    assert_ptr_equal(tti_device_named("cpu"), &tti_device_host);
    assert_ptr_equal(tti_device_named("cuda"), &tti_device_cuda);
    assert_ptr_equal(tti_device_named("rocm"), &tti_device_rocm);
    assert_null(tti_device_named("cuda:0"));
    assert_null(tti_device_named(""));
    assert_string_equal(tti_device_text((DLDevice){kDLCUDA, 1}, text), "cuda:1");
    assert_string_equal(tti_device_text((DLDevice){kDLCPU, 0}, text), "cpu:0");
    assert_string_equal(tti_device_text((DLDevice){kDLROCMHost, 15}, text), "rocm_host:15");
    assert_string_equal(tti_device_text((DLDevice){kDLCUDAManaged, 0}, text), "cuda_managed:0");
    assert_string_equal(tti_device_text((DLDevice){(DLDeviceType)99, INT32_MIN}, text), "99:-2147483648");
}

/* Calls every function of the host's table as a user of any device would. */
static void test_host(void **state)
{
    const struct tti_device *d = tti_device_of(kDLCPU);
    unsigned char uuid[TTI_DEVICE_UUID] = {0};
    unsigned char again[TTI_DEVICE_UUID] = {1};
    unsigned char handle[TTI_DEVICE_IPC] = {0};
    struct tti_device_scope scope;
    DLDevice where = {kDLCUDA, 7};
    char text[256] = "x";
    tutti_error error;
    void *a = NULL;
    void *b = NULL;
    void *stream = &scope;
    void *event = &scope;
    int32_t number = -1;
    size_t offset;
    (void)state;
    assert_int_equal(d->available(text, sizeof(text)), 1);
    assert_string_equal(text, "");
    assert_int_equal(d->available(NULL, 0), 1);
    assert_int_equal(d->count(), 1);
    assert_int_equal(d->version(&number, &error), TUTTI_OK);
    assert_int_equal(number, 0);
    assert_int_equal(d->name_of(0, text, sizeof(text), &error), TUTTI_OK);
    assert_true(strlen(text) > 0 && !strchr(text, '\n'));
    assert_int_equal(d->name_of(1, text, sizeof(text), &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(d->uuid_of(0, uuid, &error), TUTTI_OK);
    assert_int_equal(d->uuid_of(0, again, &error), TUTTI_OK);
    assert_memory_equal(uuid, again, sizeof(uuid));
    memset(again, 0, sizeof(again));
    assert_memory_not_equal(uuid, again, sizeof(uuid));
    assert_int_equal(d->lookup(text, &where, &error), TUTTI_OK);
    assert_int_equal(where.device_type, kDLCPU);
    assert_int_equal(where.device_id, 0);
    assert_int_equal(d->enter(1, &scope, &error), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "cpu:1"));

    assert_int_equal(d->enter(0, &scope, &error), TUTTI_OK);
    assert_int_equal(d->alloc(0, &a, &error), TUTTI_OK);
    assert_null(a);
    assert_int_equal(d->free(a, &error), TUTTI_OK);
    assert_int_equal(d->alloc(SIZE_MAX, &a, &error), TUTTI_NO_MEMORY);
    assert_int_equal(d->alloc(1000, &a, &error), TUTTI_OK);
    assert_int_equal(d->alloc_host(1000, &b, &error), TUTTI_OK);
    assert_int_equal((uintptr_t)a % 64, 0);
    memset(a, 5, 1000);
    memset(b, 9, 1000);
    assert_int_equal(d->stream_create(&stream, &error), TUTTI_OK);
    assert_int_equal(d->event_create(&event, &error), TUTTI_OK);
    assert_null(stream);
    assert_null(event);
    assert_int_equal(d->copy(b, a, 3, stream, &error), TUTTI_OK);
    assert_int_equal(d->copy(NULL, NULL, 0, stream, &error), TUTTI_OK);
    assert_memory_equal(b, "\5\5\5\11", 4);
    const struct tti_device_rows rows = {
        .dst = (char *)b + 10, .dst_pitch = 4, .src = a, .src_pitch = 100, .width = 2, .rows = 3};
    assert_int_equal(d->copy_rows(&rows, stream, &error), TUTTI_OK);
    assert_memory_equal((char *)b + 9, "\11\5\5\11\11\5\5\11\11\5\5\11\11", 13);
    assert_int_equal(d->event_record(event, stream, &error), TUTTI_OK);
    assert_int_equal(d->stream_wait_event(stream, event, &error), TUTTI_OK);
    assert_int_equal(tti_device_await(d, event, 0, &error), TUTTI_OK);
    assert_null(d->stream_wait_word);
    assert_int_equal(d->event_destroy(event, &error), TUTTI_OK);
    assert_int_equal(d->stream_destroy(stream, &error), TUTTI_OK);
    assert_int_equal(d->ipc_export(a, handle, &offset, &error), TUTTI_UNSUPPORTED);
    assert_int_equal(d->ipc_open(handle, &stream, &error), TUTTI_UNSUPPORTED);
    assert_int_equal(d->ipc_close(a, &error), TUTTI_UNSUPPORTED);
    assert_int_equal(d->free(a, &error), TUTTI_OK);
    assert_int_equal(d->free_host(b, &error), TUTTI_OK);
    d->leave(&scope);
}

static int queries_left; /* until the event below is done; -1: it fails */

static tutti_status counted_query(void *event, int32_t *done, tutti_error *error)
{
    (void)event;
    (void)error;
    *done = queries_left == 0;
    if (queries_left < 0) {
        return TUTTI_BACKEND;
    }
    queries_left -= queries_left > 0;
    return TUTTI_OK;
}

static void test_await(void **state)
{
    const struct tti_device counted = {.name = "counted", .event_query = counted_query};
    tutti_error error;
    (void)state;
    for (queries_left = 0; queries_left <= 300; queries_left += 100) { /* spins, yields, sleeps */
        const int left = queries_left;
        assert_int_equal(tti_device_await(&counted, NULL, TTI_NEVER, &error), TUTTI_OK);
        assert_int_equal(queries_left, 0);
        queries_left = left;
        assert_int_equal(tti_device_await(&counted, NULL, tti_now_ns() + (int64_t)600 * 1000000000, &error), TUTTI_OK);
        assert_int_equal(queries_left, 0);
        queries_left = left;
    }
    queries_left = INT32_MAX;
    const int64_t deadline = tti_now_ns() + 5000000;
    assert_int_equal(tti_device_await(&counted, NULL, deadline, &error), TUTTI_TIMEOUT);
    assert_true(tti_now_ns() >= deadline);
    assert_non_null(strstr(error.message, "counted"));
    assert_int_equal(tti_device_await(&counted, NULL, 0, NULL), TUTTI_TIMEOUT);
    queries_left = 0; /* complete work is OK, also after the deadline */
    assert_int_equal(tti_device_await(&counted, NULL, 0, &error), TUTTI_OK);
    queries_left = -1;
    assert_int_equal(tti_device_await(&counted, NULL, TTI_NEVER, &error), TUTTI_BACKEND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_copies), cmocka_unit_test(test_random), cmocka_unit_test(test_failure_ends_it),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_host),   cmocka_unit_test(test_await),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
