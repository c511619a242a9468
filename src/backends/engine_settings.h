/* SPDX-License-Identifier: BSD-3-Clause */
/* The thresholds and options of an engine, for the backends local and shm. */
#ifndef TTI_BACKENDS_ENGINE_SETTINGS_H
#define TTI_BACKENDS_ENGINE_SETTINGS_H

#include "engine/engine.h"

/* The thresholds that the settings "engine.*" fix. Of `info`, only the settings are read. */
void tti_tuning_overrides_from_settings(const tutti_open_info *info, struct tti_tuning_overrides *overrides);

/* What the thresholds follow from, beside the size of the group. Fixed layout: it is sent between processes. */
struct tti_cpu_counts {
    int32_t job;   /* of the launcher */
    int32_t rank;  /* of rank 0 */
    int32_t quota; /* 0: none */
    int32_t threads;
};
struct tti_tuning_basis {
    struct tti_tuning_overrides overrides;
    struct tti_profile profile;
    struct tti_cpu_counts cpus;
};

/* Only rank 0 calls it; the first call in a process may take some milliseconds. */
void tti_tuning_basis_measure(const tutti_open_info *info, bool threads, struct tti_tuning_basis *basis);
void tti_tuning_from_basis(const struct tti_tuning_basis *basis, int size, struct tti_tuning *tuning);

/* Fills in the options that the settings fix. */
void tti_engine_options_from_settings(const tutti_open_info *info, struct tti_engine_options *options);

#endif
