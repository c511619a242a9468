/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of CPUs in the kernel's notation, and which CPUs this process may use. */
#ifndef TTI_BASE_HOST_CPU_SET_H
#define TTI_BASE_HOST_CPU_SET_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#define TTI_CPUS 65536 /* no kernel numbers CPUs from here on */

/* A bit for each CPU; zero-initialised is empty. `bits` is one set for the kernel and for the macros of <sched.h> that
 * end in _S. */
struct tti_cpus {
    cpu_set_t bits[TTI_CPUS / CPU_SETSIZE];
};

static inline bool tti_cpus_has(const struct tti_cpus *cpus, int cpu)
{
    return CPU_ISSET_S((size_t)cpu, sizeof(cpus->bits), cpus->bits) != 0;
}

static inline void tti_cpus_add(struct tti_cpus *cpus, int cpu)
{
    CPU_SET_S((size_t)cpu, sizeof(cpus->bits), cpus->bits);
}

static inline size_t tti_cpus_count(const struct tti_cpus *cpus)
{
    return (size_t)CPU_COUNT_S(sizeof(cpus->bits), cpus->bits);
}

/* Adds all CPUs of `more`. */
static inline void tti_cpus_join(struct tti_cpus *cpus, const struct tti_cpus *more)
{
    CPU_OR_S(sizeof(cpus->bits), cpus->bits, cpus->bits, more->bits);
}

/* Keeps those that are in `others`, too. */
static inline void tti_cpus_cut(struct tti_cpus *cpus, const struct tti_cpus *others)
{
    CPU_AND_S(sizeof(cpus->bits), cpus->bits, cpus->bits, others->bits);
}

/* Reads the kernel's notation ("0-3,8"), with or without an end of line; false on anything else. */
bool tti_cpus_parse(const char *text, struct tti_cpus *cpus);

/* Writes the kernel's notation, cut if it does not fit. */
void tti_cpus_format(const struct tti_cpus *cpus, char *text, size_t capacity);

/* The affinity mask of the calling process; false if it cannot be read. */
bool tti_cpus_allowed(struct tti_cpus *cpus);

#endif
