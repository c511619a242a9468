/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_CHECK_REFERENCE_EXPECT_H
#define TOOLS_CHECK_REFERENCE_EXPECT_H

#include "check/check.h"
#include "check/plan.h"

/* Whether a backend with these capabilities promises every bit of a reduction; if not, it has an error bound. */
bool tti_check_promises_bits(uint32_t capabilities, tutti_dtype dtype);

/* Elements [at, at + count) of a result are elements [first, ...) of rank's data, bit for bit. */
void tti_check_expect_copy(struct tti_check *c, const unsigned char *result, tutti_dtype dtype, size_t at, size_t count,
                           int rank, enum tti_check_pattern pattern, uint64_t first);

/* ... are the reduction of elements [first, ...) of all ranks' data. */
void tti_check_expect_fold(struct tti_check *c, const unsigned char *result, const struct tti_check_plan *plan,
                           size_t at, size_t count, uint64_t first);

/* One number that has to be another one. Returns whether it is. Every plain comparison of the suite goes through it. */
bool tti_check_expect_i64(struct tti_check *c, const char *what, int64_t got, int64_t wanted);

#endif
