/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each engine has a group of its own in the same processes, and all engines take the same weights. They decode some
 * tokens in turn, round by round, so a machine that changes meanwhile changes for all.
 *
 * In each collective the rank that comes last waits for no other, so the least time of all ranks is what the engine
 * takes: the communication. The rest of the mean is waiting for the slower rank, which a faster engine does not
 * shorten. Beside them stands the time in which all ranks read their weights once and do nothing else: no decoder that
 * reads all weights for each token is faster.
 */
#include "decode.h"

#include "common/common.h"
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS 16

/* Cuts the list at its commas. False if it is too long. */
static bool parse_engines(struct settings *s, char *list)
{
    char *rest = list;
    for (char *name; (name = strsep(&rest, ",")) != NULL;) {
        if (s->engine_count == ENGINES_MOST) {
            return false;
        }
        s->engines[s->engine_count++] = name;
    }
    return true;
}

static void check_input(tutti_group *world, struct settings *s, char *engines)
{
    char why[512] = "";
    if (!parse_engines(s, engines)) {
        snprintf(why, sizeof(why), "--engines takes %d engines at most", ENGINES_MOST);
    } else if (s->position + s->tokens + ENGINE_WARM_UP > s->shape.context) {
        snprintf(why, sizeof(why), "position %d and %d tokens are more than the context of %d", s->position,
                 s->tokens + ENGINE_WARM_UP, s->shape.context);
    } else {
        shape_check(&s->shape, tutti_group_size(world), why, sizeof(why));
    }
    input_check(world, why);
}

static void wait_for_all(tutti_group *world)
{
    tutti_error error;
    must(tutti_barrier(world, TUTTI_CALL(.error = &error)), &error);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Value number `index` of `of` equal parts of the sorted values. */
static double quantile(double *values, int64_t count, int64_t index, int64_t of)
{
    qsort(values, (size_t)count, sizeof(*values), by_size);
    return values[(count - 1) * index / of];
}

/* The mean of each value over the ranks of the group. */
static void average(tutti_group *group, double *values, int64_t count)
{
    tutti_error error;
    DLTensor tensor = tutti_tensor_1d(values, &count, TUTTI_F64);
    must(tutti_all_reduce(group, &tensor, &tensor, TUTTI_AVG, TUTTI_CALL(.error = &error)), &error);
}

/* Medians over the tokens, in us. */
struct times {
    double token, low, high, communication, waiting;
};

/* The times of an engine on its rank 0; on the others the last two are undefined. */
static struct times times_of(struct engine *e, const struct settings *s)
{
    const int64_t tokens = (int64_t)s->rounds * s->tokens;
    const int64_t calls = decoder_calls(e->decoder);
    const int64_t count = tokens * calls;
    double *sums = allocate(2 * (size_t)tokens, sizeof(double));
    double *least = sums + tokens;
    tutti_error error;
    for (int64_t i = 0; i < count; i++) {
        sums[i / calls] += 1e6 * e->calls[i];
    }
    average(e->group, sums, tokens);
    DLTensor tensor = tutti_tensor_1d(e->calls, &count, TUTTI_F64);
    must(tutti_all_reduce(e->group, &tensor, &tensor, TUTTI_MIN, TUTTI_CALL(.error = &error)), &error);
    for (int64_t i = 0; i < count; i++) {
        least[i / calls] += 1e6 * e->calls[i];
    }
    for (int64_t i = 0; i < tokens; i++) {
        sums[i] -= least[i];
    }
    const struct times t = {.token = quantile(e->us, tokens, 1, 2),
                            .low = quantile(e->us, tokens, 1, 10),
                            .high = quantile(e->us, tokens, 9, 10),
                            .communication = quantile(least, tokens, 1, 2),
                            .waiting = quantile(sums, tokens, 1, 2)};
    free(sums);
    return t;
}

static void print_row(const struct engine *e, const struct settings *s, const struct times *t, double read_us)
{
    const struct shape *shape = &s->shape;
    printf("%s,%d,%d,%s,%d,%s,%s,%.1f,%.1f,%.1f,%.1f,%.1f,%d,%zu,%zu,%.1f\n", s->shape_name, shape->layers,
           shape->hidden, s->bf16 ? "bf16" : "f32", e->parallel.ranks, e->name, tutti_group_backend(e->group), t->token,
           t->low, t->high, t->communication, t->waiting, 2 * shape->layers + 1, (size_t)shape->hidden * sizeof(float),
           decoder_bytes(e->decoder), read_us);
}

static void print_line(const struct engine *e, const struct times *t, double read_us, double alone_us)
{
    printf("%-8s %-6s %2d ranks: %8.3f ms a token (%.3f to %.3f), %6.1f tokens/s, communication %5.1f us = %4.1f %%, "
           "waiting for the slower rank %4.1f %%, reading %.0f MB of weights alone %.3f ms",
           e->name, tutti_group_backend(e->group), e->parallel.ranks, t->token / 1e3, t->low / 1e3, t->high / 1e3,
           1e6 / t->token, t->communication, 100 * t->communication / t->token, 100 * t->waiting / t->token,
           (double)decoder_bytes(e->decoder) / 1e6, read_us / 1e3);
    printf(alone_us > 0 ? "; %.2f times as fast as one\n" : "\n", alone_us / t->token);
}

/* Seconds in which this rank reads its weights; all that take part read at once. */
static double read_weights(const struct engine *e)
{
    const double begin = seconds_now();
    decoder_read(e->decoder);
    return seconds_now() - begin;
}

static void measure(tutti_group *world, const struct settings *s, struct engine *engines)
{
    const int32_t rank = tutti_group_rank(world);
    double *read_us = allocate((size_t)(s->engine_count * s->rounds), sizeof(double));
    for (int32_t round = 0; round < s->rounds; round++) {
        for (int32_t i = 0; i < s->engine_count; i++) {
            wait_for_all(world);
            if (engines[i].group) {
                read_us[i * s->rounds + round] = 1e6 * read_weights(&engines[i]);
                engine_round(&engines[i], s, round);
            }
        }
    }
    if (rank == 0 && s->csv) {
        puts("shape,layers,hidden,weights,ranks,engine,backend,token_us,low_us,high_us,communication_us,waiting_us,"
             "all_reduces,all_reduce_bytes,weight_bytes,read_us");
    } else if (rank == 0) {
        printf("%s: %d layers, hidden %d, %s\n", s->shape_name, s->shape.layers, s->shape.hidden,
               s->bf16 ? "bf16" : "f32");
    }
    double alone_us = 0;
    for (int32_t i = 0; i < s->engine_count; i++) {
        wait_for_all(world); /* ranks that do not take part wait for those that do */
        if (engines[i].group) {
            average(engines[i].group, read_us + i * s->rounds, s->rounds);
            const struct times t = times_of(&engines[i], s);
            const double read = quantile(read_us + i * s->rounds, s->rounds, 1, 2);
            if (engines[i].parallel.rank == 0 && s->csv) {
                print_row(&engines[i], s, &t, read);
            } else if (engines[i].parallel.rank == 0) {
                print_line(&engines[i], &t, read, alone_us);
            }
            alone_us = strcmp(engines[i].name, "one") == 0 ? t.token : alone_us;
        }
    }
    free(read_us);
}

int decode_command(tutti_group *world, const struct options *o)
{
    struct settings s = {.shape = o->shape,
                         .shape_name = o->shape_name,
                         .rounds = o->rounds,
                         .tokens = o->tokens ? o->tokens : TOKENS,
                         .position = o->position,
                         .bf16 = strcmp(o->weights, "bf16") == 0,
                         .csv = o->csv};
    char *list = strdup(o->engines ? o->engines : "one,auto");
    struct engine engines[ENGINES_MOST] = {0};
    struct part split;
    struct part whole;
    const int32_t rank = tutti_group_rank(world);
    check_input(world, &s, list);
    bool alone = false;
    for (int32_t i = 0; i < s.engine_count; i++) {
        alone = alone || (rank == 0 && strcmp(s.engines[i], "one") == 0);
    }
    part_open(&split, &s, rank, tutti_group_size(world));
    if (alone) {
        part_open(&whole, &s, 0, 1);
    }
    for (int32_t i = 0; i < s.engine_count; i++) {
        engine_open(&engines[i], s.engines[i], world, &s, &split, &whole);
    }
    measure(world, &s, engines);
    wait_for_all(world);
    for (int32_t i = 0; i < s.engine_count; i++) {
        engine_close(&engines[i]);
    }
    part_close(&split);
    if (alone) {
        part_close(&whole);
    }
    free(list);
    return 0;
}
