/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The forms of a step. They communicate the same gradients, which lie one behind the other in memory: as one tensor,
 * as the chunks of a pipeline, or, as a model has them, in more tensors than there are buckets.
 */
#include "bench/overlap/overlap.h"

const char *const tti_overlap_names[TTI_OVERLAP_FORMS] = {
    [TTI_OVERLAP_COMPUTE] = "compute",   [TTI_OVERLAP_COMMUNICATE] = "communicate",
    [TTI_OVERLAP_IN_TURN] = "in_turn",   [TTI_OVERLAP_OVERLAPPED] = "overlap",
    [TTI_OVERLAP_PIPELINE] = "pipeline", [TTI_OVERLAP_BUCKETER] = "bucketer",
};

int64_t tti_overlap_bytes(int chunks)
{
    const int64_t gradients = (int64_t)chunks * TTI_OVERLAP_GRADIENTS;
    const int64_t item = (int64_t)sizeof(float);
    return TTI_OVERLAP_BYTES / (gradients * item) * gradients * item;
}

tutti_status tti_overlap_prepare(struct tti_overlap *o)
{
    float *memory = (float *)(void *)o->b->right;
    o->chunks = o->b->options->chunks;
    o->gradients = o->chunks * TTI_OVERLAP_GRADIENTS;
    o->count = tti_overlap_bytes(o->chunks) / (int64_t)sizeof(float);
    o->chunk_count = o->count / o->chunks;
    o->gradient_count = o->count / o->gradients;
    o->all = tutti_tensor_1d(memory, &o->count, TUTTI_F32);
    for (int i = 0; i < o->chunks; i++) {
        o->chunk[i] = tutti_tensor_1d(memory + i * o->chunk_count, &o->chunk_count, TUTTI_F32);
        o->chunk_list[i] = &o->chunk[i];
    }
    for (int i = 0; i < o->gradients; i++) {
        o->gradient[i] = tutti_tensor_1d(memory + i * o->gradient_count, &o->gradient_count, TUTTI_F32);
        o->gradient_list[i] = &o->gradient[i];
    }
    const int64_t bucket_bytes = o->chunk_count * (int64_t)sizeof(float);
    return tutti_bucketer_create(o->link, o->gradient_list, (size_t)o->gradients,
                                 TUTTI_BUCKETER_OPTIONS(.op = TUTTI_SUM, .bucket_bytes = bucket_bytes), &o->bucketer,
                                 &o->b->error);
}

static tutti_status communicate(struct tti_overlap *o)
{
    return tutti_all_reduce(o->link, &o->all, &o->all, TUTTI_SUM, TUTTI_CALL(.error = &o->b->error));
}

static tutti_status overlapped(struct tti_overlap *o)
{
    tutti_work *work;
    tutti_status status =
        tutti_all_reduce_async(o->link, &o->all, &o->all, TUTTI_SUM, TUTTI_CALL(.error = &o->b->error), &work);
    if (status != TUTTI_OK) {
        return status;
    }
    tti_compute_run(&o->compute, 0, 1);
    status = tutti_work_wait(work, TUTTI_FOREVER);
    if (status != TUTTI_OK) {
        tutti_work_error(work, &o->b->error);
    }
    tutti_work_release(work);
    return status;
}

static tutti_status compute_chunk(size_t index, DLTensor *tensor, void *user)
{
    struct tti_overlap *o = user;
    (void)tensor;
    tti_compute_run(&o->compute, (int)index, o->chunks);
    return TUTTI_OK;
}

static tutti_status pipeline(struct tti_overlap *o)
{
    return tutti_overlap_pipeline(o->link, o->chunk_list, (size_t)o->chunks, TUTTI_SUM, compute_chunk, o,
                                  TUTTI_CALL(.error = &o->b->error));
}

/* A backward pass: the last layer's gradient is complete first. */
static tutti_status backward(struct tti_overlap *o)
{
    tutti_status status = TUTTI_OK;
    for (int i = o->gradients - 1; i >= 0 && status == TUTTI_OK; i--) {
        tti_compute_run(&o->compute, i, o->gradients);
        status = tutti_bucketer_ready(o->bucketer, (size_t)i, &o->b->error);
    }
    return status == TUTTI_OK ? tutti_bucketer_wait(o->bucketer, &o->b->error) : status;
}

tutti_status tti_overlap_step(struct tti_overlap *o, enum tti_overlap_form form)
{
    switch (form) {
    case TTI_OVERLAP_COMMUNICATE:
        return communicate(o);
    case TTI_OVERLAP_IN_TURN:
        tti_compute_run(&o->compute, 0, 1);
        return communicate(o);
    case TTI_OVERLAP_OVERLAPPED:
        return overlapped(o);
    case TTI_OVERLAP_PIPELINE:
        return pipeline(o);
    case TTI_OVERLAP_BUCKETER:
        return backward(o);
    default:
        tti_compute_run(&o->compute, 0, 1);
        return TUTTI_OK;
    }
}
