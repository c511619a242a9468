/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of a short job: sum_job NUMBER [ROUNDS]. All ranks add NUMBER. If a rank gets another sum than ranks times
 * NUMBER, a rank of another job took part. Prints "NUMBER rank size backend". A barrier comes before the end, so that
 * no rank leaves while others still need it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "time_limits.h"

int main(int argc, char **argv)
{
    tutti_group *world = NULL;
    tutti_error e;
    int64_t one = 1;
    int64_t number = argc > 1 ? strtoll(argv[1], NULL, 10) : 0;
    long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    if (number <= 0) {
        fprintf(stderr, "usage: sum_job NUMBER [ROUNDS]\n");
        return 2;
    }
    if (tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS), &world, &e) != TUTTI_OK) {
        fprintf(stderr, "sum_job %lld: init: %s\n", (long long)number, e.message);
        return 1;
    }
    int32_t size = tutti_group_size(world);
    int32_t rank = tutti_group_rank(world);
    for (long i = 0; i < rounds; i++) {
        int64_t sum = number;
        DLTensor t = tutti_tensor_1d(&sum, &one, TUTTI_I64);
        if (tutti_all_reduce(world, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
            fprintf(stderr, "sum_job %lld: all_reduce: %s\n", (long long)number, e.message);
            return 1;
        }
        if (sum != number * size) {
            fprintf(stderr, "sum_job %lld: the sum of %d ranks is %lld: another job is here\n", (long long)number, size,
                    (long long)sum);
            return 1;
        }
    }
    printf("%lld %d %d %s\n", (long long)number, rank, size, tutti_group_backend(world));
    fflush(stdout);
    if (tutti_barrier(world, TUTTI_CALL(.error = &e)) != TUTTI_OK || tutti_group_destroy(world, &e) != TUTTI_OK ||
        tutti_finalize(&e) != TUTTI_OK) {
        fprintf(stderr, "sum_job %lld: the end: %s\n", (long long)number, e.message);
        return 1;
    }
    return 0;
}
