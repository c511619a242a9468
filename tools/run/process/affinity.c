/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which CPUs a rank gets. With "core" the physical cores are dealt out in blocks of neighbours, all hardware threads
 * of a core together, so that ranks share caches with their neighbours and never a core while there are enough. With
 * "numa" a rank gets all allowed CPUs of one node, neighbouring ranks on the same node. With more ranks than cores (or
 * nodes), several ranks share one.
 */
#include "run/process/affinity.h"

#include <stdio.h>
#include <stdlib.h>

static bool add_all(struct tti_cpu_list *list, const struct tti_cpu_list *more)
{
    for (size_t i = 0; i < more->count; i++) {
        if (!tti_cpu_list_add(list, more->cpus[i])) {
            return false;
        }
    }
    return true;
}

/* Splits the allowed CPUs into places (cores or nodes), in order of their first CPU. */
struct places {
    struct tti_cpu_list *lists;
    size_t count;
};

static void places_free(struct places *places)
{
    for (size_t i = 0; i < places->count; i++) {
        tti_cpu_list_free(&places->lists[i]);
    }
    free(places->lists);
    *places = (struct places){0};
}

/* Adds the part of `siblings` that is allowed as a new place. */
static bool places_add(struct places *places, const struct tti_cpu_list *siblings, const struct tti_cpu_list *allowed)
{
    struct tti_cpu_list *grown = realloc(places->lists, (places->count + 1) * sizeof(*grown));
    if (!grown) {
        return false;
    }
    places->lists = grown;
    struct tti_cpu_list *place = &grown[places->count++];
    *place = (struct tti_cpu_list){0};
    for (size_t i = 0; i < siblings->count; i++) {
        if (tti_cpu_list_has(allowed, siblings->cpus[i]) && !tti_cpu_list_add(place, siblings->cpus[i])) {
            return false;
        }
    }
    return true;
}

/* The CPUs that share a core or a NUMA node with `cpu`; the CPU alone (or all of them) where /sys has no such file. */
static bool siblings_of(int cpu, const struct tti_run_options *options, struct tti_cpu_list *siblings)
{
    char path[128];
    if (options->bind == TTI_BIND_CORE) {
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        if (tti_cpu_list_read(path, siblings) && tti_cpu_list_has(siblings, cpu)) {
            return true;
        }
        tti_cpu_list_free(siblings);
        return tti_cpu_list_add(siblings, cpu);
    }
    for (int node = 0; node < 1024; node++) {
        snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
        if (tti_cpu_list_read(path, siblings) && tti_cpu_list_has(siblings, cpu)) {
            return true;
        }
        tti_cpu_list_free(siblings);
    }
    return add_all(siblings, &options->cpus);
}

static bool find_places(const struct tti_run_options *options, struct places *places)
{
    for (size_t i = 0; i < options->cpus.count; i++) {
        int cpu = options->cpus.cpus[i];
        bool known = false;
        for (size_t j = 0; j < places->count && !known; j++) {
            known = tti_cpu_list_has(&places->lists[j], cpu);
        }
        if (known) {
            continue;
        }
        struct tti_cpu_list siblings = {0};
        bool good = siblings_of(cpu, options, &siblings) && places_add(places, &siblings, &options->cpus);
        tti_cpu_list_free(&siblings);
        if (!good) {
            return false;
        }
    }
    return places->count > 0;
}

/* The share of one rank: at least one place, and of nodes exactly one. */
static bool add_share(const struct tti_run_options *options, int rank, struct tti_cpu_list *list)
{
    struct places places = {0};
    bool good = find_places(options, &places);
    size_t ranks = (size_t)options->ranks;
    size_t first = (size_t)rank * places.count / ranks;
    size_t end = ((size_t)rank + 1) * places.count / ranks;
    if (end <= first || options->bind == TTI_BIND_NUMA) {
        end = first + 1;
    }
    for (size_t i = first; good && i < end; i++) {
        good = add_all(list, &places.lists[i]);
    }
    places_free(&places);
    return good;
}

bool tti_run_affinity(const struct tti_run_options *options, int rank, struct tti_cpu_list *list)
{
    *list = (struct tti_cpu_list){0};
    bool good = true;
    if (options->bind != TTI_BIND_NONE) {
        good = add_share(options, rank, list);
    } else if (options->cpus_given) {
        good = add_all(list, &options->cpus);
    }
    if (!good) {
        tti_cpu_list_free(list);
    }
    return good;
}
