/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared-memory engine: collectives and messages between ranks that can read each other's segments. Ranks are
 * threads (backend local) or processes (backend shm). The backend provides the memory; the engine never maps or opens
 * anything.
 *
 * Life: each rank calls tti_engine_segment_init on its own segment, the ranks exchange segments, each calls
 * tti_engine_segment_check on its peers' segments, then tti_engine_create. tti_engine_destroy ends it.
 *
 * Folders, from bottom to top: wait, failure, memory, arrival, collectives; p2p beside the last two. engine.c, which
 * creates the engine, and run.c, which runs collectives, are on top.
 */
#ifndef TTI_ENGINE_ENGINE_H
#define TTI_ENGINE_ENGINE_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "engine/memory/layout.h"
#include "engine/p2p/messages.h"
#include "engine/tuning/tuning.h"

struct tti_engine;
struct tti_heap;

struct tti_engine_options {
    int rank;
    struct tti_layout layout;
    struct tti_tuning tuning;
    unsigned char *const *segments; /* size bases; the own one writable. Copied. */
    unsigned char *doorbell;
    bool threads; /* ranks are threads of one process: private futexes */
    bool direct;  /* and large calls read and write their tensors in place, without stages */
    tti_commit_function commit;
    tti_populate_function populate; /* may be NULL */
    void *commit_user;              /* for both */
    int64_t spin_ns;                /* -1 = by ranks per CPU: wait/policy.c */
    int64_t yield_ns;               /* -1 = the same */
    int64_t sleep_ns;      /* bound of one sleep; 0 = 5 ms. With a long one a test sees a lost wake-up as a hang */
    struct tti_heap *heap; /* of this group, with the ranks as members (heap.h); NULL = none. Not copied. */
    /* The engine of a group of the same processes, of which this group's ranks are covered_ranks[]. Then `segments` and
     * `doorbell` come later, by tti_engine_place. NULL = none. */
    const struct tti_engine *covering;
    const int32_t *covered_ranks;
};

/* Fills the header of the own segment, before peers read it. */
void tti_engine_segment_init(unsigned char *segment, const struct tti_layout *layout, int rank, uint64_t nonce);

/* Checks a peer's segment: PROTOCOL or VERSION with the reason if it is not of this group. */
tutti_status tti_engine_segment_check(const unsigned char *segment, const struct tti_layout *layout, int rank,
                                      uint64_t nonce, tutti_error *error);

tutti_status tti_engine_create(const struct tti_engine_options *options, struct tti_engine **engine,
                               tutti_error *error);

/* For an engine that was created with `covering`, once: hands in the memory and watches the peers. Cannot fail, so all
 * that can fail comes before a rank announces to its peers that it takes part. `covering` has to outlive this
 * engine. */
void tti_engine_place(struct tti_engine *engine, unsigned char *const *segments, unsigned char *doorbell,
                      struct tti_engine *covering);

/* This rank leaves: calls of peers that need it end with PEER_LEFT. */
void tti_engine_leave(struct tti_engine *engine);

/* Leaves, and frees the private state. The segments stay the backend's. */
void tti_engine_destroy(struct tti_engine *engine);

/* The functions behind the entries of tutti_backend_ops with the same names. run.h has those that run collectives,
 * p2p/messages.h those for messages. */
void tti_engine_abort(struct tti_engine *engine, int32_t lane, const tutti_error *cause);
size_t tti_engine_describe(struct tti_engine *engine, char *text, size_t capacity);
const char *tti_engine_algorithm(const struct tti_engine *engine, int32_t lane);
tutti_status tti_engine_failure(struct tti_engine *engine, tutti_error *error);

/* Whether no collective of this rank uses what it found in the heap before that withdrawal (memory/heap.h). For
 * messages see p2p/memory_use.h. Any thread. */
bool tti_engine_heap_quiescent(const struct tti_engine *engine, uint64_t withdrawal);

#endif
