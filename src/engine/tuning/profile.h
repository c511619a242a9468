/* SPDX-License-Identifier: BSD-3-Clause */
/* What a machine's caches, memory and scheduler cost, as far as thresholds (tuning.c) and waiting depend on it. Measured
 * by calibrate.c, kept in files by calibrate_file.c. */
#ifndef TTI_ENGINE_PROFILE_H
#define TTI_ENGINE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An exchange of lines takes less: the two CPUs share a third-level cache. */
#define TTI_NEAR_NS 150

/* Whole numbers, so that the text of a file means the same in every locale. Bandwidths count bytes loaded and stored, in
 * 1e6 a second. 0 = not known. */
struct tti_profile {
    int64_t measured_s; /* seconds since 1970; 0 = built in */
    int64_t near_ns;    /* two CPUs exchange one cache line each, ... */
    int64_t far_ns;     /* ... and so they do when they share no cache */
    int64_t near_mbs;   /* copying what another CPU has just written, likewise */
    int64_t far_mbs;
    int64_t copy_mbs;   /* copying inside the second-level cache */
    int64_t fold_mbs;   /* summing two f32 arrays there */
    int64_t memory_mbs; /* copying what lies in no cache, the way back to memory included */
    int64_t stream_mbs; /* the same by stores past the caches */
    int64_t yield_ns;   /* sched_yield with nobody else to run */
    int64_t switch_ns;  /* a yield that hands the CPU to another thread */
    int64_t wake_ns;    /* from futex-waking a thread on another CPU until it runs */
    int64_t l2_bytes;
    int64_t l3_bytes;  /* of one last-level cache ... */
    int64_t l3_cpus;   /* ... which so many CPUs share */
    int64_t cpus_stay; /* TTI_CPUS_* */
};

/* Virtual CPUs may move between places that are near each other and such that are far. */
#define TTI_CPUS_STAY 1
#define TTI_CPUS_MOVE 2

/* A member of the profile: its name in files, and what can be true. */
struct tti_profile_field {
    const char *name;
    size_t offset;
    int64_t least;
    int64_t most;
};
#define TTI_PROFILE_FIELDS 16
extern const struct tti_profile_field tti_profile_fields[TTI_PROFILE_FIELDS];

int64_t tti_profile_value(const struct tti_profile *profile, int field);
void tti_profile_set(struct tti_profile *profile, int field, int64_t value);

/* The machine that the engine was written on: what stands in for all that is not known. */
extern const struct tti_profile tti_profile_built_in;

/* Replaces what is 0 by the built-in figure. Of near and far, one is enough: a machine may have no other. */
void tti_profile_complete(struct tti_profile *profile);

/* Adds the built-in hop of the kind that has not been seen. */
void tti_profile_assume_hops(struct tti_profile *profile);

/* Whether all is there and makes sense: worth keeping. What takes two CPUs need not be there without `pairs`. */
bool tti_profile_plausible(const struct tti_profile *profile, bool pairs);

#endif
