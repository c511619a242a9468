/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The formats of wires: bf16, and fp8 in blocks with a scale (isa/wire_fp8.c). Conversions compare and multiply floats,
 * so they run under the default environment, in which nothing traps or is flushed.
 */
#include "kernels/wire_format.h"

#include <stdbool.h>

#include "kernels/dispatch.h"

static void pack_bf16(void *dst, const float *src, size_t count)
{
    tti_fold_table()->narrow_bf16(dst, src, count);
}

static void unpack_bf16(float *dst, const void *src, size_t count)
{
    tti_fold_table()->widen_bf16(dst, src, count);
}

static void fold_bf16(void *dst, const void *const *src, size_t n, size_t count, tutti_reduce_op op,
                      const double *scales)
{
    tti_fold_call(tti_fold_table()->ops[TUTTI_BF16][op], TUTTI_BF16, dst, src, n, count, scales);
}

static void pack_fp8(void *dst, const float *src, size_t count)
{
    tti_fold_table()->pack_fp8(dst, src, count);
}

static void unpack_fp8(float *dst, const void *src, size_t count)
{
    tti_fold_table()->unpack_fp8(dst, src, count);
}

static void fold_fp8(void *dst, const void *const *src, size_t n, size_t count, tutti_reduce_op op,
                     const double *scales)
{
    (void)scales; /* applied by tti_wire_pack */
    tti_fold_table()->fold_fp8(dst, src, n, count, op == TUTTI_AVG ? TUTTI_AVG : TUTTI_SUM);
}

static const struct tti_wire_format formats[] = {
    [TUTTI_WIRE_BF16] = {"bf16", TUTTI_BF16, 1, sizeof(uint16_t), pack_bf16, unpack_bf16, fold_bf16},
    [TUTTI_WIRE_FP8] = {"fp8", 0, TTI_FP8_BLOCK, 1 + TTI_FP8_BLOCK, pack_fp8, unpack_fp8, fold_fp8},
};

const struct tti_wire_format *tti_wire_format(tutti_wire wire)
{
    const bool known = wire > TUTTI_WIRE_FULL && (size_t)wire < sizeof(formats) / sizeof(formats[0]);
    return known ? &formats[wire] : NULL;
}

/* A tile of blocks at a time, multiplied in the first-level cache. */
static void pack_scaled(const struct tti_wire_format *f, void *dst, const float *src, size_t count, double scale)
{
    enum { TILE = 16 * TTI_FP8_BLOCK }; /* a tile ends where a block ends */
    tti_fold_function *const multiply = tti_fold_table()->ops[TUTTI_F32][TUTTI_PREMUL_SUM];
    float tile[TILE];
    for (size_t n; count > 0; count -= n) {
        n = count < TILE ? count : TILE;
        const void *const sources[1] = {src};
        tti_fold_call(multiply, TUTTI_F32, tile, sources, 1, n, &scale);
        f->pack(dst, tile, n);
        src += n;
        dst = (char *)dst + tti_wire_bytes(f, n);
    }
}

void tti_wire_pack(const struct tti_wire_format *f, void *dst, const float *src, size_t count, tutti_reduce_op op,
                   double scale)
{
    const tti_environment before = tti_environment_enter();
    if (op == TUTTI_PREMUL_SUM && f->dtype == 0) {
        pack_scaled(f, dst, src, count, scale);
    } else {
        f->pack(dst, src, count);
    }
    tti_environment_leave(before);
}

void tti_wire_unpack(const struct tti_wire_format *f, float *dst, const void *src, size_t count)
{
    const tti_environment before = tti_environment_enter();
    f->unpack(dst, src, count);
    tti_environment_leave(before);
}

void tti_wire_fold(const struct tti_wire_format *f, void *dst, const void *const *src, size_t n, size_t count,
                   tutti_reduce_op op, const double *scales)
{
    if (count > 0) {
        const tti_environment before = tti_environment_enter();
        f->fold(dst, src, n, count, op, scales);
        tti_environment_leave(before);
    }
}
