/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of `tutti bench overlap`.
 *
 * A step is a computation and the all_reduce of gradients, of equal length. The forms run the two differently; each is
 * measured in every round, one after the other.
 */
#ifndef TOOLS_BENCH_OVERLAP_OVERLAP_H
#define TOOLS_BENCH_OVERLAP_OVERLAP_H

#include "bench/bench.h"
#include "bench/measure/samples.h"

struct json_t;

/* ---- compute.c: a computation of a given length ---- */

#define TTI_COMPUTE_VALUES 2048 /* 8 KiB: fits every first-level cache, beside what the library needs */

struct tti_compute {
    float values[TTI_COMPUTE_VALUES];
    float factor;
    float summand;
    int64_t passes; /* over the values: a step's */
};

/* Finds the number of passes that take this long on a CPU of the rank's own. All ranks compute meanwhile, since
 * neighbours may slow one another down. Collective; false: b->error has the details. */
bool tti_compute_calibrate(struct tti_compute *compute, struct tti_bench *b, int64_t step_ns);
/* Part number `part` of `parts` of a step's computation. */
void tti_compute_run(struct tti_compute *compute, int part, int parts);

/* ---- steps.c: the forms of a step ---- */

#define TTI_OVERLAP_BYTES     65536 /* of all gradients together, about */
#define TTI_OVERLAP_CHUNKS    64    /* at most */
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
    int chunks;
    int gradients;
    int64_t count; /* elements of all gradients, of a chunk, of a gradient */
    int64_t chunk_count;
    int64_t gradient_count;
    DLTensor all;
    DLTensor chunk[TTI_OVERLAP_CHUNKS];
    DLTensor *chunk_list[TTI_OVERLAP_CHUNKS];
    DLTensor gradient[TTI_OVERLAP_CHUNKS * TTI_OVERLAP_GRADIENTS];
    const DLTensor *gradient_list[TTI_OVERLAP_CHUNKS * TTI_OVERLAP_GRADIENTS];
    tutti_bucketer *bucketer;
};

extern const char *const tti_overlap_names[TTI_OVERLAP_FORMS];

/* Bytes of all gradients: as many in each. */
int64_t tti_overlap_bytes(int chunks);
/* Divides b->right into the gradients and makes the bucketer. */
tutti_status tti_overlap_prepare(struct tti_overlap *o);
/* Runs one step in this form. On failure o->b->error has the details. */
tutti_status tti_overlap_step(struct tti_overlap *o, enum tti_overlap_form form);

/* ---- overlap.c ---- */

struct tti_overlap_result {
    struct tti_bench_times time;
    double ideal_us; /* the lower bound, from the medians of computing and communicating alone */
    double over_max; /* median over the longer of these two */
    int64_t wrong;
};

/* The whole run, after b was made ready; json NULL = not wanted. True if everything was measured and no result was
 * wrong. */
bool tti_overlap_run(struct tti_bench *b, struct json_t *json);

/* ---- json.c ---- */

/* Only the forms that do both are judged by the longer of the two. */
static inline bool tti_overlap_does_both(int form)
{
    return form != TTI_OVERLAP_COMPUTE && form != TTI_OVERLAP_COMMUNICATE;
}

/* False when memory is exhausted. */
bool tti_overlap_json(struct json_t *root, const struct tti_overlap *o, int64_t bandwidth,
                      const struct tti_overlap_result results[TTI_OVERLAP_FORMS]);

/* ---- tool.c ---- */

/* The command line; argv[0] is "overlap". */
int tti_overlap_tool(int argc, char **argv);

#endif
