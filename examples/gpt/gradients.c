/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tutti_bucketer sums the gradients in place, since all parts are neighbours in memory. Each rank has the gradients
 * of its own part of the model, so it sums them with the ranks that have the same part: the data-parallel group. That
 * group and the tensor-parallel one are independent, so their operations may run at the same time.
 */
#include "gradients.h"

#include "common/common.h"

#include <stdlib.h>

#define BUCKET_BYTES ((int64_t)1 << 20)

void gradients_open(struct gradients *g, struct model *m, tutti_wire wire)
{
    struct parallel *p = m->parallel;
    g->parallel = p;
    g->bucketer = NULL;
    if (p->data_ranks == 1 || p->status != TUTTI_OK) {
        return;
    }
    const int32_t parts = model_parts(m);
    DLTensor *tensors = allocate((size_t)parts, sizeof(*tensors));
    const DLTensor **list = allocate((size_t)parts, sizeof(*list));
    int64_t *counts = allocate((size_t)parts, sizeof(*counts));
    for (int32_t i = 0; i < parts; i++) {
        float *gradients;
        counts[i] = model_part(m, i, &gradients);
        tensors[i] = tutti_tensor_1d(gradients, &counts[i], TUTTI_F32);
        list[i] = &tensors[i];
    }
    p->status = tutti_bucketer_create(
        p->data, list, (size_t)parts,
        TUTTI_BUCKETER_OPTIONS(.op = TUTTI_SUM, .bucket_bytes = BUCKET_BYTES, .wire = wire), &g->bucketer, &p->error);
    free(tensors);
    free(list);
    free(counts);
}

void gradients_close(struct gradients *g)
{
    if (g->bucketer) {
        tutti_bucketer_destroy(g->bucketer, NULL);
    }
}

void gradients_ready(int32_t index, void *user)
{
    struct gradients *g = user;
    struct parallel *p = g->parallel;
    if (!g->bucketer || p->status != TUTTI_OK) {
        return;
    }
    const double begin = seconds_now();
    p->status = tutti_bucketer_ready(g->bucketer, (size_t)index, &p->error);
    p->seconds += seconds_now() - begin;
}

void gradients_wait(struct gradients *g)
{
    struct parallel *p = g->parallel;
    if (!g->bucketer || p->status != TUTTI_OK) {
        return;
    }
    const double begin = seconds_now();
    p->status = tutti_bucketer_wait(g->bucketer, &p->error);
    p->seconds += seconds_now() - begin;
}
