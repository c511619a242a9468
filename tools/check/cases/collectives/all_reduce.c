/* SPDX-License-Identifier: BSD-3-Clause */
/* More cases of all_reduce: its wires, and that its result has the same bits on every rank and in every run, where that
 * is promised. reduce.c has the form. */
#include <fenv.h>
#include <stdlib.h>

#include "check/cases/cases.h"
#include "check/cases/collectives/forms.h"
#include "check/data/data.h"
#include "check/data/device_memory.h"
#include "check/reference/expect.h"
#include "common/wire.h"

/* Each rank rounds in its own direction meanwhile. */
static tutti_status do_with_rounding(struct tti_check *c, const struct tti_check_operation *o)
{
    static const int directions[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    const int before = fegetround();
    fesetround(directions[c->rank % 4]);
    const tutti_status status = tti_check_do(c, o);
    fesetround(before);
    return status;
}

/* Runs the plan four times, synchronously or not, once with another direction of rounding on each rank, gathers a hash
 * of each result from every rank, and checks that all hashes are equal. */
static void same_bits(struct tti_check *c, const struct tti_check_plan *p)
{
    enum { RUNS = 4 };
    int64_t hashes[RUNS] = {0};
    const int64_t all = RUNS * (int64_t)c->size;
    int64_t *gathered = calloc((size_t)all, sizeof(int64_t));
    if (!gathered) {
        tti_check_fail(c, "no memory");
        return;
    }
    struct tti_check_tensor input;
    tti_check_tensor_make(c, &input, p->dtype, p->ndim, p->shape, TTI_CHECK_COMPACT);
    tti_check_tensor_fill(c, &input, 0, input.count, c->rank, p->pattern, 0);
    for (int i = 0; i < RUNS; i++) {
        /* run 1 is unaligned: the alignment must not matter */
        struct tti_check_tensor output;
        tti_check_tensor_make(c, &output, p->dtype, p->ndim, p->shape,
                              i == 1 ? TTI_CHECK_UNALIGNED : TTI_CHECK_COMPACT);
        const struct tti_check_operation o = {.kind = TTI_CHECK_ALL_REDUCE,
                                              .op = p->op,
                                              .input = &input.t,
                                              .output = &output.t,
                                              .scale = tti_check_factor(c, p),
                                              .wire = p->wire};
        c->completion = i % 2 == 0 ? TTI_CHECK_SYNC : tti_check_random_completion(c, (uint64_t)i, 0);
        tti_check_ok(c, "all_reduce", i == 2 ? do_with_rounding(c, &o) : tti_check_do(c, &o));
        const unsigned char *result = tti_check_tensor_result(c, &output);
        hashes[i] = (int64_t)tti_check_hash(result, output.count * output.item, 0);
        tti_check_tensor_free(&output);
    }
    struct tti_check_values own;
    struct tti_check_values joined;
    tti_check_values_begin(c, &own, hashes, RUNS);
    tti_check_values_begin(c, &joined, gathered, all);
    const tutti_status status = tutti_all_gather(c->group, &own.t, &joined.t, 0, TUTTI_CALL(.error = &c->error));
    tti_check_values_end(&own);
    tti_check_values_end(&joined);
    for (int64_t i = 0; tti_check_ok(c, "all_gather of hashes", status) && i < all; i++) {
        if (gathered[i] != gathered[0]) {
            tti_check_fail(c, "run %lld on rank %lld gave other bits than run 0 on rank 0", (long long)(i % RUNS),
                           (long long)(i / RUNS));
            break;
        }
    }
    free(gathered);
    tti_check_tensor_free(&input);
}

/* An engine that works on a device refuses .wire, also for tensors of the CPU that it copies there. */
bool tti_check_has_wire(const struct tti_check *c)
{
    return !c->arena && !(c->capabilities & TUTTI_CAP_NO_HOST);
}

static void wire_case(struct tti_check *c, const struct tti_check_plan *p, const char *name, bool hashes)
{
    TTI_CHECK_CASE(c, "wire/%s/%s/%s/%lld%s", tti_tool_wire_name(p->wire), name, tutti_reduce_op_name(p->op),
                   (long long)p->shape[0], p->in_place ? "/in-place" : "") {
        if (!tti_check_has_wire(c) || (hashes && !(c->capabilities & TUTTI_CAP_SAME_BITS))) {
            tti_check_skip(c);
        } else if (hashes) {
            same_bits(c, p);
        } else {
            while (tti_check_next_round(c, tti_check_plan_bytes(p))) {
                tti_check_run(c, &tti_check_all_reduce_form, p);
            }
        }
    }
}

/* All_reduce on a wire, around the sizes at which an engine or the core may change its mind: within the bound of the
 * header, and with the same bits everywhere. The operators differ by a factor for each element, so large tensors are
 * for one of them: their reference takes seconds. */
static void wire_cases(struct tti_check *c, tutti_wire wire)
{
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_PREMUL_SUM};
    static const int64_t counts[] = {0, 1, 23, 1024, 1025, 40003, 300001, 1100003};
    const size_t some = c->quick ? 6 : sizeof(counts) / sizeof(counts[0]);
    for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
        for (size_t n = 0; n < some; n++) {
            struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, ops[o], counts[n]);
            p.wire = wire;
            wire_case(c, &p, "plain", false);
            if (counts[n] > 100000 && ops[o] != TUTTI_SUM) {
                break;
            }
            wire_case(c, &p, "same-bits", true);
            p.in_place = true;
            wire_case(c, &p, "plain", false);
            if (counts[n] > 1000000) { /* neither special values nor strides depend on more elements */
                break;
            }
            p.in_place = false;
            p.pattern = TTI_CHECK_SPECIAL;
            wire_case(c, &p, "special", false);
            p.pattern = TTI_CHECK_PLAIN;
            p.layout = TTI_CHECK_STRIDED;
            wire_case(c, &p, "strided", false);
        }
    }
}

void tti_check_all_reduce_cases(struct tti_check *c)
{
    wire_cases(c, TUTTI_WIRE_BF16);
    wire_cases(c, TUTTI_WIRE_FP8);
    static const tutti_dtype dtypes[] = {TUTTI_F64, TUTTI_F32, TUTTI_F16, TUTTI_BF16, TUTTI_F8_E4M3};
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_PRODUCT, TUTTI_AVG};
    static const int64_t counts[] = {5, 1000, 12000, 100003};
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
        for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
            for (size_t n = 0; n < (c->quick ? 3u : 4u); n++) {
                TTI_CHECK_CASE(c, "same-bits/%s/%s/%lld", tutti_dtype_name(dtypes[d]), tutti_reduce_op_name(ops[o]),
                               (long long)counts[n]) {
                    const struct tti_check_plan p = tti_check_plan_1d(dtypes[d], ops[o], counts[n]);
                    c->capabilities &TUTTI_CAP_SAME_BITS ? same_bits(c, &p) : tti_check_skip(c);
                }
            }
        }
    }
}
