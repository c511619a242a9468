/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/overlap.h - computing while communicating.
 *
 * Three patterns: one all_reduce beside one computation, a pipeline over many tensors, and the bucketer, which averages a
 * model's gradients in large pieces while the backward pass still computes the rest, as DistributedDataParallel does
 * (Li et al., VLDB 2020).
 */
#ifndef TUTTI_OVERLAP_H
#define TUTTI_OVERLAP_H

#include <tutti/work.h>

TUTTI_BEGIN_DECLS

/** A computation. Its status is handed on. */
typedef tutti_status (*tutti_compute_function)(void *user);

/**
 * Starts all_reduce(input, output, op), runs compute(user) on the calling thread meanwhile, waits for the all_reduce.
 * Returns the first error: of the start (then nothing is computed), of the computation (the all_reduce has been waited for
 * all the same), of the all_reduce; `.error` of the call tells of the whole. The computation must not touch the tensors.
 * Without compute INVALID_ARGUMENT, in a callback of the group WOULD_DEADLOCK, and then nothing is started.
 */
TUTTI_API tutti_status tutti_overlap_all_reduce(tutti_group *group, const DLTensor *input, DLTensor *output,
                                                tutti_reduce_op op, tutti_compute_function compute, void *user,
                                                const tutti_call *call);

/** Computes tensor number `index` of a pipeline, in place. */
typedef tutti_status (*tutti_pipeline_function)(size_t index, DLTensor *tensor, void *user);

/**
 * For i = 0..count-1 in this order: compute(i, tensors[i]), then all_reduce tensors[i] in place; the all_reduce of i runs
 * while i+1 is computed. Returns when all have ended, with the first error in the order of i; after an error of a
 * computation nothing further is computed or started, so all ranks must fail alike there, or run into the deadline. An
 * all_reduce that fails but leaves the group usable stops nothing. The tensors share no memory; a few all_reduces are under
 * way at a time, each with the deadline and the callback of `call`. count 0 is legal.
 */
TUTTI_API tutti_status tutti_overlap_pipeline(tutti_group *group, DLTensor *const *tensors, size_t count,
                                              tutti_reduce_op op, tutti_pipeline_function compute, void *user,
                                              const tutti_call *call);

typedef struct tutti_bucketer tutti_bucketer;

/** Options of a bucketer. Zero means default; `size` is set by TUTTI_BUCKETER_OPTIONS(...) or tutti_bucketer_options_init. */
typedef struct tutti_bucketer_options {
    uint32_t size;
    tutti_reduce_op op;   /* default AVG */
    int64_t bucket_bytes; /* a bucket is closed when it has at least so many; default 25 MiB */
    int64_t timeout_ms;   /* deadline of each bucket's all_reduce; default the group's */
    int32_t lane;
    int32_t reserved; /* 0 */
} tutti_bucketer_options;
TUTTI_STATIC_ASSERT(sizeof(tutti_bucketer_options) == 32, "no padding");

#define TUTTI_BUCKETER_OPTIONS(...)                                                                                    \
    (&(const tutti_bucketer_options){.size = (uint32_t)sizeof(tutti_bucketer_options), __VA_ARGS__})

/** Sets every field to its default and `size` to this library's; for foreign languages. NULL is ignored. */
TUTTI_API void tutti_bucketer_options_init(tutti_bucketer_options *options);

/**
 * Registers the gradients of a model once, in the order of its layers; buckets are filled from the last one backwards,
 * since that is how the backward pass produces them. One dtype per bucket (a change of dtype closes it). Gradients that
 * lie one behind the other in memory are reduced where they are, others through a buffer of the bucket's size. Compact
 * tensors on the group's device; shapes are copied, data is borrowed until destroy. The same on all ranks, else
 * MISMATCH in the first step. options NULL = defaults. Local: waits for nobody, and takes no hold of the group.
 * Errors: INVALID_ARGUMENT (no gradients; strided or overlapping ones; an op that is not defined on their dtype, such as
 * AVG on bool; PREMUL_SUM, for which there is no factor here); NO_MEMORY; NO_RESOURCE (4096 bucketers at most).
 *
 * One thread at a time may be inside a bucketer's functions, whichever it is: others get BUSY.
 */
TUTTI_API tutti_status tutti_bucketer_create(tutti_group *group, const DLTensor *const *gradients, size_t count,
                                             const tutti_bucketer_options *options, tutti_bucketer **bucketer,
                                             tutti_error *error);

/**
 * Gradient `index` is complete for this step: the all_reduce of its bucket starts when all of the bucket, and all buckets
 * before it, are; so the order may differ between ranks. Waits for nothing. BAD_STATE if it was ready already in this step.
 * When a bucket cannot be started (a group that has failed: REVOKED), nothing further is in this step; this ready and all
 * later ones of the step return why.
 */
TUTTI_API tutti_status tutti_bucketer_ready(tutti_bucketer *bucketer, size_t index, tutti_error *error);

/**
 * Ends the step: gradients not reported ready count as ready now (without any ready: all of them); waits for every bucket
 * and leaves the results in the gradients. Returns the first error in the order of the buckets, naming the bucket; its
 * gradients are undefined then, those of buckets without error hold their results. In any case the next step may begin,
 * except after WOULD_DEADLOCK, the answer in a callback of the group: then the step goes on.
 */
TUTTI_API tutti_status tutti_bucketer_wait(tutti_bucketer *bucketer, tutti_error *error);

/** Number of buckets, and bytes of the largest one. Either pointer may be NULL. */
TUTTI_API tutti_status tutti_bucketer_describe(tutti_bucketer *bucketer, size_t *buckets, size_t *largest,
                                               tutti_error *error);

/** Waits for buckets that were started in an unfinished step and frees everything, also after errors. BUSY while another
 *  thread is inside, BAD_STATE the second time; WOULD_DEADLOCK in a callback of the group if there are buckets to wait for. */
TUTTI_API tutti_status tutti_bucketer_destroy(tutti_bucketer *bucketer, tutti_error *error);

TUTTI_END_DECLS

#endif
