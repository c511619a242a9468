/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which operations the library runs with the results that Tutti promises. Operations that only copy go as bytes, so
 * every element type works. These reductions differ, so the core runs them through host memory:
 *
 *   minimum and maximum of floats   the device code is fmin and fmax, which drop NaNs (reduce_kernel.h, up to 2.30):
 *                                   used only with the setting native_min_max
 *   sums of fp8                     overflow saturates in the library; in Tutti it gives NaN or infinity
 *   averages of integers            the library divides a sum that has wrapped in the type; Tutti's is exact
 *   averages of fp8                 the library multiplies by a reciprocal in fp8, which is 0 for many ranks
 *   weighted sums of f16 and fp8    the factor has the element type: small ones become 0, large ones infinite
 *   bool                            in Tutti any byte but 0 is true and results are 0 or 1; u8's maximum does neither
 *   i16, u16, bitwise, logical      the library has none of them
 */
#include "backends/nccl/collectives/reductions.h"

#include <string.h>

#include "kernels/kernels.h"

/* The library's element type for a reduction; -1 if this version has none. */
static int type_of(const struct tti_nccl_library *library, tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_F64:
        return TTI_NCCL_FLOAT64;
    case TUTTI_F32:
        return TTI_NCCL_FLOAT32;
    case TUTTI_F16:
        return TTI_NCCL_FLOAT16;
    case TUTTI_BF16:
        return library->version >= 21000 ? TTI_NCCL_BFLOAT16 : -1;
    case TUTTI_I8:
        return TTI_NCCL_INT8;
    case TUTTI_I32:
        return TTI_NCCL_INT32;
    case TUTTI_I64:
        return TTI_NCCL_INT64;
    case TUTTI_U8:
        return TTI_NCCL_UINT8;
    case TUTTI_U32:
        return TTI_NCCL_UINT32;
    case TUTTI_U64:
        return TTI_NCCL_UINT64;
    default:
        return -1;
    }
}

static bool is_float(tutti_dtype dtype)
{
    return dtype <= TUTTI_F8_E5M2;
}

static bool reduces(const struct tti_nccl_group *g, tutti_dtype dtype, tutti_reduce_op op)
{
    const struct tti_nccl_library *library = g->library;
    if (type_of(library, dtype) < 0) {
        return false;
    }
    switch (op) {
    case TUTTI_SUM:
    case TUTTI_PRODUCT:
        return true;
    case TUTTI_MIN:
    case TUTTI_MAX:
        return !is_float(dtype) || g->native_min_max;
    case TUTTI_AVG:
        return is_float(dtype) && library->version >= 21000;
    case TUTTI_PREMUL_SUM:
        return dtype != TUTTI_F16 && library->RedOpCreatePreMulSum && library->RedOpDestroy;
    default:
        return false;
    }
}

/* The answer is the same on all ranks: it depends only on what open has compared. */
const char *tti_nccl_supports(void *state, const tutti_op *op)
{
    const struct tti_nccl_group *g = state;
    const struct tti_nccl_library *library = g->library;
    if (op->kind == TUTTI_OP_BARRIER) {
        return "composed";
    }
    if (!op->on_device) {
        return NULL;
    }
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return reduces(g, op->dtype, op->redop) ? "native" : NULL;
    case TUTTI_OP_REDUCE_SCATTER:
        return !reduces(g, op->dtype, op->redop) ? NULL : op->send_parts.counts ? "composed" : "native";
    case TUTTI_OP_BROADCAST:
        return "native";
    case TUTTI_OP_ALL_GATHER:
        return op->recv_parts.counts ? "composed" : "native";
    case TUTTI_OP_ALL_TO_ALL:
        return library->AlltoAll && !op->send_parts.counts ? "native" : "composed";
    case TUTTI_OP_GATHER:
        return library->Gather ? "native" : "composed";
    case TUTTI_OP_SCATTER:
        return library->Scatter ? "native" : "composed";
    default:
        return NULL;
    }
}

/* The factor in the element type, rounded as Tutti's kernels round it. */
static void factor_of(const tutti_op *op, unsigned char factor[8])
{
    const double f64 = 1;
    const float f32 = 1;
    const uint16_t bf16 = 0x3f80;
    const uint64_t integer = 1; /* little-endian, so of any width */
    unsigned char one[8];
    memcpy(one, &integer, sizeof(integer));
    switch (op->dtype) {
    case TUTTI_F64:
        memcpy(one, &f64, sizeof(f64));
        break;
    case TUTTI_F32:
        memcpy(one, &f32, sizeof(f32));
        break;
    case TUTTI_BF16:
        memcpy(one, &bf16, sizeof(bf16));
        break;
    default:
        break;
    }
    const void *from = one;
    const struct tti_fold how = {.dtype = op->dtype, .op = TUTTI_PREMUL_SUM, .scales = &op->scale};
    tti_fold(factor, &from, 1, 1, &how);
}

int tti_nccl_reduction_begin(const struct tti_nccl_call *c, tti_nccl_comm comm, struct tti_nccl_reduction *reduction)
{
    static const int ops[TUTTI_REDUCE_OP_COUNT] = {
        [TUTTI_SUM] = TTI_NCCL_SUM, [TUTTI_PRODUCT] = TTI_NCCL_PROD, [TUTTI_MIN] = TTI_NCCL_MIN,
        [TUTTI_MAX] = TTI_NCCL_MAX, [TUTTI_AVG] = TTI_NCCL_AVG,
    };
    const struct tti_nccl_library *library = c->group->library;
    const tutti_op *op = c->op;
    *reduction = (struct tti_nccl_reduction){.type = type_of(library, op->dtype), .op = ops[op->redop]};
    if (op->redop != TUTTI_PREMUL_SUM) {
        return TTI_NCCL_SUCCESS;
    }
    unsigned char factor[8] = {0};
    factor_of(op, factor);
    const int code =
        library->RedOpCreatePreMulSum(&reduction->op, factor, reduction->type, TTI_NCCL_SCALAR_ON_HOST, comm);
    reduction->created = code == TTI_NCCL_SUCCESS;
    return code;
}

int tti_nccl_reduction_end(const struct tti_nccl_call *c, tti_nccl_comm comm,
                           const struct tti_nccl_reduction *reduction)
{
    return reduction->created ? c->group->library->RedOpDestroy(reduction->op, comm) : TTI_NCCL_SUCCESS;
}
