/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer that is measured alternately with Tutti: another library from a plug-in file (peer.h), or a second group in
 * the same job with settings of its own.
 */
#ifndef TOOLS_BENCH_BESIDE_BESIDE_H
#define TOOLS_BENCH_BESIDE_BESIDE_H

#include "bench/bench.h"
#include "bench/beside/peer.h"
#include "bench/measure/collectives.h"

#define TTI_BESIDE_OWN "tutti" /* the name of the second group */

struct tti_beside {
    char name[64];
    char label[256];      /* of its rows: the name; for a group of Tutti's with a colon and the settings */
    const char *settings; /* "" = none */
    char version[192];
    struct tti_bench view; /* the run, with the memory, data and group that this one uses */
    bool is_tutti;         /* view.group is its own, and there is no peer */
    bool is_open;
    bool heap;                         /* its buffers lie in the heap */
    const struct tti_bench_peer *peer; /* of the plug-in file */
    struct tti_bench_peer_job job;     /* what the plug-in sees */
    void *session;
    bool too_slow;     /* its call of this collective took so long that larger ones are left out */
    bool slow_barrier; /* it takes too long to be run before each call */
};

/* Opens the peer that b->options->beside names, as b->beside. Collective. If that fails on one rank, the rank prints
 * the reason, and the result is false on every rank. */
bool tti_beside_open(struct tti_bench *b);
/* Closes b->beside, if there is one. Collective. */
void tti_beside_close(struct tti_bench *b);
/* Turns to b->collective: makes the data. False when memory is exhausted. */
bool tti_beside_prepare(struct tti_bench *b);
/* Gives the data back. */
void tti_beside_release(struct tti_bench *b);
/* Whether it has a native call for b->collective with so many elements. The same on every rank. */
bool tti_beside_supports(const struct tti_beside *beside, int64_t count, bool in_place);
/* On failure call->error, or error, has the details. */
tutti_status tti_beside_call(const struct tti_beside *beside, struct tti_bench_tensors *t, int64_t count, bool in_place,
                             const tutti_call *call);
tutti_status tti_beside_barrier(const struct tti_beside *beside, tutti_error *error);

#endif
