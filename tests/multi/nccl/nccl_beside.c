/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=3 timeout=120 cpus=2 trees=release,address */
/*
 * A group on NCCL (a double) has a second engine, for messages. If one of them fails, so does the other: no rank waits
 * for messages of a group whose barrier has failed, also if that barrier came from the call cache, nor the other way
 * round.
 */
#include <stdbool.h>
#include <tutti/p2p.h>

#include "nccl_support.h"
#include "time_limits.h"

enum { SHORT_MS = 500 };

static tutti_group *base;
static struct device_vector v;
static int rank;

static tutti_status barrier(tutti_group *g, int64_t timeout_ms)
{
    return tutti_barrier(g, TUTTI_CALL(.timeout_ms = timeout_ms, .error = &err));
}

static tutti_status receive(tutti_group *g, int32_t from, int64_t timeout_ms, bool async)
{
    tutti_work *work = NULL;
    const tutti_call *call = TUTTI_CALL(.timeout_ms = timeout_ms, .error = &err);
    if (!async) {
        return tutti_recv(g, &v.tensor, from, 0, call, NULL);
    }
    tutti_status status = tutti_recv_async(g, &v.tensor, from, 0, call, NULL, &work);
    if (status == TUTTI_OK) {
        status = tutti_work_wait(work, TUTTI_FOREVER);
        EXPECT_OK(tutti_work_release(work));
    }
    return status;
}

static void barrier_fails(int before)
{
    tutti_group *g = nccl_group(base);
    for (int i = 0; i < before; i++) {
        EXPECT_OK(barrier(g, LONG_MS));
    }
    if (rank != 2) {
        EXPECT(barrier(g, SHORT_MS) != TUTTI_OK);
        EXPECT(receive(g, 2, LONG_MS, false) == TUTTI_REVOKED);
    }
    EXPECT_OK(barrier(base, LONG_MS));
    EXPECT_OK(tutti_group_destroy(g, &err));
}

static void message_fails(bool async)
{
    tutti_group *g = nccl_group(base);
    EXPECT_OK(barrier(g, LONG_MS));
    if (rank == 0) {
        EXPECT(receive(g, 1, SHORT_MS, async) == TUTTI_TIMEOUT);
        EXPECT(barrier(g, LONG_MS) == TUTTI_REVOKED);
    }
    EXPECT_OK(barrier(base, LONG_MS));
    EXPECT_OK(tutti_group_destroy(g, &err));
}

int main(void)
{
    rank = rank_of_environment();
    nccl_choose();
    device_choose("delay_us=0");
    base = device_open(TUTTI_CONFIG(.backend = "shm", .device = "cuda", .device_index = rank));
    vector_make(base, &v, 1);
    barrier_fails(1);
    barrier_fails(4); /* the last ones come from the call cache */
    message_fails(false);
    message_fails(true);
    vector_free(base, &v);
    EXPECT_OK(tutti_group_destroy(base, &err));
    return failures > 0;
}
