/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

/* The loader's text for one name replaces the one for an earlier name only if it says more than that there is no such
 * file: a file that is there but cannot be loaded is the news. */
static void note_failure(const char *name, char *text, size_t capacity)
{
    const char *news = dlerror();
    const size_t length = strlen(name);
    if (text[0] == '\0' || (news && strncmp(news, name, length) != 0)) {
        snprintf(text, capacity, "%s", news ? news : name);
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
            note_failure(names[i], text, capacity);
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
        snprintf(why, capacity, "no driver: %s%s%s%s", text, by_name ? " (named by " : "",
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
            snprintf(why, capacity, "the driver is too old, or is none: %s has no %s", name, symbol->name);
            return false;
        }
        memcpy((char *)table + symbol->offset, &address, sizeof(address));
    }
    return true;
}

tutti_status tti_driver_ready(const struct tti_driver *driver, tutti_error *error)
{
    if (driver->why[0] != '\0') {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "%s cannot be used here: %s", driver->spoken, driver->why);
    }
    if (getpid() != driver->owner) {
        return tti_error_set(error, TUTTI_FORKED,
                             "%s was started by process %d, of which this one is a fork, and no fork can use it: fork "
                             "before the first use of %s, or execute a program anew",
                             driver->spoken, (int)driver->owner, driver->spoken);
    }
    return TUTTI_OK;
}

tutti_status tti_driver_has(const struct tti_driver *driver, int32_t index, tutti_error *error)
{
    tutti_status status = tti_driver_ready(driver, error);
    if (status == TUTTI_OK && (index < 0 || index >= driver->count)) {
        status =
            tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                          "there is no device %s:%d: this process sees %d of them, from %s:0 on (%s may hide others)",
                          driver->prefix, index, driver->count, driver->prefix, driver->hides);
    }
    return status;
}

int32_t tti_driver_available(const struct tti_driver *driver, char *why, size_t capacity)
{
    tutti_error error;
    const tutti_status status = tti_driver_ready(driver, &error);
    const char *text = status == TUTTI_OK ? "" : status == TUTTI_NOT_AVAILABLE ? driver->why : error.message;
    snprintf(why, capacity, "%s", text);
    return status == TUTTI_OK;
}

tutti_status tti_vendor_error(tutti_error *error, const struct tti_vendor_failure *failure, const char *format,
                              va_list arguments)
{
    if (error) {
        char what[160];
        char named[64] = "";
        vsnprintf(what, sizeof(what), format, arguments);
        if (failure->name) {
            snprintf(named, sizeof(named), "%s, ", failure->name);
        }
        tti_error_set(error, failure->status, "%s%s%s failed: %s (%s%d)", what, failure->where[0] ? " on " : "",
                      failure->where, failure->text ? failure->text : "the library says no more", named, failure->code);
        error->vendor_code = failure->code;
    }
    return failure->status;
}

tutti_status tti_copy_each_row(const struct tti_device *device, const struct tti_device_rows *rows, void *stream,
                               tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    for (size_t i = 0; status == TUTTI_OK && i < rows->rows; i++) {
        status = device->copy((char *)rows->dst + i * rows->dst_pitch, (const char *)rows->src + i * rows->src_pitch,
                              rows->width, stream, error);
    }
    return status;
}
