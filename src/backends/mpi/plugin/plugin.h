/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the MPI plug-in share. They are compiled once for each binary interface of MPI and know nothing
 * of the core: a group is a few communicators and the messages that are under way.
 *
 * Every function of MPI that is called after the start stands between tti_mpi_enter and tti_mpi_leave, which is a
 * lock where the library does not take calls from several threads at once, and nothing where it does.
 */
#ifndef TTI_BACKENDS_MPI_PLUGIN_PLUGIN_H
#define TTI_BACKENDS_MPI_PLUGIN_PLUGIN_H

#include <assert.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <tutti/backend.h>

#include "backends/mpi/plugin/messages/messages.h"

/* The most elements or bytes in one call of MPI: counts are int. A multiple of every element size, and of a page. */
#define TTI_MPI_MAX_COUNT ((size_t)1 << 30)

/* Tags on the communicator for messages; those from TTI_MPI_TAG_DATA on are for data that follow a letter. The last
 * two are on those of lanes. */
enum {
    TTI_MPI_TAG_ENVELOPE = 0,
    TTI_MPI_TAG_FAILURE = 1,
    TTI_MPI_TAG_DATA = 2,
    TTI_MPI_TAG_ENTRY = 3,
    TTI_MPI_TAG_PART = 4
};

/* ---- library.c: MPI itself ---- */

struct tti_mpi_library {
    int level;       /* MPI_THREAD_* */
    bool locked;     /* calls that do not block are made one at a time */
    long cpus;       /* of this host */
    bool own;        /* started here */
    int tag_max;     /* the largest tag; the upper half are for MPI_Comm_create_group, see group.c */
    int world_rank;  /* in MPI_COMM_WORLD */
    pid_t process;   /* that has started MPI, or found it started */
    bool cuda_aware; /* device memory may be handed to MPI */
    bool rocm_aware;
    char version[96]; /* the library's name and version */
};

extern struct tti_mpi_library tti_mpi_library; /* constant after the start */

/* Starts MPI, or uses the application's. */
tutti_status tti_mpi_start(const tutti_open_info *info, tutti_error *error);
int32_t tti_mpi_available(char *why, size_t capacity);

void tti_mpi_lock(void);
void tti_mpi_unlock(void);

static inline void tti_mpi_enter(void)
{
    if (tti_mpi_library.locked) {
        tti_mpi_lock();
    }
}

static inline void tti_mpi_leave(void)
{
    if (tti_mpi_library.locked) {
        tti_mpi_unlock();
    }
}

/* BACKEND with MPI's class, code and text. `what` names the function of MPI. */
tutti_status tti_mpi_error(tutti_error *error, int code, const char *what);

/* ---- finalize.c ---- */

struct tti_mpi_group;

/* For on_exit. */
void tti_mpi_finalize(int exit_status, void *unused);
/* Brings all threads out of MPI, and lets none in again: groups fail, and what waits in them ends. NULL, or where a thread
 * still is, in words. `fails`: the process ends with an error, and waits for a second at most. */
const char *tti_mpi_quiesce(bool fails);

extern _Atomic uint32_t tti_mpi_stopping; /* 1: no thread may enter MPI any more */

/* Around making and freeing communicators. False: MPI is about to end, or has ended. */
bool tti_mpi_begin_creation(void);
void tti_mpi_end_creation(void);
/* The list of open groups, to which a group belongs before tti_mpi_end_creation. */
void tti_mpi_add_open(struct tti_mpi_group *g);
void tti_mpi_remove_open(struct tti_mpi_group *g);
/* For the watch. Under the lock of the list. */
void tti_mpi_for_each_open(void (*look)(struct tti_mpi_group *g));

/* ---- creation_lock.c ---- */

/* Below MPI_THREAD_MULTIPLE: waits until every member's process makes communicators for this group and for no other; until
 * `give`, if it is OK. `world_ranks`: in MPI_COMM_WORLD, of the members. */
tutti_status tti_mpi_creation_lock(const tutti_open_info *info, const int32_t *world_ranks, tutti_error *error);
void tti_mpi_creation_unlock(void);

/* ---- options.c ---- */

/* The value of a setting, or `otherwise` if there is none of this name. */
const char *tti_mpi_setting(const tutti_open_info *info, const char *key, const char *otherwise);
int tti_mpi_requested_level(const tutti_open_info *info);
/* Before the start of MPI. Looks at tti_mpi_library.version. */
void tti_mpi_prepare_environment(const tutti_open_info *info);

/* ---- devices.c ---- */

/* Which memory of a device MPI takes on this rank, of that which the group has: a capability, or 0. */
uint32_t tti_mpi_device_of(const tutti_open_info *info);
/* Whether MPI is handed the op's tensors where they lie on the device. */
bool tti_mpi_takes_device_memory(const struct tti_mpi_group *g, const tutti_op *op);
/* After the start: writes tti_mpi_library.cuda_aware and .rocm_aware. */
void tti_mpi_detect_devices(const tutti_open_info *info);

/* ---- group.c ---- */

/* What ranks tell one another before a call: see entry_barrier.c. Fixed layout: it travels between processes. Small: with 8 bytes of
 * data and the headers of MPI it has to fit a cache line. */
struct tti_mpi_call_record {
    uint64_t descriptor[2];
    union {
        uint64_t bytes; /* all_to_all_v: for the receiver of this ticket */
        double scale;   /* PREMUL_SUM: this rank's factor */
    };
    uint32_t call : 31; /* its last bits */
    uint32_t failed : 1;
    int32_t decision;
};
static_assert(sizeof(struct tti_mpi_call_record) == 32, "no padding");

/* In place of its next ticket, a rank that ends its process sends so many bytes, which no ticket has. */
#define TTI_MPI_LEFT_BYTES 1

/* Up to so many bytes of data travel with the ticket: what all MPI libraries send at once. */
#define TTI_MPI_SMALL       2048u
#define TTI_MPI_RECORD_ROOM (sizeof(struct tti_mpi_call_record) + TTI_MPI_SMALL)

/* Where parts of an all_reduce go and come from: one of each for every rank. */
struct tti_mpi_parts {
    char **to;
    size_t *in;
    const char **from;
    size_t *out;
};

struct tti_mpi_lane {
    MPI_Comm comm;           /* of its own, so that lanes do not meet */
    _Atomic int64_t calls;   /* relaxed: the lane's owner counts, the watch looks */
    _Atomic int32_t inside;  /* the operation that is under way, or 0; stored seq_cst before the look at `failed` */
    int64_t seen_call;       /* by the watch */
    int ticks;               /* likewise: for so long */
    bool reported;           /* likewise: that a group has failed whose call is under way */
    _Atomic int32_t awaited; /* the lowest rank that a gate waits for, or -1; relaxed: a hint for messages */
    bool ends_at_entry;      /* the call under way does */
    int64_t seen_tick;       /* of a coarse clock, see may_be_late in entry_barrier.c */
    unsigned char *records;  /* TTI_MPI_RECORD_ROOM bytes for each rank, in steps of TTI_MPI_RECORD_STEP */
    void **data;             /* behind each ticket */
    double *scales;          /* one per rank */
    struct tti_mpi_call_record *pair_records; /* one per rank: all_to_all_v has another ticket for each */
    MPI_Request *requests;                    /* 2 per rank, receives and sends; MPI_REQUEST_NULL between calls */
    struct tti_mpi_parts parts;
    unsigned char *scratch; /* grows, is kept */
    size_t scratch_bytes;
    /* what MPI reads until a call has ended: lists of counts, and so on */
    int *lists;          /* 4 per rank */
    MPI_Datatype *types; /* 2 per rank */
};

#define TTI_MPI_RECORD_STEP ((TTI_MPI_RECORD_ROOM + 63) / 64 * 64)

static inline struct tti_mpi_call_record *tti_mpi_call_record_of(const struct tti_mpi_lane *lane, int rank)
{
    return (struct tti_mpi_call_record *)(void *)(lane->records + (size_t)rank * TTI_MPI_RECORD_STEP);
}

struct tti_mpi_group {
    int rank;
    int size;
    int lanes;
    size_t window;                   /* elements of scratch memory for each part; the same on all ranks */
    bool blocking;                   /* mpi.blocking=always on all ranks: MPI's blocking functions, no deadlines */
    uint32_t device;                 /* TUTTI_CAP_CUDA or _ROCM: MPI takes such memory on every rank; else 0 */
    int world_rank;                  /* for people */
    struct tti_mpi_profile *profile; /* or NULL */
    MPI_Comm control;                /* messages, and news of failures */
    struct tti_mpi_group *next_open;
    _Atomic int32_t users;                      /* threads inside anything but a collective; see tti_mpi_use */
    struct tti_mpi_group *next_failed;          /* written once */
    bool kept;                                  /* with the failed ones, until the process ends */
    bool retired;                               /* it has not failed: the process ends */
    struct tti_mpi_envelope_head left_envelope; /* what the other ranks get then */
    pthread_mutex_t lock;                       /* the cause */
    tutti_error cause;
    MPI_Request *notifications; /* of what was sent to them */
    struct tti_mpi_messages messages;
    /* what a small call reads, in one line with the first fields of lane 0 */
    _Alignas(64) int64_t timeout_ms;
    _Atomic int32_t failed; /* a status; release by whoever has written the cause */
    struct tti_mpi_lane lane[TUTTI_MAX_LANES];
};

tutti_status tti_mpi_open(const tutti_open_info *info, void **state, tutti_error *error);
void tti_mpi_close(void *state);
size_t tti_mpi_describe(void *state, char *text, size_t capacity);
/* Where tutti_config.native_communicator expects it: a pointer to the communicator. */
void *tti_mpi_native(void *state);

/* ---- failure.c: how a group fails ---- */

/* Fails the group, unless it has, and tells the others. */
void tti_mpi_fail(struct tti_mpi_group *g, const tutti_error *cause);
/* The process ends: the group fails here only. */
void tti_mpi_fail_locally(struct tti_mpi_group *g, const tutti_error *cause);
/* ... and no thread is in MPI any more: a rank that needs this one finds out instead of waiting for it. */
void tti_mpi_notify_left(struct tti_mpi_group *g);
/* PEER_LEFT, which fails the group: `what` has waited for that rank. */
tutti_status tti_mpi_peer_left(struct tti_mpi_group *g, const char *what, int rank, tutti_error *error);
/* For a call that waits for data: PEER_LEFT if a rank has left instead of going on to its next call. */
tutti_status tti_mpi_poll_left(struct tti_mpi_group *g, const struct tti_mpi_lane *lane, tutti_error *error);
/* OK, or REVOKED with the cause. Looks for news from others if `look`. */
tutti_status tti_mpi_check(struct tti_mpi_group *g, bool look, tutti_error *error);

static inline bool tti_mpi_has_failed(const struct tti_mpi_group *g)
{
    /* acquire: pairs with the store in failure.c, the cause is there. seq_cst: behind the store of `inside`, see finalize.c */
    return atomic_load_explicit(&g->failed, memory_order_seq_cst) != TUTTI_OK;
}

/* Around what is not a collective and calls MPI. False: MPI is about to end or has ended, and the group has failed. */
static inline bool tti_mpi_use(struct tti_mpi_group *g)
{
    /* seq_cst, as the load: either this sees that MPI is ending, or the end sees this thread */
    atomic_fetch_add_explicit(&g->users, 1, memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&tti_mpi_stopping, memory_order_seq_cst) == 0, 1)) {
        return true;
    }
    atomic_fetch_sub_explicit(&g->users, 1, memory_order_release);
    return false;
}

static inline void tti_mpi_unuse(struct tti_mpi_group *g)
{
    /* release: what this thread did in MPI is done when the end of the process sees it gone */
    atomic_fetch_sub_explicit(&g->users, 1, memory_order_release);
}

/* REVOKED, where tti_mpi_use has said no. */
tutti_status tti_mpi_finalizing_error(const struct tti_mpi_group *g, tutti_error *error);

tutti_status tti_mpi_failure(void *state, tutti_error *error);
/* The groups of this process that have failed, the last one first, by next_failed. They stay. */
const struct tti_mpi_group *tti_mpi_failed_groups(void);
void tti_mpi_abort(void *state, int32_t lane, const tutti_error *cause);

/* ---- watchdog.c: over groups with blocking calls ---- */

/* Starts the watch, if it has not started. */
void tti_mpi_start_watchdog(void);

/* ---- profile.c ---- */

struct tti_mpi_profile *tti_mpi_profile_make(void);
void tti_mpi_profile_free(struct tti_mpi_profile *p);
uint64_t tti_mpi_op_bytes(const tutti_op *op, int size);
/* An operation that has succeeded. */
void tti_mpi_profile_add(struct tti_mpi_profile *p, tutti_operation kind, uint64_t bytes, int64_t begun_ns);
/* A table for people; its length, as snprintf tells it. */
size_t tti_mpi_profile_text(struct tti_mpi_profile *p, char *text, size_t capacity);
void tti_mpi_profile_print(const struct tti_mpi_group *g);

/* ---- poll_loop.c ---- */

/* One wait: when to look at what, and when to give way. Its clock is read first where the wait lasts. */
struct tti_mpi_poll_loop {
    struct tti_mpi_group *group;
    const struct tti_mpi_lane *lane; /* of a collective; NULL for messages */
    int64_t timeout_ms;
    int64_t started_ns;  /* 0: now is early enough */
    int64_t deadline_ns; /* 0: not computed yet, as the next one */
    int64_t next_poll_ns;
    uint32_t polls;
    uint32_t mask; /* of `polls`: all bits are 0 before each yield */
    bool background;
};

void tti_mpi_poll_loop(struct tti_mpi_poll_loop *v, struct tti_mpi_group *g, int64_t begun_ns, int64_t timeout_ms,
                       bool background);
/* After a look that found nothing: gives way, and says why to give up: OK = go on, TIMEOUT = the deadline has passed
 * (the caller writes the sentence), else the group has failed and the error is complete. */
tutti_status tti_mpi_poll_step(struct tti_mpi_poll_loop *v, tutti_error *error);
int64_t tti_mpi_elapsed_ms(const struct tti_mpi_poll_loop *v);

/* ---- types.c ---- */

tutti_status tti_mpi_types_make(tutti_error *error);

/* How MPI does one reduction. */
struct tti_mpi_fold {
    tutti_dtype dtype;
    MPI_Datatype type;
    MPI_Op op;
    bool is_native; /* both are MPI's own */
    bool scaled;    /* inputs are multiplied by `scale` before: PREMUL_SUM, and AVG of f64 and f32 */
    size_t wide;    /* else 0, or: sums are of so many bytes. AVG of integers, and what is scaled of narrow floats */
    int size;       /* what such sums are divided by */
    double scale;   /* and their inputs multiplied by */
};
void tti_mpi_fold_of(const tutti_op *op, int size, struct tti_mpi_fold *fold);
/* Inputs as wide ones, and wide sums as outputs. */
void tti_mpi_widen(const struct tti_mpi_fold *fold, void *to, const void *from, size_t count);
void tti_mpi_narrow(const struct tti_mpi_fold *fold, void *to, const void *from, size_t count);

/* ---- collectives.c ---- */

struct tti_mpi_call {
    struct tti_mpi_group *group;
    struct tti_mpi_lane *lane;
    tutti_op *op;
    tutti_error *error;
    bool blocking;
    struct tti_mpi_poll_loop poll_loop;
};

/* A blocking call keeps nobody out: there are none where the library does not take calls from several threads. */
static inline void tti_mpi_enter_call(const struct tti_mpi_call *c)
{
    if (!c->blocking) {
        tti_mpi_enter();
    }
}

static inline void tti_mpi_leave_call(const struct tti_mpi_call *c)
{
    if (!c->blocking) {
        tti_mpi_leave();
    }
}

const char *tti_mpi_supports(void *state, const tutti_op *op);
tutti_status tti_mpi_run(void *state, tutti_op *op, tutti_error *error);
/* After a call of MPI that returned `code`; waits for the request unless the call was a blocking one. */
tutti_status tti_mpi_complete(struct tti_mpi_call *c, int code, MPI_Request *request, const char *what);
/* Waits for all of the lane's requests. OK with *code, MPI's; TIMEOUT without the sentence; else the group has failed. */
tutti_status tti_mpi_await(struct tti_mpi_call *c, int *code);
/* Gives up the lane's requests: receives are cancelled, sends are left to MPI. Nobody writes into the tickets of a group
 * that has failed. */
void tti_mpi_withdraw_requests(struct tti_mpi_call *c);
/* The same as tti_mpi_complete for all of the lane's requests. */
tutti_status tti_mpi_complete_all(struct tti_mpi_call *c, int code, const char *what);
/* At least so many bytes of the lane's scratch memory, or NULL with the error. */
void *tti_mpi_scratch(struct tti_mpi_call *c, size_t bytes);

tutti_status tti_mpi_run_all_reduce(struct tti_mpi_call *c); /* reductions.c; and reduce */

/* In tutti_op.prepared, after an all_reduce that was one blocking call of MPI: what that takes. The first one is never 0
 * then: no datatype of MPI's is, in any of its interfaces. */
enum { TTI_MPI_PREPARED_TYPE, TTI_MPI_PREPARED_OP, TTI_MPI_PREPARED_DESCRIPTOR }; /* the last one has two words */
static_assert(sizeof(MPI_Datatype) <= sizeof(uint64_t) && sizeof(MPI_Op) <= sizeof(uint64_t), "handles of MPI fit");

/* The one call of MPI in a blocking all_reduce like one before it; MPI's code. */
static inline int tti_mpi_all_reduce_prepared(const struct tti_mpi_lane *lane, const tutti_op *op)
{
    MPI_Datatype type;
    MPI_Op how;
    memcpy(&type, &op->prepared[TTI_MPI_PREPARED_TYPE], sizeof(type));
    memcpy(&how, &op->prepared[TTI_MPI_PREPARED_OP], sizeof(how));
    return MPI_Allreduce(op->src == op->dst ? MPI_IN_PLACE : op->src, op->dst, (int)op->count, type, how, lane->comm);
}

/* ---- all_reduce.c ---- */

tutti_status tti_mpi_run_direct_all_reduce(struct tti_mpi_call *c);
/* The fold of one source for each rank, in their order, as the call says. After the gate: it reads the tickets. */
void tti_mpi_fold_sources(struct tti_mpi_call *c, void *dst, const void *const *sources, size_t count);

tutti_status tti_mpi_run_reduce_scatter(struct tti_mpi_call *c);
tutti_status tti_mpi_run_data_movement(struct tti_mpi_call *c); /* data_movement.c: what reduces nothing */
/* Whether MPI's plain functions know where the parts are: one behind the other, in pieces and offsets that are int. All
 * ranks come to the same answer. */
bool tti_mpi_is_plain(const struct tti_mpi_group *g, const tutti_op *op, const tutti_parts *p);

/* ---- entry_barrier.c ---- */

/* Waits until all ranks have come to this call and compares what they call. MISMATCH leaves the group usable. *done: OK
 * means that the call has ended, too. */
tutti_status tti_mpi_entry_barrier(struct tti_mpi_call *c, bool *done);

#endif
