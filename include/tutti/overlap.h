/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/overlap.h - computing while communicating.
 *
 * Three patterns: one all_reduce beside one computation; a pipeline over many tensors; and the bucketer. The bucketer
 * averages a model's gradients in large buckets while the backward pass computes the rest, as DistributedDataParallel
 * does (Li et al., VLDB 2020).
 */
#ifndef TUTTI_OVERLAP_H
#define TUTTI_OVERLAP_H

#include <tutti/work.h>

TUTTI_BEGIN_DECLS

/** A computation. Its status is returned. */
typedef tutti_status (*tutti_compute_function)(void *user);

/**
 * Starts all_reduce(input, output, op), runs compute(user) on the calling thread, and waits for the all_reduce. Returns
 * the first error: of the start (then nothing is computed), of the computation (the all_reduce is awaited all the
 * same), of the all_reduce. `.error` of the call describes that error. The computation must not touch the tensors.
 * INVALID_ARGUMENT without compute, WOULD_DEADLOCK in a callback of the group: then nothing starts.
 */
TUTTI_API tutti_status tutti_overlap_all_reduce(tutti_group *group, const DLTensor *input, DLTensor *output,
                                                tutti_reduce_op op, tutti_compute_function compute, void *user,
                                                const tutti_call *call);

/** Computes tensor number `index` of a pipeline, in place. */
typedef tutti_status (*tutti_pipeline_function)(size_t index, DLTensor *tensor, void *user);

/**
 * For i = 0..count-1 in this order: compute(i, tensors[i]), then all_reduce tensors[i] in place. The all_reduce of i
 * runs during the computation of i+1. Returns when all have ended, with the first error in the order of i. After an
 * error of a computation nothing further is computed or started: the computations of all ranks must fail alike, or the
 * others get TIMEOUT. An all_reduce that fails and leaves the group usable stops nothing. The tensors share no memory.
 * A few all_reduces run at a time, each with the deadline and the callback of `call`. count 0 is valid.
 */
TUTTI_API tutti_status tutti_overlap_pipeline(tutti_group *group, DLTensor *const *tensors, size_t count,
                                              tutti_reduce_op op, tutti_pipeline_function compute, void *user,
                                              const tutti_call *call);

typedef struct tutti_bucketer tutti_bucketer;

/**
 * Options of a bucketer. Zero means default. TUTTI_BUCKETER_OPTIONS(...) and tutti_bucketer_options_init set `size`.
 */
typedef struct tutti_bucketer_options {
    uint32_t size;
    tutti_reduce_op op;   /* default AVG */
    int64_t bucket_bytes; /* a bucket closes when it has at least so many; default 25 MiB */
    int64_t timeout_ms;   /* deadline of each bucket's all_reduce; default the group's */
    int32_t lane;
    tutti_wire wire; /* how gradients of f32 are sent (tutti/collectives.h); default: as they are */
} tutti_bucketer_options;
TUTTI_STATIC_ASSERT(sizeof(tutti_bucketer_options) == 32, "no padding");

#define TUTTI_BUCKETER_OPTIONS(...)                                                                                    \
    (&(const tutti_bucketer_options){.size = (uint32_t)sizeof(tutti_bucketer_options), __VA_ARGS__})

/** Sets every field to its default and `size` to this library's; for foreign languages. NULL is ignored. */
TUTTI_API void tutti_bucketer_options_init(tutti_bucketer_options *options);

/**
 * Registers the gradients of a model once, in the order of its layers. Buckets are filled from the last gradient
 * backwards, the order of the backward pass. A bucket has one dtype. Gradients that are adjacent in memory are reduced
 * in place, others by a buffer of the bucket's size. Gradients are compact tensors on the group's device. Shapes are
 * copied; data is borrowed until destroy. They are the same on all ranks, else MISMATCH in the first step. options
 * NULL: defaults. Local: waits for no rank, and the group may be destroyed first. Errors: INVALID_ARGUMENT (no
 * gradients; strided or overlapping ones; an op that is not defined on their dtype, such as AVG on bool; PREMUL_SUM,
 * which needs a factor); UNSUPPORTED (a wire for gradients that are not f32, for another op than SUM and AVG, or on a
 * device); NO_MEMORY; NO_RESOURCE (8192 bucketers at most).
 *
 * One thread at a time may be inside a bucketer's functions; others get BUSY.
 */
TUTTI_API tutti_status tutti_bucketer_create(tutti_group *group, const DLTensor *const *gradients, size_t count,
                                             const tutti_bucketer_options *options, tutti_bucketer **bucketer,
                                             tutti_error *error);

/**
 * Gradient `index` is complete for this step. The all_reduce of a bucket starts when all its gradients, and all buckets
 * before it, are complete; so ranks may report in different orders. Does not wait. BAD_STATE if the gradient was ready
 * already in this step. If a bucket cannot start (a failed group: REVOKED), no further one starts in this step; this
 * call and later ones of the step return the reason.
 */
TUTTI_API tutti_status tutti_bucketer_ready(tutti_bucketer *bucketer, size_t index, tutti_error *error);

/**
 * Ends the step. Gradients that are not ready count as ready now. Waits for every bucket; the results are then in the
 * gradients. Returns the first error in the order of the buckets, naming the bucket. The gradients of a failed bucket
 * are undefined; those of the others hold their results. Then the next step may begin, except after WOULD_DEADLOCK (in
 * a callback of the group): the step goes on.
 */
TUTTI_API tutti_status tutti_bucketer_wait(tutti_bucketer *bucketer, tutti_error *error);

/** The number of buckets, and the bytes of the largest one. Either pointer may be NULL. */
TUTTI_API tutti_status tutti_bucketer_describe(tutti_bucketer *bucketer, size_t *buckets, size_t *largest,
                                               tutti_error *error);

/**
 * Waits for started buckets of an unfinished step and frees everything, also after errors. BUSY while another thread is
 * inside; BAD_STATE the second time; WOULD_DEADLOCK in a callback of the group if buckets are unfinished.
 */
TUTTI_API tutti_status tutti_bucketer_destroy(tutti_bucketer *bucketer, tutti_error *error);

TUTTI_END_DECLS

#endif
