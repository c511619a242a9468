/* SPDX-License-Identifier: BSD-3-Clause */
/* CPUs and their caches, for a measurement. */
#ifndef TTI_ENGINE_TUNING_CPUS_H
#define TTI_ENGINE_TUNING_CPUS_H

#include "engine/tuning/profile.h"

/* CPUs of the caller's affinity mask to measure with: the first one, the next one on another core, and one with another
 * third-level cache, if the system reports that. Returns their number. */
#define TTI_CALIBRATE_CPUS 3
int tti_calibrate_cpus(int cpus[TTI_CALIBRATE_CPUS]);

/* The caches of this CPU, and whether it is virtual; 0 = not known. */
void tti_calibrate_topology(int cpu, struct tti_profile *profile);

#endif
