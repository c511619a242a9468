/* SPDX-License-Identifier: BSD-3-Clause */
/* The forms: ways to run a step. */
#ifndef TTI_BENCH_OVERLAP_STEPS_H
#define TTI_BENCH_OVERLAP_STEPS_H

#include "bench/bench.h"
#include "bench/overlap/compute.h"

#define TTI_OVERLAP_BYTES     65536 /* of all gradients together, about */
#define TTI_OVERLAP_PIECES    64    /* at most */
#define TTI_OVERLAP_GRADIENTS 2     /* in each bucket */

/* The forms, and the sets of samples. */
enum tti_overlap_form {
    TTI_OVERLAP_COMPUTE,
    TTI_OVERLAP_COMMUNICATE,
    TTI_OVERLAP_IN_TURN,
    TTI_OVERLAP_OVERLAPPED,
    TTI_OVERLAP_PIPELINE,
    TTI_OVERLAP_BUCKETER,
    TTI_OVERLAP_FORMS
};

/* One rank's side of the steps. */
struct tti_overlap {
    struct tti_bench *b;
    tutti_group *link; /* the same ranks behind a limited link */
    const char *below; /* the backend that the link is over */
    struct tti_compute compute;
    int pieces;
    int gradients;
    int64_t count; /* elements of all gradients, of a chunk, of a gradient */
    int64_t piece_count;
    int64_t gradient_count;
    DLTensor all;
    DLTensor piece[TTI_OVERLAP_PIECES];
    DLTensor *piece_list[TTI_OVERLAP_PIECES];
    DLTensor gradient[TTI_OVERLAP_PIECES * TTI_OVERLAP_GRADIENTS];
    const DLTensor *gradient_list[TTI_OVERLAP_PIECES * TTI_OVERLAP_GRADIENTS];
    tutti_bucketer *bucketer;
};

extern const char *const tti_overlap_names[TTI_OVERLAP_FORMS];

/* Bytes of all gradients: as many in each. */
int64_t tti_overlap_bytes(int pieces);
/* Divides b->right into the gradients and makes the bucketer. */
tutti_status tti_overlap_prepare(struct tti_overlap *o);
/* Runs one step in this form. On failure o->b->error has the details. */
tutti_status tti_overlap_step(struct tti_overlap *o, enum tti_overlap_form form);

#endif
