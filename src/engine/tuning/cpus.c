/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CPUs and caches as /sys/devices/system/cpu describes them. Where the kernel reports no third-level caches, all CPUs
 * count as near each other. cache/index2 and cache/index3 are taken for the second and third level: so it is on x86-64
 * and on ARM, where the first level has index0 for data and index1 for instructions.
 */
#include "engine/tuning/cpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/host/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define THREADS_OF_CORE "topology/thread_siblings_list"
#define SHARERS_OF_L3   "cache/index3/shared_cpu_list"
#define ZEN_3_FAMILY    0x19u /* Zen 4's, too */
#define ZEN_5_FAMILY    0x1au

/* A line of /sys about a CPU: false if there is none. */
static bool read_about(int cpu, const char *what, char *text, size_t capacity)
{
    char path[128];
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/%s", cpu, what);
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    const bool good = fgets(text, (int)capacity, file) != NULL;
    fclose(file);
    return good;
}

/* Whether `cpu` is in a list such as 0-3,8, and how many CPUs are. */
static bool list_has(const char *list, int cpu, int *count)
{
    bool found = false;
    *count = 0;
    while (*list >= '0' && *list <= '9') {
        char *end;
        const long first = strtol(list, &end, 10);
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        found = found || (cpu >= first && cpu <= last);
        *count += last >= first && last < INT32_MAX ? (int)(last - first + 1) : 0;
        if (*end != ',') {
            break;
        }
        list = end + 1;
    }
    return found;
}

static bool shares(int cpu, int other, const char *what)
{
    char list[1024];
    int count;
    return read_about(cpu, what, list, sizeof(list)) && list_has(list, other, &count);
}

int tti_cpus_choose(int cpus[TTI_CPUS_CHOSEN])
{
    uint64_t mask[TTI_CPU_WORDS];
    int found = 0;
    bool near = false;
    bool far = false;
    tti_cpu_mask(mask);
    for (int cpu = 0; cpu < TTI_CPU_WORDS * 64 && !(near && far); cpu++) {
        if (!(mask[cpu / 64] >> (cpu % 64) & 1)) {
            continue;
        }
        if (found == 0) {
            cpus[found++] = cpu;
            continue;
        }
        char list[1024];
        int sharers;
        if (shares(cpus[0], cpu, THREADS_OF_CORE)) {
            continue;
        }
        const bool known = read_about(cpus[0], SHARERS_OF_L3, list, sizeof(list));
        const bool is_near = !known || list_has(list, cpu, &sharers);
        if (is_near ? !near : !far) {
            cpus[found++] = cpu;
            near = near || is_near;
            far = far || !is_near;
        }
    }
    return found;
}

static int64_t cache_bytes(int cpu, int index)
{
    char what[64];
    char text[64];
    snprintf(what, sizeof(what), "cache/index%d/size", index);
    if (!read_about(cpu, what, text, sizeof(text))) {
        return 0;
    }
    char *unit;
    const int64_t number = strtoll(text, &unit, 10);
    return number < 0 || number > INT32_MAX ? 0 : *unit == 'K' ? number * 1024 : *unit == 'M' ? number << 20 : number;
}

/* sysconf comes last: for some processors it adds up all third-level caches. */
static void find_caches(int cpu, struct tti_profile *p)
{
    char list[1024];
    int count = 0;
    p->l2_bytes = cache_bytes(cpu, 2);
    p->l3_bytes = cache_bytes(cpu, 3);
    if (read_about(cpu, SHARERS_OF_L3, list, sizeof(list))) {
        list_has(list, cpu, &count);
        p->l3_cpus = count;
    }
    if (p->l2_bytes == 0) {
        p->l2_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE) > 0 ? sysconf(_SC_LEVEL2_CACHE_SIZE) : 0;
    }
    if (p->l3_bytes == 0) {
        p->l3_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE) > 0 ? sysconf(_SC_LEVEL3_CACHE_SIZE) : 0;
    }
}

/* Virtual CPUs may move to other processors. Every hypervisor sets this bit of CPUID and no processor does. */
static int64_t find_whether_cpus_stay(void)
{
#if defined(__x86_64__)
    unsigned eax;
    unsigned ebx;
    unsigned ecx;
    unsigned edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx >> 31) ? TTI_CPUS_MOVE : TTI_CPUS_STAY;
#else
    return TTI_CPUS_STAY;
#endif
}

#if defined(__x86_64__)

/* The other models of the family are Zen 4. */
static bool is_zen_3(unsigned family, unsigned model)
{
    return family == ZEN_3_FAMILY && (model < 0x10 || (model >= 0x20 && model < 0x60));
}

#endif

static int64_t find_model(void)
{
#if defined(__x86_64__)
    unsigned eax;
    unsigned ebx;
    unsigned ecx;
    unsigned edx;
    unsigned maker;
    if (!__get_cpuid(0, &eax, &maker, &ecx, &edx) || !__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
        return TTI_MODEL_OTHER;
    }
    const unsigned family = (eax >> 8 & 0xf) + (eax >> 20 & 0xff);
    const unsigned model = (eax >> 4 & 0xf) + (eax >> 12 & 0xf0);
    if (maker == signature_AMD_ebx && family >= ZEN_5_FAMILY) {
        return TTI_MODEL_ZEN_5;
    }
    if (maker == signature_AMD_ebx && is_zen_3(family, model)) {
        return TTI_MODEL_ZEN_3;
    }
    return maker == signature_INTEL_ebx ? TTI_MODEL_INTEL : TTI_MODEL_OTHER;
#else
    return TTI_MODEL_OTHER;
#endif
}

void tti_cpus_describe(int cpu, struct tti_profile *profile)
{
    find_caches(cpu, profile);
    profile->cpus_stay = find_whether_cpus_stay();
    profile->model = find_model();
}
