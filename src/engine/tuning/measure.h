/* SPDX-License-Identifier: BSD-3-Clause */
/* Measuring what this machine costs. */
#ifndef TTI_ENGINE_TUNING_MEASURE_H
#define TTI_ENGINE_TUNING_MEASURE_H

#include "engine/tuning/profile.h"

/* A measurement takes no longer, as long as its threads get their CPUs. */
#define TTI_CALIBRATE_LIMIT_MS 20

/* Measures with two threads on two CPUs of the caller's affinity mask, or on its only CPU. Figures that could not be
 * measured are 0. False: none could. */
bool tti_calibrate_measure(struct tti_profile *profile);

#endif
