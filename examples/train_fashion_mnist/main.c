/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trains a small network on Fashion-MNIST on several ranks and proves that it did it right:
 *
 *     tutti run -n 2 -- train_fashion_mnist
 *
 * Exit status 0 means: test accuracy of at least 0.87, bit-identical replicas, and the same losses and parameters as
 * one rank alone.
 */
#include "common/common.h"
#include "data.h"
#include "model.h"
#include "train.h"
#include "verify.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACCURACY_WANTED 0.87

typedef struct settings {
    train_options train;
    const char *backend;
    const char *data;
    const char *terminal;
    bool compare;
    bool measure;
} settings;

static const char help[] =
    "Usage: tutti run -n RANKS -- train_fashion_mnist [OPTION]...\n"
    "Trains a 784-256-128-10 network on Fashion-MNIST, data-parallel over all ranks.\n"
    "\n"
    "  --epochs N       passes over the training images (default 5)\n"
    "  --batch N        images per step, all ranks together (default 256)\n"
    "  --lr X           learning rate at the beginning; it falls to 0 (default 0.05)\n"
    "  --seed N         of parameters and of the order of images (default 1)\n"
    "  --wire TYPE      how gradients travel: full, bf16, half of the bytes, or fp8, a quarter (default full)\n"
    "  --backend NAME   shm, mpi, ... (default: what fits, or TUTTI_BACKEND)\n"
    "  --data DIR       where the data set lies (default " DATA_DEFAULT ")\n"
    "  --terminal DEV   draw the progress bar on this terminal (default: standard output if it is one)\n"
    "  --no-compare     do not repeat the training on one rank for comparison\n"
    "  --measure        do not train; measure a step, and computing and summing gradients alone\n"
    "  --help           print this and stop\n";

static long long whole_number(const char *option, const char *text, long long least, long long most)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) {
        refuse("--%s takes a number from %lld to %lld, not \"%s\"", option, least, most, text);
    }
    return value;
}

static double learning_rate(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value <= 0 || value > 10) {
        refuse("--lr takes a number above 0 and up to 10, not \"%s\"", text);
    }
    return value;
}

static tutti_wire wire_named(const char *text)
{
    static const char *const names[] = {
        [TUTTI_WIRE_FULL] = "full", [TUTTI_WIRE_BF16] = "bf16", [TUTTI_WIRE_FP8] = "fp8"};
    for (tutti_wire wire = 0; wire < (tutti_wire)(sizeof(names) / sizeof(names[0])); wire++) {
        if (strcmp(text, names[wire]) == 0) {
            return wire;
        }
    }
    refuse("--wire takes full, bf16 or fp8, not \"%s\"", text);
}

static settings parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"epochs", required_argument, NULL, 'e'}, {"batch", required_argument, NULL, 'b'},
        {"lr", required_argument, NULL, 'l'},     {"seed", required_argument, NULL, 's'},
        {"wire", required_argument, NULL, 'w'},   {"backend", required_argument, NULL, 'k'},
        {"data", required_argument, NULL, 'd'},   {"terminal", required_argument, NULL, 't'},
        {"no-compare", no_argument, NULL, 'n'},   {"measure", no_argument, NULL, 'm'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    settings s = {.train = {.epochs = 5, .batch = 256, .rate = 0.05, .seed = 1}, .data = DATA_DEFAULT, .compare = true};
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'e':
            s.train.epochs = (int)whole_number("epochs", optarg, 1, 1000);
            break;
        case 'b':
            s.train.batch = (int)whole_number("batch", optarg, 1, 60000);
            break;
        case 'l':
            s.train.rate = learning_rate(optarg);
            break;
        case 's':
            s.train.seed = (uint64_t)whole_number("seed", optarg, 0, INT64_MAX);
            break;
        case 'w':
            s.train.wire = wire_named(optarg);
            break;
        case 'k':
            s.backend = optarg;
            break;
        case 'd':
            s.data = optarg;
            break;
        case 't':
            s.terminal = optarg;
            break;
        case 'n':
            s.compare = false;
            break;
        case 'm':
            s.measure = true;
            break;
        case 'h':
            fputs(help, stdout);
            exit(0);
        default:
            refuse("Try --help.");
        }
    }
    if (optind < argc) {
        refuse("unexpected argument \"%s\"; try --help", argv[optind]);
    }
    return s;
}

/* Every rank reads the data set. If that fails somewhere, the lowest rank where it did says why, and all stop. */
static void load(tutti_group *world, const char *directory, dataset *training, dataset *test)
{
    char why[4352];
    const int32_t rank = tutti_group_rank(world);
    bool good = dataset_load(training, directory, "train", why, sizeof(why)) &&
                dataset_load(test, directory, "t10k", why, sizeof(why));
    int32_t first_failure = good ? tutti_group_size(world) : rank;
    tutti_error error;
    int64_t one = 1;
    DLTensor lowest = tutti_tensor_1d(&first_failure, &one, TUTTI_I32);
    must(tutti_all_reduce(world, &lowest, &lowest, TUTTI_MIN, TUTTI_CALL(.error = &error)), &error);
    if (first_failure == rank) {
        fprintf(stderr, "%s\n", why);
    }
    if (first_failure < tutti_group_size(world)) {
        /* The launcher ends all ranks when one ends, so no rank ends before the reason is printed. */
        must(tutti_barrier(world, TUTTI_CALL(.error = &error)), &error);
        exit(1);
    }
}

/* How much of the sums is hidden behind the computation. */
static int measure(tutti_group *world, dataset *training, dataset *test, const train_options *o)
{
    model m;
    step_times t;
    tutti_error error;
    model_create(&m, o->batch);
    model_randomize(&m, o->seed);
    measure_step(world, training, &m, o, &t);
    if (tutti_group_rank(world) == 0) {
        printf("step %.2f ms, computing alone %.2f ms, gradients alone %.2f ms\n", 1000 * t.whole, 1000 * t.computing,
               1000 * t.gradients);
    }
    model_free(&m);
    dataset_free(training);
    dataset_free(test);
    must(tutti_group_destroy(world, &error), &error);
    must(tutti_finalize(&error), &error);
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    settings s = parse(argc, argv);

    tutti_group *world;
    tutti_error error;
    must(tutti_init(TUTTI_CONFIG(.backend = s.backend), &world, &error), &error);
    const int32_t rank = tutti_group_rank(world);
    const int32_t ranks = tutti_group_size(world);

    dataset training;
    dataset test;
    load(world, s.data, &training, &test);
    if (s.measure) {
        return measure(world, &training, &test, &s.train);
    }

    model m;
    progress bar;
    train_result result;
    model_create(&m, s.train.batch);
    model_randomize(&m, s.train.seed);
    if (rank == 0) {
        printf("%zu parameters, %lld training images, batch %d on %d rank%s (backend %s)\n", m.count,
               (long long)training.count, s.train.batch, ranks, ranks == 1 ? "" : "s", tutti_group_backend(world));
    }
    progress_begin(&bar, s.terminal, rank != 0, "");
    train(world, &training, &m, &s.train, &bar, &result);
    progress_end(&bar);

    double right = accuracy(world, &test, &m);
    if (rank == 0) {
        printf("trained in %.1f s: %.0f images/s, %.1f%% of the time waiting for gradients\n", result.seconds,
               (double)training.count * s.train.epochs / result.seconds, 100 * result.waiting / result.seconds);
        printf("test accuracy %.4f\n", right);
    }
    bool identical = verify_replicas(world, &m);
    bool same = !s.compare || verify_against_one_rank(world, &training, &s.train, s.terminal, &result);

    free(result.losses);
    free(result.first_epoch);
    model_free(&m);
    dataset_free(&training);
    dataset_free(&test);
    must(tutti_group_destroy(world, &error), &error);
    must(tutti_finalize(&error), &error);

    if (rank == 0 && right < ACCURACY_WANTED) {
        fail("FAILED: test accuracy %.4f is below %.2f", right, ACCURACY_WANTED);
    }
    if (rank == 0 && !identical) {
        fail("FAILED: the replicas are not bit-identical");
    }
    if (rank == 0 && !same) {
        fail("FAILED: training on %d ranks differs from training on one", ranks);
    }
    return 0;
}
