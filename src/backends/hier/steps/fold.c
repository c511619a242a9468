/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a reduction does inside hosts and between them. Most reductions are the same in both steps. The factors of a
 * weighted sum belong to the inputs, so its second step is a plain sum.
 *
 * Averages of f64, f32 and bf16 are sums, and the result is divided once by the number of ranks: they overflow only
 * where the sum does, as in any engine. f16 and fp8 could overflow where the average does not. So they are averaged
 * inside each host, in f32, and then the averages of the hosts are averaged, weighted if the hosts differ in size.
 * Averages of integers are exact: sums of 64 bits, to which smaller types are widened (8 / size times the bytes).
 *
 * Narrow floats are rounded once inside a host and once between hosts: twice instead of once, for half the bytes on the
 * link.
 */
#include "backends/hier/steps/fold.h"

#include "backends/integer_average.h"
#include "kernels/dispatch.h"
#include "kernels/isa/convert.h"
#include "tensor/dtype.h"

static bool is_integer(tutti_dtype dtype)
{
    return dtype >= TUTTI_I8 && dtype <= TUTTI_U64;
}

void tti_hier_fold_make(const struct tti_hier_call *c, struct tti_hier_fold *f)
{
    const struct tti_hier *s = c->s;
    const tutti_op *op = c->op;
    const tutti_dtype d = op->dtype;
    *f = (struct tti_hier_fold){.given = d, .dtype = d, .inside = op->redop, .between = op->redop, .divisor = 1};
    if (op->redop == TUTTI_PREMUL_SUM) {
        f->between = TUTTI_SUM;
    } else if (op->redop == TUTTI_AVG && (is_integer(d) || d == TUTTI_F64 || d == TUTTI_F32 || d == TUTTI_BF16)) {
        f->inside = f->between = TUTTI_SUM;
        f->divisor = s->size;
        f->widened = is_integer(d) && tti_dtype_size(d) < sizeof(int64_t);
        f->dtype = f->widened ? TUTTI_I64 : d;
    } else if (op->redop == TUTTI_AVG && !s->hosts.even) {
        f->between = TUTTI_PREMUL_SUM;
        f->scale = (double)tti_host_ranks(&s->hosts, s->host) / (double)s->size;
    }
    f->item = tti_dtype_size(f->dtype);
}

void tti_hier_widen(const struct tti_hier_fold *f, void *to, const void *from, size_t count)
{
    tti_integer_widen(f->given, to, from, count);
}

/* Not inline: the compiler may move a division out of the default environment. */
__attribute__((noinline)) static void divide_floats(const struct tti_hier_fold *f, void *to, const void *from,
                                                    size_t count)
{
    if (f->given == TUTTI_F64) {
        for (size_t i = 0; i < count; i++) {
            ((double *)to)[i] = ((const double *)from)[i] / (double)f->divisor;
        }
    } else if (f->given == TUTTI_F32) {
        for (size_t i = 0; i < count; i++) {
            ((float *)to)[i] = ((const float *)from)[i] / (float)f->divisor;
        }
    } else { /* bf16 */
        for (size_t i = 0; i < count; i++) {
            const float sum = f32_of_bf16(((const uint16_t *)from)[i]);
            ((uint16_t *)to)[i] = bf16_of_f32(sum / (float)f->divisor);
        }
    }
}

void tti_hier_fold_finish(const struct tti_hier_fold *f, void *to, const void *from, size_t count)
{
    if (is_integer(f->given)) {
        tti_integer_divide(f->given, to, from, count, f->divisor);
        return;
    }
    const tti_environment before = tti_environment_enter();
    divide_floats(f, to, from, count);
    tti_environment_leave(before);
}
