/* SPDX-License-Identifier: BSD-3-Clause */
/* Where one class of algorithms ends and the next begins. All ranks of a group use the same numbers: those of rank 0. */
#ifndef TTI_ENGINE_TUNING_H
#define TTI_ENGINE_TUNING_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/tuning/profile.h"

struct tti_tuning {
    uint64_t stage;            /* bytes of a lane's stage                                                    */
    uint64_t far;              /* and of its second ring, for readers far away; 0 = none                     */
    uint64_t window;           /* of a call's data, at most so many are staged in one step; a stage holds 8   */
    uint64_t packets;          /* up to so many bytes travel with the arrival; 0 = what fits its line         */
    uint64_t one_shot;         /* all_reduce: up to so many bytes everybody folds everything                  */
    uint64_t zero_copy;        /* from so many bytes on tensors in the heap are not staged                    */
    uint64_t single_copy;      /* and private ones are read by the kernel, if the ranks are far from one another ... */
    uint64_t single_copy_near; /* ... or, if this is not 0, always                                      */
    /* outputs go past the caches if those of all ranks are at least so many bytes: */
    uint64_t stream_direct; /* copied from tensor to tensor                                            */
    uint64_t stream;        /* folded, or taken out of a stage                                         */
    uint64_t yield_ns;      /* what waiting costs: those of the profile                                */
    uint64_t switch_ns;
    uint64_t wake_ns;
};

/* What a rank that shares its CPU spins before it yields. */
#define TTI_SHARED_SPIN_NS 500

#define TTI_TUNING_NEVER (UINT64_C(1) << 62)

/* What a user wants; 0 = no wish, except packets, one_shot, stream, zero_copy and single_copy: -1. */
struct tti_tuning_overrides {
    int64_t stage;
    int64_t window;
    int64_t packets;
    int64_t one_shot;
    int64_t stream;
    int64_t zero_copy;
    int64_t single_copy;
    bool no_single_copy;
};

/* The numbers for a group of `size` ranks that run on `cpus` CPUs of the profile's machine. */
void tti_tuning_fit(int size, int cpus, const struct tti_profile *profile, const struct tti_tuning_overrides *wishes,
                    struct tti_tuning *tuning);

/* Whether these are numbers that tti_tuning_fit gives to some group of this size: rank 0 tells them to the others. What is
 * within the bounds costs time at worst. */
bool tti_tuning_is_valid(int size, const struct tti_tuning *tuning);

/* The same on the built-in machine, with a CPU for each rank. */
void tti_tuning_make(int size, const struct tti_tuning_overrides *wishes, struct tti_tuning *tuning);

#endif
