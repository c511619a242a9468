/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines over plain memory, so that a test can play a rank, look into segments and write what a corrupt peer would. */
#ifndef TESTS_UNIT_ENGINE_ENGINE_SUPPORT_H
#define TESTS_UNIT_ENGINE_ENGINE_SUPPORT_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/arrival/arrival.h"
#include "engine/arrival/attributes.h"
#include "engine/engine.h"
#include "engine/failure/fault.h"
#include "engine/lane.h"
#include "engine/memory/stage.h"
#include "engine/p2p/types.h"
#include "engine/run.h"
#include "time_limits.h"
#include "unit/engine/built_in_tuning.h"

#define RANKS_MAX 8
#define NONCE     42

struct cluster {
    struct tti_layout layout;
    unsigned char *memory;
    size_t bytes;
    unsigned char *segments[RANKS_MAX];
    unsigned char *doorbell;
    struct tti_engine *engines[RANKS_MAX];
};

struct waiting {
    int64_t spin_ns;
    int64_t yield_ns;
    int64_t sleep_ns;
};

static inline size_t pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* Returns 0 on success. */
static inline int cluster_open_tuned(struct cluster *c, int size, int lanes, struct tti_tuning tuning,
                                     struct waiting waiting)
{
    memset(c, 0, sizeof(*c));
    if (size > RANKS_MAX) {
        return 1;
    }
    c->layout = tti_layout_make(size, lanes, tuning.stage, tuning.stage_far, tuning.stage_small);
    c->bytes = pages(c->layout.doorbell_bytes) + (size_t)size * pages(c->layout.segment_bytes);
    c->memory = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->memory == MAP_FAILED) {
        return 1;
    }
    c->doorbell = c->memory;
    for (int r = 0; r < size; r++) {
        c->segments[r] = c->memory + pages(c->layout.doorbell_bytes) + (size_t)r * pages(c->layout.segment_bytes);
        tti_engine_segment_init(c->segments[r], &c->layout, r, NONCE);
    }
    for (int r = 0; r < size; r++) {
        struct tti_engine_options o = {.rank = r,
                                       .layout = c->layout,
                                       .tuning = tuning,
                                       .segments = c->segments,
                                       .doorbell = c->doorbell,
                                       .threads = true,
                                       .spin_ns = waiting.spin_ns,
                                       .yield_ns = waiting.yield_ns,
                                       .sleep_ns = waiting.sleep_ns};
        tutti_error e;
        if (tti_engine_create(&o, &c->engines[r], &e) != TUTTI_OK) {
            return 1;
        }
    }
    return 0;
}

static inline int cluster_open(struct cluster *c, int size, int lanes, size_t window, struct waiting waiting)
{
    struct tti_tuning_overrides wishes = no_overrides;
    wishes.window = (int64_t)window;
    struct tti_tuning tuning = built_in_tuning(size, &wishes);
    return cluster_open_tuned(c, size, lanes, tuning, waiting);
}

static inline void cluster_close(struct cluster *c)
{
    for (int r = 0; r < c->layout.size; r++) {
        if (c->engines[r]->p2p->open_recvs != 0) {
            fprintf(stderr, "rank %d counts receives that have ended\n", r);
            abort();
        }
        tti_engine_destroy(c->engines[r]);
    }
    munmap(c->memory, c->bytes);
}

/* A rank's thread: returns the number of faults. */
typedef int (*rank_body)(struct cluster *c, int rank);

struct rank_start {
    struct cluster *cluster;
    int rank;
    rank_body body;
    int failures;
};

static inline void *rank_main(void *argument)
{
    struct rank_start *s = argument;
    s->failures = s->body(s->cluster, s->rank);
    return NULL;
}

static inline int cluster_run(struct cluster *c, rank_body body)
{
    pthread_t threads[RANKS_MAX];
    struct rank_start starts[RANKS_MAX];
    int failures = 0;
    for (int r = 0; r < c->layout.size; r++) {
        starts[r] = (struct rank_start){.cluster = c, .rank = r, .body = body};
        if (pthread_create(&threads[r], NULL, rank_main, &starts[r]) != 0) {
            abort();
        }
    }
    for (int r = 0; r < c->layout.size; r++) {
        pthread_join(threads[r], NULL);
        failures += starts[r].failures;
    }
    return failures;
}

static inline tutti_op op_of(tutti_operation kind, const void *src, void *dst, size_t count, int32_t root)
{
    return (tutti_op){.size = sizeof(tutti_op),
                      .kind = kind,
                      .dtype = TUTTI_I32,
                      .redop = TUTTI_SUM,
                      .root = root,
                      .src = src,
                      .dst = dst,
                      .count = count,
                      .scale = 1,
                      .timeout_ms = TUTTI_FOREVER};
}

/* False, with the reason on stdout, if the kernel does not copy between processes. */
static inline bool kernel_copies(void)
{
    char word = 0;
    const char here = 1;
    const struct iovec to = {.iov_base = &word, .iov_len = 1};
    const struct iovec from = {.iov_base = (void *)(uintptr_t)&here, .iov_len = 1};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1) {
        return true;
    }
    printf("skipped: the kernel does not copy between processes here\n");
    return false;
}

#endif
