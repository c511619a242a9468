/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=3 timeout=120 cpus=2 trees=release,debug */
/*
 * No memory on one rank's device for the copy of a strided tensor. NCCL compares no calls, so the rank cannot fail only
 * this call: it gets NO_MEMORY and its group fails. Otherwise its next call would meet this call of the other ranks.
 */
#include "nccl_support.h"

enum { ROWS = 800, COLUMNS = 100, PITCH = 125, WAIT_MS = 5000 };

int main(void)
{
    const int rank = rank_of_environment();
    int64_t shape[] = {ROWS, COLUMNS};
    int64_t strides[] = {PITCH, 1};
    struct device_vector v;
    nccl_choose();
    device_choose(rank == 1 ? "delay_us=0,memory=700K" : "delay_us=0");
    tutti_group *base = device_open(TUTTI_CONFIG(.backend = "shm", .device = "cuda", .device_index = rank));
    vector_make(base, &v, ROWS * PITCH);
    vector_fill(&v, rank, 0);
    vector_send(&v, NULL);
    EXPECT(cuda.synchronize(NULL) == 0);
    DLTensor strided = v.tensor;
    strided.ndim = 2;
    strided.shape = shape;
    strided.strides = strides;
    tutti_group *g = nccl_group(base);
    const tutti_call *call = TUTTI_CALL(.timeout_ms = WAIT_MS, .error = &err);
    const tutti_status status = tutti_all_reduce(g, &strided, &strided, TUTTI_SUM, call);
    if (rank == 1) {
        EXPECT(status == TUTTI_NO_MEMORY && strstr(err.message, "strided") != NULL);
    } else if (status != TUTTI_BACKEND) { /* the library may report that a rank is lost, but not which */
        EXPECT(status == TUTTI_TIMEOUT && err.suspect == 1);
    }
    EXPECT(tutti_all_reduce(g, &v.tensor, &v.tensor, TUTTI_SUM, call) == TUTTI_REVOKED);
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    EXPECT_OK(tutti_group_destroy(g, &err));
    vector_free(base, &v);
    EXPECT_OK(tutti_group_destroy(base, &err));
    return failures > 0;
}
