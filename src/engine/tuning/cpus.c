/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CPUs and caches as /sys/devices/system/cpu describes them. Where the kernel reports no third-level caches, all CPUs
 * count as near each other. cache/index2 and cache/index3 are taken for the second and third level: so it is on x86-64
 * and on ARM, where the first level has index0 for data and index1 for instructions.
 */
#include "engine/tuning/cpus.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/host/cpu.h"
#include "base/host/cpu_set.h"
#include "base/host/text_file.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define THREADS_OF_CORE "topology/thread_siblings_list"
#define SHARERS_OF_L3   "cache/index3/shared_cpu_list"
#define LIST_MOST       4096
#define ZEN_3_FAMILY    0x19u /* Zen 4's, too */
#define ZEN_5_FAMILY    0x1au

/* The CPUs in a list of /sys about a CPU: false if there is none. */
static bool read_list(int cpu, const char *what, struct tti_cpus *cpus)
{
    char list[LIST_MOST];
    tti_read_text(list, sizeof(list), "/sys/devices/system/cpu/cpu%d/%s", cpu, what);
    return tti_cpus_parse(list, cpus);
}

int tti_cpus_choose(int cpus[TTI_CPUS_CHOSEN])
{
    uint64_t mask[TTI_CPU_WORDS];
    int found = 0;
    struct tti_cpus threads;
    struct tti_cpus sharers;
    bool threads_known = false;
    bool sharers_known = false;
    bool near = false;
    bool far = false;
    tti_cpu_mask(mask);
    for (int cpu = 0; cpu < TTI_CPU_WORDS * 64 && !(near && far); cpu++) {
        if (!(mask[cpu / 64] >> (cpu % 64) & 1)) {
            continue;
        }
        if (found == 0) {
            cpus[found++] = cpu;
            threads_known = read_list(cpu, THREADS_OF_CORE, &threads);
            sharers_known = read_list(cpu, SHARERS_OF_L3, &sharers);
            continue;
        }
        if (threads_known && tti_cpus_has(&threads, cpu)) {
            continue;
        }
        const bool is_near = !sharers_known || tti_cpus_has(&sharers, cpu);
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
    char text[64];
    char *unit;
    tti_read_text(text, sizeof(text), "/sys/devices/system/cpu/cpu%d/cache/index%d/size", cpu, index);
    const int64_t number = strtoll(text, &unit, 10);
    return number < 0 || number > INT32_MAX ? 0 : *unit == 'K' ? number * 1024 : *unit == 'M' ? number << 20 : number;
}

/* sysconf comes last: for some processors it adds up all third-level caches. */
static void find_caches(int cpu, struct tti_profile *p)
{
    struct tti_cpus sharers;
    p->l2_bytes = cache_bytes(cpu, 2);
    p->l3_bytes = cache_bytes(cpu, 3);
    if (read_list(cpu, SHARERS_OF_L3, &sharers)) {
        p->l3_cpus = (int64_t)tti_cpus_count(&sharers);
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
