/* SPDX-License-Identifier: BSD-3-Clause */
/* The message sizes at which the algorithm changes. All ranks of a group use the numbers of rank 0. */
#ifndef TTI_ENGINE_TUNING_TUNING_H
#define TTI_ENGINE_TUNING_TUNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/tuning/models.h"
#include "engine/tuning/profile.h"

struct tti_tuning {
    uint64_t stage;           /* bytes of the first ring of a lane's stage (memory/stage.c) ... */
    uint64_t stage_far;       /* of the larger one for far readers; 0 = none ... */
    uint64_t stage_small;     /* and of the one for small calls; likewise */
    uint64_t window;          /* of a call's data, staged in one step at most; a stage holds 8 */
    uint64_t packets;         /* up to this size the data are in the arrival; 0 = what fits its line */
    uint64_t packets_root;    /* the same where only the root sends */
    uint64_t small_from_root; /* broadcast and scatter that stage no more use the small ring, if there is one; if
                                * this is TTI_TUNING_NEVER, all_gather's two small steps do, too */
    uint64_t small_gather;    /* the same for gather ... */
    uint64_t small_reduce;    /* ... and reduce */
    uint64_t one_shot;        /* all_reduce: up to this size every rank folds all */
    uint64_t reduce_sliced;   /* reduce: from this size on every rank folds a slice */
    uint64_t zero_copy;       /* from this size on, tensors in the heap are not staged */
    uint64_t single_copy;     /* and the kernel copies private ones, if the ranks are far apart ... */
    uint64_t single_copy_at_any_distance; /* ... or, if this is not 0, at any distance */
    uint64_t single_copy_messages;        /* not 0: it copies messages where that costs less than the ring */
    uint64_t streams[TTI_STREAM_KINDS];   /* results go past the caches if the tensors of all ranks are so large ... */
    uint64_t streams_if_cold[TTI_STREAM_KINDS]; /* ... or so large and not in the caches (memory/residency.c) */
    uint64_t claims;                            /* not 0: the only reader of a line claims it (memory/copy.h) */
    uint64_t stream_to_far;                     /* not 0: messages to a far receiver go into the ring past the caches */
};

/* A rank that shares its CPU polls for so long before it yields. */
#define TTI_SHARED_SPIN_NS 500

/* Settings of the user. A negative number is not set, nor is a stage or a window of 0. */
struct tti_tuning_overrides {
    int64_t stage;
    int64_t window;
    int64_t packets;
    int64_t one_shot;
    int64_t reduce_sliced;
    int64_t stream;
    int64_t zero_copy;
    int64_t single_copy;
    bool no_single_copy;
};

/* The numbers for a group of `size` ranks on `cpus` CPUs of the profile's machine. */
void tti_tuning_fit(int size, int cpus, const struct tti_profile *profile, const struct tti_tuning_overrides *overrides,
                    struct tti_tuning *tuning);

/* Whether tti_tuning_fit can give these numbers to a group of this size: rank 0 sends them to the others. A wrong
 * number within the bounds costs time only. */
bool tti_tuning_is_valid(int size, const struct tti_tuning *tuning);

#endif
