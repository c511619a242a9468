/* SPDX-License-Identifier: BSD-3-Clause */
/* CPUs and their caches, for a measurement. */
#ifndef TTI_ENGINE_TUNING_CPUS_H
#define TTI_ENGINE_TUNING_CPUS_H

#include "engine/tuning/profile.h"

/* CPUs of the caller's affinity mask to measure with: the first one, the next one on another core, and one with another
 * third-level cache, if the system reports that. Returns their number. */
#define TTI_CPUS_CHOSEN 3
int tti_cpus_choose(int cpus[TTI_CPUS_CHOSEN]);

/* The caches of this CPU, and whether it is virtual; 0 = not known. */
void tti_cpus_describe(int cpu, struct tti_profile *profile);

#endif
