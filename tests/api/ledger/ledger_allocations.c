/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A synchronous operation allocates no memory, nor does an asynchronous one with its handle, once the first operations
 * have filled caches and pools. The allocators of address and thread sanitizer cannot be replaced by a counting one.
 * tutti-test: trees=release,debug backends=shm,hier,fault
 */
#include "ledger_support.h"

#include <stdlib.h>

enum { RANKS = 2, ROUNDS = 100, AT_A_TIME = 8 };

static atomic_int allocations;

/* The C library's own functions, under the names that it keeps for programs with their own malloc. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_realloc(memory, size);
}

static void communicate(tutti_group *g)
{
    const int64_t count = 3000;
    static double values[RANKS][AT_A_TIME][3000];
    tutti_work *works[AT_A_TIME] = {NULL};
    int32_t rank = tutti_group_rank(g);
    for (int i = 0; i < AT_A_TIME; i++) {
        DLTensor t = ledger_tensor(values[rank][i], &count, TUTTI_F64);
        values[rank][i][0] = i;
        EXPECT(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, NULL, &works[i]) == TUTTI_OK);
    }
    for (int i = 0; i < AT_A_TIME; i++) {
        EXPECT(ledger_end(&works[i]) == TUTTI_OK && values[rank][i][0] == RANKS * i);
        DLTensor t = ledger_tensor(values[rank][i], &count, TUTTI_F64);
        EXPECT(tutti_all_reduce(g, &t, &t, TUTTI_SUM, NULL) == TUTTI_OK && values[rank][i][0] == RANKS * RANKS * i);
    }
    EXPECT(tutti_barrier(g, NULL) == TUTTI_OK);
}

static tutti_status two_ranks(tutti_group *g, void *user)
{
    (void)user;
    communicate(g);
    int before = atomic_load(&allocations);
    EXPECT(tutti_barrier(g, NULL) == TUTTI_OK); /* both have looked */
    for (int i = 0; i < ROUNDS; i++) {
        communicate(g);
    }
    EXPECT(atomic_load(&allocations) == before);
    EXPECT(tutti_barrier(g, NULL) == TUTTI_OK); /* both have looked */
    return TUTTI_OK;
}

int main(void)
{
    void *volatile counted = malloc(1);
    free(counted);
    EXPECT(atomic_load(&allocations) > 0);
    ledger_on_ranks(RANKS, two_ranks, NULL);
    return ledger_result();
}
