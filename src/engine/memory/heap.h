/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap as the engine sees it: memory of one rank that all members of a group may read and write where it lies. A rank
 * tells the others where its tensor is by a name (region and offset), which every member turns into an address of its own.
 *
 * The backend makes the memory and fills this table; the engine only looks things up, once for each buffer of a call. A
 * table belongs to one group, members are its ranks; sub-groups have tables of their own, over the same memory.
 *
 * A region of this rank stands under `own` only while every rank of the group has it mapped, so whoever hears a name can
 * use it. The owner alone decides that: the others keep what they have mapped until it says so in a collective call.
 *
 * Names come from other processes: they are checked against the table, bounds included, before anything is touched. All
 * lookups are lock-free; an entry is one word, so that it is never seen half written.
 *
 * A peer may say at any time that a region is gone, also in the middle of a call that reads it. So who takes a region out of
 * the table unmaps it only when no call is left that may have found it there before: the table counts such withdrawals, and
 * a call that looks a name up notes the count first (tti_engine_heap_quiescent).
 */
#ifndef TTI_ENGINE_HEAP_H
#define TTI_ENGINE_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TTI_HEAP_REGIONS 64u /* a rank; region numbers are index + 1                */
#define TTI_HEAP_ORPHANS 64u /* ranges at a time; with more, nothing is named any more */
#define TTI_HEAP_ARENA   0u  /* index of the region that tutti_alloc takes from      */

/* Where a region lies, in one word: number of its first page, then how many. 0 = there is none. Pages of 4 KiB whatever the
 * machine's are; 36 bits reach every address that Linux gives without being asked for more, 28 bits a TiB. */
#define TTI_HEAP_PAGE      4096u
#define TTI_HEAP_PAGE_BITS 28
#define TTI_HEAP_MAX_BYTES (((UINT64_C(1) << TTI_HEAP_PAGE_BITS) - 1) * TTI_HEAP_PAGE)
#define TTI_HEAP_MAX_BEGIN (UINT64_C(1) << 48)

/* The regions of one rank as this process has them mapped. */
struct tti_heap_member {
    /* release by the backend once mapped; acquire by the lookups */
    _Atomic uint64_t regions[TTI_HEAP_REGIONS];
};

/* Ranges of this rank that were taken away from the others after a failure: of all groups over the same memory. */
struct tti_heap_orphans {
    _Atomic uint32_t end; /* entries from here on are 0; beyond TTI_HEAP_ORPHANS: there was no room for one */
    _Atomic uint64_t words[TTI_HEAP_ORPHANS];
};

struct tti_heap {
    _Atomic uint64_t own[TTI_HEAP_REGIONS]; /* what this rank may name in this group; likewise */
    _Atomic uint32_t own_end;               /* those from here on are 0 */
    struct tti_heap_orphans *orphans;
    const _Atomic uint64_t *withdrawals; /* so often a region was taken out of `members`, and one more: never 0 */
    int ranks;
    struct tti_heap_member **members; /* `ranks` entries, the own one included; never NULL */
    void *user;
    /* Whether the own region is still mapped at [memory, memory + bytes); NULL = always. Asked for registered memory. */
    bool (*still_mapped)(void *user, unsigned region, const void *memory, size_t bytes);
    /* Lays fresh private pages over the whole pages [memory, memory + bytes) of an own region. */
    void (*orphan)(void *user, unsigned region, void *memory, size_t bytes);
};

/* A word of the table. bytes is a multiple of TTI_HEAP_PAGE, begin too. */
static inline uint64_t tti_heap_word(const void *begin, size_t bytes)
{
    return (uint64_t)(uintptr_t)begin / TTI_HEAP_PAGE << TTI_HEAP_PAGE_BITS | bytes / TTI_HEAP_PAGE;
}

static inline uintptr_t tti_heap_begin(uint64_t word)
{
    return (uintptr_t)(word >> TTI_HEAP_PAGE_BITS) * TTI_HEAP_PAGE;
}

static inline size_t tti_heap_bytes(uint64_t word)
{
    return (size_t)(word & ((UINT64_C(1) << TTI_HEAP_PAGE_BITS) - 1)) * TTI_HEAP_PAGE;
}

/* ---- for the engine --------------------------------------------------------------------------------------------------------- */

/* The name of [memory, memory + bytes), which must lie in one region of this rank; 0 = private memory. Never blocks. From
 * 1 MiB up it asks the system whether registered memory still is what was registered (about a microsecond). NULL heap: 0. */
uint64_t tti_heap_name(const struct tti_heap *heap, const void *memory, size_t bytes);

/* Where this rank sees what `member` (a rank of the group, the own one too) calls `name`; NULL if that is not `bytes` bytes
 * of one of its regions. */
unsigned char *tti_heap_address(const struct tti_heap *heap, int member, uint64_t name, size_t bytes);

/* Takes the whole pages of [memory, memory + bytes), a receive buffer of this rank, away from the others: they keep what
 * they had mapped, this rank gets fresh pages of undefined content, and the range is private from now on. */
void tti_heap_orphan(struct tti_heap *heap, void *memory, size_t bytes);

/* ---- for the backend, one thread at a time ---------------------------------------------------------------------------------- */

/* From now on this rank names the region, or no longer (word 0). */
void tti_heap_own(struct tti_heap *heap, unsigned index, uint64_t word);

/* Whether a part of the range is an orphan. */
bool tti_heap_is_orphan(const struct tti_heap_orphans *orphans, const void *memory, size_t bytes);

/* Orphans that meet the range are forgotten: it is no heap memory any more, or shared again. */
void tti_heap_forget_orphans(struct tti_heap_orphans *orphans, const void *memory, size_t bytes);

#endif
