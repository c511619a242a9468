/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2 timeout=120 trees=release,debug,address,undefined */
/*
 * A tensor is not ready by the deadline: the call gets TIMEOUT and the group fails. Its later calls and its end do not
 * wait for the device, nor does the end of memory of its heap, which the driver would free only behind the device's
 * work.
 */
#include "nccl_support.h"

enum { LATE_MS = 300, COUNT = 1000 };

static void late(tutti_group *base, void *stream, uint32_t *word)
{
    const int rank = tutti_group_rank(base);
    tutti_group *g = nccl_group(base);
    void *memory[2] = {NULL, NULL};
    int64_t count = COUNT;
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tutti_alloc(g, COUNT * sizeof(float), &memory[i], &err));
    }
    DLTensor t = tutti_tensor_1d(memory[0], &count, TUTTI_F32);
    t.device = tutti_group_device(g);
    int64_t shape[] = {COUNT / 2};
    int64_t strides[] = {2};
    DLTensor strided = t;
    strided.shape = shape;
    strided.strides = strides;
    if (rank == 0) {
        EXPECT(cuda.wait_value(stream, word, 1, 0) == 0);
    }
    const tutti_call *call =
        TUTTI_CALL(.flags = TUTTI_HAS_STREAM, .stream = stream, .timeout_ms = LATE_MS, .error = &err);
    const tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, call);
    EXPECT(rank == 0 ? status == TUTTI_TIMEOUT : status != TUTTI_OK); /* the library may report that rank 0 is lost */
    const tutti_call *after =
        TUTTI_CALL(.flags = TUTTI_HAS_STREAM, .stream = stream, .timeout_ms = TUTTI_FOREVER, .error = &err);
    EXPECT(tutti_all_reduce(g, &t, &t, TUTTI_SUM, after) == TUTTI_REVOKED);
    EXPECT(tutti_all_reduce(g, &strided, &strided, TUTTI_SUM, after) == TUTTI_REVOKED);
    EXPECT_OK(tutti_free(g, memory[0], &err)); /* the other block is left to the group's end */
    EXPECT_OK(tutti_group_destroy(g, &err));
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    *(_Atomic uint32_t *)word = 1;
    EXPECT(cuda.synchronize(stream) == 0);
}

int main(void)
{
    const int rank = rank_of_environment();
    uint32_t *word = NULL;
    void *stream = NULL;
    nccl_choose();
    device_choose("delay_us=0");
    tutti_group *base = device_open(TUTTI_CONFIG(.backend = "shm", .device = "cuda", .device_index = rank));
    EXPECT(cuda.alloc_host((void **)&word, sizeof(*word), 0) == 0);
    EXPECT(cuda.stream_create(&stream, 1) == 0);
    late(base, stream, word);
    EXPECT(cuda.stream_destroy(stream) == 0);
    EXPECT(cuda.free_host(word) == 0);
    EXPECT_OK(tutti_group_destroy(base, &err));
    return failures > 0;
}
