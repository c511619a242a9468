/* SPDX-License-Identifier: BSD-3-Clause */
/* What a machine's caches, memory and scheduler cost. Thresholds (tuning.c) and waiting depend on it. */
#ifndef TTI_ENGINE_TUNING_PROFILE_H
#define TTI_ENGINE_TUNING_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two CPUs that exchange lines in less time share a third-level cache. */
#define TTI_NEAR_NS 150

/* Whole numbers: their text is the same in every locale. Bandwidths are 1e6 bytes loaded and stored a second. 0 =
 * unknown. */
struct tti_profile {
    int64_t measured_s; /* seconds since 1970; 0 = built in */
    int64_t near_ns;    /* two CPUs that share a cache exchange one line each */
    int64_t far_ns;     /* two that share none */
    int64_t near_mbs;   /* copying what such a CPU has just written */
    int64_t far_mbs;
    int64_t copy_mbs;   /* copying inside the second-level cache */
    int64_t fold_mbs;   /* summing two f32 arrays there */
    int64_t memory_mbs; /* copying from and to memory, write-back included */
    int64_t stream_mbs; /* the same by stores past the caches */
    int64_t yield_ns;   /* sched_yield without another thread to run */
    int64_t switch_ns;  /* a yield that hands the CPU to another thread */
    int64_t wake_ns;    /* from the futex wake until the thread runs on another CPU */
    int64_t l2_bytes;
    int64_t l3_bytes;  /* of one last-level cache ... */
    int64_t l3_cpus;   /* ... which so many CPUs share */
    int64_t cpus_stay; /* TTI_CPUS_* */
    int64_t model;     /* TTI_MODEL_* */
};

/* Virtual CPUs may move: near each other now, far apart later. */
#define TTI_CPUS_STAY 1
#define TTI_CPUS_MOVE 2

/* Looked up, for what cannot be measured: docs/decisions/0042. */
#define TTI_MODEL_OTHER 1 /* as Zen 4 */
#define TTI_MODEL_INTEL 2
#define TTI_MODEL_ZEN_5 3 /* and its successors */
#define TTI_MODEL_ZEN_3 4

/* A member of the profile: its name in files, and its bounds. */
struct tti_profile_field {
    const char *name;
    size_t offset;
    int64_t least;
    int64_t most;
};
#define TTI_PROFILE_FIELDS 17
extern const struct tti_profile_field tti_profile_fields[TTI_PROFILE_FIELDS];

int64_t tti_profile_value(const struct tti_profile *profile, int field);
void tti_profile_set(struct tti_profile *profile, int field, int64_t value);

/* The machine that the engine was developed on: it replaces unknown figures. */
extern const struct tti_profile tti_profile_built_in;

/* Replaces each 0 by the built-in figure, except near or far if the other is known: a machine may have one only. */
void tti_profile_complete(struct tti_profile *profile);

/* Adds the built-in figures of near or far, if those are missing. */
void tti_profile_assume_hops(struct tti_profile *profile);

/* Whether all figures exist and lie within their bounds. Without `pairs`, those of two CPUs may be missing. */
bool tti_profile_plausible(const struct tti_profile *profile, bool pairs);

#endif
