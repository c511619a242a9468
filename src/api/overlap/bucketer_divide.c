/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dividing gradients into buckets. Every rank does it locally, with the same result: it depends on sizes and dtypes,
 * never on addresses. A digest of the result is the tag of every all_reduce. So ranks with different models get
 * MISMATCH in the first bucket, also if the buckets have equal sizes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/overlap/bucketer_divide.h"
#include "base/error.h"
#include "base/kept_memory.h"
#include "device/device.h"
#include "kernels/kernels.h"

#define ALIGNMENT 64 /* of packed buckets: a cache line, and the widest vectors */

static tutti_status check_gradient(const struct tti_checker *k, const struct tti_bucketer *b, const DLTensor *tensor,
                                   size_t index, struct tti_gradient *gradient)
{
    char name[40];
    snprintf(name, sizeof(name), "gradients[%zu]", index);
    struct tti_view view;
    tutti_status status = tti_check_output(k, tensor, name, &view);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!view.compact) {
        return tti_reject(
            k, "%s is strided; gradients must be compact, as they stay registered and are reduced in place", name);
    }
    if (!tutti_reduce_op_valid(b->op, view.dtype)) {
        return tti_reject(k, "%s has dtype %s, on which op %s is not defined", name, tutti_dtype_name(view.dtype),
                          tutti_reduce_op_name(b->op));
    }
    *gradient = (struct tti_gradient){.data = view.data, .bytes = view.bytes, .count = view.count, .dtype = view.dtype};
    return TUTTI_OK;
}

static int by_address(const void *left, const void *right)
{
    const struct tti_gradient *a = *(const struct tti_gradient *const *)left;
    const struct tti_gradient *b = *(const struct tti_gradient *const *)right;
    return (a->data > b->data) - (a->data < b->data);
}

/* Sorted by address, each must end before the next one begins. */
static tutti_status check_overlap(const struct tti_checker *k, const struct tti_bucketer *b)
{
    const struct tti_gradient **sorted = malloc(b->count * sizeof(struct tti_gradient *));
    if (!sorted) {
        return tti_error_set(k->c->error, TUTTI_NO_MEMORY, "%s: no memory to sort %zu gradients", k->function,
                             b->count);
    }
    size_t filled = 0;
    for (size_t i = 0; i < b->count; i++) {
        if (b->gradient[i].bytes > 0) {
            sorted[filled++] = &b->gradient[i];
        }
    }
    qsort(sorted, filled, sizeof(struct tti_gradient *), by_address);
    tutti_status status = TUTTI_OK;
    for (size_t i = 1; i < filled && status == TUTTI_OK; i++) {
        const struct tti_gradient *low = sorted[i - 1];
        if (low->bytes > (size_t)(sorted[i]->data - low->data)) {
            status = tti_reject(k, "gradients[%zu] and gradients[%zu] overlap in memory; each must have its own",
                                (size_t)(low - b->gradient), (size_t)(sorted[i] - b->gradient));
        }
    }
    free(sorted);
    return status;
}

/* From the last gradient backwards. The sum of bytes does not overflow: the gradients do not overlap in memory. */
static void fill_buckets(struct tti_bucketer *b, size_t bucket_bytes)
{
    struct tti_bucket *open = NULL;
    for (size_t i = b->count; i-- > 0;) {
        struct tti_gradient *g = &b->gradient[i];
        if (!open || open->bytes >= bucket_bytes || open->dtype != g->dtype) {
            open = &b->bucket[b->buckets++];
            open->dtype = g->dtype;
            open->end = i + 1;
        }
        g->bucket = b->buckets - 1;
        open->begin = i;
        open->bytes += g->bytes;
        open->count += (int64_t)g->count;
        open->missing++;
    }
}

/* Whether the gradients of a bucket are adjacent, in the order of their index. */
static bool contiguous(const struct tti_bucketer *b, const struct tti_bucket *bucket)
{
    const unsigned char *end = NULL;
    for (size_t i = bucket->begin; i < bucket->end; i++) {
        const struct tti_gradient *g = &b->gradient[i];
        if (g->bytes > 0) {
            if (end && g->data != end) {
                return false;
            }
            end = g->data + g->bytes;
        }
    }
    return true;
}

static void *alloc_bucket(DLDevice device, size_t bytes)
{
    void *memory = NULL;
    if (device.device_type == kDLCPU) {
        return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    }
    return tti_device_alloc(device, bytes, &memory, NULL) == TUTTI_OK ? memory : NULL;
}

static void free_bucket(DLDevice device, void *memory)
{
    if (device.device_type == kDLCPU) {
        free(memory);
    } else {
        tti_device_free(device, memory);
    }
}

static tutti_status place_bucket(const struct tti_checker *k, const struct tti_bucketer *b, struct tti_bucket *bucket)
{
    if (!contiguous(b, bucket)) {
        bucket->data = alloc_bucket(b->device, bucket->bytes);
        bucket->packed = bucket->data != NULL;
        return bucket->data ? TUTTI_OK
                            : tti_error_set(k->c->error, TUTTI_NO_MEMORY,
                                            "%s: no memory for a bucket of %zu bytes, which gradients %zu to %zu need "
                                            "because they are not adjacent in memory",
                                            k->function, bucket->bytes, bucket->begin, bucket->end - 1);
    }
    for (size_t i = bucket->end; i-- > bucket->begin;) {
        bucket->data = b->gradient[i].bytes > 0 ? b->gradient[i].data : bucket->data;
    }
    return TUTTI_OK;
}

/* Adds a number to a hash: the odd factor loses no bits, the shift mixes high bits down. */
static uint64_t mix(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

/* A hash of all that must be equal on all ranks. */
static uint32_t digest(const struct tti_bucketer *b)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct tti_gradient *g = &b->gradient[i];
        hash = mix(mix(mix(hash, g->count + 1), (uint64_t)g->dtype), g->bucket);
    }
    return (uint32_t)hash;
}

tutti_status tti_bucketer_divide(const struct tti_checker *k, struct tti_bucketer *b, const DLTensor *const *gradients,
                                 size_t count, size_t bucket_bytes)
{
    b->gradient = calloc(count, sizeof(*b->gradient));
    b->bucket = calloc(count, sizeof(*b->bucket));
    if (!b->gradient || !b->bucket) {
        return tti_error_set(k->c->error, TUTTI_NO_MEMORY, "%s: no memory for %zu gradients", k->function, count);
    }
    tutti_status status = TUTTI_OK;
    for (b->count = 0; b->count < count && status == TUTTI_OK; b->count++) {
        status = check_gradient(k, b, gradients[b->count], b->count, &b->gradient[b->count]);
    }
    if (status != TUTTI_OK || (status = check_overlap(k, b)) != TUTTI_OK) {
        return status;
    }
    fill_buckets(b, bucket_bytes);
    b->digest = digest(b);
    for (size_t i = 0; i < b->buckets && status == TUTTI_OK; i++) {
        status = place_bucket(k, b, &b->bucket[i]);
    }
    return status;
}

void tti_bucketer_free(struct tti_bucketer *b)
{
    for (size_t i = 0; i < b->buckets; i++) {
        if (b->bucket[i].in_use) {
            tti_memory_keep(b->bucket[i].data);
        } else if (b->bucket[i].packed) {
            free_bucket(b->device, b->bucket[i].data);
        }
    }
    free(b->gradient);
    free(b->bucket);
    free(b);
}

/* On a device all copies are queued together. */
static tutti_status copy_there(const struct tti_bucketer *b, const struct tti_bucket *bucket, bool pack,
                               tutti_error *error)
{
    struct tti_device_copy *copies = calloc(bucket->end - bucket->begin, sizeof(*copies));
    if (!copies) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory to copy %zu gradients", bucket->end - bucket->begin);
    }
    unsigned char *inside = bucket->data;
    size_t count = 0;
    for (size_t i = bucket->begin; i < bucket->end; i++) {
        const struct tti_gradient *g = &b->gradient[i];
        copies[count++] = pack ? (struct tti_device_copy){inside, g->data, g->bytes}
                               : (struct tti_device_copy){g->data, inside, g->bytes};
        inside += g->bytes;
    }
    tutti_status status = tti_device_copy_sync(b->device, copies, count, error);
    free(copies);
    return status;
}

tutti_status tti_bucket_pack(const struct tti_bucketer *b, const struct tti_bucket *bucket, tutti_error *error)
{
    unsigned char *to = bucket->data;
    if (bucket->packed && b->device.device_type != kDLCPU) {
        return copy_there(b, bucket, true, error);
    }
    for (size_t i = bucket->begin; bucket->packed && i < bucket->end; i++) {
        const struct tti_gradient *g = &b->gradient[i];
        if (g->bytes > 0) {
            tti_copy_cached(to, g->data, g->bytes);
            to += g->bytes;
        }
    }
    return TUTTI_OK;
}

tutti_status tti_bucket_unpack(const struct tti_bucketer *b, const struct tti_bucket *bucket, tutti_error *error)
{
    const unsigned char *from = bucket->data;
    if (bucket->packed && b->device.device_type != kDLCPU) {
        return copy_there(b, bucket, false, error);
    }
    for (size_t i = bucket->begin; bucket->packed && i < bucket->end; i++) {
        const struct tti_gradient *g = &b->gradient[i];
        if (g->bytes > 0) {
            tti_copy_cached(g->data, from, g->bytes);
            from += g->bytes;
        }
    }
    return TUTTI_OK;
}
