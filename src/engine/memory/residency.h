/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether outputs are cold, that is, their lines lie in no cache of this CPU: residency.c. */
#ifndef TTI_ENGINE_MEMORY_RESIDENCY_H
#define TTI_ENGINE_MEMORY_RESIDENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a lane knows of its last outputs; all zero at first. */
struct tti_residency {
    uint64_t random;   /* of tti_residency_pick */
    double cold;       /* share of cold lines: a running average over calls with ordinary stores */
    int calls_left;    /* until the average counts again; the last one has ordinary stores */
    bool was_ordinary; /* the call before was such a last one */
};

/* A random number below `bound`. */
uint64_t tti_residency_pick(struct tti_residency *residency, uint64_t bound);

/* The share of these bytes whose lines are cold. The bytes are written with what they hold. */
double tti_residency_measure(unsigned char *const *bytes, size_t count, double ticks_per_ns);

/* Whether this call gains by stores past the caches, if that share of its output is cold, and outputs as cold as
 * `enough` gain. */
bool tti_residency_decide(struct tti_residency *residency, double share, double enough);

#endif
