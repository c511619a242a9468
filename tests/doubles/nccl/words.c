/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TUTTI_DOUBLE_NCCL: words, separated by blanks or commas, that change how the double behaves. Read at the first call,
 * once per process, as the real library reads its own variables.
 *
 *   version=21805           GetVersion returns it, and newer functions are refused
 *   rank=R                  the faults below happen on this rank only
 *   async_error=N:CODE      the N-th operation is never done, and leaves this asynchronous error
 *   hang=N                  the N-th operation is never done
 *   fail=FUNCTION:K=CODE    the K-th call of the function returns this result and does nothing else; may be repeated
 *   init_hang               making a communicator never ends
 *   abort_hang              CommAbort never returns
 *   unique_id_fails         GetUniqueId fails
 *   log=FILE                a line per call is appended
 *
 * Operations (collectives, sends, receives) and calls are counted from 1, in the process, on the rank that is named.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "double.h"

enum { MAX_FAILS = 16 };

struct fail {
    char function[32];
    uint32_t call;
    ncclResult_t result;
    int counter; /* of the function: the first fault that names it */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    int version;
    int rank; /* -1: any */
    uint32_t async_at;
    int async_result;
    uint32_t hang_at;
    bool init_hangs;
    bool abort_hangs;
    bool id_fails;
    int log;
    int fails;
} settings;
static struct fail fails[MAX_FAILS];
static _Atomic uint32_t
    calls[MAX_FAILS]; /* calls so far of the fault's function; only in the first fault of that function */
static _Atomic uint32_t operations;

static long number(const char *setting, const char *text, char end, const char **rest)
{
    char *after;
    const long value = strtol(text, &after, 10);
    if (after == text || *after != end || value < 0 || value > 1000000000) {
        tti_misused("TUTTI_DOUBLE_NCCL: \"%s\" is no word that it knows, or its number is wrong.", setting);
    }
    *rest = after + (end != '\0');
    return value;
}

/* Whether it is exported: a fault in another function would never happen. */
static bool has_function(const char *function)
{
    char name[64];
    Dl_info info;
    snprintf(name, sizeof(name), "nccl%s", function);
    void *self = dladdr(&settings, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    return self && dlsym(self, name);
}

static void read_fail(const char *setting, const char *text)
{
    const char *colon = strchr(text, ':');
    if (!colon || colon - text >= (ptrdiff_t)sizeof(fails[0].function) || settings.fails == MAX_FAILS) {
        tti_misused("TUTTI_DOUBLE_NCCL: \"%s\" shall be fail=FUNCTION:K=CODE, and %d of them at most.", setting,
                    MAX_FAILS);
    }
    struct fail *fail = &fails[settings.fails++];
    memcpy(fail->function, text, (size_t)(colon - text));
    if (!has_function(fail->function)) {
        tti_misused("TUTTI_DOUBLE_NCCL: \"%s\" names a function that this library does not have.", setting);
    }
    fail->counter = 0;
    while (strcmp(fails[fail->counter].function, fail->function) != 0) {
        fail->counter++;
    }
    const char *rest;
    fail->call = (uint32_t)number(setting, colon + 1, '=', &rest);
    fail->result = (ncclResult_t)number(setting, rest, '\0', &rest);
}

static void read_setting(const char *setting)
{
    const char *value = strchr(setting, '=');
    const size_t length = value ? (size_t)(value - setting) : strlen(setting);
    value = value ? value + 1 : "";
    const char *rest;
    if (!strcmp(setting, "init_hang")) {
        settings.init_hangs = true;
    } else if (!strcmp(setting, "abort_hang")) {
        settings.abort_hangs = true;
    } else if (!strcmp(setting, "unique_id_fails")) {
        settings.id_fails = true;
    } else if (!strncmp(setting, "version=", length + 1)) {
        settings.version = (int)number(setting, value, '\0', &rest);
    } else if (!strncmp(setting, "rank=", length + 1)) {
        settings.rank = (int)number(setting, value, '\0', &rest);
    } else if (!strncmp(setting, "hang=", length + 1)) {
        settings.hang_at = (uint32_t)number(setting, value, '\0', &rest);
    } else if (!strncmp(setting, "async_error=", length + 1)) {
        settings.async_at = (uint32_t)number(setting, value, ':', &rest);
        settings.async_result = (int)number(setting, rest, '\0', &rest);
    } else if (!strncmp(setting, "fail=", length + 1)) {
        read_fail(setting, value);
    } else if (!strncmp(setting, "log=", length + 1)) {
        settings.log = open(value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (settings.log < 0) {
            tti_misused("TUTTI_DOUBLE_NCCL: the log %s cannot be opened (%s).", value, strerror(errno));
        }
    } else {
        tti_misused("TUTTI_DOUBLE_NCCL: \"%s\" is no word that it knows.", setting);
    }
}

static void read_settings(void)
{
    settings.version = TTI_DOUBLE_LEVEL;
    settings.rank = -1;
    settings.log = -1;
    const char *text = getenv("TUTTI_DOUBLE_NCCL");
    char *copy = strdup(text ? text : "");
    char *rest = copy;
    for (char *setting = strtok_r(copy, " ,", &rest); setting; setting = strtok_r(NULL, " ,", &rest)) {
        read_setting(setting);
    }
    free(copy);
}

int tti_version(void)
{
    pthread_once(&once, read_settings);
    return settings.version;
}

static bool is_meant(int rank)
{
    pthread_once(&once, read_settings);
    return settings.rank < 0 || settings.rank == rank;
}

static void write_log(const char *function, int rank, const char *format, va_list arguments)
{
    char line[512];
    int length = snprintf(line, sizeof(line), "%s rank=%d ", function, rank);
    length += vsnprintf(line + length, sizeof(line) - (size_t)length - 1, format, arguments);
    if (length > (int)sizeof(line) - 2) {
        length = (int)sizeof(line) - 2;
    }
    while (length > 0 && line[length - 1] == ' ') {
        length--;
    }
    line[length++] = '\n';
    /* One write, so that lines of several processes do not mix. */
    if (write(settings.log, line, (size_t)length) != length) {
        tti_misused("its log cannot be written (%s).", strerror(errno));
    }
}

/* Counts the call, once for all faults of the function, and returns the ordered result. */
static ncclResult_t ordered_result(const char *function)
{
    uint32_t call = 0;
    for (int i = 0; i < settings.fails; i++) {
        if (strcmp(fails[i].function, function) != 0) {
            continue;
        }
        if (call == 0) { /* relaxed: only counts */
            call = atomic_fetch_add_explicit(&calls[fails[i].counter], 1, memory_order_relaxed) + 1;
        }
        if (call == fails[i].call) {
            return tti_refuse(fails[i].result, "%s : TUTTI_DOUBLE_NCCL makes it fail", function);
        }
    }
    return ncclSuccess;
}

ncclResult_t tti_count_call(const char *function, int rank, const char *format, ...)
{
    const bool meant = is_meant(rank);
    if (settings.log >= 0) {
        va_list arguments;
        va_start(arguments, format);
        write_log(function, rank, format, arguments);
        va_end(arguments);
    }
    if (meant && settings.id_fails && !strcmp(function, "GetUniqueId")) {
        return tti_refuse(ncclSystemError, "GetUniqueId : TUTTI_DOUBLE_NCCL makes it fail");
    }
    return meant ? ordered_result(function) : ncclSuccess;
}

int tti_next_fault(int rank)
{
    if (!is_meant(rank)) {
        return -1;
    }
    const uint32_t operation = atomic_fetch_add_explicit(&operations, 1, memory_order_relaxed) + 1;
    if (operation == settings.async_at) {
        return settings.async_result;
    }
    return operation == settings.hang_at ? 0 : -1;
}

bool tti_abort_hangs(int rank)
{
    return is_meant(rank) && settings.abort_hangs;
}

bool tti_init_hangs(int rank)
{
    return is_meant(rank) && settings.init_hangs;
}
