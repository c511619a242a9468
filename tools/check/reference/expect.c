/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comparisons. Expectations are made in blocks, so that a result of tens of MiB needs no second one of its size.
 *
 * A reduction is compared bit for bit where the group's backend promises the fold that the design prescribes, and
 * within the bound of fold.c elsewhere. Integers, bool and everything that is only copied are compared bit for bit.
 */
#include "check/reference/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/data/data.h"
#include "check/reference/float_format.h"
#include "check/reference/fold.h"
#include "check/sabotage.h"

static void describe_element(char *text, size_t capacity, tutti_dtype dtype, uint64_t bits)
{
    const struct tti_check_format *f = tti_check_format_of(dtype);
    const int digits = 2 * (int)tutti_dtype_size(dtype);
    if (f) {
        snprintf(text, capacity, "0x%0*llx (%.9g)", digits, (unsigned long long)bits, tti_check_format_decode(f, bits));
    } else {
        snprintf(text, capacity, "0x%0*llx", digits, (unsigned long long)bits);
    }
}

static void fail_element(struct tti_check *c, tutti_dtype dtype, size_t index, uint64_t wanted, uint64_t got,
                         const char *how)
{
    char wanted_text[64];
    char got_text[64];
    describe_element(wanted_text, sizeof(wanted_text), dtype, wanted);
    describe_element(got_text, sizeof(got_text), dtype, got);
    tti_check_fail(c, "element %zu (%s): expected %s%s, got %s", index, tutti_dtype_name(dtype), how, wanted_text,
                   got_text);
}

void tti_check_expect_copy(struct tti_check *c, const unsigned char *result, tutti_dtype dtype, size_t at, size_t count,
                           int rank, enum tti_check_pattern pattern, uint64_t first)
{
    const size_t item = tutti_dtype_size(dtype);
    const uint64_t key = tti_check_rank_key(c, rank);
    uint64_t block[TTI_CHECK_BLOCK]; /* uint64_t: aligned for every element */
    for (size_t done = 0; done < count;) {
        const size_t n = count - done < TTI_CHECK_BLOCK ? count - done : TTI_CHECK_BLOCK;
        tti_check_generate(block, dtype, pattern, key, first + done, n);
        const unsigned char *got = result + (at + done) * item;
        if (memcmp(got, block, n * item) != 0) {
            const unsigned char *wanted = (const unsigned char *)block;
            size_t i = 0;
            while (memcmp(got + i * item, wanted + i * item, item) == 0) {
                i++;
            }
            char how[64];
            snprintf(how, sizeof(how), "element %llu of rank %d, ", (unsigned long long)(first + done + i), rank);
            fail_element(c, dtype, at + done + i, tti_check_bits_load(wanted + i * item, item),
                         tti_check_bits_load(got + i * item, item), how);
            return;
        }
        done += n;
    }
}

bool tti_check_promises_bits(uint32_t capabilities, tutti_dtype dtype)
{
    if (!tti_check_format_of(dtype)) {
        return true;
    }
    const bool wide = dtype == TUTTI_F64 || dtype == TUTTI_F32;
    return (capabilities & TUTTI_CAP_RANK_ORDER) && (wide || (capabilities & TUTTI_CAP_ROUND_ONCE));
}

/* True: the block is as it should be. */
static bool block_matches(struct tti_check *c, const struct tti_check_fold *fold, const unsigned char *wanted,
                          const unsigned char *got, size_t at)
{
    const size_t item = tutti_dtype_size(fold->dtype);
    if (memcmp(got, wanted, fold->count * item) == 0) {
        return true;
    }
    for (size_t i = 0; i < fold->count; i++) {
        const uint64_t w = tti_check_bits_load(wanted + i * item, item);
        const uint64_t g = tti_check_bits_load(got + i * item, item);
        if (!tti_check_fold_close(fold, i, w, g)) {
            fail_element(c, fold->dtype, at + i, w, g, fold->bounded ? "about " : "");
            return false;
        }
    }
    return true;
}

void tti_check_expect_fold(struct tti_check *c, const unsigned char *result, const struct tti_check_plan *plan,
                           size_t at, size_t count, uint64_t first)
{
    const size_t item = tutti_dtype_size(plan->dtype);
    const bool bounded = !tti_check_promises_bits(c->capabilities, plan->dtype);
    struct tti_check_fold *fold = tti_check_memory(sizeof(*fold));
    uint64_t block[TTI_CHECK_BLOCK];
    for (size_t done = 0; done < count;) {
        const size_t n = count - done < TTI_CHECK_BLOCK ? count - done : TTI_CHECK_BLOCK;
        tti_check_fold_start(fold, plan->dtype, plan->op, n, bounded);
        tti_check_fold_wire(fold, plan->wire, c->capabilities);
        fold->drops_nan = (c->capabilities & TUTTI_CAP_DROPS_NAN) != 0;
        for (int r = 0; r < c->size; r++) {
            tti_check_generate(block, plan->dtype, plan->pattern, tti_check_rank_key(c, r), first + done, n);
            tti_check_fold_add(fold, block, tti_check_scale(r, plan->dtype));
        }
        tti_check_fold_finish(fold, block);
        if (!block_matches(c, fold, (const unsigned char *)block, result + (at + done) * item, at + done)) {
            break;
        }
        done += n;
    }
    free(fold);
}

bool tti_check_expect_i64(struct tti_check *c, const char *what, int64_t got, int64_t wanted)
{
    const int64_t seen = tti_check_sabotaged(c, TTI_CHECK_SPOIL_RESULT) ? got ^ 1 : got;
    if (seen != wanted) {
        tti_check_fail(c, "%s: expected %lld, got %lld", what, (long long)wanted, (long long)seen);
    }
    /* sabotage is reported, but no rank does anything else because of it */
    return got == wanted;
}
