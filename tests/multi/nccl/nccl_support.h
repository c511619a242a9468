/* SPDX-License-Identifier: BSD-3-Clause */
/* A program whose groups run on NCCL. The library and the device are doubles of tests/doubles. */
#ifndef TESTS_MULTI_NCCL_NCCL_SUPPORT_H
#define TESTS_MULTI_NCCL_NCCL_SUPPORT_H

#include "multi/device/device_support.h"

/* This process's rank, known before it has a group. */
static inline int rank_of_environment(void)
{
    const char *number = getenv("TUTTI_RANK");
    return number ? (int)strtol(number, NULL, 10) : 0;
}

/* Selects the double. To be called before any function of Tutti. */
static inline void nccl_choose(void)
{
    char path[4096];
    const char *build = getenv("TUTTI_BUILD");
    snprintf(path, sizeof(path), "%s/tests/doubles/nccl_new/libnccl.so.2", build ? build : ".");
    setenv("TUTTI_NCCL_LIBRARY", path, 1);
}

/* A group on NCCL of all three ranks of `base`. */
static inline tutti_group *nccl_group(tutti_group *base)
{
    static const int32_t all[] = {0, 1, 2};
    tutti_group *g = NULL;
    const tutti_config *config =
        TUTTI_CONFIG(.backend = "nccl", .device = "cuda", .device_index = tutti_group_rank(base));
    if (tutti_group_create(base, all, tutti_group_size(base), config, &g, &err) != TUTTI_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return g;
}

#endif
