/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL or RCCL as found on this machine: opened at first use, never closed. Searched in this order: TUTTI_NCCL_LIBRARY
 * (TUTTI_RCCL_LIBRARY), a copy that the process has loaded already, the loader's path, Python's nvidia/nccl/lib beside
 * the running interpreter, the toolkit's folders. Always RTLD_LOCAL: both libraries export the same names.
 */
#ifndef TTI_BACKENDS_NCCL_LIBRARY_LIBRARY_H
#define TTI_BACKENDS_NCCL_LIBRARY_LIBRARY_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "backends/nccl/library/api.h"
#include "device/device.h"

struct tti_nccl_library {
    const char *backend;             /* "nccl", "rccl" */
    const char *display_name;        /* "NCCL", "RCCL" */
    const struct tti_device *device; /* CUDA's, ROCm's */
    int version;                     /* 22809; 20708 for 2.7.8, whose own number is 2708 */
    bool loaded;                     /* it was in the process before: it may have read its variables already */
    char path[256];                  /* as it was opened, truncated; for describe */
#define TTI_NCCL_MEMBER(name, since, result, arguments) result(*name) arguments;
    TTI_NCCL_FUNCTIONS(TTI_NCCL_MEMBER)
#undef TTI_NCCL_MEMBER
};

/* The library of that backend ("nccl" or "rccl"), or NULL and why it cannot be used: no library, too old, no driver, no
 * device. Starts nothing: no unique id, no communicator. Searched once; the answer is kept. */
const struct tti_nccl_library *tti_nccl_library(const char *backend, char *why, size_t capacity);

/* "2.28.9" from 22809 or 2708. */
void tti_nccl_version_text(int version, char text[16]);

#endif
