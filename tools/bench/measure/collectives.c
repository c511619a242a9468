/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives as data. A few traits determine the tensors of a collective and its expected output, so filling,
 * placing and checking are written once. The conformance suite's dispatcher makes the calls.
 */
#include "bench/measure/collectives.h"

#include <ctype.h>

const struct tti_bench_collective tti_bench_collectives[] = {
    {"all_reduce", TUTTI_OP_ALL_REDUCE, TTI_CHECK_ALL_REDUCE, TTI_BENCH_REDUCES | TTI_BENCH_IN_PLACE,
     TTI_BENCH_BUS_TWICE, TTI_BENCH_ONE_CALL},
    {"reduce", TUTTI_OP_REDUCE, TTI_CHECK_REDUCE, TTI_BENCH_REDUCES | TTI_BENCH_ROOT_OUTPUT | TTI_BENCH_IN_PLACE,
     TTI_BENCH_BUS_ONE, TTI_BENCH_ONE_CALL},
    {"broadcast", TUTTI_OP_BROADCAST, TTI_CHECK_BROADCAST, TTI_BENCH_ROOT_INPUT | TTI_BENCH_ONE_TENSOR,
     TTI_BENCH_BUS_ONE, TTI_BENCH_ONE_CALL},
    {"all_gather", TUTTI_OP_ALL_GATHER, TTI_CHECK_ALL_GATHER, TTI_BENCH_WHOLE_OUTPUT | TTI_BENCH_IN_PLACE,
     TTI_BENCH_BUS_OTHERS, TTI_BENCH_ONE_CALL},
    {"gather", TUTTI_OP_GATHER, TTI_CHECK_GATHER, TTI_BENCH_WHOLE_OUTPUT | TTI_BENCH_ROOT_OUTPUT | TTI_BENCH_IN_PLACE,
     TTI_BENCH_BUS_OTHERS, TTI_BENCH_ONE_CALL},
    {"scatter", TUTTI_OP_SCATTER, TTI_CHECK_SCATTER, TTI_BENCH_WHOLE_INPUT | TTI_BENCH_ROOT_INPUT | TTI_BENCH_IN_PLACE,
     TTI_BENCH_BUS_OTHERS, TTI_BENCH_ONE_CALL},
    {"reduce_scatter", TUTTI_OP_REDUCE_SCATTER, TTI_CHECK_REDUCE_SCATTER,
     TTI_BENCH_REDUCES | TTI_BENCH_WHOLE_INPUT | TTI_BENCH_IN_PLACE, TTI_BENCH_BUS_OTHERS, TTI_BENCH_ONE_CALL},
    {"all_to_all", TUTTI_OP_ALL_TO_ALL, TTI_CHECK_ALL_TO_ALL, TTI_BENCH_WHOLE_INPUT | TTI_BENCH_WHOLE_OUTPUT,
     TTI_BENCH_BUS_OTHERS, TTI_BENCH_ONE_CALL},
    {"sendrecv", TUTTI_OP_SEND, TTI_CHECK_SENDRECV, TTI_BENCH_NEIGHBOUR, TTI_BENCH_BUS_ONE, TTI_BENCH_ONE_CALL},
    {"barrier", TUTTI_OP_BARRIER, TTI_CHECK_BARRIER, TTI_BENCH_EMPTY, TTI_BENCH_BUS_ONE, TTI_BENCH_ONE_CALL},
    {"ping_pong", TUTTI_OP_SEND, TTI_CHECK_SENDRECV, TTI_BENCH_NEIGHBOUR, TTI_BENCH_BUS_ONE, TTI_BENCH_PING_PONG},
    {"window", TUTTI_OP_SEND, TTI_CHECK_SENDRECV, TTI_BENCH_NEIGHBOUR, TTI_BENCH_BUS_ONE, TTI_BENCH_WINDOW},
    {"group", TUTTI_OP_SPLIT, TTI_CHECK_BARRIER, TTI_BENCH_EMPTY, TTI_BENCH_BUS_ONE, TTI_BENCH_GROUP},
};

const size_t tti_bench_collectives_count = sizeof(tti_bench_collectives) / sizeof(tti_bench_collectives[0]);

static const char *skip_separators(const char *text)
{
    while (*text == '_' || *text == '-') {
        text++;
    }
    return text;
}

static bool same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        a = skip_separators(a);
        b = skip_separators(b);
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) {
            return false;
        }
        if (*a == '\0') {
            return true;
        }
    }
}

const struct tti_bench_collective *tti_bench_find(const char *name)
{
    for (size_t i = 0; i < tti_bench_collectives_count; i++) {
        if (same_name(name, tti_bench_collectives[i].name)) {
            return &tti_bench_collectives[i];
        }
    }
    return NULL;
}

uint32_t tti_bench_all(void)
{
    uint32_t all = 0;
    for (size_t i = 0; i < tti_bench_collectives_count; i++) {
        all |= tti_bench_collectives[i].pattern == TTI_BENCH_ONE_CALL ? UINT32_C(1) << i : 0;
    }
    return all;
}

bool tti_bench_chosen(const struct tti_bench_options *options, const struct tti_bench_collective *collective)
{
    return ((options->chosen ? options->chosen : tti_bench_all()) >> (collective - tti_bench_collectives) & 1) != 0;
}

double tti_bench_bus_factor(enum tti_bench_bus bus, int ranks)
{
    const double others = (double)(ranks - 1) / ranks;
    switch (bus) {
    case TTI_BENCH_BUS_OTHERS:
        return others;
    case TTI_BENCH_BUS_TWICE:
        return 2 * others;
    default:
        return 1;
    }
}
