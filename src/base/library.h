/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A third-party library that is opened at its first use: dlopen by soname, dlsym for each function. It stays open for
 * the life of the process, since threads of its own may run in it.
 */
#ifndef TTI_BASE_LIBRARY_H
#define TTI_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* One function: where its address goes (an offset in the caller's table), and its exported names. */
struct tti_symbol {
    size_t offset;
    const char *name;
    const char *older; /* the name in older versions; may be NULL */
    bool needed;       /* false: its address may be NULL */
};

struct tti_library {
    const char *display_name; /* what it is, as in "no driver" */
    const char *variable;     /* in the environment: names the file instead */
    const char *const *names; /* sonames, the best first; ends with NULL */
    const struct tti_symbol *symbols;
    size_t count;
};

/* Opens the library and fills `table`. False, and why: which file, which symbol. A copy that the process has loaded
 * already is preferred to a better one: two copies would not know each other's memory. */
bool tti_library_open(const struct tti_library *library, void *table, char *why, size_t capacity);

#endif
