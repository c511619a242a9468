/* SPDX-License-Identifier: BSD-3-Clause */
/* Small things that every file of the example needs: the end of the program after an error, time and random numbers. */
#ifndef EXAMPLES_COMMON_COMMON_H
#define EXAMPLES_COMMON_COMMON_H

#include <stdint.h>
#include <tutti/tutti.h>

/* Prints one line and ends the process with status 1. `tutti run` then ends the other ranks. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

/* The same with status 2: the command line is wrong. */
__attribute__((noreturn, format(printf, 1, 2))) void refuse(const char *format, ...);

/* Ends the program with the error's sentence unless the call succeeded. */
void must(tutti_status status, const tutti_error *error);

/* calloc that ends the program instead of returning NULL. */
void *allocate(size_t count, size_t size);

/* Seconds on a clock that only moves forward. */
double seconds_now(void);

/* The next number of a reproducible sequence (splitmix64); the same seed gives the same numbers on every rank. */
uint64_t random_next(uint64_t *state);

/* Rank `rank` of `ranks` works on elements [share_begin(rank), share_begin(rank + 1)) of `total`: equal up to one. */
int64_t share_begin(int64_t total, int32_t rank, int32_t ranks);

#endif
