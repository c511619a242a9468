/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame around every public operation: find the group, check the call options, run, complete the error, call back.
 *
 *     struct tti_call c;
 *     tutti_status status = tti_call_begin(&c, group, TUTTI_OP_BARRIER, false, call);
 *     if (status != TUTTI_OK) return status;                     (begin has completed everything)
 *     if (bad) return tti_call_end(&c, tti_error_set(c.error, TUTTI_INVALID_ARGUMENT, "..."));
 *     ... run it ...
 *     return tti_call_end(&c, status);
 */
#ifndef TTI_CORE_CALL_CALL_H
#define TTI_CORE_CALL_CALL_H

#include <stdbool.h>
#include <tutti/backend.h>

struct tti_group;

struct tti_call {
    struct tti_group *group;
    tutti_error *error; /* the caller's, or own_error */
    tutti_operation operation;
    bool async;
    int32_t rank; /* own rank and size of the group, for the checks */
    int32_t group_size;
    DLDevice device;
    bool on_host;       /* the library's own: its tensors lie in host memory, wherever the group's do */
    tutti_call options; /* a checked copy: lane in range, timeout resolved (-1 or > 0), scale never 0 */
    int64_t sequence;
    tutti_error own_error; /* not initialised */
};

/* Copies a struct of this, an older or a newer header. Fields that `from` does not have keep their values in `to`.
 * False: no header has a struct of that `size`. */
bool tti_call_options_copy(tutti_call *to, const tutti_call *from);

/* INVALID_ARGUMENT for such a size, in *error; if the size is 0, in the error of the call options, too. */
tutti_status tti_call_options_refuse(const tutti_call *from, const char *function, tutti_error *error);

/* Takes a reference on the group and checks `options`. On failure the error is complete, no reference is held, and the
 * caller returns the status as it is. */
tutti_status tti_call_begin(struct tti_call *c, tutti_group *group, tutti_operation operation, bool async,
                            const tutti_call *options);

/* For functions that take a tutti_error instead of a tutti_call (probe, batch_begin). */
tutti_status tti_call_begin_plain(struct tti_call *c, tutti_group *group, tutti_operation operation,
                                  tutti_error *error);

/* The state of a thread that every call reads. The initial-exec model makes it one load. It works although a program
 * may open the library late, since glibc keeps room for so few bytes. */
#if defined(__GLIBC__)
#define TTI_TLS __attribute__((tls_model("initial-exec")))
#else
#define TTI_TLS
#endif

struct tti_thread {
    /* Callbacks and batches that the thread is in. Nearly always 0, and then a call skips the checks for them. */
    unsigned open_scopes;
    struct tti_cached_call *cached_calls; /* see cache/entry.h */
};
extern _Thread_local struct tti_thread tti_thread TTI_TLS;

/* True inside a callback of this group, on its thread: waiting for the group there could never end. */
bool tti_in_callback(const struct tti_group *group);
bool tti_in_callback_of(const void *subject);

/* Around a callback: a group runs one at a time, and the thread records that it is in one. */
struct tti_callback_frame {
    const struct tti_group *group;
    const void *subject; /* the work that has ended, NULL for a synchronous call */
    const struct tti_callback_frame *outer;
};
bool tti_in_any_callback(void);

/* The end of a work that a callback has completed. It calls back itself, and inside a callback of another group it
 * could deadlock on the callback locks. So the thread keeps it until its outermost callback has returned. */
struct tti_deferred {
    struct tti_deferred *next;
    void (*run)(struct tti_deferred *deferred);       /* waits for the callback lock of the work's group */
    void (*hand_over)(struct tti_deferred *deferred); /* has a thread of this group run it; does not wait */
};
void tti_callbacks_defer(struct tti_deferred *deferred);               /* in a callback only */
bool tti_callbacks_have_deferred(const struct tti_deferred *deferred); /* this thread must not wait for it */

/* Both run what callbacks on this thread have deferred, and have no effect inside a callback. A thread of the
 * application that is in no lane runs it itself. A thread that runs a lane or messages hands it over: a callback of the
 * other group may hold the lock and wait for this thread. */
void tti_callbacks_run_deferred(void);
void tti_callbacks_hand_over_deferred(void);

void tti_callbacks_begin(struct tti_callback_frame *frame, struct tti_group *group, const void *subject);
void tti_callbacks_end(const struct tti_callback_frame *frame, struct tti_group *group);

/* The status of a message before it runs. One that the backend does not run keeps it, so it is not delivered. */
#define TTI_NOT_RUN (-1)

/* Starts sends and receives together and waits for all of them; one op is a plain send or receive. */
tutti_status tti_call_run_p2p(struct tti_call *c, tutti_op *const *ops, size_t count);

/* Fills in the call: operation, rank, backend, sequence number, deadline. */
void tti_call_complete_error(struct tti_call *c);
void tti_call_describe(tutti_error *error, const struct tti_group *group, const tutti_op *op);

/* Completes the error, calls the callback, gives the reference on the group back. */
tutti_status tti_call_end(struct tti_call *c, tutti_status status);

#endif
