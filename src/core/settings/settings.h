/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of settings, and their values for one group. */
#ifndef TTI_CORE_SETTINGS_SETTINGS_H
#define TTI_CORE_SETTINGS_SETTINGS_H

#include <stdatomic.h>
#include <stdint.h>
#include <tutti/config.h>

enum {
    TTI_SET_BACKEND,
    TTI_SET_CHECK_CALLS,
    TTI_SET_DEVICE,
    TTI_SET_DEVICE_CHUNK,
    TTI_SET_DEVICE_INDEX,
    TTI_SET_LANES,
    TTI_SET_NAME,
    TTI_SET_STORE,
    TTI_SET_TIMEOUT_MS,
    TTI_SET_ENGINE_CALIBRATE,
    TTI_SET_ENGINE_HEAP,
    TTI_SET_ENGINE_HEAP_CAPACITY,
    TTI_SET_ENGINE_ONE_SHOT,
    TTI_SET_ENGINE_PACKETS,
    TTI_SET_ENGINE_REDUCE_SLICED_BYTES,
    TTI_SET_ENGINE_SINGLE_COPY,
    TTI_SET_ENGINE_SINGLE_COPY_BYTES,
    TTI_SET_ENGINE_SPIN_US,
    TTI_SET_ENGINE_STAGE,
    TTI_SET_ENGINE_STREAM_BYTES,
    TTI_SET_ENGINE_WINDOW,
    TTI_SET_ENGINE_YIELD_US,
    TTI_SET_ENGINE_ZERO_COPY,
    TTI_SET_ENGINE_ZERO_COPY_BYTES,
    TTI_SET_FAULT_BACKEND,
    TTI_SET_FAULT_RULES,
    TTI_SET_FLIGHT,
    TTI_SET_GLOO_INTERFACE,
    TTI_SET_GLOO_SEGMENT,
    TTI_SET_HIER_CHUNK,
    TTI_SET_HIER_INNER,
    TTI_SET_HIER_OUTER,
    TTI_SET_MPI_BLOCKING,
    TTI_SET_MPI_BUFFER_SIZE,
    TTI_SET_MPI_CUDA_AWARE,
    TTI_SET_MPI_ENV,
    TTI_SET_MPI_PROFILING,
    TTI_SET_MPI_THREAD_LEVEL,
    TTI_SET_MPI_TUNING,
    TTI_SET_NCCL_ALGO,
    TTI_SET_NCCL_BUFFER_SIZE,
    TTI_SET_NCCL_CHANNELS,
    TTI_SET_NCCL_DEBUG,
    TTI_SET_NCCL_ENV,
    TTI_SET_NCCL_HOST_STAGING,
    TTI_SET_NCCL_NATIVE_MIN_MAX,
    TTI_SET_NCCL_TREE_THRESHOLD,
    TTI_SET_RCCL_ALGO,
    TTI_SET_RCCL_BUFFER_SIZE,
    TTI_SET_RCCL_CHANNELS,
    TTI_SET_RCCL_DEBUG,
    TTI_SET_RCCL_ENV,
    TTI_SET_RCCL_HOST_STAGING,
    TTI_SET_RCCL_NATIVE_MIN_MAX,
    TTI_SET_RCCL_TREE_THRESHOLD,
    TTI_SET_SHM_DIRECTORY,
    TTI_SETTINGS
};

#define TTI_SETTING_MAX 300

/* Checked values as text; numbers in plain decimal. Groups share them, so they do not change. */
struct tti_settings {
    char values[TTI_SETTINGS][TTI_SETTING_MAX];
    _Atomic int references;
};

/*
 * Config (its fields, then its list of settings), environment, default, in this order; a sub-group passes its parent's
 * settings as `inherited`, which take precedence over the environment. They are the result, if the config asks for
 * nothing. The caller releases the result. Errors name the key or the variable, the value and what is accepted; then
 * *settings is NULL.
 */
tutti_status tti_settings_resolve(const tutti_config *config, struct tti_settings *inherited,
                                  struct tti_settings **settings, tutti_error *error);

struct tti_settings *tti_settings_retain(struct tti_settings *settings);
void tti_settings_release(struct tti_settings *settings); /* NULL is allowed */

const char *tti_setting(const struct tti_settings *settings, int which);
int64_t tti_setting_number(const struct tti_settings *settings, int which);

/* By key, for backends; NULL if there is no such key. */
const char *tti_setting_by_key(const void *settings, const char *key);

#endif
