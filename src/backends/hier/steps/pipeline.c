/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A software pipeline over the chunks of a tensor: steps inside and between hosts overlap. If the link is much slower
 * than memory, the time is that of the steps between hosts, plus the steps inside for one chunk.
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
    return p->steps->between(p, p->posted, error);
}

static tutti_status post(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct tti_hier *s = p->c->s;
    p->posted = k;
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

static tutti_status await(struct tti_pipeline *p, tutti_error *error)
{
    return p->c->s->rail && p->steps->between ? tti_helper_wait(&p->c->lane->helper, error) : TUTTI_OK;
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
    bool posted = status == TUTTI_OK && (status = post(p, 0, error)) == TUTTI_OK;
    for (size_t k = 0; k < p->chunks && status == TUTTI_OK; k++) {
        if (k + 1 < p->chunks && p->steps->before) {
            status = p->steps->before(p, k + 1, error);
        }
        tutti_error theirs;
        const tutti_status ended = await(p, &theirs);
        posted = false;
        if (ended != TUTTI_OK && (status == TUTTI_OK || status == TUTTI_REVOKED)) {
            *error = theirs; /* the failure of this step has failed the other one */
            status = ended;
        }
        if (k + 1 < p->chunks && status == TUTTI_OK) {
            posted = (status = post(p, k + 1, error)) == TUTTI_OK;
        }
        if (status == TUTTI_OK && p->steps->after) {
            status = p->steps->after(p, k, error);
        }
    }
    if (posted) { /* the job uses the memory of this call */
        tutti_error theirs;
        const tutti_status ended = await(p, &theirs);
        if (status == TUTTI_REVOKED && ended != TUTTI_OK) {
            *error = theirs;
            status = ended;
        }
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
