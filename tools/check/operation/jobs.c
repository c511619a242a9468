/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One operation with its data, from the tensors to the comparison, in steps, so that several can be under way at once:
 * in a row on one lane and waited for in reverse order, or side by side on all lanes.
 */
#include "check/operation/jobs.h"

#include "check/cases/collectives/forms.h"
#include "check/data/data.h"
#include "check/reference/expect.h"

enum { ROW = 4, AT_MOST = 4 };
_Static_assert((int)ROW <= (int)AT_MOST && (int)TTI_CHECK_LANE_COUNT <= (int)AT_MOST,
               "jobs that are under way at once");

/* Beyond this a case runs alone: four times the data would cost more than it says. */
enum { TOGETHER_BYTES = 4 << 10 };

void tti_check_job_tensors(struct tti_check_job *job, const int64_t *input_shape, const int64_t *output_shape)
{
    const struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    const bool joins = p->ndim == 0 && output_shape != p->shape; /* scalars are joined to a vector */
    tti_check_tensor_make(c, &job->input, p->dtype, p->ndim, input_shape, p->layout);
    tti_check_tensor_make(c, &job->output, p->dtype, joins ? 1 : p->ndim, output_shape, p->layout);
    tti_check_tensor_fill(&job->check, &job->input, 0, job->input.count, c->rank, p->pattern, 0);
    tti_check_tensor_seal(&job->input);
    job->result = &job->output.t;
    job->operation = (struct tti_check_operation){.input = &job->input.t, .output = &job->output.t};
}

void tti_check_job_prepare(struct tti_check_job *job, const struct tti_check *c, const struct tti_check_form *form,
                           const struct tti_check_plan *plan, uint64_t salt)
{
    *job = (struct tti_check_job){.check = *c, .plan = *plan, .form = form};
    job->check.key = tti_check_mix(c->key, salt);
    job->check.failed = false;
    form->prepare(job);
    job->operation.kind = form->kind;
    job->operation.op = plan->op;
    job->operation.dim = plan->dim;
    job->operation.root = plan->root;
    job->operation.scale = tti_check_factor(c, plan);
    job->operation.wire = plan->wire;
    job->operation.timeout_ms = plan->timeout_ms;
}

void tti_check_job_start(struct tti_check_job *job, enum tti_check_completion completion)
{
    job->check.completion = completion;
    tti_check_pending_init(&job->check, &job->pending, completion);
    tti_check_pending_start(&job->check, &job->pending, &job->operation);
}

tutti_status tti_check_job_finish(struct tti_check_job *job, tutti_status instead)
{
    struct tti_check *c = &job->check;
    const tutti_status status = tti_check_pending_wait(c, &job->pending);
    const bool expected = instead != TUTTI_OK && status == instead;
    const bool ok = !expected && tti_check_ok(c, job->form->name, status);
    if (ok) {
        tti_check_pending_result(c, &job->pending, job->result);
    }
    tti_check_pending_release(c, &job->pending);
    job->form->verify(job, ok);
    return status;
}

void tti_check_job_end(struct tti_check_job *job, struct tti_check *c)
{
    tti_check_tensor_free(&job->input);
    tti_check_tensor_free(&job->output);
    tti_check_parts_free(&job->parts);
    tti_check_parts_free(&job->received);
    tti_check_merge(c, &job->check);
}

/* How many of this plan are under way at once: the same on all ranks. */
static int number_of(const struct tti_check *c, const struct tti_check_plan *plan)
{
    if (c->concurrency == TTI_CHECK_ONE_CALL || tti_check_plan_bytes(plan) > TOGETHER_BYTES) {
        return 1;
    }
    const int lanes = tutti_group_lanes(c->group);
    return c->concurrency == TTI_CHECK_SAME_LANE ? ROW : lanes < TTI_CHECK_LANE_COUNT ? lanes : TTI_CHECK_LANE_COUNT;
}

void tti_check_run(struct tti_check *c, const struct tti_check_form *form, const struct tti_check_plan *plan)
{
    struct tti_check_job jobs[AT_MOST];
    const int n = number_of(c, plan);
    for (int i = 0; i < n; i++) {
        tti_check_job_prepare(&jobs[i], c, form, plan, (uint64_t)i);
        if (n > 1 && c->concurrency == TTI_CHECK_ALL_LANES) {
            jobs[i].check.lane = i;
        }
    }
    for (int i = 0; i < n; i++) {
        tti_check_job_start(&jobs[i], i == 0 ? c->completion : tti_check_random_completion(&jobs[i].check, 1, 1));
    }
    for (int i = n - 1; i >= 0; i--) {
        tti_check_job_finish(&jobs[i], TUTTI_OK);
        tti_check_job_end(&jobs[i], c);
    }
}

void tti_check_group_works(struct tti_check *c)
{
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, 3000);
    tti_check_run(c, &tti_check_all_reduce_form, &p);
}

/* ---- jobs that are no regular collectives ---- */

static void prepare_nothing(struct tti_check_job *job)
{
    (void)job;
}

static void verify_nothing(struct tti_check_job *job, bool ok)
{
    (void)job;
    (void)ok;
}

const struct tti_check_form tti_check_barrier_form = {"barrier", TTI_CHECK_BARRIER, prepare_nothing, verify_nothing};

static void prepare_ring(struct tti_check_job *job)
{
    tti_check_job_tensors(job, job->plan.shape, job->plan.shape);
    job->operation.destination = tti_check_next(&job->check);
    job->operation.source = tti_check_previous(&job->check);
    job->operation.tag = job->plan.root;
}

static void verify_ring(struct tti_check_job *job, bool ok)
{
    struct tti_check *c = &job->check;
    if (ok) {
        tti_check_expect_copy(c, tti_check_tensor_result(c, &job->output), job->plan.dtype, 0, job->output.count,
                              tti_check_previous(c), job->plan.pattern, 0);
    }
    tti_check_tensor_unchanged(c, &job->input, "the message that was sent");
}

const struct tti_check_form tti_check_ring_form = {"sendrecv", TTI_CHECK_SENDRECV, prepare_ring, verify_ring};
