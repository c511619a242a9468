/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set has 8 KiB, room for every CPU number that a kernel may give. So the kernel never refuses it for being smaller
 * than its own, and no step needs memory that could be missing.
 */
#include "base/host/cpu_set.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"

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
    return tti_parse_integer(range, 0, TTI_CPUS - 1, first) &&
           tti_parse_integer(dash ? dash + 1 : range, *first, TTI_CPUS - 1, last);
}

bool tti_cpus_parse(const char *text, struct tti_cpus *cpus)
{
    memset(cpus, 0, sizeof(*cpus));
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",\n");
        int64_t first = 0;
        int64_t last = -1;
        if (!parse_range(at, length, &first, &last)) {
            return false;
        }
        for (int64_t cpu = first; cpu <= last; cpu++) {
            tti_cpus_add(cpus, (int)cpu);
        }
        at += length;
        if (*at != ',') {
            return *at == '\0' || at[1] == '\0'; /* behind the end of the line */
        }
    }
}

void tti_cpus_format(const struct tti_cpus *cpus, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (int cpu = 0; cpu < TTI_CPUS && used < capacity; cpu++) {
        const int first = cpu;
        while (cpu < TTI_CPUS && tti_cpus_has(cpus, cpu)) {
            cpu++;
        }
        if (cpu > first) {
            used += (size_t)snprintf(text + used, capacity - used, cpu > first + 1 ? "%s%d-%d" : "%s%d",
                                     used > 0 ? "," : "", first, cpu - 1);
        }
    }
}

bool tti_cpus_allowed(struct tti_cpus *cpus)
{
    memset(cpus, 0, sizeof(*cpus));
    return sched_getaffinity(0, sizeof(cpus->bits), cpus->bits) == 0 && tti_cpus_count(cpus) > 0;
}
