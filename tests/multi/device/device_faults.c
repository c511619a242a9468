/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,3 timeout=120 trees=release,debug,address,undefined */
/*
 * On one rank the device refuses a copy. That rank gets the driver's error, the other ranks get MISMATCH, which names
 * it. No rank gets a wrong number, and the group works on. The tensor is strided (then the copy is its packing) or
 * contiguous.
 */
#include <stdbool.h>

#include "device_support.h"

int main(void)
{
    const char *rank = getenv("TUTTI_RANK");
    const bool faulty = rank && strcmp(rank, "1") == 0;
    struct device_vector v;
    /* calls are counted from the start: the first rows to be copied, and a copy behind this test's own first one */
    device_choose(faulty ? "delay_us=0,fail=cuMemcpy2DAsync_v2:1=1,fail=cuMemcpyAsync:2=1" : "delay_us=0");
    tutti_group *g = device_open(TUTTI_CONFIG(.device = "cuda", .backend = "shm"));
    const int ranks = tutti_group_size(g);
    vector_make(g, &v, 30000);
    vector_fill(&v, tutti_group_rank(g), 0);
    vector_send(&v, NULL);
    EXPECT(cuda.synchronize(NULL) == 0);

    int64_t shape[] = {100, 100};
    int64_t strides[] = {300, 1};
    DLTensor strided = v.tensor;
    strided.ndim = 2;
    strided.shape = shape;
    strided.strides = strides;
    for (int i = 0; i < 2; i++) {
        DLTensor *t = i == 0 ? &strided : &v.tensor;
        const tutti_status status = tutti_all_reduce(g, t, t, TUTTI_SUM, TUTTI_CALL(.error = &err));
        EXPECT(status == (faulty ? TUTTI_BACKEND : TUTTI_MISMATCH));
        EXPECT(strstr(err.message, faulty ? "cuMemcpy" : "rank 1") != NULL);
    }
    EXPECT_OK(tutti_all_reduce(g, &v.tensor, &v.tensor, TUTTI_SUM, TUTTI_CALL(.error = &err)));
    vector_fetch(&v, NULL);
    EXPECT(cuda.synchronize(NULL) == 0);
    EXPECT(vector_wrong_sums(&v, ranks, 0) == 0);
    vector_free(g, &v);
    EXPECT_OK(tutti_group_destroy(g, &err));
    return failures > 0;
}
