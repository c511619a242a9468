/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a vendor's driver, and the sentences about its failures. base/library.h opens the library. */
#ifndef TTI_DEVICE_LIBRARY_H
#define TTI_DEVICE_LIBRARY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <tutti/status.h>

#include "base/library.h"
#include "device/types.h"

/* A vendor's driver in this process. Written once, then constant. */
struct tti_driver {
    const char *display_name;  /* "CUDA" */
    const char *prefix;        /* "cuda" */
    const char *mask_variable; /* the environment variable that hides devices */
    int32_t count;             /* of devices */
    pid_t owner;               /* the process that initialized it */
    char why[400];             /* the reason why it cannot be used; "" = it can */
};

/* OK if it can be used; NOT_AVAILABLE; FORKED in a child of the process that initialized it. */
tutti_status tti_driver_ready(const struct tti_driver *driver, tutti_error *error);
/* The same for one device; INVALID_ARGUMENT if there is none of that number. */
tutti_status tti_driver_has(const struct tti_driver *driver, int32_t index, tutti_error *error);
/* tti_device.available */
int32_t tti_driver_available(const struct tti_driver *driver, char *why, size_t capacity);

/* A failure of a vendor's function, as the vendor names it. */
struct tti_vendor_failure {
    tutti_status status;
    int code;
    const char *function; /* its symbol: "cuMemAlloc_v2" */
    const char *name;     /* "CUDA_ERROR_OUT_OF_MEMORY"; NULL: the library does not know the code */
    const char *text;     /* "out of memory"; may be NULL */
    const char *where;    /* "cuda:1"; "" = no device */
};

/* "cuMemAlloc of 64 bytes on cuda:1 failed: out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)"; the format gives
 * " of 64 bytes". Returns the status. */
__attribute__((format(printf, 3, 0))) tutti_status
tti_vendor_error(tutti_error *error, const struct tti_vendor_failure *failure, const char *format, va_list arguments);

#endif
