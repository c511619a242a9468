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
#include "engine/tuning/tuning.h"

struct tti_engine;
struct tti_heap;

/* Makes a range of the own segment usable without a later SIGBUS. NO_MEMORY if it cannot be had. NULL = always usable. */
typedef tutti_status (*tti_commit_function)(void *user, size_t offset, size_t bytes);

/* Gets page tables ready for reading a range of a peer's segment, so that the first use does not fault page by page. */
typedef void (*tti_populate_function)(void *user, int rank, size_t offset, size_t bytes);

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
tutti_status tti_engine_post_p2p(struct tti_engine *engine, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                 void **batch, tutti_error *error);
int32_t tti_engine_test_p2p(struct tti_engine *engine, void *batch);
void tti_engine_attend_p2p(struct tti_engine *engine, void *batch, int64_t until_ns);
void tti_engine_wake_p2p(struct tti_engine *engine);
int32_t tti_engine_cancel_p2p(struct tti_engine *engine, void *batch);
tutti_status tti_engine_end_p2p(struct tti_engine *engine, void *batch, tutti_error *error);
tutti_status tti_engine_run_p2p(struct tti_engine *engine, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                tutti_error *error);
tutti_status tti_engine_probe(struct tti_engine *engine, int32_t peer, int32_t tag, int32_t *found,
                              tutti_message *message, tutti_error *error);
size_t tti_engine_describe(struct tti_engine *engine, char *text, size_t capacity);
const char *tti_engine_algorithm(const struct tti_engine *engine, int32_t lane);
tutti_status tti_engine_failure(struct tti_engine *engine, tutti_error *error);

/* Whether no collective of this rank still uses what it may have found in the heap before that withdrawal (engine/memory/heap.h). Messages
 * are another matter: p2p_use.h. Any thread. */
bool tti_engine_heap_quiescent(const struct tti_engine *engine, uint64_t withdrawal);

#endif
