/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the backends nccl and rccl share.
 *
 * A group has a communicator of the library and a stream of the device for each lane. The library allows one thread at a
 * time in a communicator, and its functions return before their work is done (from 2.14 on before it has even begun), so
 * everything is a short visit: tti_nccl_comm_acquire, one function, tti_nccl_await_launch. Between visits nothing is held, and whoever
 * finds that the group has failed takes the communicators away, and aborts each in a thread of its own, since that may hang.
 */
#ifndef TTI_BACKENDS_NCCL_STATE_H
#define TTI_BACKENDS_NCCL_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tutti/backend.h>

#include "backends/nccl/library.h"

/* How long the end of a communicator may take before it is left to itself, and a polite one before it is forced. */
#define TTI_NCCL_TEARDOWN_NS INT64_C(2000000000)

struct tti_nccl_lane {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    tti_nccl_comm comm;     /* under the lock; NULL: there is none (any more) */
    bool inside;            /* likewise: a thread is in the library with it */
    bool ending;            /* likewise: a thread of its own is about to end it */
    bool lost;              /* likewise: a thread never came out of the library, so it stays */
    /* The rest is used by the thread that runs the lane. */
    void *stream;
    void *event;
    void *word; /* of the device: what a barrier reduces */
    unsigned char *scratch;
    size_t scratch_bytes;
    void *outgrown[64]; /* scratch memory of before, each at least twice as large as the last */
    int32_t outgrown_count;
    bool held;             /* what is queued on the stream has not ended after a failure, so that stays, too */
    _Atomic int64_t calls; /* relaxed: for the lane's owner and for people */
    _Atomic(const char *) algorithm; /* relaxed: static text */
};

struct tti_nccl_heap;

struct tti_nccl_group {
    const struct tti_nccl_library *library;
    const struct tti_device *device;
    int32_t index; /* of the device */
    int32_t rank;
    int32_t size;
    int32_t lanes;
    int64_t timeout_ms;
    bool nonblocking;
    bool native_min_max;        /* of floats, too: it drops NaNs */
    char name[96];              /* of the device */
    char ignored_settings[512]; /* what was asked for and this version cannot do, for people */
    struct tti_nccl_heap *heap;
    const tutti_wait_registry *wait_registry; /* NULL: nobody can be asked */
    _Atomic int32_t failed; /* a status; release by whoever has written the cause, acquire by whoever reads it */
    pthread_mutex_t lock;   /* the cause */
    tutti_error cause;
    int64_t failed_ns;
    struct tti_nccl_group *next_leaked;
    struct tti_nccl_lane lane[TUTTI_MAX_LANES];
};

/* One collective. */
struct tti_nccl_call {
    struct tti_nccl_group *group;
    struct tti_nccl_lane *lane;
    tutti_op *op;
    tutti_error *error;
    int64_t started_ns;
    int64_t deadline_ns;
    int64_t notify_ns; /* when the other ranks are told that this one waits */
    bool notified;
};

/* ---- open.c ---- */

tutti_status tti_nccl_open(const char *backend, const tutti_open_info *info, void **state, tutti_error *error);
size_t tti_nccl_describe(void *state, char *text, size_t capacity);

/* ---- communicator.c ---- */

/* A communicator for each lane, with the ids that rank 0 has given out. What there is of them after an error is the
 * group's. */
tutti_status tti_nccl_connect(struct tti_nccl_group *g, const tutti_open_info *info, const tti_nccl_id *ids,
                              int64_t deadline_ns, tutti_error *error);

/* ---- run.c ---- */

tutti_status tti_nccl_run(void *state, tutti_op *op, tutti_error *error);
/* The lane's communicator, with this thread the only one in it; NULL with the error if the group has failed. */
tti_nccl_comm tti_nccl_comm_acquire(struct tti_nccl_group *g, struct tti_nccl_lane *lane, tutti_error *error);
void tti_nccl_comm_release(struct tti_nccl_lane *lane);
/* The same after `what` ("AllReduce") has returned `code`; waits until it is launched. */
tutti_status tti_nccl_await_launch(struct tti_nccl_call *c, tti_nccl_comm comm, int code, const char *what);
/* At least so many bytes of the device, the lane's own; NULL with the error. */
unsigned char *tti_nccl_scratch(struct tti_nccl_call *c, size_t bytes);

/* How a wait spends its time: spins, yields, naps. True now and then: time to look at the clock, too. */
struct tti_nccl_backoff {
    uint32_t polls;
    bool background;
};
bool tti_nccl_backoff_step(struct tti_nccl_backoff *backoff);

/* ---- types.c ---- */

const char *tti_nccl_supports(void *state, const tutti_op *op);
/* How the library does a reduction that is supported. PREMUL_SUM has an operation of its own, which is made here and
 * destroyed by tti_nccl_fold_end; both inside. Returns the library's code. */
struct tti_nccl_fold {
    int type;
    int op;
    bool made;
};
int tti_nccl_fold_begin(const struct tti_nccl_call *c, tti_nccl_comm comm, struct tti_nccl_fold *fold);
int tti_nccl_fold_end(const struct tti_nccl_call *c, tti_nccl_comm comm, const struct tti_nccl_fold *fold);

/* ---- collectives.c ---- */

/* Queues the operation on the lane's stream. */
tutti_status tti_nccl_queue(struct tti_nccl_call *c);

/* ---- parts.c ---- */

/* A part of a joined tensor; a walk over all of them starts with zero and tti_nccl_part_next. */
struct tti_nccl_part {
    size_t at;      /* its first byte, in every row */
    size_t width;   /* bytes in every row */
    size_t bytes;   /* in all rows */
    size_t packed;  /* its first byte when the parts follow one another, each of them compact */
    size_t follows; /* where the next one is if there are no displacements */
    int32_t next;   /* rank */
};
void tti_nccl_part_next(const tutti_parts *parts, struct tti_nccl_part *part);
void tti_nccl_part_of(const tutti_parts *parts, int32_t rank, struct tti_nccl_part *part);
size_t tti_nccl_parts_bytes(const tutti_parts *parts, int32_t size);

/* All parts have one length and lie one behind the other; in rows, perhaps. */
static inline bool tti_nccl_parts_plain(const tutti_parts *parts)
{
    return !parts->counts && !parts->displacements;
}

/* Each part is one piece. */
static inline bool tti_nccl_parts_whole(const tutti_parts *parts)
{
    return parts->outer <= 1;
}

/* Where a part is: in `packed`, where they follow one another, or in the joined tensor if that is NULL. */
static inline unsigned char *tti_nccl_part_place(const void *joined, unsigned char *packed,
                                                 const struct tti_nccl_part *part)
{
    return packed ? packed + part->packed : (unsigned char *)joined + part->at;
}

/* Queue copies of all parts out of, or into, the joined tensor; `except` (a rank, or -1) is left out. */
tutti_status tti_nccl_pack(struct tti_nccl_call *c, unsigned char *packed, const void *joined,
                           const tutti_parts *parts);
tutti_status tti_nccl_unpack(struct tti_nccl_call *c, void *joined, const tutti_parts *parts,
                             const unsigned char *packed, int32_t except);
/* One part, compact, out of or into the joined tensor. Nothing if it is there already. */
tutti_status tti_nccl_part_out(struct tti_nccl_call *c, void *compact, const void *joined, const tutti_parts *parts,
                               int32_t rank);
tutti_status tti_nccl_part_in(struct tti_nccl_call *c, void *joined, const tutti_parts *parts, int32_t rank,
                              const void *compact);
/* The part of one joined tensor that belongs into another. */
tutti_status tti_nccl_part_across(struct tti_nccl_call *c, void *to, const tutti_parts *to_parts, const void *from,
                                  const tutti_parts *from_parts, int32_t rank);

/* ---- failure.c ---- */

/* Fails the group, unless it has: its communicators are taken away and aborted. Does not wait. */
void tti_nccl_fail(struct tti_nccl_group *g, const tutti_error *cause);
/* OK, or REVOKED with the cause. */
tutti_status tti_nccl_check(struct tti_nccl_group *g, tutti_error *error);
tutti_status tti_nccl_failure(void *state, tutti_error *error);
void tti_nccl_abort(void *state, int32_t lane, const tutti_error *cause);
/* After a call has ended with the error: fails the group, and waits (not for long) until the device no longer touches the
 * call's memory. Inside the device's scope. */
void tti_nccl_abort_call(struct tti_nccl_call *c, tutti_status status);
/* The library's words for a code. Inside, or `comm` NULL. */
void tti_nccl_error_text(const struct tti_nccl_library *library, tti_nccl_comm comm, int code, char text[256]);
/* BACKEND with the code. */
tutti_status tti_nccl_error(const struct tti_nccl_library *library, tti_nccl_comm comm, int code, const char *what,
                            tutti_error *error);

/* ---- close.c ---- */

/* Starts to end the lane's communicator in a thread of its own: by itself (politely) or at once. */
void tti_nccl_comm_end(struct tti_nccl_group *g, struct tti_nccl_lane *lane, bool graceful);
/* Waits for that; false if it has not ended at the deadline. */
bool tti_nccl_comm_await_end(struct tti_nccl_lane *lane, int64_t deadline_ns);
void tti_nccl_close(void *state);

/* ---- memory.c ---- */

struct tti_nccl_heap *tti_nccl_heap_open(struct tti_nccl_group *g, const tutti_open_info *info);
/* Before the communicators end: nothing of the heap is registered with them any more. */
void tti_nccl_heap_leave(struct tti_nccl_group *g);
/* Frees the memory with the last group that shares it. Inside the device's scope. */
void tti_nccl_heap_close(struct tti_nccl_heap *heap);
bool tti_nccl_has_heap(const struct tti_nccl_library *library);
tutti_status tti_nccl_alloc(void *state, size_t bytes, const tutti_exchange *exchange, void **memory,
                            tutti_error *error);
tutti_status tti_nccl_release(void *state, void *memory, tutti_error *error);
tutti_status tti_nccl_register(void *state, void *memory, size_t bytes, const tutti_exchange *exchange,
                               tutti_error *error);
tutti_status tti_nccl_unregister(void *state, void *memory, const tutti_exchange *exchange, tutti_error *error);

#endif
