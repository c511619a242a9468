/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_CHECK_OPERATION_COMPLETION_H
#define TOOLS_CHECK_OPERATION_COMPLETION_H

#include <pthread.h>

#include "check/check.h"
#include "check/operation/calls.h"

struct tti_check_pending {
    enum tti_check_completion completion;
    tutti_call options; /* may be changed between make and start */
    tutti_work *work;   /* NULL: synchronous, or not started */
    tutti_status started;
    /* under the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int called;
    tutti_status reported;
};

/* The struct must not be moved until the operation has ended. Details go to c->error. */
void tti_check_pending_init(struct tti_check *c, struct tti_check_pending *f, enum tti_check_completion completion);
void tti_check_pending_start(struct tti_check *c, struct tti_check_pending *f, const struct tti_check_operation *o);

/* Waits as `f` says, and checks the promises of every ended work; the handle stays valid. */
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

/* One operation in c->completion, from start to end. */
tutti_status tti_check_do(struct tti_check *c, const struct tti_check_operation *o);

/* By chance: how this rank completes operation `number` of the case, and a synchronous one in `synchronous` of 8. */
enum tti_check_completion tti_check_random_completion(const struct tti_check *c, uint64_t number, unsigned synchronous);

/* The suffix of a failure: "" or " (asynchronous, by its descriptor)". */
const char *tti_check_completion_name(const struct tti_check *c);

#endif
