/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Engine "one" is rank 0 alone with the whole model, while the other ranks sleep. Engine "heap" is the default one,
 * with the summed vector in memory of tutti_alloc. Other names are those of backends. Some tokens before a round are
 * not measured: they wake threads and fill caches.
 */
#include "engine.h"

#include "common/common.h"

#include <stdlib.h>
#include <string.h>

void part_open(struct part *part, const struct settings *s, int32_t rank, int32_t ranks)
{
    parameters_create(&part->parameters, &s->shape, rank, ranks);
    parameters_allocate(&part->parameters, false);
    parameters_randomize(&part->parameters, 1);
    decoder_open(&part->decoder, &s->shape, &part->parameters, NULL, s->bf16);
}

void part_close(struct part *part)
{
    decoder_close(&part->decoder);
    parameters_free(&part->parameters);
}

void engine_open(struct engine *e, const char *name, tutti_group *world, const struct settings *s, struct part *split,
                 struct part *whole)
{
    const bool alone = strcmp(name, "one") == 0;
    const bool heap = strcmp(name, "heap") == 0;
    const int32_t rank = tutti_group_rank(world);
    tutti_error error;
    *e = (struct engine){.name = name, .decoder = alone ? &whole->decoder : &split->decoder};
    e->us = allocate((size_t)(s->rounds * s->tokens), sizeof(double));
    e->calls = allocate((size_t)s->rounds * (size_t)s->tokens * (size_t)decoder_calls(&split->decoder), sizeof(double));
    must(tutti_group_split(world, alone && rank > 0 ? -1 : 0, rank,
                           TUTTI_CONFIG(.backend = alone || heap ? NULL : name), &e->group, &error),
         &error);
    if (!e->group) {
        return;
    }
    parallel_open(&e->parallel, e->group, tutti_group_size(e->group), false);
    parallel_must(&e->parallel);
    if (heap) {
        void *memory;
        must(tutti_alloc(e->parallel.tensor, (size_t)s->shape.hidden * sizeof(float), &memory, &error), &error);
        e->sum = memory;
    }
}

void engine_close(struct engine *e)
{
    tutti_error error;
    if (e->group) {
        must(tutti_free(e->parallel.tensor, e->sum, &error), &error);
        parallel_close(&e->parallel);
        must(tutti_group_destroy(e->group, &error), &error);
    }
    free(e->us);
    free(e->calls);
}

void engine_round(struct engine *e, const struct settings *s, int32_t round)
{
    struct decoder *d = e->decoder;
    float *own = d->sum;
    int32_t token = 0;
    d->parallel = &e->parallel;
    d->sum = e->sum ? e->sum : own;
    for (int32_t n = -ENGINE_WARM_UP; n < s->tokens; n++) {
        const int32_t position = s->position + ENGINE_WARM_UP + n;
        const double begin = seconds_now();
        d->calls = n < 0 ? NULL : e->calls + (int64_t)(round * s->tokens + n) * decoder_calls(d);
        d->call = 0;
        decoder_step(d, token, position);
        token = decoder_choose(d, s->shape.vocabulary, 0, 0, position);
        if (n >= 0) {
            e->us[round * s->tokens + n] = 1e6 * (seconds_now() - begin);
        }
    }
    parallel_must(&e->parallel);
    d->sum = own;
    d->calls = NULL;
}
