/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one place where the suite calls an operation: what to call (tti_check_operation), in which way it is brought to its
 * end (tti_check_pending), and what belongs to one regular collective (tti_check_job).
 *
 * The same operation is run synchronously and asynchronously, and an asynchronous one is waited for in every manner that
 * tutti/work.h offers. Ranks may choose different ways for one operation: a way is a rank's own affair. How many are
 * under way at once, and on which lanes, is the same on all of them.
 */
#ifndef TTI_CHECK_OPERATION_H
#define TTI_CHECK_OPERATION_H

#include <pthread.h>

#include "check/data.h"

/* ---- calls.c: the call itself ---- */

enum tti_check_kind {
    TTI_CHECK_ALL_REDUCE,
    TTI_CHECK_REDUCE,
    TTI_CHECK_BROADCAST, /* of `output` */
    TTI_CHECK_ALL_GATHER,
    TTI_CHECK_GATHER,
    TTI_CHECK_SCATTER,
    TTI_CHECK_REDUCE_SCATTER,
    TTI_CHECK_ALL_TO_ALL,
    TTI_CHECK_BARRIER,
    TTI_CHECK_ALL_GATHER_V,
    TTI_CHECK_REDUCE_SCATTER_V,
    TTI_CHECK_ALL_TO_ALL_V,
    TTI_CHECK_SEND,
    TTI_CHECK_RECV,
    TTI_CHECK_RECV_ALLOC,
    TTI_CHECK_SENDRECV,
    TTI_CHECK_PROBE, /* the one that waits */
    TTI_CHECK_BATCH_END
};

/* The arguments of any operation; a kind reads those that its function has. */
struct tti_check_operation {
    enum tti_check_kind kind;
    tutti_reduce_op op;
    int32_t dim;
    int32_t root;
    const DLTensor *input;
    DLTensor *output;
    const int64_t *counts; /* all_to_all_v: of what is sent */
    const int64_t *at;
    const int64_t *received;
    const int64_t *received_at;
    int32_t destination;
    int32_t source;
    int32_t tag; /* of a message */
    tutti_message *message;
    DLManagedTensorVersioned **managed;
    /* options of the call */
    uint32_t flags;
    uint32_t user_tag;
    double scale;
    int64_t timeout_ms;
    tutti_cancel_token *token;
};

static inline bool tti_check_is_message(enum tti_check_kind kind)
{
    return kind >= TTI_CHECK_SEND;
}

/* Calls the function, or its asynchronous form if `work` is not NULL. */
tutti_status tti_check_call(tutti_group *group, const struct tti_check_operation *o, const tutti_call *options,
                            tutti_work **work);

/* The same with shapes, strides, lists and options in memory that is spoilt behind the call: a library that keeps a
 * pointer into it is found out. */
tutti_status tti_check_call_temporary(const struct tti_check *c, const struct tti_check_operation *o,
                                      const tutti_call *options, tutti_work **work);

/* ---- completion.c: from the start to the end ---- */

struct tti_check_pending {
    enum tti_check_completion way;
    tutti_call options; /* may be changed between make and start */
    tutti_work *work;   /* NULL: synchronous, or not started */
    tutti_status started;
    /* under the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int called;
    tutti_status reported;
};

/* The struct must not be moved until it has landed. Details go to c->error. */
void tti_check_pending_init(struct tti_check *c, struct tti_check_pending *f, enum tti_check_completion way);
void tti_check_pending_start(struct tti_check *c, struct tti_check_pending *f, const struct tti_check_operation *o);

/* Waits in the flight's way and looks at what every ended work has to show; the handle lives on. */
tutti_status tti_check_pending_wait(struct tti_check *c, struct tti_check_pending *f);
/* Sleeps until the callback has been called, and returns how often. */
int tti_check_pending_callbacks(struct tti_check *c, struct tti_check_pending *f);
/* Whether a descriptor is or becomes readable within the limit. */
bool tti_check_readable(int fd, int64_t limit_ms);
void tti_check_pending_release(struct tti_check *c, struct tti_check_pending *f);
/* Both. */
tutti_status tti_check_pending_finish(struct tti_check *c, struct tti_check_pending *f);

/* The work's view of its output is the tensor that the call got; or NOT_FOUND, if there was none (NULL). */
void tti_check_pending_result(struct tti_check *c, struct tti_check_pending *f, const DLTensor *output);

/* One operation in c->way, from start to end. */
tutti_status tti_check_do(struct tti_check *c, const struct tti_check_operation *o);

/* The same for some that need few words (calls.c). */
tutti_status tti_check_barrier(struct tti_check *c);
tutti_status tti_check_send(struct tti_check *c, const DLTensor *tensor, int peer, int tag);
tutti_status tti_check_recv(struct tti_check *c, DLTensor *tensor, int peer, int tag, tutti_message *came);
tutti_status tti_check_sendrecv(struct tti_check *c, const DLTensor *out, int destination, DLTensor *in, int source,
                                int tag, tutti_message *came);
/* One number each way. */
tutti_status tti_check_sendrecv_values(struct tti_check *c, int64_t *sent, int destination, int64_t *received,
                                       int source, int tag);

/* By chance: the way of this rank for operation `number` of the case, and a synchronous one in `synchronous` of 8. */
enum tti_check_completion tti_check_random_completion(const struct tti_check *c, uint64_t number, unsigned synchronous);

/* What a failure is told with: "" or " (asynchronous, by eventfd)". */
const char *tti_check_completion_name(const struct tti_check *c);

/* ---- jobs.c: one operation with its data ---- */

struct tti_check_job {
    struct tti_check check; /* its own key, error and lane */
    struct tti_check_plan plan;
    const struct tti_check_form *form;
    struct tti_check_parts parts;    /* of the joined tensor; of what is sent by all_to_all */
    struct tti_check_parts received; /* all_to_all */
    struct tti_check_tensor input;
    struct tti_check_tensor output;
    int64_t input_shape[3];
    int64_t output_shape[3];
    DLTensor source; /* what the call gets */
    DLTensor target;
    const DLTensor *result; /* what the work's view has to be; NULL: there is none on this rank */
    struct tti_check_operation operation;
    struct tti_check_pending pending;
    int number;       /* the soak's */
    bool cancellable; /* likewise   */
};

/* How a regular collective is tested. */
struct tti_check_form {
    const char *name;
    /* Makes tensors and sets kind, tensors and counts of the operation. What the job owns is freed behind judge. */
    void (*prepare)(struct tti_check_job *job);
    /* Compares. `ok`: the operation succeeded. */
    void (*verify)(struct tti_check_job *job, bool ok);
};

/* The four steps of a job. `salt` makes its data its own. */
void tti_check_job_prepare(struct tti_check_job *job, const struct tti_check *c, const struct tti_check_form *form,
                           const struct tti_check_plan *plan, uint64_t salt);
void tti_check_job_start(struct tti_check_job *job, enum tti_check_completion way);
/* Waits; judges, unless the status is one that the caller expects (`instead`, or TUTTI_OK for none). */
tutti_status tti_check_job_finish(struct tti_check_job *job, tutti_status instead);
/* Frees, and adds to c what went wrong. */
void tti_check_job_end(struct tti_check_job *job, struct tti_check *c);

/* One plan in c's way and formation, from start to end. */
void tti_check_run(struct tti_check *c, const struct tti_check_form *form, const struct tti_check_plan *plan);

/* A sum of f32 that is compared: whether the group works. */
void tti_check_group_works(struct tti_check *c);

/* What is no regular collective, as a job; compares nothing. */
extern const struct tti_check_form tti_check_barrier_form;
/* A message to the next rank and one from the one before; the tag is the plan's root. */
extern const struct tti_check_form tti_check_ring_form;

/* ---- block_lane.c: a lane on which nothing goes on; groups of two ranks or more ---- */

/* Every rank but the holder starts an all_reduce of so many elements on c->lane, ... */
void tti_check_block_lane(struct tti_check *c, struct tti_check_job *held, int holder, int64_t count);
/* ... which cannot end before every rank has come here. The holder starts nothing on that lane before. */
void tti_check_unblock_lane(struct tti_check *c, struct tti_check_job *held, int holder);
/* Waits for it and compares. */
void tti_check_blocked_end(struct tti_check *c, struct tti_check_job *held);

/* The collectives (cases_*.c). */
extern const struct tti_check_form tti_check_all_reduce_form;
extern const struct tti_check_form tti_check_reduce_form;
extern const struct tti_check_form tti_check_broadcast_form;
extern const struct tti_check_form tti_check_all_gather_form;
extern const struct tti_check_form tti_check_all_gather_v_form;
extern const struct tti_check_form tti_check_gather_form;
extern const struct tti_check_form tti_check_scatter_form;
extern const struct tti_check_form tti_check_reduce_scatter_form;
extern const struct tti_check_form tti_check_reduce_scatter_v_form;
extern const struct tti_check_form tti_check_all_to_all_form;
extern const struct tti_check_form tti_check_all_to_all_v_form;

#endif
