/* SPDX-License-Identifier: BSD-3-Clause */
/* A vendor's library (base/library.h opens it): what became of its driver, and what is said of it in one form. */
#ifndef TTI_DEVICE_LIBRARY_H
#define TTI_DEVICE_LIBRARY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <tutti/status.h>

#include "base/library.h"
#include "device/device.h"

/* What became of a vendor's driver in this process. Filled in once, then constant. */
struct tti_driver {
    const char *display_name;  /* "CUDA" */
    const char *prefix;        /* "cuda" */
    const char *mask_variable; /* the environment's variable that mask_variable devices */
    int32_t count;             /* of devices */
    pid_t owner;               /* the process that started it */
    char why[400];             /* "": it can be used */
};

/* OK if it can be used: NOT_AVAILABLE, or FORKED in a child of the process that started it. */
tutti_status tti_driver_ready(const struct tti_driver *driver, tutti_error *error);
/* The same for one device; INVALID_ARGUMENT if there is none of that number. */
tutti_status tti_driver_has(const struct tti_driver *driver, int32_t index, tutti_error *error);
/* As struct tti_device has it. */
int32_t tti_driver_available(const struct tti_driver *driver, char *why, size_t capacity);

/* What went wrong in a vendor's function, as the vendor names it. */
struct tti_vendor_failure {
    tutti_status status;
    int code;
    const char *name;  /* "CUDA_ERROR_OUT_OF_MEMORY"; NULL: the library does not know the code */
    const char *text;  /* "out of memory"; may be NULL */
    const char *where; /* "cuda:1"; "": nothing is said of the device */
};

/* "cuMemAlloc of 64 bytes on cuda:1 failed: out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)", of which the format gives the
 * words before "on". Returns the status. */
__attribute__((format(printf, 3, 0))) tutti_status
tti_vendor_error(tutti_error *error, const struct tti_vendor_failure *failure, const char *format, va_list arguments);

/* copy_rows by as many copies as there are rows, for pitches that a vendor's function does not take. */
tutti_status tti_copy_each_row(const struct tti_device *device, const struct tti_device_rows *rows, void *stream,
                               tutti_error *error);

#endif
