/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One step on every rank: gradients of the own share of the batch, their sum over all ranks, the same update
 * everywhere. The sums are a bucketer's: as soon as the backward pass is done with a part, the gradients of that part
 * travel, while the others are computed. Tutti's sums have the same bits on every rank, so the replicas stay
 * bit-identical without ever being compared. The sum is divided by the size of the whole batch, so that uneven shares
 * weigh what they should, and so that any number of ranks trains the same model but for the rounding of the sums.
 */
#include "train.h"

#include "common/common.h"

#include <stdlib.h>
#include <string.h>

#define MOMENTUM 0.9f
#define BUCKET_BYTES                                                                                                   \
    65536 /* the small upper layers in one bucket, and one for each part of the lowest one, which is done last */

/* All ranks start from rank 0's parameters. */
static void share_parameters(tutti_group *group, model *m)
{
    tutti_error error;
    int64_t count = (int64_t)m->count;
    DLTensor parameters = tutti_tensor_1d(m->parameters, &count, TUTTI_F32);
    must(tutti_broadcast(group, &parameters, 0, TUTTI_CALL(.error = &error)), &error);
}

typedef struct summing {
    tutti_bucketer *bucketer;
    double seconds; /* in its calls */
} summing;

/* Registers the gradients, one tensor for each part. */
static void summing_begin(summing *s, tutti_group *group, const model *m, tutti_wire wire)
{
    DLTensor tensors[MODEL_PARTS];
    const DLTensor *list[MODEL_PARTS];
    for (int i = 0; i < m->part_count; i++) {
        tensors[i] = tutti_tensor_1d(m->parts[i].gradients, &m->parts[i].count, TUTTI_F32);
        list[i] = &tensors[i];
    }
    tutti_error error;
    must(tutti_bucketer_create(group, list, (size_t)m->part_count,
                               TUTTI_BUCKETER_OPTIONS(.op = TUTTI_SUM, .bucket_bytes = BUCKET_BYTES, .wire = wire),
                               &s->bucketer, &error),
         &error);
    s->seconds = 0;
}

/* The gradients of a part are complete on this rank: their sum may begin. */
static void sum_part(int index, void *user)
{
    summing *s = user;
    tutti_error error;
    double start = seconds_now();
    must(tutti_bucketer_ready(s->bucketer, (size_t)index, &error), &error);
    s->seconds += seconds_now() - start;
}

/* Returns when the gradients, and the loss behind them, are the sums over all ranks. */
static void sum_wait(summing *s)
{
    tutti_error error;
    double start = seconds_now();
    must(tutti_bucketer_wait(s->bucketer, &error), &error);
    s->seconds += seconds_now() - start;
}

static void summing_end(summing *s)
{
    tutti_error error;
    must(tutti_bucketer_destroy(s->bucketer, &error), &error);
}

void train(tutti_group *group, const dataset *data, model *m, const train_options *o, progress *bar,
           train_result *result)
{
    const int32_t rank = tutti_group_rank(group);
    const int32_t ranks = tutti_group_size(group);
    const int64_t steps_per_epoch = (data->count + o->batch - 1) / o->batch;
    const int64_t all_steps = steps_per_epoch * o->epochs;

    int32_t *order = allocate((size_t)data->count, sizeof(*order));
    float *inputs = allocate((size_t)m->capacity * IMAGE_PIXELS, sizeof(*inputs));
    uint8_t *labels = allocate((size_t)m->capacity, 1);
    memset(result, 0, sizeof(*result));
    result->steps_per_epoch = steps_per_epoch;
    result->losses = allocate((size_t)all_steps, sizeof(float));
    result->first_epoch = allocate(m->count, sizeof(float));

    share_parameters(group, m);
    summing sums;
    summing_begin(&sums, group, m, o->wire);
    double start = seconds_now();
    for (int epoch = 0; epoch < o->epochs; epoch++) {
        double epoch_start = seconds_now();
        sums.seconds = 0;
        double loss = 0;
        order_plain(order, data->count);
        order_shuffle(order, data->count, o->seed + (uint64_t)epoch);
        for (int64_t step = 0; step < steps_per_epoch; step++) {
            int64_t first = step * o->batch;
            int64_t batch = data->count - first < o->batch ? data->count - first : o->batch;
            int64_t begin = share_begin(batch, rank, ranks);
            int64_t count = share_begin(batch, rank + 1, ranks) - begin;

            dataset_gather(data, order, first + begin, count, inputs, labels);
            model_gradients(m, inputs, labels, count, sum_part, &sums);
            sum_wait(&sums);
            double progressed = (double)result->steps / (double)all_steps;
            model_update(m, 1.0f / (float)batch, (float)(o->rate * (1 - progressed)), MOMENTUM);

            loss += m->gradients[m->count];
            result->losses[result->steps++] = m->gradients[m->count] / (float)batch;
            double elapsed = seconds_now() - epoch_start;
            const double done = (double)(step + 1) / (double)steps_per_epoch;
            progress_show(bar, done, step + 1 == steps_per_epoch,
                          "epoch %d/%d  loss %.4f  %6.0f images/s  %4.1f%% waiting", epoch + 1, o->epochs,
                          loss / (double)(first + batch), (double)(first + batch) / elapsed,
                          100 * sums.seconds / elapsed);
        }
        result->waiting += sums.seconds;
        if (epoch == 0) {
            memcpy(result->first_epoch, m->parameters, m->count * sizeof(float));
        }
    }
    result->seconds = seconds_now() - start;
    summing_end(&sums);
    free(order);
    free(inputs);
    free(labels);
}

/* ---- how long a step takes, and its parts alone ------------------------------------------------------------------ */

enum { WHOLE, COMPUTING, GRADIENTS, PARTS, ROUNDS = 40, WARM_UP = 5 };

static void sum_nothing(int index, void *user)
{
    (void)index;
    (void)user;
}

static void run_part(int part, model *m, const float *inputs, const uint8_t *labels, int64_t count, summing *sums)
{
    if (part != GRADIENTS) {
        model_gradients(m, inputs, labels, count, part == WHOLE ? sum_part : sum_nothing, sums);
    }
    for (int i = m->part_count - 1; i >= 0 && part == GRADIENTS; i--) {
        sum_part(i, sums);
    }
    if (part != COMPUTING) {
        sum_wait(sums);
    }
    if (part != GRADIENTS) {
        model_update(m, 0, 0, MOMENTUM); /* the work, but the model stays as it is */
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

void measure_step(tutti_group *group, const dataset *data, model *m, const train_options *o, step_times *result)
{
    const int32_t rank = tutti_group_rank(group);
    const int32_t ranks = tutti_group_size(group);
    const int64_t count = share_begin(o->batch, rank + 1, ranks) - share_begin(o->batch, rank, ranks);
    float *inputs = allocate((size_t)m->capacity * IMAGE_PIXELS, sizeof(*inputs));
    uint8_t *labels = allocate((size_t)m->capacity, 1);
    int32_t *order = allocate((size_t)data->count, sizeof(*order));
    static double seconds[PARTS * ROUNDS]; /* a row for each part */
    order_plain(order, data->count);
    dataset_gather(data, order, share_begin(o->batch, rank, ranks), count, inputs, labels);
    share_parameters(group, m);
    summing sums;
    summing_begin(&sums, group, m, o->wire);
    tutti_error error;
    for (int round = -WARM_UP; round < ROUNDS; round++) {
        for (int part = 0; part < PARTS; part++) {
            must(tutti_barrier(group, TUTTI_CALL(.error = &error)), &error);
            const double start = seconds_now();
            run_part(part, m, inputs, labels, count, &sums);
            if (round >= 0) {
                seconds[part * ROUNDS + round] = seconds_now() - start;
            }
        }
    }
    int64_t all = PARTS * ROUNDS; /* a step is done when the slowest rank is */
    DLTensor slowest = tutti_tensor_1d(seconds, &all, TUTTI_F64);
    must(tutti_all_reduce(group, &slowest, &slowest, TUTTI_MAX, TUTTI_CALL(.error = &error)), &error);
    for (int part = 0; part < PARTS; part++) {
        qsort(seconds + part * ROUNDS, ROUNDS, sizeof(seconds[0]), by_size);
    }
    *result = (step_times){.whole = seconds[WHOLE * ROUNDS + ROUNDS / 2],
                           .computing = seconds[COMPUTING * ROUNDS + ROUNDS / 2],
                           .gradients = seconds[GRADIENTS * ROUNDS + ROUNDS / 2]};
    summing_end(&sums);
    free(inputs);
    free(labels);
    free(order);
}

double accuracy(tutti_group *group, const dataset *data, model *m)
{
    const int32_t rank = tutti_group_rank(group);
    const int32_t ranks = tutti_group_size(group);
    int32_t *order = allocate((size_t)data->count, sizeof(*order));
    float *inputs = allocate((size_t)m->capacity * IMAGE_PIXELS, sizeof(*inputs));
    uint8_t *labels = allocate((size_t)m->capacity, 1);
    order_plain(order, data->count);

    int64_t correct = 0;
    const int64_t end = share_begin(data->count, rank + 1, ranks);
    for (int64_t first = share_begin(data->count, rank, ranks); first < end; first += m->capacity) {
        int64_t count = end - first < m->capacity ? end - first : m->capacity;
        dataset_gather(data, order, first, count, inputs, labels);
        correct += model_correct(m, inputs, labels, count);
    }
    free(order);
    free(inputs);
    free(labels);

    tutti_error error;
    int64_t one = 1;
    DLTensor counter = tutti_tensor_1d(&correct, &one, TUTTI_I64);
    must(tutti_all_reduce(group, &counter, &counter, TUTTI_SUM, TUTTI_CALL(.error = &error)), &error);
    return (double)correct / (double)data->count;
}
