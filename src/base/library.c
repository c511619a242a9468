/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The loader's text for one name replaces the one for an earlier name only if it says more than that there is no such
 * file: a file that exists but cannot be loaded is the better reason. */
static void record_failure(const char *name, char *text, size_t capacity)
{
    const char *message = dlerror();
    const size_t length = strlen(name);
    if (text[0] == '\0' || (message && strncmp(message, name, length) != 0)) {
        snprintf(text, capacity, "%s", message ? message : name);
    }
}

/* *name is what it was opened by. NULL: the text says why. */
static void *open_first(const char *const *names, const char **name, char *text, size_t capacity)
{
    void *file = NULL;
    text[0] = '\0';
    for (size_t i = 0; !file && names[i]; i++) {
        *name = names[i];
        file = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    }
    for (size_t i = 0; !file && names[i]; i++) {
        *name = names[i];
        file = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!file) {
            record_failure(names[i], text, capacity);
        }
    }
    return file;
}

bool tti_library_open(const struct tti_library *library, void *table, char *why, size_t capacity)
{
    char text[256];
    const char *name = NULL;
    const char *named[] = {getenv(library->variable), NULL};
    const bool by_name = named[0] && named[0][0] != '\0';
    void *file = open_first(by_name ? named : library->names, &name, text, sizeof(text));
    if (!file) {
        snprintf(why, capacity, "no %s: %s%s%s%s", library->display_name, text, by_name ? " (named by " : "",
                 by_name ? library->variable : "", by_name ? ")" : "");
        return false;
    }
    for (size_t i = 0; i < library->count; i++) {
        const struct tti_symbol *symbol = &library->symbols[i];
        void *address = dlsym(file, symbol->name);
        if (!address && symbol->older) {
            address = dlsym(file, symbol->older);
        }
        if (!address && symbol->needed) {
            snprintf(why, capacity, "the %s is too old, or is none: %s has no %s", library->display_name, name,
                     symbol->name);
            return false;
        }
        memcpy((char *)table + symbol->offset, &address, sizeof(address));
    }
    return true;
}
