/* SPDX-License-Identifier: BSD-3-Clause */
/* What a model of CPU gains by, as measured on it: what no short measurement at the start shows. */
#ifndef TTI_ENGINE_TUNING_MODELS_H
#define TTI_ENGINE_TUNING_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/tuning/profile.h"

/* A threshold that no size reaches. */
#define TTI_TUNING_NEVER (UINT64_C(1) << 62)

/* Bounds of the lines of packets with a CPU for each rank. */
#define TTI_PACKET_LINES_LEAST 2.0
#define TTI_PACKET_LINES_MOST  12.0

/* Results by the way in which they are written (memory/caches.c). */
enum tti_stream_kind {
    TTI_STREAM_DIRECT,     /* copied from tensor to tensor ... */
    TTI_STREAM_EXCHANGED,  /* by an all_to_all, or as messages: as much is read as is written */
    TTI_STREAM_ROOTED,     /* copied out of a stage by a broadcast, gather or scatter ... */
    TTI_STREAM_ALL_GATHER, /* by an all_gather ... */
    TTI_STREAM_ALL_TO_ALL, /* by an all_to_all ... */
    TTI_STREAM_MESSAGES,   /* out of a ring of messages */
    TTI_STREAM_FOLDED,
    TTI_STREAM_KINDS
};

/* Eighths of the last-level caches from which on stores go past them; 0 = they never do. */
struct tti_eighths {
    uint8_t own_cpus;    /* with a CPU for each rank */
    uint8_t shared_cpus; /* where ranks share CPUs */
};

struct tti_model {
    bool far_ring;             /* stages have a larger ring for far readers */
    bool claims;               /* the only reader of a line gains by storing to it, near or far */
    bool stream_to_far;        /* so do messages to far receivers by stores past the caches */
    bool two_one_shot;         /* two ranks with a CPU each: one-shot all_reduce up to a whole window */
    double two_lines;          /* two ranks with a CPU each: packets of so many lines at most */
    uint64_t small_ring;       /* least bytes of a stage's ring for small calls; 0 = none */
    bool single_copy_messages; /* the kernel may copy messages */
    uint64_t single_copy;      /* it copies a private all_to_all of far ranks from so many bytes on ... */
    uint64_t single_copy_many; /* ... and of many ranks with a CPU each */
    bool measured; /* its all_gather, all_to_all and folds; else the profile says whether stores past the caches gain */
    struct tti_eighths streams[TTI_STREAM_KINDS];
    struct tti_eighths streams_if_cold[TTI_STREAM_KINDS]; /* results whose output lies in no cache */
};

/* Another rank's profile may have any model: an unknown one counts as TTI_MODEL_OTHER. */
const struct tti_model *tti_model_of(const struct tti_profile *profile);

#endif
