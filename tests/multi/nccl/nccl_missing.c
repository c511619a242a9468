/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=3 timeout=120 cpus=2 trees=release,debug,address,undefined */
/*
 * The error of a collective on NCCL that does not end. It names the rank that has not arrived, has made another call or
 * has failed, or says that all ranks have arrived. NCCL itself (a double) reports none of this. Every case fails a
 * group of its own; most of them wait at the same time.
 */
#include <stdbool.h>

#include "nccl_support.h"

enum { COUNT = 1000, WAIT_MS = 12000 };

static tutti_group *base;
static struct device_vector v;
static int rank;

/* A call that fails, and the error that this rank expects. */
struct call {
    tutti_operation kind; /* NONE: this rank makes none */
    int32_t suspect;
    const char *word;
};

struct scene {
    struct call calls[3]; /* of each rank */
    tutti_group *group;
    tutti_work *work;
};

enum { REFUSED = 2 }; /* the case in which the library refuses rank 0's call */

static struct scene scenes[] = {
    {{{TUTTI_OP_ALL_REDUCE, 2, ": rank 2 has not arrived"}, {TUTTI_OP_ALL_REDUCE, 2, ": rank 2 has not arrived"}, {0}},
     NULL,
     NULL},
    {{{0}, {TUTTI_OP_BARRIER, 2, ": ranks 2, 0 have not arrived"}, {0}}, NULL, NULL},
    {{{TUTTI_OP_REDUCE, -1, "ncclReduce"},
      {TUTTI_OP_REDUCE, 0, ": rank 0 has failed in it: reduce: ncclReduce of call 1"},
      {TUTTI_OP_REDUCE, 0, ": rank 0 has failed in it: reduce: ncclReduce of call 1"}},
     NULL,
     NULL},
    /* a rank that is not in a call with a root may have ended it already */
    {{{0}, {TUTTI_OP_BROADCAST, 0, ": rank 0 is not in it"}, {TUTTI_OP_BROADCAST, 0, ": rank 0 is not in it"}},
     NULL,
     NULL},
    {{{TUTTI_OP_ALL_REDUCE, 1,
       ": rank 1 is in broadcast of f32 with root 0, 1000 elements there, this rank in all_red"},
      {TUTTI_OP_BROADCAST, 2, ": rank 2 is in all_reduce of f32 by sum, 1000 elements there, this rank in broadcast"},
      {TUTTI_OP_ALL_REDUCE, 1, ": rank 1 is in broadcast"}},
     NULL,
     NULL},
};
enum { SCENES = sizeof(scenes) / sizeof(scenes[0]) };

static tutti_status start(struct scene *s)
{
    const tutti_call *call = TUTTI_CALL(.timeout_ms = WAIT_MS, .error = &err);
    switch (s->calls[rank].kind) {
    case TUTTI_OP_ALL_REDUCE:
        return tutti_all_reduce_async(s->group, &v.tensor, &v.tensor, TUTTI_SUM, call, &s->work);
    case TUTTI_OP_REDUCE:
        return tutti_reduce_async(s->group, &v.tensor, &v.tensor, TUTTI_SUM, 0, call, &s->work);
    case TUTTI_OP_BROADCAST:
        return tutti_broadcast_async(s->group, &v.tensor, 0, call, &s->work);
    case TUTTI_OP_BARRIER:
        return tutti_barrier_async(s->group, call, &s->work);
    default:
        return TUTTI_OK;
    }
}

static void expect_end(struct scene *s, const struct call *call)
{
    const bool refused = s == &scenes[REFUSED];
    if (call->kind == 0) {
        return;
    }
    const tutti_status status = tutti_work_wait(s->work, -1);
    tutti_work_error(s->work, &err);
    if (refused && rank == 0) {
        EXPECT(status == TUTTI_BACKEND && strstr(err.message, call->word) != NULL);
    } else if (!refused ||
               status != TUTTI_BACKEND) { /* which the library may report on the other ranks, without the rank */
        EXPECT(status == TUTTI_TIMEOUT && err.suspect == call->suspect && strstr(err.message, call->word) != NULL);
        /* later calls, too */
        EXPECT(tutti_barrier(s->group, TUTTI_CALL(.error = &err)) == TUTTI_REVOKED && err.suspect == call->suspect);
    }
    tutti_work_release(s->work);
}

/* All ranks come, and the device does not end the work. */
static void stuck(void)
{
    tutti_group *g = nccl_group(base);
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    EXPECT(tutti_all_reduce(g, &v.tensor, &v.tensor, TUTTI_SUM, TUTTI_CALL(.timeout_ms = WAIT_MS, .error = &err)) ==
           TUTTI_TIMEOUT);
    EXPECT(err.suspect == -1 && strstr(err.message, ": all ranks are in it, so a device or the network") != NULL);
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    EXPECT_OK(tutti_group_destroy(g, &err));
}

int main(void)
{
    rank = rank_of_environment();
    nccl_choose();
    setenv("TUTTI_DOUBLE_NCCL", rank == 0 ? "hang=1,fail=Reduce:1=4" : "hang=1", 1);
    device_choose("delay_us=0");
    base = device_open(TUTTI_CONFIG(.backend = "shm", .device = "cuda", .device_index = rank));
    vector_make(base, &v, COUNT);
    vector_fill(&v, rank, 0);
    vector_send(&v, NULL);
    EXPECT(cuda.synchronize(NULL) == 0);
    stuck();
    for (int i = 0; i < SCENES; i++) {
        scenes[i].group = nccl_group(base);
    }
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    for (int i = 0; i < SCENES; i++) {
        EXPECT_OK(start(&scenes[i]));
    }
    for (int i = 0; i < SCENES; i++) {
        expect_end(&scenes[i], &scenes[i].calls[rank]);
    }
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    for (int i = 0; i < SCENES; i++) {
        EXPECT_OK(tutti_group_destroy(scenes[i].group, &err));
    }
    vector_free(base, &v);
    EXPECT_OK(tutti_group_destroy(base, &err));
    return failures > 0;
}
