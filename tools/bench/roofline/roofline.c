/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The roofline of a row: the bytes that the busiest rank has to load and store in any algorithm, at the bandwidth
 * that plain loops reach over memory of the row's size and kind while every rank runs them. The loops run
 * over the row's own buffers, so they find the same caches, pages and neighbours.
 */
#include "bench/roofline/roofline.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "bench/measure/agree.h"
#include "bench/measure/collectives.h"
#include "kernels/kernels.h"

#define REPEATED    ((int64_t)1 << 20) /* smaller sizes are repeated up to this amount */
#define PASSES      2000               /* at most */
#define TRIALS      3
#define LARGE       ((int64_t)16 << 20)  /* from here on one trial is long enough */
#define WORKING_SET ((int64_t)128 << 20) /* larger sizes are in memory, too, and take longer */

/*
 * Bytes loaded and stored per rank, in units of n (the size of the row), m = n / ranks, and n * ranks; `copy` by loops
 * that copy, `fold` by loops that also reduce. Of several lines of a kind the least counts. `saved`: of m, where the
 * own part already lies where it belongs.
 *
 * Private memory: each rank copies what others need into memory that they see, and copies out what it needs. A two-shot
 * all_reduce: in 2(n-m); fold the own slice, n+m, and store it once more for the others, m; out 2(n-m). A reduce is the
 * same with only the root copying out, or the root alone folds what the others have copied in.
 *
 * Heap, and threads: everything is loaded and stored where it lies. All_reduce: each rank loads its slice of every
 * input and stores it into every output.
 */
struct traffic {
    tutti_operation kind;
    struct {
        int n, m;
    } copy;
    struct {
        int n, m, nr;
    } fold;
    int saved;
};

static const struct traffic private_memory[] = {
    {TUTTI_OP_ALL_REDUCE, {4, -4}, {1, 2, 0}, 0},     /* 5n - 2m */
    {TUTTI_OP_REDUCE, {0, 0}, {1, 0, 1}, 0},          /* (ranks + 1) n, at the root */
    {TUTTI_OP_REDUCE, {4, -4}, {1, 1, 0}, 0},         /* 5n - 3m, at the root */
    {TUTTI_OP_BROADCAST, {2, 0}, {0, 0, 0}, 0},       /* 2n */
    {TUTTI_OP_ALL_GATHER, {2, 1}, {0, 0, 0}, 1},      /* 2n + m */
    {TUTTI_OP_GATHER, {2, 0}, {0, 0, 0}, 2},          /* 2n, at the root */
    {TUTTI_OP_SCATTER, {2, 0}, {0, 0, 0}, 2},         /* 2n, at the root */
    {TUTTI_OP_REDUCE_SCATTER, {2, -2}, {1, 1, 0}, 0}, /* 3n - m */
    {TUTTI_OP_ALL_TO_ALL, {4, -2}, {0, 0, 0}, 0},     /* 4n - 2m */
    {TUTTI_OP_SEND, {4, 0}, {0, 0, 0}, 0},            /* 4n */
    {TUTTI_OP_NONE, {0, 0}, {0, 0, 0}, 0},
};

static const struct traffic shared_memory[] = {
    {TUTTI_OP_ALL_REDUCE, {0, 0}, {2, 0, 0}, 0},     /* 2n */
    {TUTTI_OP_REDUCE, {0, 0}, {1, 1, 0}, 0},         /* n + m */
    {TUTTI_OP_BROADCAST, {2, 0}, {0, 0, 0}, 0},      /* 2n, all but the root */
    {TUTTI_OP_ALL_GATHER, {2, 0}, {0, 0, 0}, 2},     /* 2n */
    {TUTTI_OP_GATHER, {0, 2}, {0, 0, 0}, 0},         /* 2m */
    {TUTTI_OP_SCATTER, {0, 2}, {0, 0, 0}, 0},        /* 2m */
    {TUTTI_OP_REDUCE_SCATTER, {0, 0}, {1, 1, 0}, 0}, /* n + m */
    {TUTTI_OP_ALL_TO_ALL, {2, 0}, {0, 0, 0}, 0},     /* 2n */
    {TUTTI_OP_SEND, {2, 0}, {0, 0, 0}, 0},           /* 2n */
    {TUTTI_OP_NONE, {0, 0}, {0, 0, 0}, 0},
};

enum loop { COPY, FOLD };

/* Both go from the left memory to the right one. The fold's sources are the two halves of the left one. */
static void run_loop(const struct tti_bench *b, enum loop loop, int64_t bytes, int passes)
{
    const size_t half = (size_t)bytes / 2 / sizeof(float);
    const void *sources[] = {b->left, b->left + half * sizeof(float)};
    const struct tti_fold fold = {.dtype = TUTTI_F32, .op = TUTTI_SUM};
    for (int i = 0; i < passes; i++) {
        if (loop == COPY) {
            memcpy(b->right, b->left, (size_t)bytes);
        } else {
            tti_fold(b->right, sources, 2, half, &fold);
        }
        __asm__ volatile("" ::: "memory"); /* each pass counts */
    }
}

/* The fastest trial; each lasts from a common start until the slowest rank has finished. */
static bool bandwidth(struct tti_bench *b, enum loop loop, int64_t bytes, double *bytes_per_ns)
{
    const int64_t wanted = REPEATED / bytes + 1;
    const int passes = (int)(wanted < PASSES ? wanted : PASSES);
    const int trials = bytes < LARGE ? TRIALS : 1;
    const double bytes_used = loop == COPY ? 2.0 * (double)bytes : 1.5 * (double)bytes;
    *bytes_per_ns = 0;
    for (int trial = 0; trial < trials; trial++) {
        int64_t start;
        if (!tti_bench_barrier(b, &start, false)) {
            return false;
        }
        run_loop(b, loop, bytes, passes);
        int64_t took = tti_now_ns() - start;
        if (!tti_bench_agree(b, &took, 1, TUTTI_MAX)) {
            return false;
        }
        const double seen = bytes_used * passes / (double)(took > 0 ? took : 1);
        *bytes_per_ns = seen > *bytes_per_ns ? seen : *bytes_per_ns;
    }
    return true;
}

/* From earlier measurements, else measured now. */
static bool look_up(struct tti_bench *b, int64_t bytes, struct tti_bandwidth *found)
{
    struct tti_roofline *r = b->roofline;
    bytes = bytes < WORKING_SET ? bytes : WORKING_SET;
    bytes = bytes < (int64_t)(2 * sizeof(float)) ? (int64_t)(2 * sizeof(float)) : bytes;
    for (int i = 0; i < r->count; i++) {
        if (r->sizes[i].bytes == bytes) {
            *found = r->sizes[i];
            return true;
        }
    }
    *found = (struct tti_bandwidth){.bytes = bytes};
    const bool good = bandwidth(b, COPY, bytes, &found->copy) && bandwidth(b, FOLD, bytes, &found->fold);
    if (good && r->count < TTI_ROOFLINE_SIZES) {
        r->sizes[r->count++] = *found;
    }
    return good;
}

static double time_us(const struct traffic *traffic, const struct tti_bandwidth *at, double n, int ranks, bool in_place)
{
    const double m = n / ranks;
    const double copy = traffic->copy.n * n + (traffic->copy.m - (in_place ? traffic->saved : 0)) * m;
    const double fold = traffic->fold.n * n + traffic->fold.m * m + traffic->fold.nr * n * ranks;
    return (copy / at->copy + fold / at->fold) / 1000;
}

bool tti_roofline_bound(struct tti_bench *b, int64_t bytes, bool in_place, double *us)
{
    const bool shared = b->options->heap || (tutti_group_capabilities(b->group) & TUTTI_CAP_ONE_PROCESS);
    struct tti_bandwidth at;
    *us = 0;
    if (bytes == 0 || b->size == 1) {
        return true;
    }
    if (!look_up(b, bytes, &at)) {
        return false;
    }
    for (const struct traffic *traffic = shared ? shared_memory : private_memory; traffic->kind != TUTTI_OP_NONE;
         traffic++) {
        if (traffic->kind == b->collective->kind) {
            const double needed = time_us(traffic, &at, (double)bytes, b->size, in_place);
            *us = *us == 0 || needed < *us ? needed : *us;
        }
    }
    return true;
}

void tti_roofline_raise_bound(const struct tti_bench *b, struct tti_bench_result *result)
{
    const bool all_wait = !(b->collective->traits & (TTI_BENCH_ROOT_INPUT | TTI_BENCH_ROOT_OUTPUT));
    const double *hop = result->hop_ns;
    const double least = (hop[0] < hop[1] || hop[1] == 0 ? hop[0] : hop[1]) / 1000;
    if (b->roofline && all_wait && least > result->bound_us) {
        result->bound_us = least;
    }
}

bool tti_roofline_open(struct tti_bench *b)
{
    b->roofline = calloc(1, sizeof(*b->roofline));
    int64_t failed = !b->roofline;
    if (!tti_bench_agree(b, &failed, 1, TUTTI_MAX)) {
        return false;
    }
    if (failed) {
        tti_error_set(&b->error, TUTTI_NO_MEMORY, "no memory for the roofline");
        return false;
    }
    const bool good = tti_bench_page_open(b, &b->roofline->page);
    tti_hop_open(b, &b->roofline->page, &b->roofline->hop);
    return good;
}

void tti_roofline_close(struct tti_bench *b)
{
    if (b->roofline) {
        tti_bench_page_close(&b->roofline->page);
        free(b->roofline);
        b->roofline = NULL;
    }
}

bool tti_roofline_hop(struct tti_bench *b, double *ns)
{
    return tti_hop_measure(b, &b->roofline->hop, ns);
}

const char *tti_roofline_hop_class(const double hop_ns[2])
{
    if (hop_ns[0] == 0 || hop_ns[1] == 0) {
        return "-";
    }
    const bool before = hop_ns[0] < TTI_ROOFLINE_NEAR_NS;
    const bool after = hop_ns[1] < TTI_ROOFLINE_NEAR_NS;
    if (before != after) {
        return "moved";
    }
    return before ? "near" : hop_ns[0] > TTI_ROOFLINE_SAME_NS && hop_ns[1] > TTI_ROOFLINE_SAME_NS ? "same" : "far";
}
