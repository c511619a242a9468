/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that reduces in a loop until it is ended: endless_job [exit|linger RANK CODE]. With arguments, RANK calls
 * exit(CODE) in the middle; `linger`: its process ends after those of all others. Messages are large, so that windows
 * of shared memory, sub-groups and sleeping ranks are all in use. Prints "ready RANK PID" after the first round. A rank
 * whose call fails exits with code 9: the launcher must report the first cause, not this code.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#define COUNT      300000
#define MOST_RANKS 16

static float data[COUNT];
static int64_t pids[MOST_RANKS];

/* Waits until the launcher has seen the processes of all other ranks end: then they have no number any more. */
static void outlive(int32_t rank, int32_t size)
{
    for (int32_t r = 0; r < size; r++) {
        while (r != rank && kill((pid_t)pids[r], 0) == 0) {
            poll(NULL, 0, 10);
        }
    }
}

int main(int argc, char **argv)
{
    tutti_group *world = NULL;
    tutti_group *half = NULL;
    tutti_error e;
    int64_t count = COUNT;
    DLTensor t = tutti_tensor_1d(data, &count, TUTTI_F32);
    if (tutti_init(NULL, &world, &e) != TUTTI_OK) {
        fprintf(stderr, "endless_job: init: %s\n", e.message);
        return 1;
    }
    int32_t rank = tutti_group_rank(world);
    int leaves = argc == 4 && atoi(argv[2]) == rank ? atoi(argv[3]) : 0;
    const int64_t own = getpid();
    const int64_t one = 1;
    const int64_t all = tutti_group_size(world);
    const DLTensor mine = tutti_tensor_1d((void *)&own, &one, TUTTI_I64);
    DLTensor joined = tutti_tensor_1d(pids, &all, TUTTI_I64);
    if (all > MOST_RANKS || tutti_all_gather(world, &mine, &joined, 0, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
        fprintf(stderr, "endless_job: cannot exchange process numbers\n");
        return 1;
    }
    if (tutti_group_split(world, rank % 2, 0, NULL, &half, &e) != TUTTI_OK) {
        fprintf(stderr, "endless_job: split: %s\n", e.message);
        return 1;
    }
    for (unsigned long round = 0;; round++) {
        if (tutti_all_reduce(world, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)) != TUTTI_OK ||
            tutti_all_reduce(half, &t, &t, TUTTI_MAX, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
            fprintf(stderr, "endless_job: rank %d: %s\n", rank, e.message);
            return 9;
        }
        if (round == 0) {
            printf("ready %d %d\n", rank, (int)getpid());
            fflush(stdout);
        }
        if (round == 5 && leaves) {
            if (strcmp(argv[1], "linger") == 0) {
                tutti_finalize(NULL);
                outlive(rank, (int32_t)all);
            }
            exit(leaves);
        }
    }
}
