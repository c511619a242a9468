/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared-memory engine: every collective and message between ranks that can read each other's segments, be they
 * threads (local) or processes (shm). A backend provides the memory; the engine never maps or opens anything.
 */
#ifndef TTI_ENGINE_H
#define TTI_ENGINE_H

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
    bool threads; /* ranks are threads of one process: private futexes                              */
    bool direct;  /* and their buffers are read and written where they lie, without staging windows */
    tti_commit_function commit;
    tti_populate_function populate; /* may be NULL */
    void *commit_user;              /* of both */
    int64_t spin_ns;                /* -1 = by the number of ranks per CPU */
    int64_t yield_ns;               /* -1 = likewise                       */
    int64_t sleep_ns;      /* bound of one sleep; 0 = 5 ms. Longer ones let a test see a lost wake-up as a hang */
    struct tti_heap *heap; /* of this group: its members are the ranks (heap.h); NULL = there is none. Not copied. */
};

/* Fills the header of the own segment, before the others look at it. */
void tti_engine_segment_init(unsigned char *segment, const struct tti_layout *layout, int rank, uint64_t nonce);

/* Whether a peer's segment is what it should be: PROTOCOL or VERSION with the reason otherwise. */
tutti_status tti_engine_segment_check(const unsigned char *segment, const struct tti_layout *layout, int rank,
                                      uint64_t nonce, tutti_error *error);

tutti_status tti_engine_create(const struct tti_engine_options *options, struct tti_engine **engine,
                               tutti_error *error);

/* Tells the others that this rank has left: whoever still needs it gets PEER_LEFT. */
void tti_engine_leave(struct tti_engine *engine);

/* Leaves, and frees the private part. The segments stay the backend's. */
void tti_engine_destroy(struct tti_engine *engine);

/* The functions behind tutti_backend_ops of the same names. */
const char *tti_engine_supports(const struct tti_engine *engine, const tutti_op *op);
tutti_status tti_engine_run(struct tti_engine *engine, tutti_op *op, tutti_error *error);
int32_t tti_engine_start(struct tti_engine *engine, tutti_op *op);
int32_t tti_engine_poll(struct tti_engine *engine, const tutti_op *op);
tutti_status tti_engine_finish(struct tti_engine *engine, tutti_op *op, tutti_error *error);
void tti_engine_abort(struct tti_engine *engine, int32_t lane, const tutti_error *cause);
size_t tti_engine_describe(struct tti_engine *engine, char *text, size_t capacity);
const char *tti_engine_algorithm(const struct tti_engine *engine, int32_t lane);
tutti_status tti_engine_failure(struct tti_engine *engine, tutti_error *error);

/* Whether no collective of this rank still uses what it may have found in the heap before that withdrawal (engine/memory/heap.h). Messages
 * are another matter: p2p_use.h. Any thread. */
bool tti_engine_heap_quiescent(const struct tti_engine *engine, uint64_t withdrawal);

#endif
