/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the reference (collective_reference.h) through the public API. */
#ifndef TESTS_COLLECTIVE_CALLS_H
#define TESTS_COLLECTIVE_CALLS_H

#include "collective_reference.h"

static inline tutti_status reference_run(tutti_group *g, const struct reference_call *c,
                                         const struct reference_tensors *t, tutti_error *error)
{
    int32_t rank = tutti_group_rank(g);
    int32_t dim = c->rows > 1;
    const tutti_call *call = TUTTI_CALL(.error = error);
    const struct reference_joined sent = reference_sent(c, rank);
    const struct reference_joined received = reference_received(c, rank);
    int64_t in_shape[2] = {(int64_t)c->rows, (int64_t)(reference_input(c, rank) / c->rows)};
    int64_t out_shape[2] = {(int64_t)c->rows, (int64_t)(reference_output(c, rank) / c->rows)};
    DLTensor in = tutti_tensor_nd(t->in, 1 + dim, in_shape + !dim, c->dtype);
    DLTensor out = tutti_tensor_nd(t->out, 1 + dim, out_shape + !dim, c->dtype);
    switch (c->kind) {
    case TUTTI_OP_ALL_REDUCE:
        return tutti_all_reduce(g, &in, &out, TUTTI_SUM, call);
    case TUTTI_OP_REDUCE:
        return tutti_reduce(g, &in, rank == c->root ? &out : NULL, TUTTI_SUM, c->root, call);
    case TUTTI_OP_BROADCAST:
        return tutti_broadcast(g, &out, c->root, call);
    case TUTTI_OP_GATHER:
        return tutti_gather(g, &in, rank == c->root ? &out : NULL, dim, c->root, call);
    case TUTTI_OP_SCATTER:
        return tutti_scatter(g, rank == c->root ? &in : NULL, &out, dim, c->root, call);
    case TUTTI_OP_ALL_GATHER:
        return c->uneven ? tutti_all_gather_v(g, &in, &out, dim, received.counts, NULL, call)
                         : tutti_all_gather(g, &in, &out, dim, call);
    case TUTTI_OP_REDUCE_SCATTER:
        return c->uneven ? tutti_reduce_scatter_v(g, &in, &out, TUTTI_SUM, dim, sent.counts, call)
                         : tutti_reduce_scatter(g, &in, &out, TUTTI_SUM, dim, call);
    default:
        return c->uneven ? tutti_all_to_all_v(g, &in, &out, dim, sent.counts, NULL, received.counts, NULL, call)
                         : tutti_all_to_all(g, &in, &out, dim, call);
    }
}

#endif
