/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A large all_reduce: reduce_scatter, then all_gather, each in one step. This is the direct form of Rabenseifner's
 * algorithm ("Optimization of collective reduction operations", 2004). Every rank sends each peer the peer's part,
 * folds the parts that it receives in rank order with Tutti's kernels, and sends the result to all. So each element is
 * computed on one rank, all ranks have the same bits, and each step can be left at the deadline.
 *
 * Cost: 2 (n - 1) messages and 2 (n - 1) / n of the tensor for each rank, which is the least. Scratch memory for one
 * window; longer tensors go through it in chunks.
 */
#include "backends/mpi/plugin/collectives/all_reduce.h"

#include "kernels/kernels.h"
#include "tensor/dtype.h"

#define LINE 64u /* bytes; parts in scratch memory begin on one */

/* A chunk of the tensor, in elements. */
struct chunk {
    const char *src;
    char *dst;
    size_t count;
    size_t item; /* bytes of an element */
};

static size_t part_begin(const struct tti_mpi_group *g, const struct chunk *p, int rank)
{
    const size_t n = (size_t)g->size;
    const size_t r = (size_t)rank;
    return (r * (p->count / n) + (r < p->count % n ? r : p->count % n)) * p->item;
}

static size_t part_bytes(const struct tti_mpi_group *g, const struct chunk *p, int rank)
{
    return part_begin(g, p, rank + 1) - part_begin(g, p, rank);
}

/* Receives from and sends to every other rank, the next higher rank first, so that not all ranks send to the same
 * one. */
static tutti_status exchange(struct tti_mpi_call *c, char *const *to, const size_t *in, const char *const *from,
                             const size_t *out)
{
    const struct tti_mpi_group *g = c->group;
    struct tti_mpi_lane *lane = c->lane;
    int code = MPI_SUCCESS;
    tti_mpi_enter();
    for (int k = 1; k < g->size && code == MPI_SUCCESS; k++) {
        const int r = (g->rank - k + g->size) % g->size;
        code = MPI_Irecv(to[r], (int)in[r], MPI_BYTE, r, TTI_MPI_TAG_PART, lane->comm, &lane->requests[r]);
    }
    for (int k = 1; k < g->size && code == MPI_SUCCESS; k++) {
        const int r = (g->rank + k) % g->size;
        code = MPI_Isend(from[r], (int)out[r], MPI_BYTE, r, TTI_MPI_TAG_PART, lane->comm, &lane->requests[g->size + r]);
    }
    tti_mpi_leave();
    return tti_mpi_complete_all(c, code, "MPI_Isend");
}

static tutti_status run_chunk(struct tti_mpi_call *c, const struct chunk *p, char *scratch)
{
    const struct tti_mpi_group *g = c->group;
    struct tti_mpi_parts *at = &c->lane->parts;
    const int own = g->rank;
    const size_t bytes = part_bytes(g, p, own);
    const size_t pitch = (bytes + LINE - 1) / LINE * LINE;
    char *result = p->dst + part_begin(g, p, own);
    for (int r = 0; r < g->size; r++) {
        at->to[r] = scratch + (size_t)r * pitch;
        at->in[r] = bytes;
        at->from[r] = p->src + part_begin(g, p, r);
        at->out[r] = part_bytes(g, p, r);
    }
    at->to[own] = (char *)(uintptr_t)p->src + part_begin(g, p, own);
    tutti_status status = exchange(c, at->to, at->in, at->from, at->out);
    if (status != TUTTI_OK) {
        return status;
    }
    if (bytes > 0) {
        tti_mpi_fold_sources(c, result, (const void *const *)at->to, bytes / p->item);
    }
    for (int r = 0; r < g->size; r++) {
        at->to[r] = p->dst + part_begin(g, p, r);
        at->in[r] = part_bytes(g, p, r);
        at->from[r] = result;
        at->out[r] = bytes;
    }
    return exchange(c, at->to, at->in, at->from, at->out);
}

void tti_mpi_fold_sources(struct tti_mpi_call *c, void *dst, const void *const *sources, size_t count)
{
    const tutti_op *op = c->op;
    struct tti_fold how = {.dtype = op->dtype, .op = op->redop};
    if (op->redop == TUTTI_PREMUL_SUM) { /* each rank has its own factor */
        for (int r = 0; r < c->group->size; r++) {
            c->lane->scales[r] = tti_mpi_call_record_of(c->lane, r)->scale;
        }
        how.scales = c->lane->scales;
    }
    tti_fold(dst, sources, (size_t)c->group->size, count, &how);
}

tutti_status tti_mpi_run_direct_all_reduce(struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    const size_t item = tti_dtype_size(op->dtype);
    const size_t most = c->group->window * sizeof(int64_t) / item; /* elements of a chunk */
    const size_t longest = op->count < most ? op->count : most;
    char *scratch = tti_mpi_scratch(c, longest * item + (size_t)c->group->size * (item + LINE));
    tutti_status status = scratch ? TUTTI_OK : TUTTI_NO_MEMORY;
    for (size_t i = 0; i < op->count && status == TUTTI_OK; i += most) {
        const struct chunk p = {.src = (const char *)op->src + i * item,
                                .dst = (char *)op->dst + i * item,
                                .count = op->count - i < most ? op->count - i : most,
                                .item = item};
        status = run_chunk(c, &p, scratch);
    }
    return status;
}
