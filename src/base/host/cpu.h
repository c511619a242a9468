/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPUs: their model, and how many this thread may use by the affinity mask and the control groups' quota. */
#ifndef TTI_BASE_HOST_CPU_H
#define TTI_BASE_HOST_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TTI_CPU_WORDS 16 /* 1024 CPUs */

/* The calling thread's affinity mask; all zero if the kernel gives none. */
void tti_cpu_mask(uint64_t mask[TTI_CPU_WORDS]);

/* CPU time that the control groups grant, in CPUs, as 1.5; 0 = no limit. */
double tti_cpu_quota(void);

/* The same in whole CPUs, rounded up. */
unsigned tti_cpu_quota_whole(void);

/* As many of these CPUs as may be used at once: cut by the quota, rounded up. A rank for each of the others would be
 * throttled. */
unsigned tti_cpus_within_quota(unsigned cpus);

/* CPUs that may be used at once: the mask's count, cut by the quota, rounded up; at least 1. */
unsigned tti_cpu_count(void);

/* The model name of the first processor. False, with "": the kernel gives none, as for many ARM processors. */
bool tti_cpu_model(char *name, size_t capacity);

#endif
