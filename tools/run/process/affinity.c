/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which CPUs a rank gets. With "core" the physical cores are dealt out in blocks of neighbours, all hardware threads
 * of a core together, so that ranks share caches with their neighbours and never a core while there are enough. With
 * "numa" a rank gets all allowed CPUs of one node, neighbouring ranks on the same node. With more ranks than cores (or
 * nodes), several ranks share one.
 */
#include "run/process/affinity.h"

#include <stdio.h>
#include <string.h>

#include "base/host/text_file.h"

#define LIST_MOST 4096

/* The CPUs that share a core or a NUMA node with `cpu`, as far as the job may use them: the CPU's place. Where /sys has
 * no such file, that is the CPU alone, or all of them. */
static void find_place(int cpu, const struct tti_run_options *options, struct tti_cpus *place)
{
    char list[LIST_MOST];
    if (options->bind == TTI_BIND_CORE) {
        tti_read_text(list, sizeof(list), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        if (!tti_cpus_parse(list, place) || !tti_cpus_has(place, cpu)) {
            memset(place, 0, sizeof(*place));
            tti_cpus_add(place, cpu);
        }
    } else {
        bool found = false;
        for (int node = 0; node < 1024 && !found; node++) {
            tti_read_text(list, sizeof(list), "/sys/devices/system/node/node%d/cpulist", node);
            found = tti_cpus_parse(list, place) && tti_cpus_has(place, cpu);
        }
        *place = found ? *place : options->cpus;
    }
    tti_cpus_cut(place, &options->cpus);
}

/* The first CPU of each place. */
static void find_places(const struct tti_run_options *options, struct tti_cpus *firsts)
{
    struct tti_cpus known = {0};
    for (int cpu = 0; cpu < TTI_CPUS; cpu++) {
        if (tti_cpus_has(&options->cpus, cpu) && !tti_cpus_has(&known, cpu)) {
            struct tti_cpus place;
            find_place(cpu, options, &place);
            tti_cpus_join(&known, &place);
            tti_cpus_add(firsts, cpu);
        }
    }
}

/* The share of one rank: at least one place, and of nodes exactly one. */
static void add_share(const struct tti_run_options *options, int rank, struct tti_cpus *cpus)
{
    struct tti_cpus firsts = {0};
    find_places(options, &firsts);
    const size_t places = tti_cpus_count(&firsts);
    const size_t ranks = (size_t)options->ranks;
    const size_t first = (size_t)rank * places / ranks;
    size_t end = ((size_t)rank + 1) * places / ranks;
    if (end <= first || options->bind == TTI_BIND_NUMA) {
        end = first + 1;
    }
    size_t number = 0;
    for (int cpu = 0; cpu < TTI_CPUS && number < end; cpu++) {
        if (tti_cpus_has(&firsts, cpu) && number++ >= first) {
            struct tti_cpus place;
            find_place(cpu, options, &place);
            tti_cpus_join(cpus, &place);
        }
    }
}

bool tti_run_affinity(const struct tti_run_options *options, int rank, struct tti_cpus *cpus)
{
    memset(cpus, 0, sizeof(*cpus));
    if (options->bind != TTI_BIND_NONE) {
        add_share(options, rank, cpus);
        return true;
    }
    if (options->cpus_given) {
        *cpus = options->cpus;
    }
    return options->cpus_given;
}
