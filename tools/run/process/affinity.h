/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_RUN_PROCESS_AFFINITY_H
#define TTI_RUN_PROCESS_AFFINITY_H

#include "run/options.h"

/* The affinity of one rank; `list` is empty when the rank keeps the launcher's mask. False when memory is exhausted. */
bool tti_run_affinity(const struct tti_run_options *options, int rank, struct tti_cpu_list *list);

#endif
