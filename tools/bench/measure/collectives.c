/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives as data: which tensors they take and what has to come out follows from a few traits, so that filling,
 * placing and checking are written once. Only the calls themselves differ.
 */
#include "bench/measure/collectives.h"

#include <ctype.h>

#include "bench/bench.h"
#include "bench/options.h"

static tutti_status all_reduce(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call)
{
    return tutti_all_reduce(b->group, t->in, t->out, b->options->op, call);
}

static tutti_status reduce(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call)
{
    return tutti_reduce(b->group, t->in, t->out, b->options->op, b->options->root, call);
}

static tutti_status broadcast(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call)
{
    return tutti_broadcast(b->group, t->out, b->options->root, call);
}

static tutti_status all_gather(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call)
{
    return tutti_all_gather(b->group, t->in, t->out, 0, call);
}

static tutti_status gather(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call)
{
    return tutti_gather(b->group, t->in, t->out, 0, b->options->root, call);
}

static tutti_status scatter(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call)
{
    return tutti_scatter(b->group, t->in, t->out, 0, b->options->root, call);
}

static tutti_status reduce_scatter(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call)
{
    return tutti_reduce_scatter(b->group, t->in, t->out, b->options->op, 0, call);
}

static tutti_status all_to_all(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call)
{
    return tutti_all_to_all(b->group, t->in, t->out, 0, call);
}

static int next(const struct tti_bench *b)
{
    return (b->rank + 1) % b->size;
}

static int before(const struct tti_bench *b)
{
    return (b->rank + b->size - 1) % b->size;
}

static tutti_status sendrecv(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call)
{
    return tutti_sendrecv(b->group, t->in, next(b), 0, t->out, before(b), 0, call, NULL);
}

static tutti_status barrier(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call)
{
    (void)t;
    return tutti_barrier(b->group, call);
}

static tutti_status start_all_reduce(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                     tutti_work **work)
{
    return tutti_all_reduce_async(b->group, t->in, t->out, b->options->op, call, work);
}

static tutti_status start_reduce(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                 tutti_work **work)
{
    return tutti_reduce_async(b->group, t->in, t->out, b->options->op, b->options->root, call, work);
}

static tutti_status start_broadcast(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                    tutti_work **work)
{
    return tutti_broadcast_async(b->group, t->out, b->options->root, call, work);
}

static tutti_status start_all_gather(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                     tutti_work **work)
{
    return tutti_all_gather_async(b->group, t->in, t->out, 0, call, work);
}

static tutti_status start_gather(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                 tutti_work **work)
{
    return tutti_gather_async(b->group, t->in, t->out, 0, b->options->root, call, work);
}

static tutti_status start_scatter(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                  tutti_work **work)
{
    return tutti_scatter_async(b->group, t->in, t->out, 0, b->options->root, call, work);
}

static tutti_status start_reduce_scatter(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                         tutti_work **work)
{
    return tutti_reduce_scatter_async(b->group, t->in, t->out, b->options->op, 0, call, work);
}

static tutti_status start_all_to_all(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                     tutti_work **work)
{
    return tutti_all_to_all_async(b->group, t->in, t->out, 0, call, work);
}

static tutti_status start_sendrecv(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                   tutti_work **work)
{
    return tutti_sendrecv_async(b->group, t->in, next(b), 0, t->out, before(b), 0, call, NULL, work);
}

static tutti_status start_barrier(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                  tutti_work **work)
{
    (void)t;
    return tutti_barrier_async(b->group, call, work);
}

const struct tti_bench_collective tti_bench_collectives[] = {
    {"all_reduce", TUTTI_OP_ALL_REDUCE, TTI_BENCH_REDUCES | TTI_BENCH_IN_PLACE, TTI_BENCH_BUS_TWICE, all_reduce,
     start_all_reduce},
    {"reduce", TUTTI_OP_REDUCE, TTI_BENCH_REDUCES | TTI_BENCH_ROOT_OUTPUT | TTI_BENCH_IN_PLACE, TTI_BENCH_BUS_ONE,
     reduce, start_reduce},
    {"broadcast", TUTTI_OP_BROADCAST, TTI_BENCH_ROOT_INPUT | TTI_BENCH_ONE_TENSOR, TTI_BENCH_BUS_ONE, broadcast,
     start_broadcast},
    {"all_gather", TUTTI_OP_ALL_GATHER, TTI_BENCH_WHOLE_OUTPUT | TTI_BENCH_IN_PLACE, TTI_BENCH_BUS_OTHERS, all_gather,
     start_all_gather},
    {"gather", TUTTI_OP_GATHER, TTI_BENCH_WHOLE_OUTPUT | TTI_BENCH_ROOT_OUTPUT | TTI_BENCH_IN_PLACE,
     TTI_BENCH_BUS_OTHERS, gather, start_gather},
    {"scatter", TUTTI_OP_SCATTER, TTI_BENCH_WHOLE_INPUT | TTI_BENCH_ROOT_INPUT | TTI_BENCH_IN_PLACE,
     TTI_BENCH_BUS_OTHERS, scatter, start_scatter},
    {"reduce_scatter", TUTTI_OP_REDUCE_SCATTER, TTI_BENCH_REDUCES | TTI_BENCH_WHOLE_INPUT | TTI_BENCH_IN_PLACE,
     TTI_BENCH_BUS_OTHERS, reduce_scatter, start_reduce_scatter},
    {"all_to_all", TUTTI_OP_ALL_TO_ALL, TTI_BENCH_WHOLE_INPUT | TTI_BENCH_WHOLE_OUTPUT, TTI_BENCH_BUS_OTHERS,
     all_to_all, start_all_to_all},
    {"sendrecv", TUTTI_OP_SEND, TTI_BENCH_NEIGHBOUR, TTI_BENCH_BUS_ONE, sendrecv, start_sendrecv},
    {"barrier", TUTTI_OP_BARRIER, TTI_BENCH_EMPTY, TTI_BENCH_BUS_ONE, barrier, start_barrier},
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

bool tti_bench_chosen(const struct tti_bench_options *options, const struct tti_bench_collective *collective)
{
    return options->chosen == 0 || (options->chosen >> (collective - tti_bench_collectives) & 1) != 0;
}

const char *tti_bench_chosen_names(const struct tti_bench_options *options, char text[TTI_BENCH_NAMES])
{
    size_t used = 0;
    snprintf(text, TTI_BENCH_NAMES, "all");
    for (size_t i = 0; options->chosen != 0 && i < tti_bench_collectives_count; i++) {
        const struct tti_bench_collective *collective = &tti_bench_collectives[i];
        if (tti_bench_chosen(options, collective) && used < TTI_BENCH_NAMES) {
            used +=
                (size_t)snprintf(text + used, TTI_BENCH_NAMES - used, "%s%s", used > 0 ? "," : "", collective->name);
        }
    }
    return text;
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
