/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How often a test repeats a random step. ThreadSanitizer makes a step ten times as slow, and finds in the first steps
 * of each kind what it can find: there, a test takes a quarter of them, and all of them with TUTTI_TEST_ALL=1.
 */
#ifndef TUTTI_TESTS_REPETITIONS_H
#define TUTTI_TESTS_REPETITIONS_H

#include <stdlib.h>

static inline int repetitions(int all)
{
#ifdef __SANITIZE_THREAD__
    return getenv("TUTTI_TEST_ALL") ? all : (all + 3) / 4;
#else
    return all;
#endif
}

#endif
