/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2 timeout=120 trees=release,debug,address,undefined */
/*
 * Copies need memory, larger tensors more of it. Freeing device memory waits for all work on the device, which may be
 * another operation that waits for other ranks. So this test blocks a stream, and operations of every kind, each larger
 * than the one before, must still end.
 */
#include <stdatomic.h>

#include "device_support.h"

enum { LARGEST = 300000 };

static int rank;

static void all_kinds(tutti_group *g, struct device_vector *v, struct device_vector *w, int64_t count)
{
    int64_t shape[] = {count / 300, 100};
    int64_t strides[] = {300, 1};
    DLTensor plain = tutti_tensor_1d(v->there, &count, TUTTI_F32);
    DLTensor other = tutti_tensor_1d(w->there, &count, TUTTI_F32);
    plain.device = other.device = tutti_group_device(g);
    DLTensor strided = plain;
    strided.ndim = 2;
    strided.shape = shape;
    strided.strides = strides;
    EXPECT_OK(tutti_all_reduce(g, &plain, &plain, TUTTI_MAX, TUTTI_CALL(.error = &err)));
    EXPECT_OK(tutti_all_reduce(g, &strided, &strided, TUTTI_MAX, TUTTI_CALL(.error = &err)));
    EXPECT_OK(tutti_sendrecv(g, &plain, 1 - rank, 7, &other, 1 - rank, 7, TUTTI_CALL(.error = &err), NULL));
}

int main(void)
{
    struct device_vector v;
    struct device_vector w;
    struct device_vector gate;
    void *stream = NULL;
    device_choose("delay_us=0");
    setenv("TUTTI_DEVICE_CHUNK", "1G", 1); /* one chunk, so that its memory grows */
    tutti_group *g = device_open(TUTTI_CONFIG(.device = "cuda", .backend = "shm"));
    rank = tutti_group_rank(g);
    vector_make(g, &v, LARGEST);
    vector_make(g, &w, LARGEST);
    vector_make(g, &gate, 1);
    vector_fill(&v, rank, 0);
    vector_send(&v, NULL);
    EXPECT(cuda.synchronize(NULL) == 0);

    void *library = dlopen(getenv("TUTTI_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    int (*wait)(void *, unsigned long long, uint32_t, unsigned);
    *(void **)&wait = function_of(library, "cuStreamWaitValue32_v2");
    _Atomic uint32_t *word = (_Atomic uint32_t *)gate.host;
    atomic_store_explicit(word, 0, memory_order_relaxed);
    EXPECT(cuda.stream_create(&stream, 1) == 0);
    EXPECT(wait(stream, (uintptr_t)word, 1, 0) == 0);

    for (int64_t count = 300; count <= LARGEST; count *= 10) {
        all_kinds(g, &v, &w, count);
    }
    atomic_store_explicit(word, 1, memory_order_release); /* pairs with the double's acquire */
    EXPECT(cuda.synchronize(stream) == 0);
    EXPECT(cuda.stream_destroy(stream) == 0);
    vector_fetch(&w, NULL);
    EXPECT(cuda.synchronize(NULL) == 0);
    for (int64_t i = 0; i < LARGEST; i++) { /* the largest of both ranks' values */
        if (w.host[i] != (float)(i % 100 + 3)) {
            fprintf(stderr, "element %lld is %f\n", (long long)i, (double)w.host[i]);
            failures++;
            break;
        }
    }
    vector_free(g, &gate);
    vector_free(g, &w);
    vector_free(g, &v);
    EXPECT_OK(tutti_group_destroy(g, &err));
    return failures > 0;
}
