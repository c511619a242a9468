/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "How many CPUs do I have?" has three answers that differ in containers: what the machine has, what the affinity mask
 * allows, and what the control group's bandwidth limit grants per period. Starting one rank per CPU of the machine in a
 * container with two CPUs' worth of time makes every collective wait for throttled ranks, so the smallest one counts.
 */
#include "cpus.h"

#include "number.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPU_LIMIT 65536 /* no kernel numbers CPUs beyond this */

void tti_cpu_list_free(struct tti_cpu_list *list)
{
    free(list->cpus);
    *list = (struct tti_cpu_list){0};
}

bool tti_cpu_list_has(const struct tti_cpu_list *list, int cpu)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->cpus[i] == cpu) {
            return true;
        }
    }
    return false;
}

bool tti_cpu_list_add(struct tti_cpu_list *list, int cpu)
{
    size_t at = list->count;
    while (at > 0 && list->cpus[at - 1] >= cpu) {
        at--;
    }
    if (at < list->count && list->cpus[at] == cpu) {
        return true;
    }
    int *grown = realloc(list->cpus, (list->count + 1) * sizeof(*grown));
    if (!grown) {
        return false;
    }
    memmove(grown + at + 1, grown + at, (list->count - at) * sizeof(*grown));
    grown[at] = cpu;
    list->cpus = grown;
    list->count++;
    return true;
}

/* Reads "7" or "4-7" of `length` bytes. */
static bool parse_range(const char *text, size_t length, int64_t *first, int64_t *last)
{
    char range[32];
    if (length >= sizeof(range)) {
        return false;
    }
    memcpy(range, text, length);
    range[length] = '\0';
    char *dash = strchr(range, '-');
    if (dash) {
        *dash = '\0';
    }
    return tti_parse_integer(range, 0, CPU_LIMIT, first) &&
           tti_parse_integer(dash ? dash + 1 : range, *first, CPU_LIMIT, last);
}

bool tti_cpu_list_parse(const char *text, struct tti_cpu_list *list)
{
    *list = (struct tti_cpu_list){0};
    for (const char *at = text;;) {
        size_t length = strcspn(at, ",");
        int64_t first = 0;
        int64_t last = -1;
        bool good = parse_range(at, length, &first, &last);
        for (int64_t cpu = first; good && cpu <= last; cpu++) {
            good = tti_cpu_list_add(list, (int)cpu);
        }
        if (!good) {
            tti_cpu_list_free(list);
            return false;
        }
        at += length;
        if (*at == '\0') {
            return true;
        }
        at++;
    }
}

/* Reads the first line of a small file, without its newline. */
static bool read_line(const char *path, char *line, size_t capacity)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    bool good = fgets(line, (int)capacity, file) != NULL;
    fclose(file);
    if (good) {
        line[strcspn(line, "\n")] = '\0';
    }
    return good;
}

bool tti_cpu_list_read(const char *path, struct tti_cpu_list *list)
{
    char line[4096];
    *list = (struct tti_cpu_list){0};
    return read_line(path, line, sizeof(line)) && tti_cpu_list_parse(line, list);
}

void tti_cpu_list_format(const struct tti_cpu_list *list, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < list->count && used < capacity;) {
        size_t end = i;
        while (end + 1 < list->count && list->cpus[end + 1] == list->cpus[end] + 1) {
            end++;
        }
        const char *comma = i ? "," : "";
        int length = end == i ? snprintf(text + used, capacity - used, "%s%d", comma, list->cpus[i])
                              : snprintf(text + used, capacity - used, "%s%d-%d", comma, list->cpus[i], list->cpus[end]);
        used += (size_t)length;
        i = end + 1;
    }
}

bool tti_cpus_allowed(struct tti_cpu_list *list)
{
    *list = (struct tti_cpu_list){0};
    /* The kernel refuses a mask that is smaller than its own; its size is not told anywhere, so it is found by doubling. */
    for (size_t cpus = 1024; cpus <= CPU_LIMIT; cpus *= 2) {
        size_t bytes = CPU_ALLOC_SIZE(cpus);
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set) {
            return false;
        }
        CPU_ZERO_S(bytes, set);
        int result = sched_getaffinity(0, bytes, set);
        bool again = result != 0 && errno == EINVAL;
        bool good = result == 0;
        for (size_t cpu = 0; good && cpu < cpus; cpu++) {
            good = !CPU_ISSET_S(cpu, bytes, set) || tti_cpu_list_add(list, (int)cpu);
        }
        CPU_FREE(set);
        if (!again) {
            return good && list->count > 0;
        }
    }
    return false;
}

/* The limit that one directory of the cgroup tree states, 0 for none. */
static double quota_of_directory(const char *directory, bool version2)
{
    char path[4200];
    char line[128];
    double quota = 0;
    double period = 0;
    if (version2) {
        snprintf(path, sizeof(path), "%s/cpu.max", directory);
        if (!read_line(path, line, sizeof(line)) || sscanf(line, "%lf %lf", &quota, &period) != 2) {
            return 0; /* "max 100000": no limit */
        }
    } else {
        snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", directory);
        if (!read_line(path, line, sizeof(line)) || sscanf(line, "%lf", &quota) != 1) {
            return 0;
        }
        snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", directory);
        if (!read_line(path, line, sizeof(line)) || sscanf(line, "%lf", &period) != 1) {
            return 0;
        }
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

/* The tightest limit from a cgroup up to the root of its tree. */
static double quota_of_path(const char *root, const char *cgroup, bool version2)
{
    char directory[4096];
    int length = snprintf(directory, sizeof(directory), "%s%s", root, cgroup);
    if (length < 0 || (size_t)length >= sizeof(directory)) {
        return 0;
    }
    double tightest = 0;
    for (;;) {
        double quota = quota_of_directory(directory, version2);
        if (quota > 0 && (tightest == 0 || quota < tightest)) {
            tightest = quota;
        }
        char *slash = strrchr(directory, '/');
        if (!slash || (size_t)(slash - directory) < strlen(root)) {
            return tightest;
        }
        *slash = '\0';
    }
}

/* Whether a comma-separated list of controllers names "cpu". */
static bool names_cpu(const char *controllers, size_t length)
{
    for (size_t at = 0; at <= length;) {
        size_t end = at;
        while (end < length && controllers[end] != ',') {
            end++;
        }
        if (end - at == 3 && strncmp(controllers + at, "cpu", 3) == 0) {
            return true;
        }
        at = end + 1;
    }
    return false;
}

double tti_cpus_quota(void)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) {
        return 0;
    }
    double tightest = 0;
    char line[4096];
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        /* hierarchy:controllers:path; version 2 has number 0 and no controllers */
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) {
            continue;
        }
        controllers++;
        double quota = 0;
        if (path == controllers) {
            quota = quota_of_path("/sys/fs/cgroup", path + 1, true);
        } else if (names_cpu(controllers, (size_t)(path - controllers))) {
            quota = quota_of_path("/sys/fs/cgroup/cpu", path + 1, false);
        }
        if (quota > 0 && (tightest == 0 || quota < tightest)) {
            tightest = quota;
        }
    }
    fclose(file);
    return tightest;
}

int tti_cpus_usable(size_t allowed, double quota)
{
    size_t usable = allowed;
    if (quota > 0 && quota < (double)usable) {
        usable = (size_t)quota;
    }
    return usable < 1 ? 1 : (int)usable;
}
