/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The orders of a test in TUTTI_DOUBLE_CUDA or TUTTI_DOUBLE_HIP: words separated by commas, listed in README.md. An
 * unknown word ends the process, because a test with a misspelt fault could not fail.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_state.h"

struct rule {
    enum tti_double_fault what;
    char function[64];
    long from; /* the call, counted from 1; 0: every call */
    bool on;   /* and all calls after it */
    int code;
    long calls;
};

static struct tti_double_settings settings = {.devices = 4, .delay_us = -1, .memory = (size_t)2 << 30, .seed = 1};
static struct rule rules[32];
static int rule_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static _Noreturn void refuse(const char *word, const char *why)
{
    fprintf(stderr, "%s: \"%s\" %s (tests/doubles/README.md lists the words)\n", tti_double_vendor.variable, word, why);
    abort();
}

static long number(const char *word, const char *text, long least, long most)
{
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 0);
    if (end == text || *end || errno || value < least || value > most) {
        refuse(word, "has no number, or one out of bounds");
    }
    return value;
}

static size_t size(const char *word, const char *text)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    const char *const units = "KMG";
    const char *unit = *end ? strchr(units, *end) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (end == text || errno || (*end && (!unit || end[1])) || value > (SIZE_MAX >> 1 >> shift)) {
        refuse(word, "has no size, like 64M");
    }
    return (size_t)value << shift;
}

/* A fault in a function that the library does not have would never happen. */
static bool exported(const char *function)
{
    Dl_info self;
    if (!dladdr(&tti_double_vendor, &self)) {
        return false;
    }
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    const bool found = library && dlsym(library, function);
    if (library) {
        dlclose(library);
    }
    return found;
}

/* NAME[:N[+]][=CODE] */
static void add_rule(enum tti_double_fault what, const char *word, char *text)
{
    if (rule_count == sizeof(rules) / sizeof(rules[0])) {
        refuse(word, "is one fault too many");
    }
    struct rule *rule = &rules[rule_count++];
    rule->what = what;
    rule->code = 1;
    char *code = strchr(text, '=');
    if ((code != NULL) != (what != TTI_DOUBLE_HANG)) {
        refuse(word, code ? "takes no code" : "needs a code: NAME:N=CODE");
    }
    if (code) {
        *code++ = 0;
        rule->code = (int)number(word, code, 1, INT_MAX);
    }
    char *from = strchr(text, ':');
    if (from) {
        *from++ = 0;
        char *last = from + strlen(from) - 1;
        if (*from && *last == '+') {
            *last = 0;
            rule->on = true;
        }
        rule->from = number(word, from, 1, LONG_MAX);
    }
    if (strlen(text) >= sizeof(rule->function) || !exported(text)) {
        refuse(word, "names no function of this library");
    }
    strcpy(rule->function, text);
}

static void read_setting(const char *word)
{
    char copy[160];
    if (strlen(word) >= sizeof(copy)) {
        refuse(word, "is too long");
    }
    strcpy(copy, word);
    char *value = strchr(copy, '=');
    if (!value) {
        refuse(word, "is no word that the double knows");
    }
    *value++ = 0;
    if (strcmp(copy, "devices") == 0) {
        settings.devices = (int)number(word, value, 0, TTI_DOUBLE_DEVICES);
    } else if (strcmp(copy, "version") == 0) {
        settings.version = (int)number(word, value, 1, INT_MAX);
    } else if (strcmp(copy, "init") == 0) {
        settings.init = (int)number(word, value, 1, INT_MAX);
    } else if (strcmp(copy, "delay_us") == 0) {
        settings.delay_us = (int)number(word, value, 0, 60 * 1000 * 1000);
    } else if (strcmp(copy, "seed") == 0) {
        settings.seed = (uint64_t)number(word, value, 1, LONG_MAX);
    } else if (strcmp(copy, "memory") == 0) {
        settings.memory = size(word, value);
    } else if (strcmp(copy, "fail") == 0) {
        add_rule(TTI_DOUBLE_FAIL, word, value);
    } else if (strcmp(copy, "hang") == 0) {
        add_rule(TTI_DOUBLE_HANG, word, value);
    } else if (strcmp(copy, "async_error") == 0) {
        add_rule(TTI_DOUBLE_ASYNC, word, value);
    } else if (strcmp(copy, "missing") == 0) {
        refuse(word, "cannot be done to a library that is built: use the one in the folder that ends in _old");
    } else {
        refuse(word, "is no word that the double knows");
    }
}

static void read_all(void)
{
    settings.version = tti_double_vendor.version;
    const char *text = getenv(tti_double_vendor.variable);
    char *copy = strdup(text ? text : "");
    if (!copy) {
        abort();
    }
    char *rest = copy;
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        read_setting(word);
    }
    free(copy);
}

const struct tti_double_settings *tti_double_settings(void)
{
    pthread_once(&once, read_all);
    return &settings;
}

int tti_double_fault_for_call(enum tti_double_fault what, const char *function)
{
    int code = 0;
    for (int i = 0; i < rule_count; i++) {
        struct rule *rule = &rules[i];
        if (rule->what == what && strcmp(rule->function, function) == 0) {
            rule->calls++;
            if (rule->from == 0 || rule->calls == rule->from || (rule->on && rule->calls > rule->from)) {
                code = rule->code;
            }
        }
    }
    return code;
}
