/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The logits of all ranks are gathered on rank 0, which repeats the text in a group of its own while the others wait:
 * one token after the other with the tokens that the ranks have drawn, and the first positions all at once by the model
 * that trains. The first shows that the split changes nothing, the second that the cache of keys does not.
 */
#include "check.h"

#include "common/common.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double larger(double worst, double a, double b)
{
    const double difference = fabs(a - b);
    return difference <= worst ? worst : difference; /* NaN counts as the largest of all */
}

/* Rank 0 alone reads the same tokens. Returns the largest difference to the gathered logits, and counts the tokens that
 * it would have drawn otherwise. */
static double compare_with_one_rank(struct decoder *alone, const struct options *o, const struct sequence *split,
                                    const float *logits, int32_t *others)
{
    struct sequence s = {.tokens = allocate((size_t)split->count, sizeof(int32_t))};
    double worst = 0;
    sequence_read_prompt(alone, &s, o->prompt);
    for (int32_t n = 0; n < o->tokens; n++) {
        sequence_read_last(alone, &s);
        for (int64_t row = 0; row < alone->head.rows; row++) {
            worst = larger(worst, (double)alone->logits[row], (double)logits[row * o->tokens + n]);
        }
        const int32_t drawn = split->tokens[s.count];
        *others += sequence_choose(alone, o, &s) != drawn;
        s.tokens[s.count++] = drawn;
    }
    free(s.tokens);
    return worst;
}

/* The model that trains reads the first tokens at once, as many as its context takes. */
static double compare_with_training(const struct decoder *alone, const struct options *o, const struct sequence *split,
                                    const float *logits)
{
    const int32_t context = alone->shape.context;
    const int64_t prompt = split->count - o->tokens;
    int32_t *tokens = allocate((size_t)context, sizeof(*tokens));
    struct model m;
    double worst = 0;
    memcpy(tokens, split->tokens, (size_t)(split->count < context ? split->count : context) * sizeof(*tokens));
    model_create(&m, &alone->shape, alone->parallel, 1);
    memcpy(m.parameters.values, alone->parameters->values, (size_t)m.parameters.floats * sizeof(float));
    model_forward(&m, tokens);
    for (int64_t n = 0; n < o->tokens && prompt + n <= context; n++) {
        for (int64_t row = 0; row < alone->head.rows; row++) {
            worst = larger(worst, (double)m.logits[(prompt + n - 1) * alone->head.rows + row],
                           (double)logits[row * o->tokens + n]);
        }
    }
    model_free(&m);
    free(tokens);
    return worst;
}

static bool compare(struct parallel *p, const struct options *o, const struct shape *shape, const struct sequence *s,
                    const float *logits)
{
    tutti_group *group;
    struct parallel one;
    struct parameters list;
    struct decoder alone;
    tutti_error error;
    int32_t others = 0;
    must(tutti_group_create(p->world, (const int32_t[]){0}, 1, NULL, &group, &error), &error);
    parallel_open(&one, group, 1, false);
    parallel_must(&one);
    generate_open(&alone, &list, &one, o, shape);
    const double split = compare_with_one_rank(&alone, o, s, logits, &others);
    printf("check: the logits of %d ranks and of 1 rank differ by at most %.1e; of %d tokens %d differ\n", p->ranks,
           split, o->tokens, others);
    double training = 0;
    if (!alone.head.bf16) { /* the training has no rounded weights */
        training = compare_with_training(&alone, o, s, logits);
        printf("check: the logits with a cache and those of the training differ by at most %.1e\n", training);
    }
    decoder_close(&alone);
    parameters_free(&list);
    parallel_close(&one);
    must(tutti_group_destroy(group, &error), &error);
    const bool good = split <= CHECK_BOUND && training <= CHECK_BOUND;
    printf("check: %s the bound %.0e\n", good ? "within" : "OUTSIDE", CHECK_BOUND);
    return good;
}

bool check_text(struct decoder *d, const struct options *o, const struct sequence *s, float *history)
{
    struct parallel *p = d->parallel;
    const int64_t vocabulary = d->shape.vocabulary;
    float *logits = p->rank == 0 ? allocate((size_t)(vocabulary * o->tokens), sizeof(float)) : NULL;
    tensor_gather(p, history, logits, vocabulary, o->tokens, 0);
    parallel_must(p);
    float failed = logits && !compare(p, o, &d->shape, s, logits) ? 1 : 0;
    free(logits);
    tensor_all_reduce(p, &failed, 1, TUTTI_MAX);
    parallel_must(p);
    return failed == 0;
}
