/* SPDX-License-Identifier: BSD-3-Clause */
/* One operation with its data. */
#ifndef TOOLS_CHECK_OPERATION_JOBS_H
#define TOOLS_CHECK_OPERATION_JOBS_H

#include "check/check.h"
#include "check/data/parts.h"
#include "check/data/tensors.h"
#include "check/operation/calls.h"
#include "check/operation/completion.h"
#include "check/plan.h"

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
    enum tti_check_kind kind;
    /* Makes tensors, and sets tensors and counts of the operation. What the job owns is freed behind judge. */
    void (*prepare)(struct tti_check_job *job);
    /* Compares. `ok`: the operation succeeded. */
    void (*verify)(struct tti_check_job *job, bool ok);
};

/* Makes input and output in the plan's layout, and fills the input. The operation and the result are set to both. */
void tti_check_job_tensors(struct tti_check_job *job, const int64_t *input_shape, const int64_t *output_shape);

/* The four steps of a job. `salt` makes its data its own. */
void tti_check_job_prepare(struct tti_check_job *job, const struct tti_check *c, const struct tti_check_form *form,
                           const struct tti_check_plan *plan, uint64_t salt);
void tti_check_job_start(struct tti_check_job *job, enum tti_check_completion completion);
/* Waits; judges, unless the status is one that the caller expects (`instead`, or TUTTI_OK for none). */
tutti_status tti_check_job_finish(struct tti_check_job *job, tutti_status instead);
/* Frees, and adds to c what went wrong. */
void tti_check_job_end(struct tti_check_job *job, struct tti_check *c);

/* One plan with c's completion and formation, from start to end. */
void tti_check_run(struct tti_check *c, const struct tti_check_form *form, const struct tti_check_plan *plan);

/* A sum of f32 that is compared: whether the group works. */
void tti_check_group_works(struct tti_check *c);

/* What is no regular collective, as a job; compares nothing. */
extern const struct tti_check_form tti_check_barrier_form;
/* A message to the next rank and one from the one before; the tag is the plan's root. */
extern const struct tti_check_form tti_check_ring_form;

#endif
