/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A double of libnccl.so.2 (and librccl.so.1): the same functions over the double of the driver, so that a backend for
 * NCCL runs between processes on a machine without a GPU. It refuses what the real library refuses, and hangs where the
 * real library hangs. README.md lists the orders of TUTTI_DOUBLE_NCCL.
 *
 * How it works: the ranks of a communicator find each other through the id (bootstrap.c) and share memory
 * (shared.h). Operations are checked on the caller's thread and collected into a batch (group.c); the batch is a
 * kernel on the stream. The kernel copies data through the shared memory (move.c, messages.c) and waits without
 * a deadline: only an abort ends it early.
 */
#ifndef TESTS_DOUBLES_NCCL_DOUBLE_H
#define TESTS_DOUBLES_NCCL_DOUBLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "abi.h"
#include "reduce.h"
#include "shared.h"

/* TTI_DOUBLE_LEVEL is the version of a library; TUTTI_DOUBLE_NCCL may set another. Only the sources that CMakeLists.txt
 * compiles for each library know it. */

enum tti_kind {
    TTI_ALL_REDUCE = 1,
    TTI_REDUCE,
    TTI_BROADCAST,
    TTI_ALL_GATHER,
    TTI_REDUCE_SCATTER,
    TTI_SEND, /* from here on: with one peer */
    TTI_RECV
};

/* The arguments of an operation. */
struct tti_task {
    struct tti_task *next;
    enum tti_kind kind;
    const void *send; /* device pointers */
    void *recv;
    size_t count;
    int type;
    struct tti_reduction reduction;
    int root; /* or the peer */
    void *stream;
    int fault; /* -1: none; 0: never done; else the error that the communicator is left with */
};

/* What RedOpCreatePreMulSum made. */
struct tti_custom_op {
    struct tti_custom_op *next;
    int number; /* unique in this process */
    int type;
    struct tti_reduction reduction;
};

/* What CommRegister made; its address is the handle. */
struct tti_registration {
    struct tti_registration *next;
    const void *memory;
    size_t bytes;
};

enum tti_state { TTI_COMM_LIVE = 1, TTI_COMM_DESTROYED };

/* A communicator, one rank of it. It is never freed, only emptied: so that a use after its end is noticed. */
struct ncclComm {
    struct ncclComm *chain; /* of all that were ever made; never changes */
    _Atomic uint32_t state;
    _Atomic uintptr_t inside; /* the thread that is in a call of it */
    int ordinal;              /* in this process, from 0, for the log */
    int rank;
    int ranks;
    int device;
    void *context;
    bool blocking;
    bool finalized; /* set at the call, before its effect */
    bool revoked;

    _Atomic uint32_t result;  /* the result of CommGetAsyncError on this rank */
    _Atomic uint32_t aborted; /* ends every wait */
    int abort_fd;             /* readable then */
    struct tti_shared *shared;

    pthread_mutex_t lock; /* protects the following ones; `changed` signals a change */
    pthread_cond_t changed;
    struct ncclComm *child; /* being made by a split: aborted with its parent */
    uint64_t launched;      /* batches given to streams */
    uint64_t served;        /* the batch that runs */
    uint64_t pending;       /* kernels that have not returned */
    uint32_t busy;          /* threads of the library at work for it */
    uint32_t polls;         /* of CommGetAsyncError while in progress */

    struct tti_custom_op *ops;
    struct tti_registration *registrations;
    struct tti_task *tasks; /* of the open group */
    struct tti_task **last_task;
    struct ncclComm *next_in_group;
    bool in_group;
};

/* ---- words.c: the orders of the environment ---- */

/* The version that GetVersion returns. */
int tti_version(void);
/* Called at the beginning of every function: logs and counts the call. Returns the result that the environment orders,
 * or ncclSuccess. `rank` is -1 before the communicator has one. */
ncclResult_t tti_count_call(const char *function, int rank, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Counts an operation; what tti_task.fault shall be. */
int tti_next_fault(int rank);
bool tti_abort_hangs(int rank);
bool tti_init_hangs(int rank);

/* ---- error.c ---- */

/* Stores the sentence for GetLastError (one per process, as NCCL does), and writes it to stderr if NCCL_DEBUG enables
 * warnings. Returns `result`. */
ncclResult_t tti_refuse(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A use that would destroy data or crash with the real library: reports it and ends the process. */
_Noreturn void tti_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *tti_last_error(void);

/* ---- device.c: the driver ---- */

enum { TTI_UUID = 16 };

/* The driver's double, if the process has it. */
ncclResult_t tti_driver_open(void);
/* The device of the calling thread; the first one if it has none, as CUDA's runtime does it. */
ncclResult_t tti_driver_current(int *device, void **context);
ncclResult_t tti_driver_uuid(int device, unsigned char uuid[TTI_UUID]);
ncclResult_t tti_driver_enter(const struct ncclComm *comm, void **before);
void tti_driver_leave(const struct ncclComm *comm, void *before);
/* Queues the stand-in of a kernel; see tti_double_launch. */
ncclResult_t tti_driver_launch(void *stream, int (*run)(void *data, int code), void *data);
ncclResult_t tti_driver_alloc(void **memory, size_t bytes);
ncclResult_t tti_driver_free(void *memory);
/* The shadow address of device memory, or NULL if no allocation contains all of it. */
void *tti_driver_shadow(const void *memory, size_t bytes, int *device);

/* ---- bootstrap.c: from an id to shared memory ---- */

ncclResult_t tti_id_create(ncclUniqueId *id);
/* Waits for all ranks of the id. Ends early with ncclInternalError if the communicator is aborted. */
ncclResult_t tti_id_join(struct ncclComm *comm, const ncclUniqueId *id);

/* ---- wait.c: waiting for other ranks ---- */

/* Waits until ready(argument), which reads shared memory; false if the communicator was aborted before. */
bool tti_await(struct ncclComm *comm, bool (*ready)(void *argument), void *argument);
/* Wakes all waiters; to be called after each store that a waiter may wait for. */
void tti_doorbell_raise_all(struct ncclComm *comm);
void tti_doorbell_raise(struct ncclComm *comm, int rank);
/* Sets the flag and wakes the waiters; also for a child that is being made. */
void tti_set_aborted(struct ncclComm *comm);
/* Waits until no other process is missing that is alive: this rank has ended, and so have they. */
void tti_await_ends(struct ncclComm *comm);
/* Sends `bytes` of this rank to all ranks, and gets theirs: all[rank]. false if aborted. */
bool tti_comm_exchange_all(struct ncclComm *comm, const void *mine, size_t bytes, void *all);

/* ---- move.c, messages.c: on the stream's thread ---- */

/* Both return false if the communicator was aborted. */
bool tti_run_collective(struct ncclComm *comm, const struct tti_task *task);
bool tti_run_messages(struct ncclComm *comm, struct tti_task *tasks);
/* Connects to the peers that the tasks need for the first time: reports it, and waits until they do the same. */
void tti_connect_begin(struct ncclComm *comm, const struct tti_task *tasks);
bool tti_connect_end(struct ncclComm *comm, const struct tti_task *tasks);

/* ---- comm.c ---- */

/* NULL: no memory. */
struct ncclComm *tti_comm_new(int rank, int ranks, bool blocking);
/* It is not used any more: gives back all but the handle. */
void tti_comm_empty(struct ncclComm *comm);
/* At the beginning and the end of every function of a communicator. */
ncclResult_t tti_comm_enter(struct ncclComm *comm, const char *function);
void tti_comm_leave(struct ncclComm *comm);
/* ncclInvalidArgument while something is in progress, the asynchronous error if there is one. */
ncclResult_t tti_comm_ready(struct ncclComm *comm);
ncclResult_t tti_comm_result(struct ncclComm *comm);
void tti_comm_set_result(struct ncclComm *comm, ncclResult_t result);
/* Waits until nothing of it is on a stream. */
void tti_comm_drain(struct ncclComm *comm);
/* Reads ncclConfig_t as the version does: *blocking is unchanged unless the caller sets it. */
ncclResult_t tti_config_read(const ncclConfig_t *config, bool *blocking);

/* ---- group.c ---- */

/* Work on a communicator that may take long: at once, at the group's end, or on a thread if it is not blocking. */
struct tti_job {
    struct tti_job *next;
    struct ncclComm *comm; /* its result is the state of the communicator */
    ncclResult_t (*run)(struct tti_job *job);
    bool blocking;
    pthread_t thread;
    ncclResult_t result;
    /* For the jobs that need it: */
    struct ncclComm *made;
    struct ncclComm **place;
    ncclUniqueId id;
    int color;
    int key;
};

void tti_group_start(void);
ncclResult_t tti_group_end(void);
/* Remembers an error for the end of the group, if one is open. Returns it. */
ncclResult_t tti_group_check(ncclResult_t result);
/* Both between tti_group_start and tti_group_end; they own their arguments. */
ncclResult_t tti_group_add_task(struct ncclComm *comm, struct tti_task *task);
ncclResult_t tti_group_add_job(struct tti_job *job);

/* ---- check.c: the arguments ---- */

size_t tti_type_size(int type);
struct tti_call {
    const char *name;
    enum tti_kind kind;
    const void *send;
    void *recv;
    size_t count;
    int type;
    int op;
    int root;
    void *stream;
};
/* Checks root, type and operator; fills *reduction from the operator. */
ncclResult_t tti_check_numbers(struct ncclComm *comm, const struct tti_call *call, struct tti_reduction *reduction);
/* The memory of a collective or a message, and whether its overlap is allowed. */
ncclResult_t tti_check_buffers(const struct ncclComm *comm, const struct tti_call *call);
/* `elements` of the call's type at memory: on the communicator's device, in one live allocation. */
ncclResult_t tti_check_memory(const struct ncclComm *comm, const struct tti_call *call, const char *which,
                              const void *memory, size_t elements);
/* Whether `small` does not overlap `large`, or is its element `place`, if that is not SIZE_MAX. */
ncclResult_t tti_check_overlap(const struct tti_call *call, const void *small, size_t small_count, const void *large,
                               size_t large_count, size_t place);

#endif
