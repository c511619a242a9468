/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad tensors: every tensor argument of every collective, with every case of bad_tensors.h. */
#include "bad_tensors.h"

#define RANKS 3
#define PART  4

/* Good tensors for the other arguments; no call writes them. */
static int64_t part_length = PART;
static int64_t joined_length = PART * RANKS;
static int64_t counts[RANKS] = {PART, PART, PART};

static DLTensor part(void)
{
    static float data[PART];
    return tutti_tensor_1d(data, &part_length, TUTTI_F32);
}

static DLTensor joined(void)
{
    static float data[PART * RANKS];
    return tutti_tensor_1d(data, &joined_length, TUTTI_F32);
}

static tutti_status all_reduce_input(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor out = part();
    return tutti_all_reduce(g, bad, &out, TUTTI_SUM, call);
}

static tutti_status all_reduce_output(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor in = part();
    return tutti_all_reduce(g, &in, (DLTensor *)bad, TUTTI_SUM, call);
}

static tutti_status reduce_input(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor out = part();
    return tutti_reduce(g, bad, &out, TUTTI_SUM, 0, call);
}

/* Every rank names itself as root: only the root uses the joined side. */
static tutti_status reduce_output(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor in = part();
    return tutti_reduce(g, &in, (DLTensor *)bad, TUTTI_SUM, tutti_group_rank(g), call);
}

/* Every rank names another one as root: the root's tensor is read, all others are written. */
static tutti_status broadcast_tensor(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    return tutti_broadcast(g, (DLTensor *)bad, (tutti_group_rank(g) + 1) % RANKS, call);
}

static tutti_status all_gather_input(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor out = joined();
    return tutti_all_gather(g, bad, &out, 0, call);
}

static tutti_status all_gather_output(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor in = part();
    return tutti_all_gather(g, &in, (DLTensor *)bad, 0, call);
}

static tutti_status gather_input(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor out = joined();
    return tutti_gather(g, bad, &out, 0, 0, call);
}

static tutti_status gather_output(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor in = part();
    return tutti_gather(g, &in, (DLTensor *)bad, 0, tutti_group_rank(g), call);
}

static tutti_status scatter_input(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor out = part();
    return tutti_scatter(g, bad, &out, 0, tutti_group_rank(g), call);
}

static tutti_status scatter_output(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor in = joined();
    return tutti_scatter(g, &in, (DLTensor *)bad, 0, 0, call);
}

static tutti_status reduce_scatter_input(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor out = part();
    return tutti_reduce_scatter(g, bad, &out, TUTTI_SUM, 0, call);
}

static tutti_status reduce_scatter_output(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor in = joined();
    return tutti_reduce_scatter(g, &in, (DLTensor *)bad, TUTTI_SUM, 0, call);
}

static tutti_status all_to_all_input(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor out = joined();
    return tutti_all_to_all(g, bad, &out, 0, call);
}

static tutti_status all_to_all_output(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor in = joined();
    return tutti_all_to_all(g, &in, (DLTensor *)bad, 0, call);
}

static tutti_status all_gather_v_input(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor out = joined();
    return tutti_all_gather_v(g, bad, &out, 0, counts, NULL, call);
}

static tutti_status all_gather_v_output(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor in = part();
    return tutti_all_gather_v(g, &in, (DLTensor *)bad, 0, counts, NULL, call);
}

static tutti_status reduce_scatter_v_input(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor out = part();
    return tutti_reduce_scatter_v(g, bad, &out, TUTTI_SUM, 0, counts, call);
}

static tutti_status reduce_scatter_v_output(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor in = joined();
    return tutti_reduce_scatter_v(g, &in, (DLTensor *)bad, TUTTI_SUM, 0, counts, call);
}

static tutti_status all_to_all_v_input(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor out = joined();
    return tutti_all_to_all_v(g, bad, &out, 0, counts, NULL, counts, NULL, call);
}

static tutti_status all_to_all_v_output(tutti_group *g, const DLTensor *bad, const tutti_call *call)
{
    DLTensor in = joined();
    return tutti_all_to_all_v(g, &in, (DLTensor *)bad, 0, counts, NULL, counts, NULL, call);
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    DLTensor one = part();
    DLTensor all = joined();
    const struct {
        const char *function;
        const char *argument;
        const DLTensor *good;
        bad_place place;
        enum bad_use use;
    } places[] = {
        {"all_reduce", "input", &one, all_reduce_input, READ},
        {"all_reduce", "output", &one, all_reduce_output, WRITTEN},
        {"reduce", "input", &one, reduce_input, READ},
        {"reduce", "output", &one, reduce_output, WRITTEN},
        {"broadcast", "tensor", &one, broadcast_tensor, WRITTEN},
        {"all_gather", "input", &one, all_gather_input, READ},
        {"all_gather", "output", &all, all_gather_output, WRITTEN},
        {"gather", "input", &one, gather_input, READ},
        {"gather", "output", &all, gather_output, WRITTEN},
        {"scatter", "input", &all, scatter_input, READ},
        {"scatter", "output", &one, scatter_output, WRITTEN},
        {"reduce_scatter", "input", &all, reduce_scatter_input, READ},
        {"reduce_scatter", "output", &one, reduce_scatter_output, WRITTEN},
        {"all_to_all", "input", &all, all_to_all_input, READ},
        {"all_to_all", "output", &all, all_to_all_output, WRITTEN},
        {"all_gather_v", "input", &one, all_gather_v_input, READ},
        {"all_gather_v", "output", &all, all_gather_v_output, WRITTEN},
        {"reduce_scatter_v", "input", &all, reduce_scatter_v_input, READ},
        {"reduce_scatter_v", "output", &one, reduce_scatter_v_output, WRITTEN},
        {"all_to_all_v", "input", &all, all_to_all_v_input, READ},
        {"all_to_all_v", "output", &all, all_to_all_v_output, WRITTEN},
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        try_bad_tensors(g, places[i].function, places[i].argument, places[i].good, places[i].place, places[i].use);
    }
    return TUTTI_OK;
}

int main(void)
{
    for (int i = 0; i <= TUTTI_MAX_NDIM; i++) {
        bad_numbers[i] = 1;
    }
    test_ranks(RANKS, rank);
    return test_result();
}
