/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A step: forward and backward pass of this rank's part of the model on its replica's share of the batch, the sums over
 * the replicas beside them, and the same update everywhere. Sequences are chosen by a hash of seed, step and place in the
 * batch, so any number of ranks sees the same batches, and a run that is resumed goes on with the next one.
 */
#include "train.h"

#include "common/common.h"
#include "model/product.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP   0.05 /* of the steps, in which the rate rises  */
#define LAST_RATE 0.1  /* of the highest rate, at the last step */

bool train_check(const struct options *o, int32_t ranks, int32_t tensor, const struct text *text, char *why,
                 size_t capacity)
{
    if (ranks % tensor != 0) {
        snprintf(why, capacity, "%d tensor-parallel ranks do not divide %d ranks", tensor, ranks);
        return false;
    }
    const int32_t replicas = ranks / tensor;
    if (o->batch % replicas != 0) {
        snprintf(why, capacity, "%d replicas do not divide a batch of %d sequences", replicas, o->batch);
        return false;
    }
    const int64_t tokens = (int64_t)o->batch / replicas * o->shape.context;
    if (o->sequence && tokens % tensor != 0) {
        snprintf(why, capacity, "%d tensor-parallel ranks do not divide the %lld tokens of a replica", tensor,
                 (long long)tokens);
        return false;
    }
    if (text->count <= (size_t)o->shape.context) {
        snprintf(why, capacity, "the text %s has %zu bytes, and a sequence takes %d", o->text ? o->text : "",
                 text->count, o->shape.context + 1);
        return false;
    }
    return shape_check(&o->shape, tensor, why, capacity);
}

void trainer_open(struct trainer *t, struct parallel *p, const struct options *o, const struct text *text)
{
    memset(t, 0, sizeof(*t));
    t->parallel = p;
    t->text = text;
    t->steps = o->steps;
    t->batch = o->batch;
    t->rate = o->rate;
    t->seed = o->seed;
    model_create(&t->model, &o->shape, p, o->batch / p->data_ranks);
    parameters_randomize(&t->model.parameters, o->seed);
    adam_create(&t->adam, &t->model.parameters);
    gradients_open(&t->gradients, &t->model);
    t->tokens = allocate((size_t)t->model.rows, sizeof(*t->tokens));
    t->targets = allocate((size_t)t->model.rows, sizeof(*t->targets));
}

void trainer_close(struct trainer *t)
{
    gradients_close(&t->gradients);
    adam_free(&t->adam);
    model_free(&t->model);
    free(t->tokens);
    free(t->targets);
}

/* This replica's sequences of the batch of step t->adam.step. */
static void choose_batch(struct trainer *t)
{
    const int64_t context = t->model.shape.context;
    const int64_t sequences = t->model.rows / context;
    for (int64_t s = 0; s < sequences; s++) {
        uint64_t key = t->seed + 1;
        key = random_next(&key) + (uint64_t)t->adam.step;
        key = random_next(&key) + (uint64_t)(t->parallel->data_rank * sequences + s);
        const uint8_t *from = t->text->bytes + random_next(&key) % (t->text->count - (size_t)context);
        for (int64_t i = 0; i < context; i++) {
            t->tokens[s * context + i] = from[i];
            t->targets[s * context + i] = from[i + 1];
        }
    }
}

/* Rises in a line, then falls along a cosine. */
static double rate_now(const struct trainer *t)
{
    const double done = (double)t->adam.step / t->steps;
    if (done < WARM_UP) {
        return t->rate * ((double)t->adam.step + 1) / (WARM_UP * t->steps + 1);
    }
    return t->rate * (LAST_RATE + (1 - LAST_RATE) * (0.5 + 0.5 * cos(M_PI * (done - WARM_UP) / (1 - WARM_UP))));
}

double trainer_gradients(struct trainer *t)
{
    const struct parameters *p = &t->model.parameters;
    const int64_t tokens = (int64_t)t->batch * t->model.shape.context;
    choose_batch(t);
    model_gradients(&t->model, t->tokens, t->targets, 1 / (float)tokens, gradients_ready, &t->gradients);
    gradients_wait(&t->gradients);
    return (double)p->gradients[p->floats];
}

double trainer_step(struct trainer *t)
{
    const double loss = trainer_gradients(t);
    adam_update(&t->adam, &t->model.parameters, t->parallel, rate_now(t));
    return loss;
}

void train(struct trainer *t, progress *bar, double *losses)
{
    struct parallel *p = t->parallel;
    const double begin = seconds_now();
    const double products = product_seconds();
    const int64_t first = t->adam.step;
    const int64_t lines = t->steps / 10 > 0 ? t->steps / 10 : 1;
    double mean = 0;
    p->seconds = 0;
    while (t->adam.step < t->steps && p->status == TUTTI_OK) {
        const double loss = trainer_step(t);
        const int64_t step = t->adam.step;
        if (losses) {
            losses[step - 1] = loss;
        }
        mean = mean == 0 ? loss : 0.95 * mean + 0.05 * loss;
        const double seconds = seconds_now() - begin;
        progress_show(bar, (double)step / t->steps, step % lines == 0 || step == t->steps,
                      "step %lld/%d  loss %.3f  %6.0f tokens/s  %4.1f%% communication  %4.1f%% matrix products",
                      (long long)step, t->steps, mean,
                      (double)((step - first) * t->batch * t->model.shape.context) / seconds,
                      100 * p->seconds / seconds, 100 * (product_seconds() - products) / seconds);
    }
}

int train_command(tutti_group *world, const struct options *o)
{
    struct options own = *o;
    struct text text = {0};
    char why[512] = "";
    const int32_t ranks = tutti_group_size(world);
    const int32_t tensor = o->tensor > 0 ? o->tensor : ranks;
    own.steps = o->steps > 0 ? o->steps : 1000;
    if (text_read(&text, o->text ? o->text : TRAIN_TEXT, why, sizeof(why))) {
        why[0] = '\0'; /* a file of the folder may be no text */
        train_check(&own, ranks, tensor, &text, why, sizeof(why));
    }
    input_check(world, why);

    struct parallel p;
    struct trainer t;
    progress bar;
    parallel_open(&p, world, tensor, o->sequence);
    trainer_open(&t, &p, &own, &text);
    if (p.rank == 0) {
        printf("%lld parameters, %zu bytes of text, %d x %d ranks (tensor x data%s, backend %s)\n",
               (long long)shape_parameters(&own.shape), text.count, p.tensor_ranks, p.data_ranks,
               o->sequence ? ", sequence-parallel" : "", tutti_group_backend(world));
    }
    progress_begin(&bar, o->terminal, p.rank != 0, "");
    train(&t, &bar, NULL);
    progress_end(&bar);
    parallel_must(&p);
    trainer_close(&t);
    parallel_close(&p);
    text_free(&text);
    return 0;
}
