/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A step: forward and backward pass of this rank's part of the model on its replica's share of the batch, the sums over
 * the replicas beside them, and the same update everywhere. Sequences are chosen by a hash of seed, step and place in
 * the batch, so any number of ranks sees the same batches, and a run that is resumed goes on with the next one.
 */
#include "train.h"

#include "checkpoint.h"
#include "common/common.h"
#include "model/layers/product.h"
#include "survive.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP   0.05 /* of the steps, in which the rate rises  */
#define STEPS     1000
#define LAST_RATE 0.1 /* of the highest rate, at the last step */

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
    const tutti_wire wire = strcmp(o->wire, "fp8") == 0    ? TUTTI_WIRE_FP8
                            : strcmp(o->wire, "bf16") == 0 ? TUTTI_WIRE_BF16
                                                           : TUTTI_WIRE_FULL;
    memset(t, 0, sizeof(*t));
    t->parallel = p;
    t->text = text;
    t->options = o;
    t->steps = o->steps;
    t->batch = o->batch;
    t->rate = o->rate;
    t->seed = (uint64_t)o->seed;
    model_create(&t->model, &o->shape, p, o->batch / p->data_ranks);
    parameters_randomize(&t->model.parameters, (uint64_t)o->seed);
    adam_create(&t->adam, &t->model.parameters);
    gradients_open(&t->gradients, &t->model, wire);
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
    if (t->parallel->status == TUTTI_OK) {
        adam_update(&t->adam, &t->model.parameters, t->parallel, rate_now(t));
    }
    return loss;
}

static struct checkpoint checkpoint_of(struct trainer *t)
{
    float *moments = t->adam.moments;
    return (struct checkpoint){.parameters = &t->model.parameters,
                               .state = {moments, moments + t->model.parameters.floats},
                               .step = t->adam.step};
}

void trainer_load(struct trainer *t)
{
    struct checkpoint c = checkpoint_of(t);
    checkpoint_load(t->parallel, t->options->checkpoint, &t->model.shape, &c);
    t->adam.step = c.step;
}

static void save(struct trainer *t)
{
    const struct checkpoint c = checkpoint_of(t);
    checkpoint_save(t->parallel, t->options->checkpoint, &t->model.shape, &c);
}

static bool is_time_to_save(const struct trainer *t)
{
    const int64_t step = t->adam.step;
    return t->options->checkpoint && (step % t->options->save_every == 0 || step == t->steps);
}

/* With --kill: the rank ends in the step, and the others wait for its part of a sum. */
static void maybe_die(const struct trainer *t)
{
    const struct options *o = t->options;
    tutti_group *world = t->parallel->world;
    if (t->adam.step + 1 == o->at && tutti_group_global_rank(world, t->parallel->rank) == o->kill) {
        raise(SIGKILL);
    }
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
    if (t->options->survive && first == 0) {
        save(t); /* so that there is one from the first step on */
    }
    while (t->adam.step < t->steps && p->status == TUTTI_OK) {
        maybe_die(t);
        const double loss = trainer_step(t);
        if (p->status != TUTTI_OK) {
            return;
        }
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
        if (is_time_to_save(t)) {
            save(t);
        }
    }
}

/* The options of a training that goes on are those of its checkpoint where none are given. */
static void check_options(tutti_group *world, struct options *o)
{
    int64_t step = 0;
    if (!o->checkpoint && (o->resume || o->survive)) {
        input_check(world, "--resume and --survive need --checkpoint FILE");
    }
    if (o->resume && !o->shape_given) {
        checkpoint_shape(world, o->checkpoint, &o->shape, &step);
    }
    o->tensor = o->tensor > 0 ? o->tensor : tutti_group_size(world);
    o->steps = o->steps > 0 ? o->steps : STEPS;
}

int train_command(tutti_group *world, const struct options *options)
{
    struct options o = *options;
    struct text text = {0};
    char why[512] = "";
    check_options(world, &o);
    if (text_read(&text, o.text ? o.text : TRAIN_TEXT, why, sizeof(why))) {
        train_check(&o, tutti_group_size(world), o.tensor, &text, why, sizeof(why));
    }
    input_check(world, why);

    struct parallel p;
    struct trainer t;
    progress bar;
    parallel_open(&p, world, o.tensor, o.sequence);
    parallel_must(&p);
    trainer_open(&t, &p, &o, &text);
    if (o.resume) {
        trainer_load(&t);
        parallel_must(&p);
    }
    if (p.rank == 0) {
        printf("%lld parameters, %zu bytes of text, %d x %d ranks (tensor x data%s, backend %s), from step %lld\n",
               (long long)shape_parameters(&o.shape), text.count, p.tensor_ranks, p.data_ranks,
               o.sequence ? ", sequence-parallel" : "", tutti_group_backend(world), (long long)t.adam.step);
    }
    progress_begin(&bar, o.terminal, p.rank != 0, "");
    train(&t, &bar, NULL);
    while (p.status != TUTTI_OK && o.survive) {
        survive(&t, &o, world);
        train(&t, &bar, NULL);
    }
    progress_end(&bar);
    parallel_must(&p);
    trainer_close(&t);
    parallel_close(&p);
    if (p.world != world) {
        tutti_group_destroy(p.world, NULL);
    }
    text_free(&text);
    return 0;
}
