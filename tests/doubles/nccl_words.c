/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TUTTI_DOUBLE_NCCL: words, separated by blanks or commas, that say how the double behaves. Read at the first call, once per
 * process, as the real library reads its own variables.
 *
 *   version=21805           GetVersion says so, and what is newer is refused
 *   rank=R                  the faults below happen on this rank only
 *   async_error=N:CODE      the N-th operation is never done, and leaves this asynchronous error
 *   hang=N                  the N-th operation is never done
 *   fail=FUNCTION:K=CODE    the K-th call of the function returns this result and does nothing else; several may name one
 *   init_hang               communicators never come into being
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

#include "nccl_double.h"

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
} words;
static struct fail fails[MAX_FAILS];
static _Atomic uint32_t calls[MAX_FAILS]; /* so far, of the function of that fault, if it is the first that names it */
static _Atomic uint32_t operations;

static long number(const char *word, const char *text, char end, const char **rest)
{
    char *after;
    const long value = strtol(text, &after, 10);
    if (after == text || *after != end || value < 0 || value > 1000000000) {
        tti_misused("TUTTI_DOUBLE_NCCL: \"%s\" is no word that it knows, or its number is wrong.", word);
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
    void *self = dladdr(&words, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    return self && dlsym(self, name);
}

static void read_fail(const char *word, const char *text)
{
    const char *colon = strchr(text, ':');
    if (!colon || colon - text >= (ptrdiff_t)sizeof(fails[0].function) || words.fails == MAX_FAILS) {
        tti_misused("TUTTI_DOUBLE_NCCL: \"%s\" shall be fail=FUNCTION:K=CODE, and %d of them at most.", word,
                    MAX_FAILS);
    }
    struct fail *fail = &fails[words.fails++];
    memcpy(fail->function, text, (size_t)(colon - text));
    if (!has_function(fail->function)) {
        tti_misused("TUTTI_DOUBLE_NCCL: \"%s\" names a function that this library does not have.", word);
    }
    fail->counter = 0;
    while (strcmp(fails[fail->counter].function, fail->function) != 0) {
        fail->counter++;
    }
    const char *rest;
    fail->call = (uint32_t)number(word, colon + 1, '=', &rest);
    fail->result = (ncclResult_t)number(word, rest, '\0', &rest);
}

static void read_word(const char *word)
{
    const char *value = strchr(word, '=');
    const size_t length = value ? (size_t)(value - word) : strlen(word);
    value = value ? value + 1 : "";
    const char *rest;
    if (!strcmp(word, "init_hang")) {
        words.init_hangs = true;
    } else if (!strcmp(word, "abort_hang")) {
        words.abort_hangs = true;
    } else if (!strcmp(word, "unique_id_fails")) {
        words.id_fails = true;
    } else if (!strncmp(word, "version=", length + 1)) {
        words.version = (int)number(word, value, '\0', &rest);
    } else if (!strncmp(word, "rank=", length + 1)) {
        words.rank = (int)number(word, value, '\0', &rest);
    } else if (!strncmp(word, "hang=", length + 1)) {
        words.hang_at = (uint32_t)number(word, value, '\0', &rest);
    } else if (!strncmp(word, "async_error=", length + 1)) {
        words.async_at = (uint32_t)number(word, value, ':', &rest);
        words.async_result = (int)number(word, rest, '\0', &rest);
    } else if (!strncmp(word, "fail=", length + 1)) {
        read_fail(word, value);
    } else if (!strncmp(word, "log=", length + 1)) {
        words.log = open(value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (words.log < 0) {
            tti_misused("TUTTI_DOUBLE_NCCL: the log %s cannot be opened (%s).", value, strerror(errno));
        }
    } else {
        tti_misused("TUTTI_DOUBLE_NCCL: \"%s\" is no word that it knows.", word);
    }
}

static void read_words(void)
{
    words.version = TTI_DOUBLE_LEVEL;
    words.rank = -1;
    words.log = -1;
    const char *text = getenv("TUTTI_DOUBLE_NCCL");
    char *copy = strdup(text ? text : "");
    char *rest = copy;
    for (char *word = strtok_r(copy, " ,", &rest); word; word = strtok_r(NULL, " ,", &rest)) {
        read_word(word);
    }
    free(copy);
}

int tti_version(void)
{
    pthread_once(&once, read_words);
    return words.version;
}

static bool is_meant(int rank)
{
    pthread_once(&once, read_words);
    return words.rank < 0 || words.rank == rank;
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
    if (write(words.log, line, (size_t)length) != length) {
        tti_misused("its log cannot be written (%s).", strerror(errno));
    }
}

/* Counts the call, once for all faults of the function, and returns what is ordered for it. */
static ncclResult_t ordered_result(const char *function)
{
    uint32_t call = 0;
    for (int i = 0; i < words.fails; i++) {
        if (strcmp(fails[i].function, function) != 0) {
            continue;
        }
        if (call == 0) { /* relaxed: only counts */
            call = atomic_fetch_add_explicit(&calls[fails[i].counter], 1, memory_order_relaxed) + 1;
        }
        if (call == fails[i].call) {
            return tti_refuse(fails[i].result, "%s : told to fail by TUTTI_DOUBLE_NCCL", function);
        }
    }
    return ncclSuccess;
}

ncclResult_t tti_called(const char *function, int rank, const char *format, ...)
{
    const bool meant = is_meant(rank);
    if (words.log >= 0) {
        va_list arguments;
        va_start(arguments, format);
        write_log(function, rank, format, arguments);
        va_end(arguments);
    }
    if (meant && words.id_fails && !strcmp(function, "GetUniqueId")) {
        return tti_refuse(ncclSystemError, "GetUniqueId : told to fail by TUTTI_DOUBLE_NCCL");
    }
    return meant ? ordered_result(function) : ncclSuccess;
}

int tti_next_fault(int rank)
{
    if (!is_meant(rank)) {
        return -1;
    }
    const uint32_t operation = atomic_fetch_add_explicit(&operations, 1, memory_order_relaxed) + 1;
    if (operation == words.async_at) {
        return words.async_result;
    }
    return operation == words.hang_at ? 0 : -1;
}

bool tti_abort_hangs(int rank)
{
    return is_meant(rank) && words.abort_hangs;
}

bool tti_init_hangs(int rank)
{
    return is_meant(rank) && words.init_hangs;
}
