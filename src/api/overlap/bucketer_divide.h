/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bucketer: gradients, divided into buckets. Bucket 0 holds the last gradients, which the backward pass produces
 * first. The order in a bucket is that of the gradients' index, on every rank. A rank whose gradients are adjacent uses
 * their memory as the bucket; others pack them. Ranks need not do the same.
 */
#ifndef TTI_API_OVERLAP_BUCKETER_DIVIDE_H
#define TTI_API_OVERLAP_BUCKETER_DIVIDE_H

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
    int64_t count; /* elements: the shape of the all_reduce */
    tutti_dtype dtype;
    bool packed;         /* data is separate memory; else the first gradient's */
    unsigned char *data; /* NULL only if there are no bytes */
    bool in_use;         /* an engine still uses data after a failure (tutti_op): it is neither written nor freed */
    size_t missing;      /* gradients that are not ready in this step */
    tutti_work *work;    /* of the all_reduce, after its start */
};

struct tti_bucketer {
    tutti_group *group; /* a handle without a reference: the group may be destroyed first */
    int32_t rank;
    DLDevice device; /* of the gradients */
    tutti_reduce_op op;
    tutti_call call;       /* for every all_reduce */
    uint32_t digest;       /* of the division into buckets */
    size_t count;          /* gradients */
    size_t buckets;        /* all buckets */
    size_t started;        /* buckets 0..started-1 have been started in this step */
    tutti_error why;       /* why bucket `started` could not start in this step; else status OK */
    _Atomic bool occupied; /* by the thread that is inside */
    struct tti_gradient *gradient;
    struct tti_bucket *bucket;
};

/* Checks every gradient and divides them into buckets of at least `bucket_bytes`, with memory for packed ones. After a
 * failure call tti_bucketer_free. */
tutti_status tti_bucketer_divide(const struct tti_checker *k, struct tti_bucketer *b, const DLTensor *const *gradients,
                                 size_t count, size_t bucket_bytes);
void tti_bucketer_free(struct tti_bucketer *b);

/* Copies the gradients of a packed bucket into it, and back. */
tutti_status tti_bucket_pack(const struct tti_bucketer *b, const struct tti_bucket *bucket, tutti_error *error);
tutti_status tti_bucket_unpack(const struct tti_bucketer *b, const struct tti_bucket *bucket, tutti_error *error);

#endif
