/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gradients: for each parameter a step h to both sides along a random direction d of +1 and -1 must change the loss by
 * 2 h (gradient . d). This finds wrong, missing and doubled parts, and takes two passes a parameter, not two a number.
 * In a large matrix such a step is long, and the loss no longer a line along it, so only small models are checked.
 *
 * Losses: the same training on these ranks and on rank 0 alone. Sums run in another order, so their last bits differ.
 * Training at a moderate rate leaves it at that. At the edge of stability it amplifies any difference exponentially:
 * the shape "small" with 256 tokens a step stays within 1e-7 for 200 steps at a rate of 0.001, and ends at 1e-3 at
 * 0.003.
 */
#include "verify.h"

#include "common/common.h"
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIFFERENCE         3e-3f
#define LARGER             10     /* first values are that much larger, so that no gradient is lost in rounding */
#define GRADIENT_TOLERANCE 1e-2   /* of the gradient's length; measured: 2e-3 */
#define LOSS_TOLERANCE     1e-5   /* of the loss; measured: 3e-7              */
#define CHECKED_NUMBERS    100000 /* of a model whose gradients are checked */
#define TEXT_BYTES         20000
#define STEPS              200

/* Words in a random order: something to learn that needs no file. */
static void make_text(struct text *text)
{
    static const char *const words[] = {"all ",       "ranks ", "reduce ", "their ",
                                        "gradients ", "and ",   "then ",   "gather. "};
    text->bytes = allocate(TEXT_BYTES, 1);
    uint64_t seed = 1;
    while (text->count < TEXT_BYTES - 16) {
        const char *word = words[random_next(&seed) % 8];
        memcpy(text->bytes + text->count, word, strlen(word));
        text->count += strlen(word);
    }
}

/* The direction d at element e of this rank's part: +1 or -1 by its place in the whole matrix. */
static float direction(const struct parameters *p, const struct parameter *q, int64_t e)
{
    int64_t at[2] = {e / q->local[1], e % q->local[1]};
    if (q->split >= 0) {
        at[q->split] += p->rank * q->local[q->split];
    }
    uint64_t key = (uint64_t)(at[0] * q->shape[1] + at[1]);
    return random_next(&key) & 1 ? 1 : -1;
}

static void shift(const struct parameters *p, const struct parameter *q, float step)
{
    for (int64_t e = 0; e < q->local[0] * q->local[1]; e++) {
        q->value[e] += step * direction(p, q, e);
    }
}

/* gradient . d and the gradient's squared length, over all tensor-parallel ranks. */
static void slope_of(struct parallel *parallel, const struct parameters *p, const struct parameter *q, float *slope)
{
    slope[0] = 0;
    slope[1] = 0;
    for (int64_t e = 0; e < q->local[0] * q->local[1]; e++) {
        slope[0] += q->gradient[e] * direction(p, q, e);
        slope[1] += q->gradient[e] * q->gradient[e];
    }
    if (q->split >= 0) {
        tensor_all_reduce(parallel, slope, 2, TUTTI_SUM);
    }
}

static bool gradients_are_right(struct trainer *t)
{
    struct parallel *parallel = t->parallel;
    const struct parameters *p = &t->model.parameters;
    for (int64_t i = 0; i < p->floats; i++) {
        p->values[i] *= p->values[i] == 1 ? 1 : LARGER; /* not the norms' gains */
    }
    float *slopes = allocate((size_t)p->count * 2, sizeof(float));
    trainer_gradients(t);
    for (int32_t i = 0; i < p->count; i++) {
        slope_of(parallel, p, &p->list[i], slopes + 2 * i);
    }
    double worst = 0;
    const char *where = "";
    for (int32_t i = 0; i < p->count; i++) {
        const struct parameter *q = &p->list[i];
        shift(p, q, DIFFERENCE);
        const double above = trainer_gradients(t);
        shift(p, q, -2 * DIFFERENCE);
        const double below = trainer_gradients(t);
        shift(p, q, DIFFERENCE);
        const double measured = (above - below) / (2 * (double)DIFFERENCE);
        const double difference = fabs(measured - (double)slopes[2 * i]) / sqrt((double)slopes[2 * i + 1]);
        if (!(difference <= worst)) { /* also NaN */
            worst = difference;
            where = q->name;
        }
    }
    free(slopes);
    parallel_must(parallel);
    const bool good = worst <= GRADIENT_TOLERANCE;
    if (parallel->rank == 0) {
        printf("gradients: %d parameters, differ from finite differences by at most %.1e of their length (%s): %s\n",
               p->count, worst, where, good ? "right" : "WRONG");
    }
    return good;
}

static double *losses_of(struct parallel *parallel, const struct options *o, const struct text *text)
{
    struct trainer t;
    progress bar;
    double *losses = allocate((size_t)o->steps, sizeof(*losses));
    trainer_open(&t, parallel, o, text);
    progress_begin(&bar, o->terminal, parallel->rank != 0, parallel->ranks > 1 ? "" : "1 rank: ");
    train(&t, &bar, losses);
    progress_end(&bar);
    parallel_must(parallel);
    trainer_close(&t);
    return losses;
}

/* Rank 0 trains alone while the others wait. */
static bool losses_are_equal(struct parallel *parallel, const struct options *o, const struct text *text)
{
    bool good = true;
    tutti_error error;
    double *losses = losses_of(parallel, o, text);
    if (parallel->rank == 0) {
        tutti_group *alone;
        struct parallel one;
        must(tutti_group_create(parallel->world, (const int32_t[]){0}, 1, NULL, &alone, &error), &error);
        parallel_open(&one, alone, 1, false);
        double *expected = losses_of(&one, o, text);
        double worst = 0;
        int32_t where = 0;
        for (int32_t i = 0; i < o->steps; i++) {
            const double difference = fabs(losses[i] - expected[i]) / fabs(expected[i]);
            if (!(difference <= worst)) {
                worst = difference;
                where = i;
            }
        }
        good = worst <= LOSS_TOLERANCE && expected[o->steps - 1] <= expected[0];
        printf(
            "losses: %d steps on %d x %d ranks, from %.3f to %.3f, differ from one rank's by at most %.1e (step %d): "
            "%s\n",
            o->steps, parallel->tensor_ranks, parallel->data_ranks, losses[0], losses[o->steps - 1], worst, where + 1,
            good ? "equal within float tolerance" : "DIFFERENT");
        free(expected);
        parallel_close(&one);
        must(tutti_group_destroy(alone, &error), &error);
    }
    free(losses);
    must(tutti_barrier(parallel->world, TUTTI_CALL(.timeout_ms = 60 * 60 * 1000, .error = &error)), &error);
    return good;
}

int verify_command(tutti_group *world, const struct options *o)
{
    struct options own = *o;
    struct text text = {0};
    char why[512] = "";
    const int32_t ranks = tutti_group_size(world);
    const int32_t tensor = o->tensor > 0 ? o->tensor : ranks;
    own.steps = o->steps > 0 ? o->steps : STEPS;
    if (!o->text) {
        make_text(&text);
    }
    if (!o->text || text_read(&text, o->text, why, sizeof(why))) {
        why[0] = '\0'; /* a file of the folder may be no text */
        train_check(&own, ranks, tensor, &text, why, sizeof(why));
    }
    input_check(world, why);

    struct parallel p;
    bool right = true;
    parallel_open(&p, world, tensor, o->sequence);
    if (shape_parameters(&own.shape) <= CHECKED_NUMBERS) {
        struct trainer t;
        trainer_open(&t, &p, &own, &text);
        right = gradients_are_right(&t);
        trainer_close(&t);
    } else if (p.rank == 0) {
        printf("gradients: not checked, the model has more than %d parameters\n", CHECKED_NUMBERS);
    }
    const bool equal = losses_are_equal(&p, &own, &text);
    parallel_close(&p);
    text_free(&text);
    return right && equal ? 0 : 1;
}
