/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of CPUs in the kernel's notation, and which CPUs this process may use. */
#ifndef TTI_TOOLS_CPUS_H
#define TTI_TOOLS_CPUS_H

#include <stdbool.h>
#include <stddef.h>

/* CPU numbers in ascending order without duplicates. Zero-initialised is empty; tti_cpu_list_free gives it back. */
struct tti_cpu_list {
    int *cpus;
    size_t count;
};

void tti_cpu_list_free(struct tti_cpu_list *list);
bool tti_cpu_list_has(const struct tti_cpu_list *list, int cpu);

/* Inserts a CPU in its place; false when memory is exhausted. */
bool tti_cpu_list_add(struct tti_cpu_list *list, int cpu);

/* Reads the kernel's notation ("0-3,8"). False on anything else, with *list empty. */
bool tti_cpu_list_parse(const char *text, struct tti_cpu_list *list);

/* The same from the first line of a file of /sys; false if there is no such file. */
bool tti_cpu_list_read(const char *path, struct tti_cpu_list *list);

/* Writes the kernel's notation, cut if it does not fit. */
void tti_cpu_list_format(const struct tti_cpu_list *list, char *text, size_t capacity);

/* The affinity mask of the calling process. */
bool tti_cpus_allowed(struct tti_cpu_list *list);

#endif
