/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two proofs. Replicas: all ranks must hold the same bits, so equal hashes are asked for, not small differences.
 * Against one rank: other numbers of ranks add the same gradients in another order, so the sums differ in their last
 * bits, and training amplifies that with every step. So the first epoch is compared sharply (step by step, and every
 * parameter after it), the last one by its mean loss.
 */
#include "verify.h"

#include "common/common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_EPOCH_TOLERANCE 1e-4 /* measured: 1e-5 at most; 1e-2 when one rank's gradients are lost in one step */
#define LAST_EPOCH_TOLERANCE  0.02 /* measured: 1e-3 at most */
/* Gradients, and the loss beside them, that travelled as bf16 or fp8; one rank trains with all digits. Measured: 1e-2
 * and 4e-2 in a step of the first epoch, since each loss is rounded, too, and 4e-4 and 4e-3 in the last one. */
#define BF16_FIRST_EPOCH_TOLERANCE 0.05
#define FP8_FIRST_EPOCH_TOLERANCE  0.1
#define WIRE_LAST_EPOCH_TOLERANCE  0.01

/* FNV-1a, 64 bits. */
static uint64_t hash_bytes(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

bool verify_replicas(tutti_group *group, const model *m)
{
    const int32_t rank = tutti_group_rank(group);
    const int32_t ranks = tutti_group_size(group);
    uint64_t own = hash_bytes(m->parameters, m->count * sizeof(float));
    uint64_t *hashes = allocate((size_t)ranks, sizeof(*hashes));

    tutti_error error;
    int64_t one = 1;
    int64_t all = ranks;
    DLTensor input = tutti_tensor_1d(&own, &one, TUTTI_U64);
    DLTensor output = tutti_tensor_1d(hashes, &all, TUTTI_U64);
    must(tutti_all_gather(group, &input, &output, 0, TUTTI_CALL(.error = &error)), &error);

    bool equal = true;
    for (int32_t r = 0; r < ranks; r++) {
        equal = equal && hashes[r] == hashes[0];
        if (rank == 0) {
            printf("replica of rank %d: hash %016llx\n", r, (unsigned long long)hashes[r]);
        }
    }
    if (rank == 0) {
        puts(equal ? "replicas: bit-identical" : "replicas: DIFFERENT");
    }
    free(hashes);
    return equal;
}

/* The largest difference of two steps' losses in the first epoch. NaN counts as the largest of all. */
static double loss_difference(const train_result *a, const train_result *b)
{
    double worst = 0;
    for (int64_t s = 0; s < b->steps_per_epoch; s++) {
        double difference = fabs((double)a->losses[s] - b->losses[s]) / (1 + fabs((double)b->losses[s]));
        worst = difference <= worst ? worst : difference;
    }
    return worst;
}

/* The length of the difference of the parameters after the first epoch, by the length of the parameters. */
static double parameter_difference(const train_result *a, const train_result *b, size_t count)
{
    double square = 0;
    double square_difference = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = (double)a->first_epoch[i] - b->first_epoch[i];
        square += (double)b->first_epoch[i] * b->first_epoch[i];
        square_difference += difference * difference;
    }
    return sqrt(square_difference / square);
}

static double last_epoch_loss(const train_result *r)
{
    double sum = 0;
    for (int64_t s = r->steps - r->steps_per_epoch; s < r->steps; s++) {
        sum += r->losses[s];
    }
    return sum / (double)r->steps_per_epoch;
}

static bool compare(const train_result *parallel, const train_result *alone, size_t count, int32_t ranks,
                    tutti_wire wire)
{
    const bool rounded = wire != TUTTI_WIRE_FULL;
    const double first_tolerance = wire == TUTTI_WIRE_FP8    ? FP8_FIRST_EPOCH_TOLERANCE
                                   : wire == TUTTI_WIRE_BF16 ? BF16_FIRST_EPOCH_TOLERANCE
                                                             : FIRST_EPOCH_TOLERANCE;
    const double last_tolerance = rounded ? WIRE_LAST_EPOCH_TOLERANCE : LAST_EPOCH_TOLERANCE;
    double losses = loss_difference(parallel, alone);
    double parameters = parameter_difference(parallel, alone, count);
    double last = last_epoch_loss(parallel);
    double last_alone = last_epoch_loss(alone);
    bool good = losses <= first_tolerance && parameters <= first_tolerance &&
                fabs(last - last_alone) <= last_tolerance * last_alone;
    printf("%d ranks against 1 rank: %.1f s against %.1f s; first epoch: losses differ by at most %.1e, parameters by "
           "%.1e; last epoch: loss %.4f against %.4f\n",
           ranks, parallel->seconds, alone->seconds, losses, parameters, last, last_alone);
    printf("same training on 1 rank: %s\n", !good     ? "DIFFERENT"
                                            : rounded ? "equal within the tolerance of --wire"
                                                      : "equal within float tolerance");
    return good;
}

bool verify_against_one_rank(tutti_group *group, const dataset *data, const train_options *o, const char *terminal,
                             const train_result *parallel)
{
    tutti_error error;
    bool good = true;
    if (tutti_group_rank(group) == 0) {
        tutti_group *alone;
        must(tutti_group_create(group, (const int32_t[]){0}, 1, NULL, &alone, &error), &error);
        model m;
        progress bar;
        train_result result;
        model_create(&m, o->batch);
        model_randomize(&m, o->seed);
        progress_begin(&bar, terminal, false, "1 rank: ");
        train_options full = *o;
        full.wire = TUTTI_WIRE_FULL;
        train(alone, data, &m, &full, &bar, &result);
        progress_end(&bar);
        good = compare(parallel, &result, m.count, tutti_group_size(group), o->wire);
        free(result.losses);
        free(result.first_epoch);
        model_free(&m);
        must(tutti_group_destroy(alone, &error), &error);
    }
    /* The others wait here meanwhile, for as long as the training on one rank may take. */
    must(tutti_barrier(group, TUTTI_CALL(.timeout_ms = 60 * 60 * 1000, .error = &error)), &error);
    return good;
}
