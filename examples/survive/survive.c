/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training that outlives its ranks. Every rank holds the parameters, and in each step computes the gradient over its
 * part of the samples; an all_reduce adds the parts up. When a rank dies, the others make a group of those that are
 * left, divide the samples again, and go on from the last step that all of them have finished. The sum runs over all
 * samples however many ranks there are, so the model comes out as if nothing had happened.
 *
 *     tutti run -n 4 --keep-going -- survive --kill 2 --at 100
 */
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#define FEATURES   16
#define SAMPLES    2048
#define RATE       0.1f
#define SHRINK_MS  60000
#define CLOSE_TO   1e-3f /* of the true parameters */
#define SUM_VALUES (FEATURES + 1)

struct options {
    int kill; /* rank of the world that dies, -1 = none */
    int at;   /* in this step */
    int steps;
};

/* What a rank knows: the parameters after `step` steps, and those before the last one. Another rank may be one step
 * behind. */
struct state {
    int64_t step;
    float now[FEATURES];
    float before[FEATURES];
};

static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / (float)(1 << 23) - 1.0f;
}

static float truth(int i)
{
    return (float)(i % 5) - 2.0f;
}

/* Adds one sample's part to the gradient, and its squared error behind it. */
static void add_sample(const struct state *s, uint32_t sample, float *sum)
{
    float x[FEATURES];
    float wanted = 0;
    float error = 0;
    uint32_t seed = sample * 2654435761u + 1;
    for (int i = 0; i < FEATURES; i++) {
        x[i] = noise(&seed);
        wanted += truth(i) * x[i];
        error += s->now[i] * x[i];
    }
    error -= wanted;
    for (int i = 0; i < FEATURES; i++) {
        sum[i] += error * x[i];
    }
    sum[FEATURES] += error * error;
}

/* One step of the group. If it fails, the parameters are as before. */
static tutti_status train_step(tutti_group *g, struct state *s, const struct options *o, float *loss,
                               tutti_error *error)
{
    float sum[SUM_VALUES] = {0};
    const int64_t count = SUM_VALUES;
    DLTensor tensor = tutti_tensor_1d(sum, &count, TUTTI_F32);
    const uint32_t ranks = (uint32_t)tutti_group_size(g);
    for (uint32_t i = (uint32_t)tutti_group_rank(g); i < SAMPLES; i += ranks) {
        add_sample(s, i, sum);
    }
    if (s->step + 1 == o->at && tutti_group_global_rank(g, tutti_group_rank(g)) == o->kill) {
        raise(SIGKILL); /* in the middle of a step: the others wait for this rank's part */
    }
    tutti_status status = tutti_all_reduce(g, &tensor, &tensor, TUTTI_SUM, TUTTI_CALL(.error = error));
    if (status != TUTTI_OK) {
        return status;
    }
    memcpy(s->before, s->now, sizeof(s->before));
    for (int i = 0; i < FEATURES; i++) {
        s->now[i] -= RATE * sum[i] / SAMPLES;
    }
    s->step++;
    *loss = sum[FEATURES] / SAMPLES;
    return TUTTI_OK;
}

static tutti_status lowest(tutti_group *g, int64_t *value, tutti_error *error)
{
    const int64_t count = 1;
    DLTensor tensor = tutti_tensor_1d(value, &count, TUTTI_I64);
    return tutti_all_reduce(g, &tensor, &tensor, TUTTI_MIN, TUTTI_CALL(.error = error));
}

/* Replaces the group by the survivors', and goes back to the last step that all of them have finished. That may fail
 * because one more rank dies: then the new group is the one to be replaced. */
static tutti_status recover(tutti_group **g, struct state *s, tutti_error *error)
{
    tutti_group *rest = NULL;
    int64_t step = s->step;
    printf("step %d: %s\n", (int)s->step + 1, error->message);
    tutti_status status = tutti_group_shrink(*g, SHRINK_MS, &rest, error);
    if (status != TUTTI_OK) {
        return status;
    }
    tutti_group_destroy(*g, NULL);
    *g = rest;
    if (lowest(rest, &step, error) != TUTTI_OK) {
        return recover(g, s, error);
    }
    if (step < s->step) {
        memcpy(s->now, s->before, sizeof(s->now));
        s->step = step;
    }
    printf("%d ranks go on from step %d\n", tutti_group_size(rest), (int)s->step);
    return TUTTI_OK;
}

/* The parameters must be those that were looked for, and the same bits on all ranks. */
static int verify(tutti_group *g, const struct state *s, tutti_error *error)
{
    float low[FEATURES];
    float high[FEATURES];
    const int64_t count = FEATURES;
    DLTensor lows = tutti_tensor_1d(low, &count, TUTTI_F32);
    DLTensor highs = tutti_tensor_1d(high, &count, TUTTI_F32);
    memcpy(low, s->now, sizeof(low));
    memcpy(high, s->now, sizeof(high));
    if (tutti_all_reduce(g, &lows, &lows, TUTTI_MIN, TUTTI_CALL(.error = error)) != TUTTI_OK ||
        tutti_all_reduce(g, &highs, &highs, TUTTI_MAX, TUTTI_CALL(.error = error)) != TUTTI_OK) {
        fprintf(stderr, "%s\n", error->message);
        return 0;
    }
    for (int i = 0; i < FEATURES; i++) {
        if (low[i] != high[i] || fabsf(s->now[i] - truth(i)) > CLOSE_TO) {
            fprintf(stderr, "parameter %d is %g (from %g to %g), not %g\n", i, (double)s->now[i], (double)low[i],
                    (double)high[i], (double)truth(i));
            return 0;
        }
    }
    return 1;
}

static int train(tutti_group **g, const struct options *o, tutti_error *error)
{
    struct state s = {.step = 0};
    float loss = 0;
    while (s.step < o->steps) {
        if (train_step(*g, &s, o, &loss, error) != TUTTI_OK && recover(g, &s, error) != TUTTI_OK) {
            fprintf(stderr, "%s\n", error->message);
            return 0;
        }
    }
    if (!verify(*g, &s, error)) {
        return 0;
    }
    if (tutti_group_rank(*g) == 0) {
        printf("%d steps on %d ranks at the end: loss %.3g, and the same parameters everywhere\n", o->steps,
               tutti_group_size(*g), (double)loss);
    }
    return 1;
}

static void parse(int argc, char **argv, struct options *o)
{
    static const char usage[] = "usage: survive [--steps N] [--kill RANK --at STEP]\n";
    static const struct option known[] = {{"kill", required_argument, NULL, 'k'},
                                          {"at", required_argument, NULL, 'a'},
                                          {"steps", required_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    for (int c = 0; (c = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        int *value = c == 'k' ? &o->kill : c == 'a' ? &o->at : c == 's' ? &o->steps : NULL;
        if (!value) {
            fputs(usage, c == 'h' ? stdout : stderr);
            exit(c == 'h' ? 0 : 2);
        }
        *value = (int)strtol(optarg, NULL, 10);
    }
    if (optind < argc) {
        fputs(usage, stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct options o = {.kill = -1, .at = -1, .steps = 400};
    tutti_group *g = NULL;
    tutti_error error;
    parse(argc, argv, &o);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a rank that is killed has said what it has said */
    if (tutti_init(NULL, &g, &error) != TUTTI_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    const int well = train(&g, &o, &error);
    return tutti_finalize(NULL) == TUTTI_OK && well ? 0 : 1;
}
