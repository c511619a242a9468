/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU time that the control groups of this process grant. */
#ifndef TTI_BASE_HOST_CGROUP_H
#define TTI_BASE_HOST_CGROUP_H

#include <stdint.h>

struct tti_cgroup_cpus {
    uint32_t thousandths; /* of a CPU's time; 0 = no limit            */
    uint64_t group;       /* the same for all that share this limit */
};

/* The tightest limit on the way from this process's group to the root, in either version of the hierarchy (cpu.max;
 * cpu.cfs_quota_us). `root` is put before every path that is read: "" outside of tests. */
struct tti_cgroup_cpus tti_cgroup_cpus(const char *root);

#endif
