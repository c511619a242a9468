/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How often a test repeats a random step. A sanitizer makes a step up to ten times as slow, and finds in the first
 * steps of each kind what it can find: there, a test takes a quarter of them, and all of them with TUTTI_TEST_ALL=1.
 */
#ifndef TESTS_REPETITIONS_H
#define TESTS_REPETITIONS_H

#include <stdbool.h>
#include <stdlib.h>

/* Whether this run takes all steps. */
static inline bool takes_all(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return getenv("TUTTI_TEST_ALL");
#else
    return true;
#endif
}

static inline int repetitions(int all)
{
    return takes_all() ? all : (all + 3) / 4;
}

#endif
