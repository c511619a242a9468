/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is never freed, because an engine may still use it after a failed operation. The links are memory of
 * their own, since the engine may write to every byte that is kept.
 */
#include "base/kept_memory.h"

#include <stdatomic.h>

struct kept {
    void *memory;
    struct kept *next;
};

static struct kept *_Atomic first;

void tti_memory_keep(void *memory)
{
    struct kept *k = memory ? malloc(sizeof(*k)) : NULL;
    if (!k) { /* without memory for the link it is kept all the same, but a leak checker reports it */
        return;
    }
    k->memory = memory;
    /* relaxed, all: no thread reads the list */
    k->next = atomic_load_explicit(&first, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&first, &k->next, k, memory_order_relaxed, memory_order_relaxed)) {
    }
}
