/* SPDX-License-Identifier: BSD-3-Clause */
/* A double in several processes, and the faults that can be ordered. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"

static void put(int fd, const void *data, size_t bytes)
{
    CHECK(write(fd, data, bytes) == (ssize_t)bytes);
}

static void get(int fd, void *data, size_t bytes)
{
    CHECK(read(fd, data, bytes) == (ssize_t)bytes);
}

static void import_memory(int from, int to)
{
    struct ipc handle;
    void *memory = NULL;
    void *again = NULL;
    char buffer[16] = "";
    get(from, &handle, sizeof(handle));
    EXPECT(OK, vendor_begin(0));
    EXPECT(OK, vendor_ipc_open(&memory, &handle));
    EXPECT(OK, vendor_ipc_open(&again, &handle));
    CHECK(memory == again);
    EXPECT(OK, vendor_copy(buffer, memory, 16, NULL));
    CHECK(strcmp(buffer, "from the parent") == 0);
    EXPECT(INVALID_VALUE, vendor_copy(buffer, (char *)memory + 10, 16, NULL));
    EXPECT(INVALID_VALUE, vendor_free(memory));
    EXPECT(OK, vendor_copy(memory, "from the child", 15, NULL));
    EXPECT(OK, vendor_stream_synchronize(NULL));
    EXPECT(OK, vendor_ipc_close(memory));
    EXPECT(OK, vendor_copy(buffer, memory, 16, NULL));
    EXPECT(OK, vendor_ipc_close(memory));
    EXPECT(INVALID_VALUE, vendor_copy(buffer, memory, 16, NULL));
    EXPECT(INVALID_VALUE, vendor_ipc_close(memory));
    put(to, "x", 1);
    get(from, buffer, 1); /* now it is freed */
    EXPECT(hip ? 17 : MAP_FAILED_CODE, vendor_ipc_open(&memory, &handle));
    handle.bytes[0]++;
    EXPECT(INVALID_VALUE, vendor_ipc_open(&memory, &handle));
}

static void expect_exit(pid_t child, int status)
{
    int got = -1;
    CHECK(waitpid(child, &got, 0) == child && got == status);
}

void check_processes(void)
{
    int down[2];
    int up[2];
    struct ipc handle;
    char buffer[16] = "";
    void *opened = NULL;
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    const pid_t child = fork(); /* before the library is initialised, so the child may do that too */
    if (child == 0) {
        close(down[1]); /* so that it ends if the parent does */
        import_memory(down[0], up[1]);
        exit(0);
    }
    close(up[1]);
    EXPECT(OK, vendor_begin(0));
    char *memory = alloc(16);
    EXPECT(OK, vendor_copy(memory, "from the parent", 16, NULL));
    EXPECT(OK, vendor_stream_synchronize(NULL));
    EXPECT(OK, vendor_ipc_export(&handle, memory));
    EXPECT(INVALID_VALUE, vendor_ipc_export(&handle, buffer));
    if (!hip) {
        EXPECT(INVALID_VALUE, vendor_ipc_export(&handle, memory + 1));
    }
    EXPECT(INVALID_CONTEXT, vendor_ipc_open(&opened, &handle));
    put(down[1], &handle, sizeof(handle));
    get(up[0], buffer, 1);
    EXPECT(OK, vendor_copy(buffer, memory, 16, NULL));
    CHECK(strcmp(buffer, "from the child") == 0);
    EXPECT(OK, vendor_free(memory));
    alloc(16); /* replaces the memory that the handle names */
    put(down[1], "x", 1);
    expect_exit(child, 0);
}

void check_forked(void)
{
    int count = 0;
    void *memory = NULL;
    EXPECT(OK, vendor_begin(0));
    void *s = stream();
    char *mine = alloc(10);
    EXPECT(OK, vendor_fill(mine, 1, 10, s));
    const pid_t child = fork();
    if (child == 0) {
        EXPECT(NOT_INITIALIZED, vendor_init());
        EXPECT(NOT_INITIALIZED, vendor_count(&count));
        EXPECT(NOT_INITIALIZED, vendor_alloc(&memory, 10));
        EXPECT(NOT_INITIALIZED, vendor_stream_synchronize(s));
        CHECK(!double_shadow(mine, 1, NULL));
        _exit(0); /* the sanitizer's exit may wait for threads that stay behind */
    }
    expect_exit(child, 0);
    EXPECT(OK, vendor_stream_synchronize(s));
}

void check_fault_fail(void)
{
    void *memory = NULL;
    EXPECT(OK, vendor_begin(0));
    alloc(10);
    alloc(10);
    EXPECT(OUT_OF_MEMORY, vendor_alloc(&memory, 10));
    alloc(10);
    void *e = event();
    EXPECT(OK, vendor_event_record(e, NULL));
    EXPECT(NOT_SUPPORTED, vendor_event_record(e, NULL));
    EXPECT(NOT_SUPPORTED, vendor_event_record(e, NULL));
}

void check_fault_hang(void)
{
    EXPECT(OK, vendor_begin(0));
    void *s = stream();
    void *e = event();
    char *pinned = host_alloc(10);
    char *memory = alloc(10);
    EXPECT(OK, vendor_copy(memory, pinned, 10, s));
    EXPECT(OK, vendor_event_record(e, s));
    EXPECT(OK, vendor_event_synchronize(e));
    EXPECT(OK, vendor_copy(memory, pinned, 10, s));
    EXPECT(OK, vendor_event_record(e, s));
    usleep(5000);
    EXPECT(NOT_READY, vendor_event_query(e));
    EXPECT(OK, vendor_stream_destroy(s)); /* does not wait, and neither does the end of the process */
}

void check_fault_async(void)
{
    EXPECT(OK, vendor_begin(0));
    void *s = stream();
    void *e = event();
    char *pinned = host_alloc(10);
    char *memory = alloc(10);
    EXPECT(OK, vendor_copy(memory, pinned, 10, s));
    EXPECT(OK, vendor_stream_synchronize(s));
    EXPECT(OK, vendor_copy(memory, pinned, 10, s));
    EXPECT(LAUNCH_FAILED, vendor_stream_synchronize(s));
    EXPECT(LAUNCH_FAILED, vendor_copy(memory, pinned, 10, s));
    EXPECT(LAUNCH_FAILED, vendor_event_record(e, s));
    EXPECT(LAUNCH_FAILED, vendor_free(memory));
}

void check_fault_memory(void)
{
    void *none = NULL;
    int count = 0;
    EXPECT(OK, vendor_begin(0));
    EXPECT(OK, vendor_count(&count));
    CHECK(count == 3);
    void *memory = alloc((size_t)40 << 20);
    EXPECT(OUT_OF_MEMORY, vendor_alloc(&none, (size_t)30 << 20));
    EXPECT(OUT_OF_MEMORY, vendor_alloc(&none, SIZE_MAX));
    EXPECT(OK, vendor_free(memory));
    alloc((size_t)60 << 20);
    EXPECT(OK, vendor_begin(1)); /* each device has its own */
    alloc((size_t)60 << 20);
}

void check_fault_init(void)
{
    int count = 7;
    EXPECT(46, vendor_init());
    EXPECT(hip ? 46 : NOT_INITIALIZED, vendor_count(&count));
    CHECK(count == (hip ? 0 : 7));
}

void check_no_devices(void)
{
    EXPECT(NO_DEVICE, vendor_init());
}

void check_nonsense(void)
{
    signal(SIGABRT, SIG_DFL);
    vendor_init();
}
