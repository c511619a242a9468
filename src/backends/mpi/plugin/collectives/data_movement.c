/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives that copy bytes and reduce nothing. Where the parts of a joined tensor lie as MPI's plain functions
 * expect them, those are used. All else (parts that span rows, any displacements, more than MPI's int counts) is one
 * MPI_Alltoallw, in which a derived datatype describes each part. Nothing is packed. Parts of multiples of 4 GiB are
 * messages.
 *
 * Cost: that of MPI's function for n bytes (broadcast) or n parts (the others).
 */
#include "backends/mpi/plugin/collectives/data_movement.h"

#include <limits.h>

#include "base/error.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"
#include "tensor/parts.h"

/* The sending or the receiving side of an exchange: count, place and type of the part of each rank. */
struct side {
    const char *base;
    int *counts;
    int *displacements;
    MPI_Datatype *types;
};

/* A type for `count` blocks of `length` items each, `pitch` bytes apart. Counts of MPI are int, so very many blocks are
 * a vector of vectors and, in a struct with it, the rest. */
static int make_vector(size_t count, int length, MPI_Aint pitch, MPI_Datatype item, MPI_Datatype *type)
{
    if (count <= TTI_MPI_MAX_COUNT) {
        return MPI_Type_create_hvector((int)count, length, pitch, item, type);
    }
    const size_t steps = (count - 1) / TTI_MPI_MAX_COUNT;
    const int rest = (int)(count - steps * TTI_MPI_MAX_COUNT);
    const MPI_Aint step = (MPI_Aint)TTI_MPI_MAX_COUNT * pitch;
    const MPI_Aint at[2] = {0, (MPI_Aint)steps * step};
    const int one[2] = {1, 1};
    MPI_Datatype vector;
    MPI_Datatype parts[2];
    int code = MPI_Type_create_hvector((int)TTI_MPI_MAX_COUNT, length, pitch, item, &vector);
    if (code != MPI_SUCCESS) {
        return code;
    }
    code = MPI_Type_create_hvector((int)steps, 1, step, vector, &parts[0]);
    MPI_Type_free(&vector);
    if (code != MPI_SUCCESS) {
        return code;
    }
    code = MPI_Type_create_hvector(rest, length, pitch, item, &parts[1]);
    if (code == MPI_SUCCESS) {
        code = MPI_Type_create_struct(2, one, at, parts, type);
        MPI_Type_free(&parts[1]);
    }
    MPI_Type_free(&parts[0]);
    return code;
}

/* A type for `width` bytes at `offset`, in `outer` rows. */
static int make_type(size_t offset, size_t width, size_t outer, size_t pitch, MPI_Datatype *type)
{
    MPI_Datatype row = MPI_BYTE;
    MPI_Datatype rows = MPI_DATATYPE_NULL;
    int code = MPI_SUCCESS;
    int count = (int)width;
    if (width > TTI_MPI_MAX_COUNT) {
        code = make_vector(width, 1, 1, MPI_BYTE, &row);
        count = 1;
    }
    if (code == MPI_SUCCESS) {
        code = make_vector(outer, count, (MPI_Aint)pitch, row, &rows);
        if (row != MPI_BYTE) {
            MPI_Type_free(&row);
        }
    }
    if (code == MPI_SUCCESS) {
        const MPI_Aint place = (MPI_Aint)offset;
        const int one = 1;
        code = MPI_Type_create_hindexed(1, &one, &place, rows, type);
        MPI_Type_free(&rows);
    }
    return code == MPI_SUCCESS ? MPI_Type_commit(type) : code;
}

/* Describes the part of rank r on this side. */
static int set_part(struct side *s, int r, size_t offset, size_t width, size_t outer, size_t pitch)
{
    s->counts[r] = 0;
    s->displacements[r] = 0;
    s->types[r] = MPI_BYTE;
    if (outer == 0 || width == 0) {
        return MPI_SUCCESS;
    }
    if (outer == 1 && offset <= INT_MAX && width <= INT_MAX) {
        s->counts[r] = (int)width;
        s->displacements[r] = (int)offset;
        return MPI_SUCCESS;
    }
    s->counts[r] = 1;
    return make_type(offset, width, outer, pitch, &s->types[r]);
}

static int set_joined(struct side *s, int r, const tutti_parts *p)
{
    return set_part(s, r, tti_parts_offset(p, r), tti_parts_width(p, r), p->outer, p->pitch);
}

static void free_types(struct side *s, int size)
{
    for (int r = 0; r < size; r++) {
        if (s->types[r] != MPI_BYTE && s->types[r] != MPI_DATATYPE_NULL) {
            MPI_Type_free(&s->types[r]);
        }
    }
}

/* Whether MPI may leave this part out: MPICH 4.0 takes the size of a type as an int in MPI_Alltoallw, and 4 GiB are
 * 0. */
static bool may_be_left_out(const struct side *s, int r)
{
    MPI_Count bytes = 0;
    return s->counts[r] > 0 && s->types[r] != MPI_BYTE && MPI_Type_size_x(s->types[r], &bytes) == MPI_SUCCESS &&
           (uint32_t)bytes == 0;
}

/* Takes such parts out of the exchange and begins a message for each, with the lane's requests. Both ranks of a pair do
 * that, since they have the same number of bytes. */
static int start_apart(struct tti_mpi_call *c, struct side *out, struct side *in)
{
    const int n = c->group->size;
    int code = MPI_SUCCESS;
    for (int r = 0; r < n && code == MPI_SUCCESS; r++) {
        if (may_be_left_out(in, r)) {
            in->counts[r] = 0;
            code = MPI_Irecv((void *)(uintptr_t)in->base, 1, in->types[r], r, TTI_MPI_TAG_PART, c->lane->comm,
                             &c->lane->requests[r]);
        }
    }
    for (int r = 0; r < n && code == MPI_SUCCESS; r++) {
        if (may_be_left_out(out, r)) {
            out->counts[r] = 0;
            code =
                MPI_Isend(out->base, 1, out->types[r], r, TTI_MPI_TAG_PART, c->lane->comm, &c->lane->requests[n + r]);
        }
    }
    return code;
}

/* Waits for these messages after the exchange has ended with `status`. */
static tutti_status complete_apart(struct tti_mpi_call *c, tutti_status status)
{
    if (status != TUTTI_OK) {
        tti_mpi_withdraw_requests(c);
        return status;
    }
    int code = MPI_SUCCESS;
    for (int i = 0; c->blocking && i < 2 * c->group->size && code == MPI_SUCCESS; i++) {
        code = MPI_Wait(&c->lane->requests[i], MPI_STATUS_IGNORE);
    }
    return tti_mpi_complete_all(c, code, "MPI_Isend");
}

static bool sends_to(const tutti_op *op, int own, int r)
{
    return op->kind == TUTTI_OP_GATHER ? r == op->root : op->kind != TUTTI_OP_SCATTER || own == op->root;
}

static bool receives_from(const tutti_op *op, int own, int r)
{
    return op->kind == TUTTI_OP_SCATTER ? r == op->root : op->kind != TUTTI_OP_GATHER || own == op->root;
}

/* Whether the part of this rank is in its place already. */
static bool own_in_place(const struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    const int own = c->group->rank;
    switch (op->kind) {
    case TUTTI_OP_GATHER:
        if (own != op->root) {
            return false;
        }
        /* fall through */
    case TUTTI_OP_ALL_GATHER:
        return op->src && op->src == (const char *)op->dst + tti_parts_offset(&op->recv_parts, own);
    case TUTTI_OP_SCATTER:
        return own == op->root && op->dst && op->dst == (const char *)op->src + tti_parts_offset(&op->send_parts, own);
    default:
        return false;
    }
}

static tutti_status exchange(struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    const int n = c->group->size;
    const int own = c->group->rank;
    int *lists = c->lane->lists;
    struct side out = {.base = op->src, .counts = lists, .displacements = lists + n, .types = c->lane->types};
    struct side in = {
        .base = op->dst, .counts = lists + 2 * n, .displacements = lists + 3 * n, .types = c->lane->types + n};
    const size_t bytes = op->count * tti_dtype_size(op->dtype);
    const bool joined_out = op->kind == TUTTI_OP_SCATTER || op->kind == TUTTI_OP_ALL_TO_ALL;
    const bool joined_in = op->kind != TUTTI_OP_SCATTER;
    const bool stays = own_in_place(c);
    int code = MPI_SUCCESS;
    tti_mpi_enter_call(c);
    for (int r = 0; r < n && code == MPI_SUCCESS; r++) {
        const bool here = r == own && stays;
        const bool sent = sends_to(op, own, r) && !here;
        const bool received = receives_from(op, own, r) && !here;
        if (joined_out && sent) {
            code = set_joined(&out, r, &op->send_parts);
        } else {
            code = set_part(&out, r, 0, sent ? bytes : 0, 1, 0);
        }
        if (code == MPI_SUCCESS) {
            code = joined_in && received ? set_joined(&in, r, &op->recv_parts)
                                         : set_part(&in, r, 0, received ? bytes : 0, 1, 0);
        }
    }
    MPI_Request request = MPI_REQUEST_NULL;
    if (code == MPI_SUCCESS) {
        code = start_apart(c, &out, &in);
    }
    if (code == MPI_SUCCESS && c->blocking) {
        code = MPI_Alltoallw(out.base, out.counts, out.displacements, out.types, (void *)(uintptr_t)in.base, in.counts,
                             in.displacements, in.types, c->lane->comm);
    } else if (code == MPI_SUCCESS) {
        code = MPI_Ialltoallw(out.base, out.counts, out.displacements, out.types, (void *)(uintptr_t)in.base, in.counts,
                              in.displacements, in.types, c->lane->comm, &request);
    }
    tti_mpi_leave_call(c);
    const tutti_status status = complete_apart(c, tti_mpi_complete(c, code, &request, "MPI_Alltoallw"));
    tti_mpi_enter_call(c);
    free_types(&out, n);
    free_types(&in, n);
    tti_mpi_leave_call(c);
    return status;
}

static tutti_status broadcast(struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    size_t bytes = op->count * tti_dtype_size(op->dtype);
    tutti_status status = TUTTI_OK;
    char *at = op->dst;
    do {
        const size_t n = bytes < TTI_MPI_MAX_COUNT ? bytes : TTI_MPI_MAX_COUNT;
        MPI_Request request = MPI_REQUEST_NULL;
        tti_mpi_enter_call(c);
        const int code = c->blocking ? MPI_Bcast(at, (int)n, MPI_BYTE, op->root, c->lane->comm)
                                     : MPI_Ibcast(at, (int)n, MPI_BYTE, op->root, c->lane->comm, &request);
        tti_mpi_leave_call(c);
        status = tti_mpi_complete(c, code, &request, "MPI_Bcast");
        at += n;
        bytes -= n;
    } while (bytes > 0 && status == TUTTI_OK);
    return status;
}

static tutti_status barrier(struct tti_mpi_call *c)
{
    MPI_Request request = MPI_REQUEST_NULL;
    tti_mpi_enter_call(c);
    const int code = c->blocking ? MPI_Barrier(c->lane->comm) : MPI_Ibarrier(c->lane->comm, &request);
    tti_mpi_leave_call(c);
    return tti_mpi_complete(c, code, &request, "MPI_Barrier");
}

bool tti_mpi_is_plain(const struct tti_mpi_group *g, const tutti_op *op, const tutti_parts *p)
{
    const size_t bytes = op->count * tti_dtype_size(op->dtype);
    return p->outer <= 1 && !p->counts && !p->displacements && bytes <= INT_MAX / (size_t)g->size;
}

static bool is_plain(const struct tti_mpi_call *c, const tutti_parts *p)
{
    return tti_mpi_is_plain(c->group, c->op, p);
}

/* Other ranks than the root do not know how many rows the parts span. Along dimension 0 it is one. */
static bool is_plain_rooted(const struct tti_mpi_call *c)
{
    const size_t bytes = c->op->count * tti_dtype_size(c->op->dtype);
    return c->op->dim == 0 && bytes <= INT_MAX / (size_t)c->group->size;
}

static tutti_status all_gather(struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    const int n = (int)(op->count * tti_dtype_size(op->dtype));
    const void *from = own_in_place(c) ? MPI_IN_PLACE : op->src;
    MPI_Request request = MPI_REQUEST_NULL;
    tti_mpi_enter_call(c);
    const int code = c->blocking ? MPI_Allgather(from, n, MPI_BYTE, op->dst, n, MPI_BYTE, c->lane->comm)
                                 : MPI_Iallgather(from, n, MPI_BYTE, op->dst, n, MPI_BYTE, c->lane->comm, &request);
    tti_mpi_leave_call(c);
    return tti_mpi_complete(c, code, &request, "MPI_Allgather");
}

/* The same with parts of different length, anywhere in the output. Their places may differ between ranks, so they must
 * not decide which function of MPI is called. */
static tutti_status all_gather_v(struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    const tutti_parts *p = &op->recv_parts;
    const int n = (int)(op->count * tti_dtype_size(op->dtype));
    const int size = c->group->size;
    int *counts = c->lane->lists;
    int *at = counts + size;
    bool far = false;
    for (int r = 0; r < size; r++) {
        counts[r] = (int)tti_parts_width(p, r);
        at[r] = (int)tti_parts_offset(p, r);
        far = far || tti_parts_offset(p, r) > INT_MAX;
    }
    char *to = op->dst;
    if (far) { /* contiguous in scratch memory first */
        if (!(to = tti_mpi_scratch(c, tti_parts_total(p, size)))) {
            return TUTTI_NO_MEMORY;
        }
        for (int r = 0, sum = 0; r < size; sum += counts[r++]) {
            at[r] = sum;
        }
    }
    const void *from = !far && own_in_place(c) ? MPI_IN_PLACE : op->src;
    MPI_Request request = MPI_REQUEST_NULL;
    tti_mpi_enter_call(c);
    const int code = c->blocking
                         ? MPI_Allgatherv(from, n, MPI_BYTE, to, counts, at, MPI_BYTE, c->lane->comm)
                         : MPI_Iallgatherv(from, n, MPI_BYTE, to, counts, at, MPI_BYTE, c->lane->comm, &request);
    tti_mpi_leave_call(c);
    const tutti_status status = tti_mpi_complete(c, code, &request, "MPI_Allgatherv");
    for (int r = 0; far && r < size && status == TUTTI_OK; r++) {
        tti_copy_cached((char *)op->dst + tti_parts_offset(p, r), to + at[r], (size_t)counts[r]);
    }
    return status;
}

static bool is_plain_v(const struct tti_mpi_call *c)
{
    const tutti_parts *p = &c->op->recv_parts;
    /* in a group of one, MPICH 4.0 ignores the displacements */
    return p->counts && p->outer <= 1 && c->group->size > 1 && tti_parts_total(p, c->group->size) <= INT_MAX;
}

static tutti_status gather(struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    const int n = (int)(op->count * tti_dtype_size(op->dtype));
    const void *from = own_in_place(c) ? MPI_IN_PLACE : op->src;
    MPI_Request request = MPI_REQUEST_NULL;
    tti_mpi_enter_call(c);
    const int code = c->blocking
                         ? MPI_Gather(from, n, MPI_BYTE, op->dst, n, MPI_BYTE, op->root, c->lane->comm)
                         : MPI_Igather(from, n, MPI_BYTE, op->dst, n, MPI_BYTE, op->root, c->lane->comm, &request);
    tti_mpi_leave_call(c);
    return tti_mpi_complete(c, code, &request, "MPI_Gather");
}

static tutti_status scatter(struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    const int n = (int)(op->count * tti_dtype_size(op->dtype));
    void *to = own_in_place(c) ? MPI_IN_PLACE : op->dst;
    MPI_Request request = MPI_REQUEST_NULL;
    tti_mpi_enter_call(c);
    const int code = c->blocking
                         ? MPI_Scatter(op->src, n, MPI_BYTE, to, n, MPI_BYTE, op->root, c->lane->comm)
                         : MPI_Iscatter(op->src, n, MPI_BYTE, to, n, MPI_BYTE, op->root, c->lane->comm, &request);
    tti_mpi_leave_call(c);
    return tti_mpi_complete(c, code, &request, "MPI_Scatter");
}

static tutti_status all_to_all(struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    const int n = (int)tti_parts_width(&op->send_parts, 0);
    MPI_Request request = MPI_REQUEST_NULL;
    tti_mpi_enter_call(c);
    const int code = c->blocking ? MPI_Alltoall(op->src, n, MPI_BYTE, op->dst, n, MPI_BYTE, c->lane->comm)
                                 : MPI_Ialltoall(op->src, n, MPI_BYTE, op->dst, n, MPI_BYTE, c->lane->comm, &request);
    tti_mpi_leave_call(c);
    return tti_mpi_complete(c, code, &request, "MPI_Alltoall");
}

tutti_status tti_mpi_run_data_movement(struct tti_mpi_call *c)
{
    const tutti_op *op = c->op;
    switch (op->kind) {
    case TUTTI_OP_BARRIER:
        return barrier(c);
    case TUTTI_OP_BROADCAST:
        return broadcast(c);
    case TUTTI_OP_ALL_GATHER:
        if (is_plain_v(c)) {
            return all_gather_v(c);
        }
        return is_plain(c, &op->recv_parts) ? all_gather(c) : exchange(c);
    case TUTTI_OP_GATHER:
        return is_plain_rooted(c) ? gather(c) : exchange(c);
    case TUTTI_OP_SCATTER:
        return is_plain_rooted(c) ? scatter(c) : exchange(c);
    case TUTTI_OP_ALL_TO_ALL:
        return is_plain(c, &op->send_parts) ? all_to_all(c) : exchange(c);
    default:
        return tti_error_set(c->error, TUTTI_UNSUPPORTED, "backend mpi has no %s", tutti_operation_name(op->kind));
    }
}
