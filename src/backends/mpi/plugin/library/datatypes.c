/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The datatype and the operation of MPI for each reduction. MPI's own are taken where they agree with Tutti's. Where
 * MPI has none (narrow floats) or defines them differently (minimum and maximum of NaN and of zeros, bool, logical
 * operations), an MPI_Op runs Tutti's kernels. Its datatype identifies the elements.
 */
#include "backends/mpi/plugin/library/datatypes.h"

#include <string.h>

#include "backends/mpi/plugin/library/finalize.h"
#include "backends/mpi/plugin/library/library.h"
#include "base/error.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"

static MPI_Datatype own_types[TUTTI_DTYPE_COUNT];
static MPI_Op own_ops[TUTTI_REDUCE_OP_COUNT];

/* inout = in op inout, as MPI defines it. MPI passes no context, so the datatype handle identifies the dtype. */
static void fold(tutti_reduce_op op, const void *in, void *inout, const int *count, const MPI_Datatype *type)
{
    const void *sources[2] = {in, inout};
    tutti_dtype dtype = 1;
    while (dtype < TUTTI_DTYPE_COUNT - 1 && own_types[dtype] != *type) {
        dtype++;
    }
    const struct tti_fold how = {.dtype = dtype, .op = op};
    tti_fold(inout, sources, 2, (size_t)*count, &how);
}

static void fold_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    fold(TUTTI_SUM, in, inout, count, type);
}

static void fold_product(void *in, void *inout, int *count, MPI_Datatype *type)
{
    fold(TUTTI_PRODUCT, in, inout, count, type);
}

static void fold_min(void *in, void *inout, int *count, MPI_Datatype *type)
{
    fold(TUTTI_MIN, in, inout, count, type);
}

static void fold_max(void *in, void *inout, int *count, MPI_Datatype *type)
{
    fold(TUTTI_MAX, in, inout, count, type);
}

static void fold_band(void *in, void *inout, int *count, MPI_Datatype *type)
{
    fold(TUTTI_BAND, in, inout, count, type);
}

static void fold_bor(void *in, void *inout, int *count, MPI_Datatype *type)
{
    fold(TUTTI_BOR, in, inout, count, type);
}

static void fold_bxor(void *in, void *inout, int *count, MPI_Datatype *type)
{
    fold(TUTTI_BXOR, in, inout, count, type);
}

static void fold_land(void *in, void *inout, int *count, MPI_Datatype *type)
{
    fold(TUTTI_LAND, in, inout, count, type);
}

static void fold_lor(void *in, void *inout, int *count, MPI_Datatype *type)
{
    fold(TUTTI_LOR, in, inout, count, type);
}

/* MPI_Finalize calls this, also when the application finalises MPI. Some libraries complain about types that are
 * left. */
static int before_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    if (!tti_mpi_quiesce(false)) { /* no thread is inside MPI */
        tti_mpi_await_closed();
    }
    for (tutti_dtype d = 1; d < TUTTI_DTYPE_COUNT; d++) {
        MPI_Type_free(&own_types[d]);
    }
    for (tutti_reduce_op op = 1; op < TUTTI_REDUCE_OP_COUNT; op++) {
        if (own_ops[op] != MPI_OP_NULL) {
            MPI_Op_free(&own_ops[op]);
        }
    }
    return MPI_SUCCESS;
}

tutti_status tti_mpi_datatypes_make(tutti_error *error)
{
    static MPI_User_function *const functions[TUTTI_REDUCE_OP_COUNT] = {
        [TUTTI_SUM] = fold_sum,   [TUTTI_PRODUCT] = fold_product, [TUTTI_MIN] = fold_min,
        [TUTTI_MAX] = fold_max,   [TUTTI_BAND] = fold_band,       [TUTTI_BOR] = fold_bor,
        [TUTTI_BXOR] = fold_bxor, [TUTTI_LAND] = fold_land,       [TUTTI_LOR] = fold_lor,
    };
    for (tutti_dtype d = 1; d < TUTTI_DTYPE_COUNT; d++) {
        int code = MPI_Type_contiguous((int)tti_dtype_size(d), MPI_BYTE, &own_types[d]);
        if (code != MPI_SUCCESS || (code = MPI_Type_commit(&own_types[d])) != MPI_SUCCESS) {
            return tti_mpi_error(error, code, "MPI_Type_contiguous");
        }
    }
    for (tutti_reduce_op op = 1; op < TUTTI_REDUCE_OP_COUNT; op++) {
        own_ops[op] = MPI_OP_NULL;
        int code = functions[op] ? MPI_Op_create(functions[op], 1, &own_ops[op]) : MPI_SUCCESS;
        if (code != MPI_SUCCESS) {
            return tti_mpi_error(error, code, "MPI_Op_create");
        }
    }
    int key = MPI_KEYVAL_INVALID;
    int code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, before_finalize, &key, NULL);
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_set_attr(MPI_COMM_SELF, key, &own_types);
    }
    return code == MPI_SUCCESS ? TUTTI_OK : tti_mpi_error(error, code, "MPI_Comm_create_keyval");
}

static bool is_integer(tutti_dtype dtype)
{
    return dtype >= TUTTI_I8 && dtype <= TUTTI_U64;
}

/* The types for which every MPI computes sums and products as Tutti does. In Open MPI 4.1 sums of 8 and 16 bits
 * saturate. */
static MPI_Datatype native_type(tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_F64:
        return MPI_DOUBLE;
    case TUTTI_F32:
        return MPI_FLOAT;
    case TUTTI_I32:
        return MPI_INT32_T;
    case TUTTI_I64:
        return MPI_INT64_T;
    case TUTTI_U32:
        return MPI_UINT32_T;
    case TUTTI_U64:
        return MPI_UINT64_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

/* Not minimum and maximum: MPICH 4.0 compares unsigned numbers as signed ones, and MPI does not define them for NaN. */
static MPI_Op native_op(tutti_reduce_op op)
{
    switch (op) {
    case TUTTI_SUM:
        return MPI_SUM;
    case TUTTI_PRODUCT:
        return MPI_PROD;
    case TUTTI_BAND:
        return MPI_BAND;
    case TUTTI_BOR:
        return MPI_BOR;
    case TUTTI_BXOR:
        return MPI_BXOR;
    default:
        return MPI_OP_NULL;
    }
}

void tti_mpi_fold_of(const tutti_op *op, int size, struct tti_mpi_fold *fold)
{
    const bool average = op->redop == TUTTI_AVG;
    const bool scaled = op->redop == TUTTI_PREMUL_SUM;
    memset(fold, 0, sizeof(*fold));
    fold->dtype = op->dtype;
    fold->size = size;
    fold->scale = op->scale;
    if (average && is_integer(op->dtype)) {
        fold->wide = sizeof(int64_t);
        fold->type = MPI_INT64_T;
        fold->op = MPI_SUM;
        return;
    }
    if ((average || scaled) && op->dtype >= TUTTI_F16 && op->dtype <= TUTTI_F8_E5M2) {
        fold->wide = sizeof(float);
        fold->scale = average ? 1.0 : op->scale;
        fold->size = average ? size : 1;
        fold->type = MPI_FLOAT;
        fold->op = MPI_SUM;
        return;
    }
    fold->scaled = average || scaled;
    fold->scale = average ? 1.0 / size : op->scale;
    const tutti_reduce_op reduced = fold->scaled ? TUTTI_SUM : op->redop;
    fold->type = native_type(op->dtype);
    fold->op = fold->type == MPI_DATATYPE_NULL ? MPI_OP_NULL : native_op(reduced);
    fold->is_native = fold->op != MPI_OP_NULL;
    if (!fold->is_native) {
        fold->type = own_types[op->dtype];
        fold->op = own_ops[reduced];
    }
}
