/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host/cpu.h"

#include <sched.h>
#include <string.h>

#include "base/host/cgroup.h"
#include "base/host/text_file.h"

void tti_cpu_mask(uint64_t mask[TTI_CPU_WORDS])
{
    memset(mask, 0, TTI_CPU_WORDS * sizeof(mask[0]));
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return;
    }
    for (int i = 0; i < CPU_SETSIZE && i < TTI_CPU_WORDS * 64; i++) {
        if (CPU_ISSET(i, &set)) {
            mask[i / 64] |= UINT64_C(1) << (i % 64);
        }
    }
}

double tti_cpu_quota(void)
{
    return tti_cgroup_cpus("").thousandths / 1000.0;
}

unsigned tti_cpu_quota_whole(void)
{
    return (tti_cgroup_cpus("").thousandths + 999) / 1000;
}

unsigned tti_cpus_within_quota(unsigned cpus)
{
    const unsigned quota = tti_cpu_quota_whole();
    return quota != 0 && quota < cpus ? quota : cpus;
}

unsigned tti_cpu_count(void)
{
    uint64_t mask[TTI_CPU_WORDS];
    tti_cpu_mask(mask);
    unsigned count = 0;
    for (int i = 0; i < TTI_CPU_WORDS; i++) {
        count += (unsigned)__builtin_popcountll(mask[i]);
    }
    count = tti_cpus_within_quota(count);
    return count > 0 ? count : 1;
}

bool tti_cpu_model(char *name, size_t capacity)
{
    char text[1024]; /* the model stands before the long list of flags */
    tti_read_text(text, sizeof(text), "/proc/cpuinfo");
    return tti_find_value(text, "model name", name, capacity);
}
