/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* cpu.max holds "QUOTA PERIOD" in microseconds, or "max PERIOD". */
static unsigned quota_of(const char *group)
{
    char path[1100];
    snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", group);
    FILE *f = fopen(path, "re");
    if (!f) {
        return 0;
    }
    unsigned long long quota = 0;
    unsigned long long period = 0;
    int n = fscanf(f, "%llu %llu", &quota, &period);
    fclose(f);
    return n == 2 && quota > 0 && period > 0 ? (unsigned)((quota + period - 1) / period) : 0;
}

unsigned tti_cpu_quota(void)
{
    char group[1024] = "";
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (f) {
        char line[1024];
        while (fgets(line, sizeof(line), f)) {
            if (strncmp(line, "0::", 3) == 0) { /* the unified hierarchy */
                line[strcspn(line, "\n")] = '\0';
                snprintf(group, sizeof(group), "%s", line + 3);
            }
        }
        fclose(f);
    }
    unsigned least = 0;
    for (;;) {
        unsigned here = quota_of(strcmp(group, "/") == 0 ? "" : group);
        least = here != 0 && (least == 0 || here < least) ? here : least;
        char *slash = strrchr(group, '/');
        if (!slash) {
            return least;
        }
        *slash = '\0';
    }
}

unsigned tti_cpu_count(void)
{
    uint64_t mask[TTI_CPU_WORDS];
    tti_cpu_mask(mask);
    unsigned count = 0;
    for (int i = 0; i < TTI_CPU_WORDS; i++) {
        count += (unsigned)__builtin_popcountll(mask[i]);
    }
    unsigned quota = tti_cpu_quota();
    count = quota != 0 && quota < count ? quota : count;
    return count > 0 ? count : 1;
}
