/* SPDX-License-Identifier: BSD-3-Clause */
/* The control groups of this process, and the CPU time that they grant. */
#ifndef TTI_BASE_HOST_CGROUP_H
#define TTI_BASE_HOST_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* `directory` has the files of a group. `unified`: it is of version 2, where all controllers share one hierarchy. */
typedef void (*tti_cgroup_visitor)(void *user, const char *directory, bool unified);

/* Calls `visit` for the group of this process, and then for each group above that is visible here: first in version 2,
 * then in the hierarchy of version 1 that has the controller ("cpu", "memory"). `root` is put before every path that is
 * read: "" outside of tests. */
void tti_cgroup_visit(const char *root, const char *controller, tti_cgroup_visitor visit, void *user);

/* A number other than 0 that stands for a group in all processes of a host. */
uint64_t tti_cgroup_id(const char *directory, bool unified);

struct tti_cgroup_cpus {
    uint32_t thousandths; /* of a CPU's time; 0 = no limit            */
    uint64_t group;       /* the same for all that share this limit */
};

/* The tightest limit on the way from this process's group to the root, in either version of the hierarchy (cpu.max;
 * cpu.cfs_quota_us). `root`: see tti_cgroup_visit. */
struct tti_cgroup_cpus tti_cgroup_cpus(const char *root);

#endif
