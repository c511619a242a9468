/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=3 timeout=120 cpus=2 trees=release,debug,address,undefined */
/*
 * If the device refuses to pack a rank's strided tensor, the rank cannot fail only the call on NCCL, which compares no
 * calls: its group fails. No rank gets a result computed from unpacked memory. This rank gets the driver's error now
 * and later, and the other ranks get TIMEOUT with this rank as the suspect. The same holds for a queued operation.
 */
#include <stdbool.h>

#include "nccl_support.h"

enum { COUNT = 3000, WAIT_MS = 12000 };

static bool faulty;
static struct device_vector v;
static DLTensor strided;

static void expect_end(tutti_group *g, tutti_status status)
{
    if (faulty) {
        EXPECT(status == TUTTI_BACKEND && strstr(err.message, "cuMemcpy2DAsync") != NULL);
    } else if (status != TUTTI_BACKEND) { /* the library may report that a rank is lost, but not which */
        EXPECT(status == TUTTI_TIMEOUT && err.suspect == 1 && strstr(err.message, "rank 1 has not arrived") != NULL);
    }
    EXPECT(tutti_all_reduce(g, &v.tensor, &v.tensor, TUTTI_SUM, TUTTI_CALL(.error = &err)) == TUTTI_REVOKED);
    EXPECT(!faulty || strstr(err.message, "cuMemcpy2DAsync") != NULL);
}

/* The tensor is unchanged. */
static void expect_untouched(int rank)
{
    vector_fetch(&v, NULL);
    EXPECT(cuda.synchronize(NULL) == 0);
    for (int64_t i = 0; i < v.count; i++) {
        if (v.host[i] != (float)(i % 100 + 3 * rank)) {
            fprintf(stderr, "element %lld is %f\n", (long long)i, (double)v.host[i]);
            failures++;
            break;
        }
    }
}

int main(void)
{
    const int rank = rank_of_environment();
    int64_t shape[] = {10, 100};
    int64_t strides[] = {300, 1};
    faulty = rank == 1;
    nccl_choose();
    device_choose(faulty ? "delay_us=0,fail=cuMemcpy2DAsync_v2=1" : "delay_us=0");
    tutti_group *base = device_open(TUTTI_CONFIG(.backend = "shm", .device = "cuda", .device_index = rank));
    vector_make(base, &v, COUNT);
    vector_fill(&v, rank, 0);
    vector_send(&v, NULL);
    EXPECT(cuda.synchronize(NULL) == 0);
    strided = v.tensor;
    strided.ndim = 2;
    strided.shape = shape;
    strided.strides = strides;
    tutti_group *first = nccl_group(base);
    tutti_group *second = nccl_group(base);
    const tutti_call *call = TUTTI_CALL(.timeout_ms = WAIT_MS, .error = &err);
    tutti_work *work = NULL;
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    EXPECT_OK(tutti_all_reduce_async(second, &strided, &strided, TUTTI_SUM, call, &work));
    expect_end(first, tutti_all_reduce(first, &strided, &strided, TUTTI_SUM, call));
    const tutti_status status = tutti_work_wait(work, TUTTI_FOREVER);
    tutti_work_error(work, &err);
    expect_end(second, status);
    EXPECT_OK(tutti_work_release(work));
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    EXPECT_OK(tutti_group_destroy(first, &err));
    EXPECT_OK(tutti_group_destroy(second, &err));
    expect_untouched(rank);
    vector_free(base, &v);
    EXPECT_OK(tutti_group_destroy(base, &err));
    return failures > 0;
}
