/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The drivers cuda and rocm against the doubles of the vendors' libraries (tests/doubles). No CPU can touch their
 * device memory, and their streams are as late as real ones. A driver starts once per process and reads its environment
 * then. So each scenario is this program, executed again with an environment of its own.
 */
#ifndef TESTS_UNIT_DEVICE_DEVICE_SUPPORT_H
#define TESTS_UNIT_DEVICE_DEVICE_SUPPORT_H

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* clang-format off: cmocka needs the ones above first */
#include <cmocka.h>
/* clang-format on */

#include "base/clock.h"
#include "device/device.h"

enum { BYTES = 1 << 16 };

static const struct tti_device *d; /* of the scenario */
static bool is_cuda;
static tutti_error error;

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        const tutti_status ok_status = (call);                                                                         \
        if (ok_status != TUTTI_OK) {                                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, error.message);                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, error.message);    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A function of the double that the drivers do not use. */
static inline void *vendor(const char *cuda, const char *hip)
{
    void *file = dlopen(getenv(is_cuda ? "TUTTI_CUDA_LIBRARY" : "TUTTI_HIP_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    void *address = file ? dlsym(file, is_cuda ? cuda : hip) : NULL;
    CHECK(address);
    return address;
}

/* ---- what scenarios share ---- */

static inline void await(void *stream)
{
    void *event;
    OK(d->event_create(&event, &error));
    OK(d->event_record(event, stream, &error));
    OK(tti_device_await(d, event, TTI_NEVER, &error));
    OK(d->event_destroy(event, &error));
}

static inline unsigned char byte_at(size_t i, unsigned seed)
{
    return (unsigned char)(i * 7 + i / 251 + seed);
}

static inline void fill(unsigned char *memory, unsigned seed)
{
    for (size_t i = 0; i < BYTES; i++) {
        memory[i] = byte_at(i, seed);
    }
}

/* HIP's last error of this thread: an error inside the driver is not left for the application. CUDA's driver has
 * none. */
static inline void check_nothing_left(void)
{
    if (!is_cuda) {
        int (*last)(void);
        *(void **)&last = vendor(NULL, "hipGetLastError");
        CHECK(last() == 0);
    }
}

/* Holds a stream until the gate, pinned memory, is opened. */
static inline void close_gate(void *stream, _Atomic uint32_t *gate)
{
    atomic_store_explicit(gate, 0, memory_order_relaxed);
    if (is_cuda) {
        int (*wait)(void *, unsigned long long, uint32_t, unsigned);
        *(void **)&wait = vendor("cuStreamWaitValue32_v2", NULL);
        CHECK(wait(stream, (uintptr_t)gate, 1, 0) == 0);
    } else {
        int (*wait)(void *, void *, uint32_t, unsigned, uint32_t);
        *(void **)&wait = vendor(NULL, "hipStreamWaitValue32");
        CHECK(wait(stream, (void *)gate, 1, 0, UINT32_MAX) == 0);
    }
}

/* Release: pairs with the acquire load of the double. */
static inline void open_gate(_Atomic uint32_t *gate)
{
    atomic_store_explicit(gate, 1, memory_order_release);
}

/* ---- running them ---- */

/* This program as a process of its own, in the environment of this one. */
static inline int run_again(const char *scenario, const char *driver, const char *argument)
{
    int result = -1;
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", program_invocation_short_name, scenario, driver, argument, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &result, 0) == child ? result : -1;
}

/* A library of the doubles, chosen by its folder. */
static inline const char *double_of(const char *folder)
{
    static char path[4096];
    static const struct {
        const char *folder;
        const char *file;
    } files[] = {{"cuda", "libcuda.so.1"},     {"cuda_old", "libcuda.so.1"}, {"hip5", "libamdhip64.so.5"},
                 {"hip6", "libamdhip64.so.6"}, {"hip7", "libamdhip64.so.7"}, {"hip_old", "libamdhip64.so.5"}};
    const char *build = getenv("TUTTI_BUILD");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (strcmp(files[i].folder, folder) == 0) {
            snprintf(path, sizeof(path), "%s/tests/doubles/%s/%s", build ? build : ".", folder, files[i].file);
            return path;
        }
    }
    return folder; /* a name for the loader */
}

struct run {
    const char *scenario;
    const char *driver;
    const char *library; /* a double, or a name for the loader; "": not named in the environment */
    const char *orders;  /* for the double */
    const char *argument;
};

static inline void check_runs(const struct run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bool cuda = strcmp(runs[i].driver, "cuda") == 0;
        setenv(cuda ? "TUTTI_CUDA_LIBRARY" : "TUTTI_HIP_LIBRARY", double_of(runs[i].library), 1);
        setenv(cuda ? "TUTTI_DOUBLE_CUDA" : "TUTTI_DOUBLE_HIP", runs[i].orders ? runs[i].orders : "", 1);
        const int result = run_again(runs[i].scenario, runs[i].driver, runs[i].argument ? runs[i].argument : "");
        if (result != 0) {
            fail_msg("%s of %s with %s and \"%s\" ended with %#x", runs[i].scenario, runs[i].driver, runs[i].library,
                     runs[i].orders ? runs[i].orders : "", (unsigned)result);
        }
    }
}

#define CHECK_RUNS(runs) check_runs(runs, sizeof(runs) / sizeof((runs)[0]))

struct scenario {
    const char *name;
    void (*run)(void);
    void (*run_with)(const char *argument);
};

static inline int run_scenario(const struct scenario *scenarios, size_t count, char **words)
{
    const char *name = words[1];
    const char *driver = words[2];
    const char *argument = words[3];
    d = tti_device_named(driver);
    is_cuda = d == &tti_device_cuda;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(scenarios[i].name, name) == 0) {
            if (scenarios[i].run_with) {
                scenarios[i].run_with(argument);
            } else {
                scenarios[i].run();
            }
            return 0;
        }
    }
    fprintf(stderr, "no scenario %s\n", name);
    return 1;
}

/* What main does: a scenario that a test has started, or the tests. */
#define DEVICE_MAIN(argc, argv, scenarios, tests)                                                                      \
    do {                                                                                                               \
        if ((argc) == 4) {                                                                                             \
            return run_scenario(scenarios, sizeof(scenarios) / sizeof((scenarios)[0]), argv);                          \
        }                                                                                                              \
        if (!getenv("TUTTI_BUILD")) {                                                                                  \
            fprintf(stderr, "TUTTI_BUILD does not name the build tree, in which the doubles lie\n");                   \
            return 1;                                                                                                  \
        }                                                                                                              \
        return cmocka_run_group_tests(tests, NULL, NULL);                                                              \
    } while (0)

#endif
