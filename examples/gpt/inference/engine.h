/* SPDX-License-Identifier: BSD-3-Clause */
/* An engine in the decode benchmark: a group over a backend, which decodes with weights that all engines share. */
#ifndef EXAMPLES_GPT_INFERENCE_ENGINE_H
#define EXAMPLES_GPT_INFERENCE_ENGINE_H

#include "decoder.h"

#define ENGINES_MOST   8
#define ENGINE_WARM_UP 2 /* tokens before each round */

/* What is measured. */
struct settings {
    struct shape shape;
    const char *shape_name;
    int32_t rounds;
    int32_t tokens; /* of each engine in each round */
    int32_t position;
    bool bf16;
    bool csv;
    int32_t engine_count;
    const char *engines[ENGINES_MOST];
};

struct engine {
    const char *name;
    tutti_group *group; /* NULL: this rank does not take part */
    struct parallel parallel;
    struct decoder *decoder;
    float *sum;    /* memory of tutti_alloc; NULL: the decoder's own */
    double *us;    /* of each token */
    double *calls; /* seconds of each collective of each token */
};

/* The weights of this rank, as a rank of all or alone. */
struct part {
    struct parameters parameters;
    struct decoder decoder;
};

void part_open(struct part *part, const struct settings *s, int32_t rank, int32_t ranks);
void part_close(struct part *part);

/* Makes the group of the engine `name`. Collective. */
void engine_open(struct engine *e, const char *name, tutti_group *world, const struct settings *s, struct part *split,
                 struct part *whole);
void engine_close(struct engine *e);

/* Decodes the tokens of a round. A token ends on all ranks at once: with the exchange of their candidates. */
void engine_round(struct engine *e, const struct settings *s, int32_t round);

#endif
