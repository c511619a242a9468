/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the model is spread over ranks, and all communication of the model. tensor_ranks neighbours share the matrices of
 * a layer (tensor parallelism); the groups of neighbours are replicas, which share a batch (data parallelism).
 *
 * Between the layers every rank has all tokens, and inside an attention or an MLP its own heads or columns: that part
 * is the tensor-parallel region (Shoeybi et al. 2019). With sequence parallelism (Korthikanti et al. 2022) a rank has
 * only its own tokens between the layers: norms and residuals are then computed once, not on every rank. The way into
 * the region and out of it:
 *
 *                                  forward             backward
 *     tensor_enter                 nothing             all_reduce
 *     tensor_enter, sequence       all_gather          reduce_scatter
 *     tensor_leave                 all_reduce          nothing
 *     tensor_leave, sequence       reduce_scatter      all_gather
 *
 * So the backward pass of entering is leaving, and the other way round: two functions are enough. Both work in place,
 * on `rows` tokens of `width` numbers, of which tensor_own is this rank's part.
 *
 * The first error is kept, as in a FILE: later communication does nothing, so its results are undefined. The caller
 * reads `status` when a step is over.
 */
#ifndef EXAMPLES_GPT_PARALLEL_H
#define EXAMPLES_GPT_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>
#include <tutti/tutti.h>

struct parallel {
    tutti_group *world, *tensor, *data;
    int32_t rank, ranks;
    int32_t tensor_rank, tensor_ranks;
    int32_t data_rank, data_ranks;
    bool sequence;  /* sequence parallelism                            */
    double seconds; /* in communication; the caller may set it to 0 */
    tutti_status status;
    tutti_error error;
};

/* Makes the groups. tensor_ranks divides the size of `world`, which stays the caller's. Collective. */
void parallel_open(struct parallel *p, tutti_group *world, int32_t tensor_ranks, bool sequence);
void parallel_close(struct parallel *p);

/* Ends all communication of the other ranks in these groups, too, so that no rank waits for this one. */
void parallel_revoke(struct parallel *p);

/* Ends the program with the kept error's sentence, if there is one. */
void parallel_must(const struct parallel *p);

/* The rows of `rows` tokens that this rank has between the layers: all of them, or its part of the sequence. */
int64_t tensor_own_rows(const struct parallel *p, int64_t rows);
float *tensor_own(const struct parallel *p, float *x, int64_t rows, int64_t width);

/* Before: tensor_own is valid. After: all of x is valid, and equal on all tensor-parallel ranks. */
void tensor_enter(struct parallel *p, float *x, int64_t rows, int64_t width);

/* Before: x is this rank's part of a sum over the tensor-parallel ranks. After: tensor_own holds the sum. */
void tensor_leave(struct parallel *p, float *x, int64_t rows, int64_t width);

/* All-reduces `count` numbers in place over the tensor-parallel ranks, or over the replicas. */
void tensor_all_reduce(struct parallel *p, float *x, int64_t count, tutti_reduce_op op);
void data_all_reduce(struct parallel *p, float *x, int64_t count, tutti_reduce_op op);

/* Copies the first replica's numbers to the others. */
void data_broadcast(struct parallel *p, float *x, int64_t count);

/* Copies rank 0's bytes to all others. */
void world_broadcast(struct parallel *p, void *bytes, int64_t count);

/* `which` of the tensor-parallel rank with the highest score; of equal ones the lowest rank's. */
int32_t tensor_best(struct parallel *p, double score, int32_t which);

/* A matrix that is split along dimension `split` (0: rows, 1: columns, -1: not split) over the tensor-parallel ranks,
 * and the whole one, rows x columns, on tensor rank 0 (elsewhere NULL). */
void tensor_gather(struct parallel *p, float *part, float *whole, int64_t rows, int64_t columns, int split);
void tensor_scatter(struct parallel *p, float *whole, float *part, int64_t rows, int64_t columns, int split);

/*
 * Ends the program on all ranks of `world` with status 2 if `why` is not empty on one of them. Rank 0 prints the
 * sentence of the lowest such rank. Collective.
 */
void input_check(tutti_group *world, const char *why);

#endif
