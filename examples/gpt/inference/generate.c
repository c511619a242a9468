/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text, one token after the other. All ranks draw the same token, and rank 0 prints it as soon as its character is
 * complete. Positions end at the model's context; then the second half of the text so far is read again from position
 * 0, which costs half a token more for each one.
 *
 * Any number of ranks gives the same text, unless two tokens are as probable as one another up to CHECK_BOUND: sums of
 * f32 over more ranks have another order. --check (check.h) compares every logit with those of one rank.
 */
#include "generate.h"

#include "check.h"
#include "checkpoint.h"
#include "common/common.h"
#include "decoder.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS 400

/* The characters that are complete. */
struct printer {
    FILE *out; /* NULL: this rank prints nothing */
    uint8_t bytes[4];
    size_t count;
};

/* Bytes that are no UTF-8, which a model may write, appear as question marks. */
static void print_token(struct printer *p, int32_t token)
{
    if (!p->out) {
        return;
    }
    p->bytes[p->count++] = (uint8_t)token;
    const size_t length = text_utf8_length(p->bytes[0]);
    const bool valid = length > 0 && (p->count == 1 || (token & 0xc0) == 0x80);
    if (valid && p->count < length) {
        return;
    }
    if (valid && text_is_utf8(p->bytes, p->count)) {
        fwrite(p->bytes, 1, p->count, p->out);
    } else {
        fputc('?', p->out);
    }
    fflush(p->out);
    p->count = 0;
}

void sequence_read_last(struct decoder *d, struct sequence *s)
{
    if (s->count - s->start > d->shape.context) { /* all positions are used */
        s->start = s->count - d->shape.context / 2 - 1;
        for (int64_t i = s->start; i < s->count - 1; i++) {
            decoder_step(d, s->tokens[i], (int32_t)(i - s->start));
        }
    }
    decoder_step(d, s->tokens[s->count - 1], (int32_t)(s->count - 1 - s->start));
}

void sequence_read_prompt(struct decoder *d, struct sequence *s, const char *prompt)
{
    const int64_t length = (int64_t)strlen(prompt);
    for (int64_t i = 0; i < length; i++) {
        s->tokens[s->count++] = (uint8_t)prompt[i];
        if (i < length - 1) {
            sequence_read_last(d, s);
        }
    }
}

int32_t sequence_choose(struct decoder *d, const struct options *o, const struct sequence *s)
{
    return decoder_choose(d, TEXT_VOCABULARY, o->temperature, (uint64_t)o->seed, (int32_t)s->count);
}

/* Writes o->tokens tokens behind the prompt. `history` gets this rank's logits of each, a column a token; or NULL. */
static void generate(struct decoder *d, const struct options *o, struct sequence *s, struct printer *printer,
                     float *history)
{
    sequence_read_prompt(d, s, o->prompt);
    for (int32_t n = 0; n < o->tokens && d->parallel->status == TUTTI_OK; n++) {
        sequence_read_last(d, s);
        for (int64_t row = 0; history && row < d->head.rows; row++) {
            history[row * o->tokens + n] = d->logits[row];
        }
        s->tokens[s->count] = sequence_choose(d, o, s);
        print_token(printer, s->tokens[s->count++]);
    }
}

void generate_open(struct decoder *d, struct parameters *list, struct parallel *p, const struct options *o,
                   const struct shape *shape)
{
    struct checkpoint c = {.parameters = list};
    parameters_create(list, shape, p->tensor_rank, p->tensor_ranks);
    parameters_allocate(list, false);
    checkpoint_load(p, o->checkpoint, shape, &c);
    parallel_must(p);
    decoder_open(d, shape, list, p, strcmp(o->weights, "bf16") == 0);
}

/* Whether there is a prompt and a model that these ranks can split. If not, `why` holds one sentence. */
static void check_input(tutti_group *world, const struct options *o, struct shape *shape)
{
    char why[512] = "";
    int64_t step;
    if (!o->checkpoint) {
        snprintf(why, sizeof(why), "gpt generate needs --checkpoint FILE; gpt train writes one");
    } else if (!o->prompt[0]) {
        snprintf(why, sizeof(why), "the prompt is empty");
    } else if (!text_is_utf8(o->prompt, strlen(o->prompt))) {
        snprintf(why, sizeof(why), "the prompt is not UTF-8");
    }
    input_check(world, why);
    checkpoint_shape(world, o->checkpoint, shape, &step);
    shape_check(shape, tutti_group_size(world), why, sizeof(why));
    input_check(world, why);
}

int generate_command(tutti_group *world, const struct options *options)
{
    struct options o = *options;
    struct parallel p;
    struct parameters list;
    struct decoder d;
    struct shape shape;
    o.tokens = o.tokens ? o.tokens : TOKENS;
    check_input(world, &o, &shape);
    parallel_open(&p, world, tutti_group_size(world), false);
    parallel_must(&p);
    generate_open(&d, &list, &p, &o, &shape);
    struct printer printer = {.out = p.rank != 0 ? NULL : o.terminal ? fopen(o.terminal, "w") : stdout};
    printer.out = p.rank == 0 && !printer.out ? stdout : printer.out;
    struct sequence s = {.tokens = allocate(strlen(o.prompt) + (size_t)o.tokens, sizeof(int32_t))};
    float *history = o.check ? allocate((size_t)(d.head.rows * o.tokens), sizeof(float)) : NULL;
    if (printer.out) {
        fputs(o.prompt, printer.out);
    }
    p.seconds = 0;
    const double begin = seconds_now();
    generate(&d, &o, &s, &printer, history);
    const double seconds = seconds_now() - begin;
    parallel_must(&p);
    if (printer.out) {
        fputc('\n', printer.out);
        fflush(printer.out);
        fprintf(stderr, "%d ranks, %s: %.1f tokens/s, %.1f %% of the time in communication\n", p.ranks,
                tutti_group_backend(world), (double)s.count / seconds, 100 * p.seconds / seconds);
    }
    const bool good = !o.check || check_text(&d, &o, &s, history);
    free(history);
    free(s.tokens);
    decoder_close(&d);
    parameters_free(&list);
    parallel_close(&p);
    return good ? 0 : 1;
}
