/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A strided tensor of a device cannot be packed on rank 1, in a group whose calls block and are not compared. The other
 * rank could not notice that, so the group fails. For two ranks, under the double of libcuda.so.1. The program does not
 * use MPI itself.
 */
#include <stdbool.h>
#include <time.h>

#include "multi/device/device_support.h"
#include "time_limits.h"

static void await_failure(tutti_group *g)
{
    const time_t limit = time(NULL) + LIMIT_S;
    const struct timespec nap = {.tv_nsec = 10000000};
    err.status = TUTTI_OK;
    while (tutti_group_error(g, &err) == TUTTI_OK && err.status == TUTTI_OK && time(NULL) < limit) {
        nanosleep(&nap, NULL);
    }
    EXPECT(err.status == TUTTI_BACKEND && err.suspect == 1 && strstr(err.message, "cuMemcpy"));
}

int main(void)
{
    static const char *const settings[] = {"mpi.blocking=always", NULL};
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    rank = rank ? rank : getenv("PMI_RANK");
    const bool faulty = rank && strcmp(rank, "1") == 0;
    struct device_vector v;
    device_choose(faulty ? "delay_us=0,fail=cuMemcpy2DAsync_v2:1=1" : "delay_us=0");
    tutti_group *g = device_open(TUTTI_CONFIG(.device = "cuda", .backend = "mpi", .settings = settings));
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
    if (faulty) {
        EXPECT(tutti_all_reduce(g, &strided, &strided, TUTTI_SUM, TUTTI_CALL(.error = &err)) == TUTTI_BACKEND);
        EXPECT(strstr(err.message, "cuMemcpy") != NULL && strcmp(err.backend, "mpi") == 0);
    } else {
        await_failure(g); /* a blocking call could not be left */
    }
    EXPECT(tutti_all_reduce(g, &strided, &strided, TUTTI_SUM, TUTTI_CALL(.error = &err)) == TUTTI_REVOKED);
    EXPECT(strstr(err.message, "cuMemcpy") != NULL);
    vector_free(g, &v);
    EXPECT_OK(tutti_group_destroy(g, &err));
    return failures > 0;
}
