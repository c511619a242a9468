/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists rather than bit masks: the kernel and users write CPUs as lists ("0-3,8"), and a list has no largest
 * CPU. The lists are short (hundreds) and used before the job starts, so plain arrays are fast enough.
 */
#include "common/cpus.h"

#include "common/number.h"

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
        int length = end == i
                         ? snprintf(text + used, capacity - used, "%s%d", comma, list->cpus[i])
                         : snprintf(text + used, capacity - used, "%s%d-%d", comma, list->cpus[i], list->cpus[end]);
        used += (size_t)length;
        i = end + 1;
    }
}

bool tti_cpus_allowed(struct tti_cpu_list *list)
{
    *list = (struct tti_cpu_list){0};
    /* The kernel refuses a mask smaller than its own and does not report its size, so the size is found by doubling. */
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
