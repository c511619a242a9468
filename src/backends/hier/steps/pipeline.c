/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A software pipeline over the chunks of a tensor: steps inside and between hosts overlap. If the link is much slower
 * than memory, the time is that of the steps between hosts, plus the steps inside for one chunk. They do not overlap on
 * an engine that no other thread may enter (helper.c).
 *
 * Every rank of a host makes the same steps inside it in the same order: before(0), before(1), after(0), before(2), ...
 * A rank that is in no rail makes no step between hosts. The ranks of a rail make theirs in the order of the chunks. A
 * failure fails all engines, so no rank waits long.
 */
#include "backends/hier/steps/pipeline.h"

#include "backends/hier/failure.h"
#include "base/error.h"

static tutti_status job(void *user, tutti_error *error)
{
    struct tti_pipeline *p = user;
    return p->steps->between(p, p->begun++, error);
}

/* Posts the step between hosts of the next chunk. */
static tutti_status post(struct tti_pipeline *p, tutti_error *error)
{
    struct tti_hier *s = p->c->s;
    if (!s->rail || !p->steps->between) {
        return TUTTI_OK;
    }
    const tutti_status status = tti_helper_post(&p->c->lane->helper, job, p, error);
    if (status != TUTTI_OK) { /* the other ranks stay in the call */
        error->scope = TUTTI_SCOPE_GROUP;
        tti_hier_abort(s, p->c->op->lane, error);
    }
    return status;
}

/* Waits for the first step between hosts that has not been awaited. Returns `status`, or that of the step. */
static tutti_status await(struct tti_pipeline *p, tutti_status status, tutti_error *error)
{
    tutti_error theirs;
    if (!p->c->s->rail || !p->steps->between) {
        return status;
    }
    const tutti_status ended = tti_helper_wait(&p->c->lane->helper, &theirs);
    if (ended != TUTTI_OK && (status == TUTTI_OK || status == TUTTI_REVOKED)) {
        *error = theirs; /* the failure of this step has failed the other one */
        return ended;
    }
    return status;
}

/* The first step: every rank of the host enters it, and no rank waits for an earlier one. */
static tutti_status first(struct tti_pipeline *p, tutti_error *error)
{
    p->c->first = true;
    const tutti_status status = p->steps->before ? p->steps->before(p, 0, error) : TUTTI_OK;
    p->c->first = false;
    return status;
}

static tutti_status overlapped(struct tti_pipeline *p, tutti_error *error)
{
    tutti_status status = first(p, error);
    status = status == TUTTI_OK ? post(p, error) : status;
    size_t posted = status == TUTTI_OK;
    size_t awaited = 0;
    for (size_t k = 0; k < p->chunks && status == TUTTI_OK; k++) {
        if (k + 1 < p->chunks && status == TUTTI_OK) {
            status = p->steps->before ? p->steps->before(p, k + 1, error) : TUTTI_OK;
            status = status == TUTTI_OK ? post(p, error) : status;
            posted += status == TUTTI_OK;
        }
        if (awaited < posted) {
            status = await(p, status, error);
            awaited++;
        }
        if (status == TUTTI_OK && p->steps->after) {
            status = p->steps->after(p, k, error);
        }
    }
    for (; awaited < posted; awaited++) { /* the jobs use the memory of this call */
        status = await(p, status, error);
    }
    return status;
}

tutti_status tti_pipeline_run(struct tti_hier_call *c, const struct tti_pipeline_steps *steps, void *user,
                              size_t chunks, tutti_error *error)
{
    struct tti_pipeline p = {.c = c, .steps = steps, .user = user, .chunks = chunks};
    tutti_status status = TUTTI_OK;
    if (chunks > 1) {
        return overlapped(&p, error);
    }
    if (chunks == 1) {
        status = first(&p, error);
        status = status == TUTTI_OK && steps->between && c->s->rail ? steps->between(&p, 0, error) : status;
        status = status == TUTTI_OK && steps->after ? steps->after(&p, 0, error) : status;
    }
    return status;
}
