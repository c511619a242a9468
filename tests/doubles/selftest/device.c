/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=300 trees=release,debug
 *
 * Whether a double of a device works, and refuses calls, as its README says:
 *
 *     selftest_device LIBRARY [CHECK]
 *
 * Without CHECK all of them run, each in a new process, with the orders of its row in the double's variable. The row
 * also has the signal that ends the check, if any.
 */
#include "device.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

void expect(const char *file, int line, const char *what, int wanted, int got)
{
    if (wanted != got) {
        fprintf(stderr, "%s:%d: %s gave %d, not %d\n", file, line, what, got, wanted);
        _exit(1);
    }
}

void pass(void *data)
{
    struct gate *gate = data;
    pthread_mutex_lock(&gate->lock);
    gate->entered = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
}

int pass_kernel(void *data, int code)
{
    if (!code) {
        pass(data);
    }
    return 0;
}

void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

void await_entry(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (!gate->entered) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
}

void *alloc(size_t bytes)
{
    void *memory = NULL;
    EXPECT(OK, vendor_alloc(&memory, bytes));
    return memory;
}

void *host_alloc(size_t bytes)
{
    void *memory = NULL;
    EXPECT(OK, vendor_host_alloc(&memory, bytes));
    return memory;
}

void *stream(void)
{
    void *created = NULL;
    EXPECT(OK, vendor_stream(&created, false));
    return created;
}

void *event(void)
{
    void *created = NULL;
    EXPECT(OK, vendor_event(&created));
    return created;
}

/* HIP has other errors for streams, and for imports that fail. */
int no_stream(void)
{
    return hip ? CONTEXT_IS_DESTROYED : INVALID_HANDLE;
}

struct check {
    const char *name;
    void (*run)(void);
    int signal;
    const char *cuda; /* orders */
    const char *amd;
};

static const struct check checks[] = {
    {.name = "touch", .run = check_touch, .signal = SIGSEGV},
    {.name = "touch_freed_host", .run = check_touch_freed_host, .signal = SIGSEGV},
    {.name = "round_trip", .run = check_round_trip},
    {.name = "places", .run = check_places},
    {.name = "refused", .run = check_refused},
    {.name = "devices", .run = check_devices},
    {.name = "cuda_contexts", .run = check_cuda_contexts},
    {.name = "order", .run = check_order},
    {.name = "default_stream", .run = check_default_stream},
    {.name = "pinned_reuse", .run = check_pinned_reuse},
    {.name = "pageable_reuse", .run = check_pageable_reuse},
    {.name = "wait_word", .run = check_wait_word},
    {.name = "host_functions", .run = check_host_functions},
    {.name = "kernels", .run = check_kernels},
    {.name = "threads", .run = check_threads},
    {.name = "processes", .run = check_processes},
    {.name = "forked", .run = check_forked},
    {"fault_fail", check_fault_fail, 0, "fail=cuMemAlloc_v2:3=2,fail=cuEventRecord:2+=801",
     "fail=hipMalloc:3=2,fail=hipEventRecord:2+=801"},
    {"fault_hang", check_fault_hang, 0, "hang=cuMemcpyAsync:2", "hang=hipMemcpyAsync:2"},
    {"fault_async", check_fault_async, 0, "async_error=cuMemcpyAsync:2=719", "async_error=hipMemcpyAsync:2=719"},
    {"fault_memory", check_fault_memory, 0, "memory=64M,devices=3", "memory=64M,devices=3"},
    {"fault_init", check_fault_init, 0, "init=46", "init=46"},
    {"no_devices", check_no_devices, 0, "devices=0", "devices=0"},
    {"delayed", check_order, 0, "delay_us=3000", "delay_us=3000"},
    {"no_such_word", check_nonsense, SIGABRT, "delay=3", "delay=3"},
    {"no_such_number", check_nonsense, SIGABRT, "devices=many", "devices=many"},
    {"no_such_function", check_nonsense, SIGABRT, "hang=cuMemcpyAsynk:1", "hang=hipMemcpyAsynk:1"},
    {"no_code", check_nonsense, SIGABRT, "fail=cuMemAlloc_v2:1", "fail=hipMalloc:1"},
};

enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

/* Whether the check ends as its row says, in a process of its own. */
static bool holds(char *program, char *path, const struct check *check)
{
    const char *orders = hip ? check->amd : check->cuda;
    char name[64];
    int status = 0;
    snprintf(name, sizeof(name), "%s", check->name);
    const pid_t child = fork();
    if (child == 0) {
        setenv(hip ? "TUTTI_DOUBLE_HIP" : "TUTTI_DOUBLE_CUDA", orders ? orders : "", 1);
        execv(program, (char *[]){program, path, name, NULL});
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("selftest_device");
        exit(2);
    }
    const bool good = check->signal ? WIFSIGNALED(status) && WTERMSIG(status) == check->signal
                                    : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("%s %s\n", good ? "ok    " : "FAILED", check->name);
    fflush(stdout);
    return good;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: %s LIBRARY [CHECK]\n", argv[0]);
        return 2;
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    vendor_load(argv[1]);
    for (int i = 0; i < CHECKS; i++) {
        if (argc == 2) {
            failed += !holds(argv[0], argv[1], &checks[i]);
        } else if (strcmp(argv[2], checks[i].name) == 0) {
            checks[i].run();
            return checks[i].signal != 0;
        }
    }
    return failed || argc > 2;
}
