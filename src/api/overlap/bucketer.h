/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bucketer: gradients, and the buckets they are divided into. Bucket 0 holds the last gradients, since the backward pass
 * produces those first. Within a bucket gradients follow one another in the order of their index, on every rank alike,
 * whether the bucket lies in the gradients themselves or is packed; which of the two is each rank's own matter.
 */
#ifndef TTI_API_BUCKETER_H
#define TTI_API_BUCKETER_H

#include "api/check.h"
#include "api/overlap/overlap.h"

struct tti_gradient {
    unsigned char *data; /* NULL only if there are no bytes */
    size_t bytes;
    size_t count; /* elements */
    size_t bucket;
    tutti_dtype dtype;
    bool ready; /* in this step */
};

/* Gradients begin..end-1. */
struct tti_bucket {
    size_t begin;
    size_t end;
    size_t bytes;
    int64_t count; /* elements: the shape of what is reduced */
    tutti_dtype dtype;
    bool packed;         /* data is memory of its own; else the first gradient's */
    unsigned char *data; /* NULL only if there are no bytes */
    size_t missing;      /* gradients that are not ready in this step */
    tutti_work *work;    /* of the all_reduce, once it has been started */
};

struct tti_bucketer {
    tutti_group *group; /* a handle, without a reference: the group may be destroyed before */
    int32_t rank;
    DLDevice device; /* of the gradients */
    tutti_reduce_op op;
    tutti_call call;       /* for every all_reduce */
    uint32_t digest;       /* of how the gradients are divided */
    size_t count;          /* gradients */
    size_t buckets;        /* all buckets */
    size_t started;        /* buckets 0..started-1 have been started in this step */
    tutti_error why;       /* why bucket `started` could not be; status OK if that has not happened in this step */
    _Atomic bool occupied; /* by the one thread that may be inside */
    struct tti_gradient *gradient;
    struct tti_bucket *bucket;
};

/* Checks every gradient and divides them into buckets of at least `bucket_bytes`, with memory for those that need it. On
 * failure tti_bucketer_free takes what there is. */
tutti_status tti_bucketer_divide(const struct tti_checker *k, struct tti_bucketer *b, const DLTensor *const *gradients,
                                 size_t count, size_t bucket_bytes);
void tti_bucketer_free(struct tti_bucketer *b);

/* Copies the gradients of a packed bucket into it, and back. */
tutti_status tti_bucket_pack(const struct tti_bucketer *b, const struct tti_bucket *bucket, tutti_error *error);
tutti_status tti_bucket_unpack(const struct tti_bucketer *b, const struct tti_bucket *bucket, tutti_error *error);

#endif
