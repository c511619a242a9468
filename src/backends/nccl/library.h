/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One of the two libraries, as it was found on this machine: opened when it is first asked for, never closed. Looked for in
 * this order: TUTTI_NCCL_LIBRARY (TUTTI_RCCL_LIBRARY), a copy that the process has loaded already, the loader's path,
 * Python's nvidia/nccl/lib beside the running interpreter, the toolkit's folders. Always RTLD_LOCAL: both export the same
 * names.
 */
#ifndef TTI_BACKENDS_NCCL_LIBRARY_H
#define TTI_BACKENDS_NCCL_LIBRARY_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "backends/nccl/api.h"
#include "device/device.h"

struct tti_nccl_library {
    const char *backend;             /* "nccl", "rccl" */
    const char *display_name;        /* "NCCL", "RCCL" */
    const struct tti_device *device; /* CUDA's, ROCm's */
    int version;                     /* 22809; 20708, though 2.7.8 calls itself 2708 */
    bool loaded;                     /* it was in the process before: what it reads once it may have read */
    char path[256];                  /* as it was opened, cut if longer: for people */
#define TTI_NCCL_MEMBER(name, since, result, arguments) result(*name) arguments;
    TTI_NCCL_FUNCTIONS(TTI_NCCL_MEMBER)
#undef TTI_NCCL_MEMBER
};

/* The library of that backend ("nccl" or "rccl"), or NULL and why it cannot be used: no library, too old, no driver, no
 * device. Does not start anything: no unique id, no communicator. Asked once, then remembered. */
const struct tti_nccl_library *tti_nccl_library(const char *backend, char *why, size_t capacity);

/* "2.28.9" from 22809 or 2708. */
void tti_nccl_version_text(int version, char text[16]);

/* ---- options.c ---- */

/*
 * What the settings nccl.* (rccl.*) mean. Most of it the library reads once, from variables of the process, at its first
 * use, so it is set before that. BAD_STATE if a later group wants something else; INVALID_ARGUMENT if ring and tree are both
 * demanded.
 */
tutti_status tti_nccl_apply_options(const struct tti_nccl_library *library, const tutti_open_info *info,
                                    tutti_error *error);

/* Whether minimum and maximum of floats are to be the library's own. */
bool tti_nccl_native_min_max(const struct tti_nccl_library *library, const tutti_open_info *info);

/* The configuration of a communicator: non-blocking, channels. */
tti_nccl_config tti_nccl_config_of(const struct tti_nccl_library *library, const tutti_open_info *info);

/* What this version cannot honour of what was asked for, for people: appended as snprintf does; "" if nothing. */
size_t tti_nccl_ignored_settings(const struct tti_nccl_library *library, const tutti_open_info *info, char *text,
                                 size_t capacity);

#endif
