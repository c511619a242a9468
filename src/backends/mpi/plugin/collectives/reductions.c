/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions by MPI's functions. Where MPI reduces as Tutti does, they run on the tensors themselves. A factor, and the
 * division of an average of floats, are applied on the way into the output or into scratch memory: before the sum, so
 * that it does not overflow. Averages of integers are sums of 64 bits in scratch memory, a window at a time. So are
 * averages and weighted sums of narrow floats, in f32.
 *
 * Cost: that of MPI's function, and one pass over the data where they are scaled or widened.
 */
#include "backends/mpi/plugin/collectives/reductions.h"

#include <limits.h>
#include <string.h>

#include "backends/mpi/plugin/collectives/all_reduce.h"
#include "backends/mpi/plugin/collectives/widen.h"
#include "backends/mpi/plugin/library/datatypes.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"
#include "tensor/parts.h"
#include "tensor/solo.h"

/* to = from times the factor of the call. */
static void scale(const struct tti_mpi_call *c, const struct tti_mpi_fold *fold, void *to, const void *from,
                  size_t count)
{
    const struct tti_fold how = {.dtype = c->op->dtype, .op = TUTTI_PREMUL_SUM, .scales = &fold->scale};
    if (count > 0) {
        tti_fold(to, &from, 1, count, &how);
    }
}

static const char *at(const void *base, size_t bytes)
{
    return base ? (const char *)base + bytes : NULL;
}

/* One call of MPI for `count` elements. In a reduce only the root uses `out`. */
static tutti_status reduce(struct tti_mpi_call *c, const struct tti_mpi_fold *fold, const void *in, void *out,
                           size_t count)
{
    MPI_Request request = MPI_REQUEST_NULL;
    const MPI_Comm comm = c->lane->comm;
    const int n = (int)count;
    int code;
    tti_mpi_enter_call(c);
    if (c->op->kind == TUTTI_OP_ALL_REDUCE) {
        const void *from = in == out ? MPI_IN_PLACE : in;
        code = c->blocking ? MPI_Allreduce(from, out, n, fold->type, fold->op, comm)
                           : MPI_Iallreduce(from, out, n, fold->type, fold->op, comm, &request);
    } else {
        const bool here = c->group->rank == c->op->root;
        const void *from = here && in == out ? MPI_IN_PLACE : in;
        void *to = here ? out : NULL;
        code = c->blocking ? MPI_Reduce(from, to, n, fold->type, fold->op, c->op->root, comm)
                           : MPI_Ireduce(from, to, n, fold->type, fold->op, c->op->root, comm, &request);
    }
    tti_mpi_leave_call(c);
    return tti_mpi_complete(c, code, &request, c->op->kind == TUTTI_OP_ALL_REDUCE ? "MPI_Allreduce" : "MPI_Reduce");
}

/* Through wide scratch memory. */
static tutti_status widened(struct tti_mpi_call *c, const struct tti_mpi_fold *fold)
{
    tutti_op *op = c->op;
    const size_t item = tti_dtype_size(op->dtype);
    const size_t step = c->group->window;
    const bool all = op->kind == TUTTI_OP_ALL_REDUCE;
    char *sums = tti_mpi_scratch(c, 2 * step * fold->wide);
    char *results = all || !sums ? sums : sums + step * fold->wide;
    tutti_status status = sums ? TUTTI_OK : TUTTI_NO_MEMORY;
    for (size_t i = 0; i < op->count && status == TUTTI_OK; i += step) {
        const size_t n = op->count - i < step ? op->count - i : step;
        tti_mpi_widen_and_scale(fold, sums, at(op->src, i * item), n);
        status = reduce(c, fold, sums, results, n);
        if (status == TUTTI_OK && (all || c->group->rank == op->root)) {
            tti_mpi_average_and_narrow(fold, (char *)op->dst + i * item, results, n);
        }
    }
    return status;
}

/* Inputs are scaled into the output, which every rank of an all_reduce has, or into scratch memory. */
static tutti_status scaled(struct tti_mpi_call *c, const struct tti_mpi_fold *fold)
{
    tutti_op *op = c->op;
    const size_t item = tti_dtype_size(op->dtype);
    const bool all = op->kind == TUTTI_OP_ALL_REDUCE;
    const size_t step = all ? TTI_MPI_MAX_COUNT : c->group->window;
    char *scratch = all ? NULL : tti_mpi_scratch(c, c->group->window * item);
    tutti_status status = all || scratch ? TUTTI_OK : TUTTI_NO_MEMORY;
    for (size_t i = 0; i < op->count && status == TUTTI_OK; i += step) {
        const size_t n = op->count - i < step ? op->count - i : step;
        char *out = (char *)(uintptr_t)at(op->dst, i * item);
        char *in = all ? out : scratch;
        scale(c, fold, in, at(op->src, i * item), n);
        status = reduce(c, fold, in, out, n);
    }
    return status;
}

/* MPICH before 4.1 reads from the address MPI_IN_PLACE when the root is not rank 0. */
static bool root_copies(const tutti_op *op)
{
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
    return op->kind == TUTTI_OP_REDUCE && op->src && op->src == op->dst;
#else
    (void)op;
    return false;
#endif
}

static tutti_status direct(struct tti_mpi_call *c, const struct tti_mpi_fold *fold)
{
    tutti_op *op = c->op;
    const size_t item = tti_dtype_size(op->dtype);
    const size_t most = op->count < TTI_MPI_MAX_COUNT ? op->count : TTI_MPI_MAX_COUNT;
    const bool copies = op->count > 0 && root_copies(op) && c->group->rank == op->root;
    char *copy = copies ? tti_mpi_scratch(c, most * item) : NULL;
    tutti_status status = copies && !copy ? TUTTI_NO_MEMORY : TUTTI_OK;
    size_t i = 0;
    while (status == TUTTI_OK) {
        const size_t n = op->count - i < TTI_MPI_MAX_COUNT ? op->count - i : TTI_MPI_MAX_COUNT;
        const char *in = at(op->src, i * item);
        if (copies && n > 0) {
            tti_copy_cached(copy, in, n * item);
            in = copy;
        }
        status = reduce(c, fold, in, (void *)(uintptr_t)at(op->dst, i * item), n);
        i += n;
        if (i >= op->count) {
            break;
        }
    }
    return status;
}

/* For the call cache: an all_reduce that is one blocking call of MPI leaves the arguments in the op (collectives.c). */
static void prepare(struct tti_mpi_call *c, const struct tti_mpi_fold *fold)
{
    tutti_op *op = c->op;
    if (c->blocking && op->kind == TUTTI_OP_ALL_REDUCE && op->count <= TTI_MPI_MAX_COUNT && !c->group->profile) {
        memcpy(&op->prepared[TTI_MPI_PREPARED_TYPE], &fold->type, sizeof(fold->type));
        memcpy(&op->prepared[TTI_MPI_PREPARED_OP], &fold->op, sizeof(fold->op));
    }
}

tutti_status tti_mpi_run_all_reduce(struct tti_mpi_call *c)
{
    struct tti_mpi_fold fold;
    if (c->group->size == 1) {
        tti_run_solo(c->op);
        return TUTTI_OK;
    }
    if (c->op->kind == TUTTI_OP_ALL_REDUCE && !c->blocking) {
        return tti_mpi_run_direct_all_reduce(c);
    }
    tti_mpi_fold_of(c->op, c->group->size, &fold);
    if (fold.wide) {
        return widened(c, &fold);
    }
    if (fold.scaled) {
        return scaled(c, &fold);
    }
    prepare(c, &fold);
    return direct(c, &fold);
}

/* ---- reduce_scatter ---------------------------------------------------------------------------------------------- */

static size_t part_elements(const struct tti_mpi_call *c, int rank)
{
    return tti_parts_bytes(&c->op->send_parts, rank) / tti_dtype_size(c->op->dtype);
}

/* Bytes `from` to `from + n` of a part, which may lie in several rows. */
static void read_part(const tutti_op *op, int rank, size_t from, size_t n, char *to)
{
    while (n > 0) {
        size_t chunk = n;
        const unsigned char *run = tti_parts_at(&op->send_parts, rank, op->src, from, &chunk);
        tti_copy_cached(to, run, chunk);
        to += chunk;
        from += chunk;
        n -= chunk;
    }
}

static tutti_status reduce_scatter(struct tti_mpi_call *c, const struct tti_mpi_fold *fold, const void *in, void *out,
                                   const int *counts)
{
    MPI_Request request = MPI_REQUEST_NULL;
    tti_mpi_enter_call(c);
    const int code = c->blocking ? MPI_Reduce_scatter(in, out, counts, fold->type, fold->op, c->lane->comm)
                                 : MPI_Ireduce_scatter(in, out, counts, fold->type, fold->op, c->lane->comm, &request);
    tti_mpi_leave_call(c);
    return tti_mpi_complete(c, code, &request, "MPI_Reduce_scatter");
}

/* Whether the output of this rank is its part of the input. MPI has no such form, and other ranks may not do so. */
static bool is_in_place(const struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    const char *own = at(op->src, tti_parts_offset(&op->send_parts, c->group->rank));
    return own && own == (const char *)op->dst;
}

/* All parts have the same length and lie as MPI expects them. */
static tutti_status reduce_scatter_block(struct tti_mpi_call *c, const struct tti_mpi_fold *fold)
{
    const tutti_op *op = c->op;
    const int n = (int)op->count;
    const size_t bytes = op->count * tti_dtype_size(op->dtype);
    const bool aside = is_in_place(c) && bytes > 0;
    void *out = aside ? tti_mpi_scratch(c, bytes) : op->dst;
    if (aside && !out) {
        return TUTTI_NO_MEMORY;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    tti_mpi_enter_call(c);
    const int code = c->blocking
                         ? MPI_Reduce_scatter_block(op->src, out, n, fold->type, fold->op, c->lane->comm)
                         : MPI_Ireduce_scatter_block(op->src, out, n, fold->type, fold->op, c->lane->comm, &request);
    tti_mpi_leave_call(c);
    const tutti_status status = tti_mpi_complete(c, code, &request, "MPI_Reduce_scatter_block");
    if (status == TUTTI_OK && aside) {
        tti_copy_cached(op->dst, out, bytes);
    }
    return status;
}

/* Through scratch memory: the same range of every part, scaled or widened, and contiguous. */
static tutti_status windows(struct tti_mpi_call *c, const struct tti_mpi_fold *fold)
{
    const tutti_op *op = c->op;
    const int size = c->group->size;
    const size_t item = tti_dtype_size(op->dtype);
    const size_t wide = fold->wide ? fold->wide : item;
    const size_t each = c->group->window / (size_t)size + 1;
    size_t longest = 0;
    for (int r = 0; r < size; r++) {
        longest = part_elements(c, r) > longest ? part_elements(c, r) : longest;
    }
    const size_t step = each < longest ? each : longest;
    const size_t all = step * (size_t)size;
    int *counts = c->lane->lists;
    /* inputs as MPI takes them, the own result, and one part in its original type */
    char *scratch = tti_mpi_scratch(c, (all + 2 * step) * wide + 64);
    tutti_status status = scratch ? TUTTI_OK : TUTTI_NO_MEMORY;
    char *result = scratch ? scratch + all * wide : NULL;
    char *raw = scratch ? result + step * wide : NULL;
    for (size_t i = 0; i < longest && status == TUTTI_OK; i += step) {
        char *to = scratch;
        for (int r = 0; r < size; r++) {
            const size_t length = part_elements(c, r);
            const size_t n = length <= i ? 0 : length - i < step ? length - i : step;
            counts[r] = (int)n;
            char *plain = fold->wide ? raw : to;
            if (n > 0) {
                read_part(op, r, i * item, n * item, plain);
            }
            if (fold->wide) {
                tti_mpi_widen_and_scale(fold, to, raw, n);
            } else if (fold->scaled) {
                scale(c, fold, to, to, n);
            }
            to += n * wide;
        }
        status = reduce_scatter(c, fold, scratch, result, counts);
        const size_t own = (size_t)counts[c->group->rank];
        if (status == TUTTI_OK && own > 0) {
            char *out = (char *)op->dst + i * item;
            if (fold->wide) {
                tti_mpi_average_and_narrow(fold, out, result, own);
            } else {
                tti_copy_cached(out, result, own * item);
            }
        }
    }
    return status;
}

tutti_status tti_mpi_run_reduce_scatter(struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    const tutti_parts *p = &op->send_parts;
    struct tti_mpi_fold fold;
    if (c->group->size == 1) {
        tti_run_solo(op);
        return TUTTI_OK;
    }
    tti_mpi_fold_of(op, c->group->size, &fold);
    if (!fold.wide && !fold.scaled && p->outer <= 1 && !p->counts && op->count <= INT_MAX / (size_t)c->group->size) {
        return reduce_scatter_block(c, &fold);
    }
    return windows(c, &fold);
}
