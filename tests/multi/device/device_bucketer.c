/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=1,2 timeout=120 trees=release,debug,address,undefined */
/*
 * Gradients on a device: some are contiguous, others are packed there. Every step gives each gradient the mean over the
 * ranks. A model whose gradients lie elsewhere is refused.
 */
#include <tutti/overlap.h>

#include "device_support.h"

enum { GRADIENTS = 7 };

static void step(tutti_group *g, tutti_bucketer *b, const struct device_vector *gradients, int round)
{
    const int rank = tutti_group_rank(g);
    const int ranks = tutti_group_size(g);
    for (int i = 0; i < GRADIENTS; i++) {
        vector_fill(&gradients[i], rank, round + i);
        vector_send(&gradients[i], NULL);
    }
    EXPECT(cuda.synchronize(NULL) == 0);
    for (size_t i = GRADIENTS; i-- > 0;) {
        EXPECT_OK(tutti_bucketer_ready(b, i, &err));
    }
    EXPECT_OK(tutti_bucketer_wait(b, &err));
    for (int i = 0; i < GRADIENTS; i++) {
        vector_fetch(&gradients[i], NULL);
    }
    EXPECT(cuda.synchronize(NULL) == 0);
    for (int i = 0; i < GRADIENTS; i++) {
        for (int64_t k = 0; k < gradients[i].count; k++) {
            gradients[i].host[k] *= (float)ranks; /* small whole numbers: exact */
        }
        EXPECT(vector_wrong_sums(&gradients[i], ranks, round + i) == 0);
    }
}

int main(void)
{
    struct device_vector gradients[GRADIENTS];
    const DLTensor *list[GRADIENTS];
    float here[8] = {0};
    int64_t eight = 8;
    DLTensor host = tutti_tensor_1d(here, &eight, TUTTI_F32);
    const DLTensor *wrong[] = {&host};
    tutti_bucketer *b = NULL;
    device_choose("delay_us=100");
    tutti_group *g = device_open(TUTTI_CONFIG(.device = "cuda", .backend = "shm"));
    for (int i = 0; i < GRADIENTS; i++) {
        vector_make(g, &gradients[i], 1000 + 777 * i);
        list[i] = &gradients[i].tensor;
    }
    EXPECT_OK(tutti_bucketer_create(g, list, GRADIENTS, TUTTI_BUCKETER_OPTIONS(.bucket_bytes = 12000), &b, &err));
    for (int round = 0; round < 3; round++) {
        step(g, b, gradients, round);
    }
    EXPECT_OK(tutti_bucketer_destroy(b, &err));
    EXPECT_ERROR(TUTTI_DEVICE_MISMATCH, "cuda", tutti_bucketer_create(g, wrong, 1, NULL, &b, &err));
    for (int i = 0; i < GRADIENTS; i++) {
        vector_free(g, &gradients[i]);
    }
    EXPECT_OK(tutti_group_destroy(g, &err));
    return failures > 0;
}
