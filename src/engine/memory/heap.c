/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of heap memory: a region's number and an offset. A lookup reads one word per region, without a lock. heap.h
 * explains the life of a region.
 */
#include "engine/memory/heap.h"

#define NAME_SHIFT  48
#define VERIFY_FROM ((size_t)1 << 20)

static bool overlaps(uint64_t word, uintptr_t begin, size_t bytes)
{
    uintptr_t first = tti_heap_begin(word);
    return word != 0 && begin < first + tti_heap_bytes(word) && first < begin + bytes;
}

bool tti_heap_is_orphan(const struct tti_heap_orphans *orphans, const void *memory, size_t bytes)
{
    /* acquire: pairs with the release in end_at_least(); all entries before the end are visible */
    uint32_t end = atomic_load_explicit(&orphans->end, memory_order_acquire);
    if (end > TTI_HEAP_ORPHANS) {
        return true;
    }
    for (uint32_t i = 0; i < end; i++) {
        if (overlaps(atomic_load_explicit(&orphans->words[i], memory_order_relaxed), (uintptr_t)memory, bytes)) {
            return true;
        }
    }
    return false;
}

uint64_t tti_heap_name(const struct tti_heap *heap, const void *memory, size_t bytes)
{
    if (!heap || bytes == 0) {
        return 0;
    }
    uintptr_t at = (uintptr_t)memory;
    uint32_t end = atomic_load_explicit(&heap->own_end, memory_order_acquire);
    for (uint32_t i = 0; i < end; i++) {
        /* acquire: pairs with the release in tti_heap_own; all ranks mapped the region before */
        uint64_t word = atomic_load_explicit(&heap->own[i], memory_order_acquire);
        uintptr_t offset = at - tti_heap_begin(word);
        size_t size = tti_heap_bytes(word);
        if (offset >= size) { /* also true for addresses before it, by wrapping, and for empty entries */
            continue;
        }
        if (bytes > size - offset || tti_heap_is_orphan(heap->orphans, memory, bytes)) {
            return 0;
        }
        if (bytes >= VERIFY_FROM && i != TTI_HEAP_ARENA && heap->still_mapped &&
            !heap->still_mapped(heap->user, i, memory, bytes)) {
            return 0;
        }
        return (uint64_t)(i + 1) << NAME_SHIFT | offset;
    }
    return 0;
}

unsigned char *tti_heap_address(const struct tti_heap *heap, int member, uint64_t name, size_t bytes)
{
    uint64_t index = (name >> NAME_SHIFT) - 1; /* wraps for region 0 */
    uint64_t offset = name & ((UINT64_C(1) << NAME_SHIFT) - 1);
    if (!heap || member < 0 || member >= heap->ranks || index >= TTI_HEAP_REGIONS) {
        return NULL;
    }
    /* seq_cst: pairs with the backend's store when it maps or withdraws the region. After a withdrawal either this load
     * finds no region, or the backend finds the count that hold_heap() in expose.c stored before */
    uint64_t word = atomic_load_explicit(&heap->members[member]->regions[index], memory_order_seq_cst);
    size_t size = tti_heap_bytes(word);
    if (offset > size || bytes > size - offset || word == 0) {
        return NULL;
    }
    return (unsigned char *)(tti_heap_begin(word) + offset);
}

static void end_at_least(struct tti_heap_orphans *orphans, uint32_t wanted)
{
    uint32_t end = atomic_load_explicit(&orphans->end, memory_order_relaxed);
    while (end < wanted && !atomic_compare_exchange_weak_explicit(&orphans->end, &end, wanted, memory_order_release,
                                                                  memory_order_relaxed)) {
    }
}

/* Several lanes may fail at once, so each takes an empty entry by compare-and-swap. */
static void remember_orphan(struct tti_heap_orphans *orphans, uint64_t word)
{
    for (uint32_t i = 0; i < TTI_HEAP_ORPHANS; i++) {
        uint64_t empty = 0;
        if (atomic_compare_exchange_strong_explicit(&orphans->words[i], &empty, word, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            end_at_least(orphans, i + 1);
            return;
        }
    }
    end_at_least(orphans, TTI_HEAP_ORPHANS + 1);
}

void tti_heap_orphan(struct tti_heap *heap, void *memory, size_t bytes)
{
    uintptr_t first = ((uintptr_t)memory + TTI_HEAP_PAGE - 1) / TTI_HEAP_PAGE * TTI_HEAP_PAGE;
    uintptr_t last = ((uintptr_t)memory + bytes) / TTI_HEAP_PAGE * TTI_HEAP_PAGE;
    if (!heap || first >= last) {
        return;
    }
    for (uint32_t i = 0; i < TTI_HEAP_REGIONS; i++) {
        uint64_t word = atomic_load_explicit(&heap->own[i], memory_order_acquire);
        uintptr_t begin = tti_heap_begin(word);
        if (word != 0 && first >= begin && last <= begin + tti_heap_bytes(word)) {
            /* first the record, so that no other lane names the range meanwhile */
            remember_orphan(heap->orphans, tti_heap_word((void *)first, last - first));
            heap->orphan(heap->user, i, (void *)first, last - first);
            return;
        }
    }
}

void tti_heap_forget_orphans(struct tti_heap_orphans *orphans, const void *memory, size_t bytes)
{
    for (uint32_t i = 0; i < TTI_HEAP_ORPHANS; i++) {
        if (overlaps(atomic_load_explicit(&orphans->words[i], memory_order_relaxed), (uintptr_t)memory, bytes)) {
            atomic_store_explicit(&orphans->words[i], 0, memory_order_relaxed);
        }
    }
}

void tti_heap_own(struct tti_heap *heap, unsigned index, uint64_t word)
{
    uint32_t end = atomic_load_explicit(&heap->own_end, memory_order_relaxed);
    /* release: pairs with the acquire in tti_heap_name */
    atomic_store_explicit(&heap->own[index], word, memory_order_release);
    if (word != 0 && index >= end) {
        atomic_store_explicit(&heap->own_end, index + 1, memory_order_release);
    }
}
