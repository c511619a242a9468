/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_to_all. Data for ranks of this host go through the inner engine, all other data directly through the flat engine.
 * With more than a chunk of data both run at once. No data go through a third rank, since only the two ranks of a pair
 * know their sizes. Cost: the data between ranks of different hosts cross the link once.
 */
#include "backends/hier/collectives/collectives.h"
#include "tensor/parts.h"

static void list_all(const tutti_parts *p, int32_t size, int64_t *counts, int64_t *displacements)
{
    int64_t at = 0;
    for (int32_t r = 0; r < size; r++) {
        counts[r] = tti_parts_units(p, r);
        displacements[r] = p->displacements ? p->displacements[r] : at;
        at += counts[r];
    }
}

static tutti_parts with(const tutti_parts *p, const int64_t *counts, const int64_t *displacements)
{
    tutti_parts parts = *p;
    parts.each = 0;
    parts.counts = counts;
    parts.displacements = displacements;
    return parts;
}

/* Two lists of parts: of this host's ranks, by local rank, and of all ranks without those. Returns the bytes of the
 * second. */
static size_t split(const struct tti_hier *s, const tutti_parts *p, int64_t *inside_counts, int64_t *inside_places,
                    int64_t *flat_counts, int64_t *flat_places)
{
    const tutti_parts far = with(p, flat_counts, flat_places);
    list_all(p, s->size, flat_counts, flat_places);
    for (int32_t local_rank = 0; local_rank < tti_host_ranks(&s->hosts, s->host); local_rank++) {
        const int32_t rank = tti_host_member(&s->hosts, s->host, local_rank);
        inside_counts[local_rank] = flat_counts[rank];
        inside_places[local_rank] = flat_places[rank];
        flat_counts[rank] = 0;
    }
    return tti_parts_total(&far, s->size);
}

struct job {
    struct tti_hier_call *c;
    tutti_op op;
};

static tutti_status far_away(void *user, tutti_error *error)
{
    struct job *j = user;
    return tti_hier_run_flat(j->c, &j->op, error);
}

static tutti_op step(const struct tti_hier_call *c, const struct tti_lists *lists)
{
    tutti_op op = tti_hier_step(c, TUTTI_OP_ALL_TO_ALL, c->op->dtype);
    op.src = c->op->src;
    op.dst = c->op->dst;
    op.send_parts = with(&c->op->send_parts, lists->send_counts, lists->send_displacements);
    op.recv_parts = with(&c->op->recv_parts, lists->receive_counts, lists->receive_displacements);
    return op;
}

tutti_status tti_hier_all_to_all(struct tti_hier_call *c, tutti_error *error)
{
    const struct tti_lists *near = &c->lane->inside;
    const struct tti_lists *far = &c->lane->between;
    const size_t bytes = split(c->s, &c->op->send_parts, near->send_counts, near->send_displacements, far->send_counts,
                               far->send_displacements);
    split(c->s, &c->op->recv_parts, near->receive_counts, near->receive_displacements, far->receive_counts,
          far->receive_displacements);
    struct job job = {.c = c, .op = step(c, far)};
    tutti_op inside = step(c, near);
    tutti_error theirs;
    /* the helper pays for more than a chunk; without its thread the two run one after the other */
    const bool beside = bytes > c->s->chunk && !c->lane->helper.runs_inline &&
                        tti_helper_post(&c->lane->helper, far_away, &job, &theirs) == TUTTI_OK;
    c->first = true;
    tutti_status status = tti_hier_run_intra_host(c, &inside, error);
    if (!beside) {
        return status == TUTTI_OK ? far_away(&job, error) : status;
    }
    const tutti_status ended = tti_helper_wait(&c->lane->helper, &theirs);
    if (ended != TUTTI_OK && (status == TUTTI_OK || status == TUTTI_REVOKED)) {
        *error = theirs;
        status = ended;
    }
    return status;
}
