/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noreturn, format(printf, 2, 0))) static void leave(int status, const char *format, va_list args)
{
    fflush(stdout);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    exit(status);
}

void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    leave(1, format, args);
}

void refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    leave(2, format, args);
}

void must(tutti_status status, const tutti_error *error)
{
    if (status != TUTTI_OK) {
        fail("%s: %s", tutti_status_name(status), error->message);
    }
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);
    if (!memory) {
        fail("out of memory: %zu elements of %zu bytes", count, size);
    }
    return memory;
}

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t share_begin(int64_t total, int32_t rank, int32_t ranks)
{
    return total * rank / ranks;
}
