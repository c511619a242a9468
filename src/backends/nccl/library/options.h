/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings nccl.* (rccl.*), in the library's terms. */
#ifndef TTI_BACKENDS_NCCL_LIBRARY_OPTIONS_H
#define TTI_BACKENDS_NCCL_LIBRARY_OPTIONS_H

#include "backends/nccl/library/library.h"

/*
 * Sets the variables of the process that the settings stand for. The library reads them once, at its first use.
 * BAD_STATE if a later group wants another value; INVALID_ARGUMENT if two settings want different values of one
 * variable.
 */
tutti_status tti_nccl_apply_options(const struct tti_nccl_library *library, const tutti_open_info *info,
                                    tutti_error *error);

/* Whether MIN and MAX of floats run in the library. */
bool tti_nccl_native_min_max(const struct tti_nccl_library *library, const tutti_open_info *info);

/* The configuration of a communicator: non-blocking, channels. */
tti_nccl_config tti_nccl_config_of(const struct tti_nccl_library *library, const tutti_open_info *info);

/* Writes what the user should know of the settings, as snprintf does; "" if there is nothing: settings without effect
 * in this version, settings that may come too late, and an environment variable that disables deadlines. */
size_t tti_nccl_setting_warnings(const struct tti_nccl_library *library, const tutti_open_info *info, char *text,
                                 size_t capacity);

#endif
