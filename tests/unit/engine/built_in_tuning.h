/* SPDX-License-Identifier: BSD-3-Clause */
/* Thresholds that are the same on every machine. */
#ifndef TESTS_UNIT_ENGINE_BUILT_IN_TUNING_H
#define TESTS_UNIT_ENGINE_BUILT_IN_TUNING_H

#include "engine/tuning/tuning.h"

static const struct tti_tuning_overrides no_overrides = {
    .packets = -1, .one_shot = -1, .reduce_sliced = -1, .stream = -1, .zero_copy = -1, .single_copy = -1};

/* On the built-in machine, with a CPU for each rank. */
static inline struct tti_tuning built_in_tuning(int size, const struct tti_tuning_overrides *overrides)
{
    struct tti_tuning tuning;
    tti_tuning_fit(size, size, &tti_profile_built_in, overrides, &tuning);
    return tuning;
}

#endif
