/* SPDX-License-Identifier: BSD-3-Clause */
/* The double's memory functions, and the calls that it refuses. */
#include <signal.h>
#include <string.h>

#include "device.h"

void check_touch(void)
{
    EXPECT(OK, vendor_begin(0));
    volatile char *memory = alloc(100);
    signal(SIGSEGV, SIG_DFL); /* not the sanitizer's */
    (void)*memory;
}

void check_touch_freed_host(void)
{
    EXPECT(OK, vendor_begin(0));
    volatile char *memory = host_alloc(100);
    memory[99] = 1;
    void *freed = NULL;
    memcpy(&freed, &memory, sizeof(freed));
    EXPECT(OK, vendor_host_free(freed));
    signal(SIGSEGV, SIG_DFL);
    (void)*memory;
}

void check_round_trip(void)
{
    enum { BYTES = 100003 };
    EXPECT(OK, vendor_begin(0));
    unsigned char *in = host_alloc(BYTES);
    unsigned char *out = host_alloc(BYTES);
    char *a = alloc(BYTES);
    char *b = alloc(BYTES);
    void *s = stream();
    for (int i = 0; i < BYTES; i++) {
        in[i] = (unsigned char)(i * 7 + i / 256);
        CHECK(out[i] == 0xff); /* memory is not cleared */
    }
    EXPECT(OK, vendor_copy(out, a, BYTES, s));
    EXPECT(OK, vendor_stream_synchronize(s));
    for (int i = 0; i < BYTES; i++) {
        CHECK(out[i] == 0xff);
    }
    EXPECT(OK, vendor_copy(a, in, BYTES, s));
    EXPECT(OK, vendor_fill(b, 5, BYTES, s));
    EXPECT(OK, vendor_copy(b + 3, a + 1, BYTES - 3, s));
    EXPECT(OK, vendor_copy(out, b, BYTES, s));
    EXPECT(OK, vendor_copy(NULL, NULL, 0, s));
    EXPECT(OK, vendor_stream_synchronize(s));
    CHECK(out[0] == 5 && out[1] == 5 && out[2] == 5 && memcmp(out + 3, in + 1, BYTES - 3) == 0);

    /* Every second of 30 rows of 11 bytes, from the host to gaps of 20 on the device and back. */
    EXPECT(OK, vendor_fill(b, 9, BYTES, s));
    EXPECT(OK, vendor_copy_rows(&(struct rows){b, 20, in, 22, 11, 30}, s));
    EXPECT(OK, vendor_copy(out, b, 30 * 20, s));
    EXPECT(OK, vendor_stream_synchronize(s));
    for (int i = 0; i < 30 * 20; i++) {
        CHECK(out[i] == (i % 20 < 11 ? in[i / 20 * 22 + i % 20] : 9));
    }
    EXPECT(OK, vendor_free(a));
    EXPECT(OK, vendor_free(b));
    EXPECT(OK, vendor_host_free(in));
    EXPECT(OK, vendor_host_free(out));
    EXPECT(OK, vendor_stream_destroy(s));
}

void check_places(void)
{
    enum place place = ELSEWHERE;
    int device = -7;
    int here = 0;
    size_t bytes = 0;
    void *base = NULL;
    char buffer[64];
    EXPECT(OK, vendor_begin(1));
    char *memory = alloc(1000);
    char *pinned = host_alloc(1000);
    void *managed = NULL;
    EXPECT(OK, vendor_managed(&managed, 1000));
    memset(managed, 1, 1000);
    EXPECT(OK, vendor_place(memory + 999, &place, &device));
    CHECK(place == DEVICE && device == 1);
    EXPECT(OK, vendor_place(pinned + 5, &place, &device));
    CHECK(place == HOST);
    EXPECT(OK, vendor_place(managed, &place, &device));
    CHECK(place == MANAGED);
    EXPECT(hip >= 6 ? OK : INVALID_VALUE, vendor_place(&here, &place, &device));
    CHECK(place == ELSEWHERE);
    EXPECT(hip >= 6 ? OK : INVALID_VALUE, vendor_place(memory + 1000, &place, &device));
    CHECK(place == ELSEWHERE);
    EXPECT(OK, vendor_register(buffer, sizeof(buffer)));
    EXPECT(ALREADY_REGISTERED, vendor_register(buffer + 8, 8));
    EXPECT(OK, vendor_place(buffer, &place, &device));
    CHECK(place == HOST);
    EXPECT(OK, vendor_unregister(buffer));
    EXPECT(NOT_REGISTERED, vendor_unregister(buffer));
    EXPECT(OK, vendor_range(&base, &bytes, memory + 10));
    CHECK(base == memory && bytes == 1000);
    EXPECT(NOT_FOUND, vendor_range(&base, &bytes, &here));

    CHECK(double_shadow(memory, 1000, &device) && device == 1);
    CHECK(double_shadow(memory + 1, 1000, &device) == NULL && double_shadow(&here, 1, &device) == NULL);
    CHECK(double_shadow(pinned, 1000, &device) == pinned && device == -1);
    EXPECT(OK, vendor_free(memory));
    EXPECT(OK, vendor_free(managed));
    CHECK(double_shadow(memory, 1, &device) == NULL);
    EXPECT(hip >= 6 ? OK : INVALID_VALUE, vendor_place(memory, &place, &device));
    CHECK(place == ELSEWHERE);
}

void check_refused(void)
{
    char buffer[2000] = {0};
    EXPECT(OK, vendor_begin(0));
    void *s = stream();
    char *memory = alloc(1000);
    char *pinned = host_alloc(1000);
    EXPECT(INVALID_VALUE, vendor_copy(memory, buffer, 1001, s));
    EXPECT(INVALID_VALUE, vendor_copy(buffer, memory + 500, 501, s));
    EXPECT(INVALID_VALUE, vendor_copy(memory - 8, buffer, 16, s));
    EXPECT(INVALID_VALUE, vendor_copy(NULL, memory, 1, s));
    EXPECT(INVALID_VALUE, vendor_copy(buffer, pinned + 1, 1000, s));
    EXPECT(hip ? 12 : INVALID_VALUE, vendor_copy_rows(&(struct rows){memory, 5, buffer, 10, 10, 2}, s));
    EXPECT(INVALID_VALUE, vendor_copy_rows(&(struct rows){memory, 100, buffer, 10, 10, 11}, s));
    EXPECT(OK, vendor_copy_rows(&(struct rows){memory, 100, buffer, 10, 10, 10}, s));
    EXPECT(INVALID_VALUE, vendor_fill(buffer, 0, 1, s));
    EXPECT(INVALID_VALUE, vendor_fill(memory, 0, 1001, s));
    EXPECT(INVALID_VALUE, vendor_free(memory + 8));
    EXPECT(INVALID_VALUE, vendor_free(buffer));
    EXPECT(hip ? 17 : INVALID_VALUE, vendor_free(pinned));
    EXPECT(INVALID_VALUE, vendor_host_free(memory));
    if (!old) {
        EXPECT(INVALID_VALUE, vendor_stream_wait_word(s, (const uint32_t *)(const void *)buffer, 0));
    }
    EXPECT(OK, vendor_free(memory));
    EXPECT(INVALID_VALUE, vendor_free(memory));
    EXPECT(INVALID_VALUE, vendor_copy(memory, buffer, 1, s));
    EXPECT(INVALID_VALUE, vendor_copy(buffer, memory, 1, s));
    void *e = event();
    EXPECT(OK, vendor_event_query(e)); /* never recorded: done */
    EXPECT(OK, vendor_event_record(e, s));
    EXPECT(OK, vendor_event_synchronize(e));
    EXPECT(OK, vendor_stream_destroy(s));
    EXPECT(OK, vendor_event_query(e)); /* the event outlives the stream */
    EXPECT(no_stream(), vendor_stream_query(s));
    EXPECT(no_stream(), vendor_stream_destroy(s));
    EXPECT(no_stream(), vendor_copy(pinned, buffer, 1, s));
    EXPECT(no_stream(), vendor_event_record(e, s));
    EXPECT(no_stream(), vendor_stream_query(buffer));
    EXPECT(INVALID_HANDLE, vendor_stream_wait(s, e));
    EXPECT(OK, vendor_event_destroy(e));
    EXPECT(INVALID_HANDLE, vendor_event_query(e));
    EXPECT(no_stream(), vendor_event_destroy(e));
    void *nothing = buffer;
    EXPECT(hip ? OK : INVALID_VALUE, vendor_alloc(&nothing, 0));
    CHECK(hip ? !nothing : nothing == buffer);
}

/* Streams and events belong to a device. Copies go between any two. */
void check_devices(void)
{
    EXPECT(OK, vendor_begin(1));
    void *there = stream();
    char *memory = alloc(100);
    EXPECT(OK, vendor_begin(0));
    void *here = stream();
    void *e = event();
    char *other = alloc(100);
    EXPECT(INVALID_HANDLE, vendor_event_record(e, there));
    EXPECT(OK, vendor_event_record(e, here));
    EXPECT(OK, vendor_stream_wait(there, e));
    EXPECT(OK, vendor_copy(memory, other, 100, there));
    EXPECT(INVALID_HANDLE, double_launch(there, pass_kernel, NULL));
    EXPECT(OK, vendor_stream_synchronize(there));
}

void check_cuda_contexts(void)
{
    void *memory = NULL;
    char buffer[10];
    if (hip) {
        return;
    }
    EXPECT(NOT_INITIALIZED, vendor_alloc(&memory, 1));
    EXPECT(OK, vendor_init());
    EXPECT(INVALID_CONTEXT, vendor_alloc(&memory, 1));
    EXPECT(INVALID_CONTEXT, vendor_stream_query(NULL));
    EXPECT(INVALID_CONTEXT, cuda_pop());
    EXPECT(OK, cuda_push(0));
    memory = alloc(10);
    void *e = event();
    EXPECT(INVALID_VALUE, cuda_copy_as(1, &(struct rows){buffer, 1, memory, 1, 1, 1}, NULL));
    EXPECT(INVALID_VALUE, cuda_copy_as(2, &(struct rows){buffer, 1, memory, 1, 1, 1}, NULL));
    EXPECT(INVALID_VALUE, vendor_copy_rows(&(struct rows){memory, (size_t)1 << 31, buffer, 1, 1, 1}, NULL));
    EXPECT(OK, cuda_pop());
    EXPECT(INVALID_CONTEXT, vendor_free(memory));
    EXPECT(OK, vendor_event_query(e));
    EXPECT(OK, cuda_push(0));
    EXPECT(OK, cuda_release(0));
    EXPECT(OK, vendor_copy(memory, buffer, 10, NULL));
    EXPECT(OK, cuda_release(0));
    EXPECT(CONTEXT_IS_DESTROYED, vendor_copy(memory, buffer, 10, NULL));
    EXPECT(INVALID_HANDLE, vendor_event_query(e));
    EXPECT(OK, cuda_push(0));
    EXPECT(INVALID_VALUE, vendor_copy(memory, buffer, 10, NULL));
    EXPECT(OK, cuda_release(0));
    EXPECT(INVALID_CONTEXT, cuda_release(0));
    CHECK(vendor_has("cuDeviceGetUuid") && vendor_has("cuDeviceGetUuid_v2") == !old);
}
