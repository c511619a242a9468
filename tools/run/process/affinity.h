/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_RUN_PROCESS_AFFINITY_H
#define TOOLS_RUN_PROCESS_AFFINITY_H

#include "run/options.h"

/* The CPUs of one rank of this node. False: it keeps the launcher's mask, and *cpus is empty. */
bool tti_run_affinity(const struct tti_run_options *options, int rank, struct tti_cpus *cpus);

#endif
