/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,3 timeout=120 trees=release,debug,address,undefined */
/*
 * tutti_unregister, and tutti_alloc with and without a heap, where the host or the control group of one rank has too
 * little memory: all ranks get NO_MEMORY, and nothing has changed. When the group is destroyed instead, the range keeps
 * its content. open and fopen of this program stand before those of libc, so the test decides what the files of the
 * system say.
 */
#include "heap_support.h"
#include "time_limits.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((size_t)300000)

enum shortage { NONE, OF_HOST, OF_CONTROL_GROUP };

static enum shortage shortage;

static const struct {
    enum shortage in;
    const char *path;
    const char *text;
} files[] = {
    {OF_HOST, "/proc/meminfo", "MemAvailable: 4 kB\nSwapFree: 4 kB\n"},
    {OF_CONTROL_GROUP, "/proc/self/cgroup", "0::/small\n"},
    {OF_CONTROL_GROUP, "/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
    {OF_CONTROL_GROUP, "/sys/fs/cgroup/small/memory.max", "8192\n"},
    {OF_CONTROL_GROUP, "/sys/fs/cgroup/small/memory.current", "4096\n"},
};

static const char *text_of(const char *path)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (files[i].in == shortage && strcmp(path, files[i].path) == 0) {
            return files[i].text;
        }
    }
    return NULL;
}

int open(const char *path, int flags, ...)
{
    const char *text = text_of(path);
    if (text) {
        const int file = memfd_create("test", MFD_CLOEXEC);
        EXPECT(pwrite(file, text, strlen(text), 0) == (ssize_t)strlen(text));
        return file;
    }
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    int (*real)(const char *, int, ...) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "open");
    return real ? real(path, flags, mode) : -1;
}

FILE *fopen(const char *path, const char *mode)
{
    const char *text = text_of(path);
    if (text) {
        return fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    }
    FILE *(*real)(const char *, const char *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "fopen");
    return real ? real(path, mode) : NULL;
}

/* `lacks`: the rank that has too little; -1: all. */
static void refused(tutti_group *g, unsigned char *memory, int lacks, enum shortage kind, const char *reason)
{
    EXPECT_OK(tutti_register(g, memory, BYTES, &err));
    shortage = lacks < 0 || lacks == tutti_group_rank(g) ? kind : NONE;
    EXPECT_ERROR(TUTTI_NO_MEMORY, reason, tutti_unregister(g, memory, &err));
    EXPECT(lacks < 0 || err.suspect == lacks);
    shortage = NONE;
    check_sum(g, memory, BYTES / sizeof(float));
    EXPECT_ERROR(TUTTI_INVALID_ARGUMENT, "registered", tutti_register(g, memory, BYTES, &err)); /* it still is */
    EXPECT_OK(tutti_unregister(g, memory, &err));
    check_sum(g, memory, BYTES / sizeof(float));
}

/* As above. Each rank wants `bytes`. */
static void not_given(tutti_group *g, size_t bytes, int lacks, enum shortage kind, const char *reason)
{
    tutti_error e;
    void *memory = NULL;
    shortage = lacks < 0 || lacks == tutti_group_rank(g) ? kind : NONE;
    const tutti_status status = tutti_alloc(g, bytes, &memory, &e);
    shortage = NONE;
    EXPECT(status == TUTTI_NO_MEMORY && !memory && strstr(e.message, reason));
    EXPECT(e.suspect == (lacks < 0 ? 0 : lacks));
    const tutti_status again = tutti_alloc(g, bytes, &memory, &e);
    EXPECT(again == TUTTI_OK && memory);
    EXPECT(tutti_free(g, memory, &e) == TUTTI_OK);
}

/* One rank could have what it wants, but not all of them. */
static void too_much_together(tutti_group *g)
{
    not_given(g, 5000, -1, OF_HOST, "the host has 8192 left");
    not_given(g, 3000, -1, OF_CONTROL_GROUP, "control group leaves 4096");
    not_given(g, 5000, 1, OF_CONTROL_GROUP, "control group leaves 4096");
}

static void no_heap(tutti_group *world)
{
    const char *const settings[] = {"engine.heap=off", NULL};
    tutti_group *g = NULL;
    EXPECT_OK(tutti_group_split(world, 0, tutti_group_rank(world), TUTTI_CONFIG(.settings = settings), &g, &err));
    EXPECT(!(tutti_group_capabilities(g) & TUTTI_CAP_HEAP));
    too_much_together(g);
    EXPECT_OK(tutti_group_destroy(g, &err));
}

/* The ranks are threads, and find the shortage that this process has. */
static tutti_status rank_of_threads(tutti_group *g, void *unused)
{
    tutti_error e;
    void *memory = NULL;
    (void)unused;
    EXPECT(tutti_alloc(g, 5000, &memory, &e) == TUTTI_NO_MEMORY && strstr(e.message, "the host has 8192 left"));
    return TUTTI_OK;
}

static bool is_shared_memory(const unsigned char *memory)
{
    char line[512];
    bool shared = false;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && !shared && fgets(line, sizeof(line), f)) {
        unsigned long begin = 0;
        unsigned long end = 0;
        shared = sscanf(line, "%lx-%lx", &begin, &end) == 2 && (unsigned long)memory >= begin &&
                 (unsigned long)memory < end && strstr(line, "tutti-registered");
    }
    if (f) {
        fclose(f);
    }
    return shared;
}

/* A group that ends cannot ask for anything: the range stays shared memory, with its content. */
static void destroyed(unsigned char *memory)
{
    tutti_group *g = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS, .backend = "shm"), &g, &err));
    memset(memory, 7, BYTES);
    EXPECT_OK(tutti_register(g, memory, BYTES, &err));
    shortage = OF_HOST;
    EXPECT_OK(tutti_group_destroy(g, &err));
    shortage = NONE;
    EXPECT(is_shared_memory(memory + BYTES / 2));
    EXPECT(memory[0] == 7 && memory[BYTES - 1] == 7 && memcmp(memory, memory + 1, BYTES - 1) == 0);
    memset(memory, 1, BYTES);
}

int main(void)
{
    tutti_group *world = NULL;
    unsigned char *memory = calloc(1, BYTES);
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS, .backend = "shm"), &world, &err));
    if (failures == 0 && memory) {
        refused(world, memory, -1, OF_HOST, "the host has 8192 left");
        refused(world, memory, 1, OF_CONTROL_GROUP, "control group leaves 4096");
        too_much_together(world);
        no_heap(world);
        shortage = OF_HOST;
        EXPECT_OK(tutti_run_threads(2, rank_of_threads, NULL, &err));
        shortage = NONE;
        destroyed(memory);
    }
    EXPECT_OK(tutti_finalize(&err));
    free(memory);
    return failures != 0 || !memory;
}
