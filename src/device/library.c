/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of a vendor's driver before its use, and the sentence about a failed call. */
#include "device/library.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

tutti_status tti_driver_ready(const struct tti_driver *driver, tutti_error *error)
{
    if (driver->why[0] != '\0') {
        return tti_error_set(error, TUTTI_NOT_AVAILABLE, "%s cannot be used here: %s", driver->display_name,
                             driver->why);
    }
    if (getpid() != driver->owner) {
        return tti_error_set(error, TUTTI_FORKED,
                             "process %d is a fork of process %d, which has initialized %s: a fork cannot use it; fork "
                             "before the first use of %s, or execute a new program",
                             (int)getpid(), (int)driver->owner, driver->display_name, driver->display_name);
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
                          driver->prefix, index, driver->count, driver->prefix, driver->mask_variable);
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
        const char *version = strstr(failure->function, "_v"); /* of the symbol: no part of the documented name */
        const size_t length = version ? (size_t)(version - failure->function) : strlen(failure->function);
        tti_error_set(error, failure->status, "%.*s%s%s%s failed: %s (%s%d)", (int)length, failure->function, what,
                      failure->where[0] ? " on " : "", failure->where,
                      failure->text ? failure->text : "the library gives no reason", named, failure->code);
        error->vendor_code = failure->code;
    }
    return failure->status;
}
