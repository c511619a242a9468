/* SPDX-License-Identifier: BSD-3-Clause */
/* Test data that any rank computes for any other rank, from a key and the index of an element. */
#ifndef TOOLS_CHECK_DATA_DATA_H
#define TOOLS_CHECK_DATA_DATA_H

#include "check/check.h"
#include "check/plan.h"

/* A well-mixed word of two; the source of everything that looks random here. */
uint64_t tti_check_mix(uint64_t key, uint64_t counter);
uint64_t tti_check_hash(const void *data, size_t bytes, uint64_t key);
/* The key of a rank's data in the running case. */
uint64_t tti_check_rank_key(const struct tti_check *c, int rank);

/* Elements [first, first + count) of the stream `key`. Any element can be had without the ones before it. */
void tti_check_generate(void *out, tutti_dtype dtype, enum tti_check_pattern pattern, uint64_t key, uint64_t first,
                        size_t count);

/* Ends the process if there is no memory. */
void *tti_check_memory(size_t bytes);

#endif
