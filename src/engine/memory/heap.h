/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap as the engine sees it: memory of one rank that all ranks of a group can read and write in place. A rank
 * publishes a tensor by its name (region and offset). Every rank turns the name into an address of its own.
 *
 * The backend makes the memory and fills this table. The engine only looks names up, once for each buffer of a call. A
 * table belongs to one group, and its members are the group's ranks. Sub-groups have tables of their own over the same
 * memory.
 *
 * A region of this rank is in `own` only while every rank of the group has it mapped, so every rank can use its names.
 * The owner alone decides that: peers keep a region mapped until the owner withdraws it in a collective call.
 *
 * Names come from other processes. They are checked against the table, bounds included, before memory is touched.
 * Lookups take no lock: an entry is one word, so no reader sees half of it.
 *
 * A peer may withdraw a region at any time, even while a call reads it. The backend then takes the region out of the
 * table and unmaps it only when no call is left that may have found it before. For that the table counts withdrawals,
 * and a call that looks a name up stores the count first (expose.c: tti_heap_is_quiescent).
 */
#ifndef TTI_ENGINE_MEMORY_HEAP_H
#define TTI_ENGINE_MEMORY_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TTI_HEAP_REGIONS 64u /* a rank; region numbers are index + 1                */
#define TTI_HEAP_ORPHANS 64u /* ranges at a time; with more, this rank names no memory any more */
#define TTI_HEAP_ARENA   0u  /* index of the region that tutti_alloc takes from      */

/* The place of a region in one word: number of its first page, then the number of pages. 0 = no region. Pages have 4
 * KiB, whatever the machine's have. 36 bits reach every address that Linux gives by default, 28 bits a TiB. */
#define TTI_HEAP_PAGE      4096u
#define TTI_HEAP_PAGE_BITS 28
#define TTI_HEAP_MAX_BYTES (((UINT64_C(1) << TTI_HEAP_PAGE_BITS) - 1) * TTI_HEAP_PAGE)
#define TTI_HEAP_MAX_BEGIN (UINT64_C(1) << 48)

/* The regions of one rank as this process has them mapped. */
struct tti_heap_member {
    /* release by the backend once mapped; acquire by the lookups */
    _Atomic uint64_t regions[TTI_HEAP_REGIONS];
};

/* Ranges of this rank that it took away from its peers after a failure: of all groups over the same memory. */
struct tti_heap_orphans {
    _Atomic uint32_t end; /* entries from here on are 0; beyond TTI_HEAP_ORPHANS: one found no room */
    _Atomic uint64_t words[TTI_HEAP_ORPHANS];
};

struct tti_heap {
    _Atomic uint64_t own[TTI_HEAP_REGIONS]; /* what this rank may name in this group; the same orders */
    _Atomic uint32_t own_end;               /* entries from here on are 0 */
    struct tti_heap_orphans *orphans;
    const _Atomic uint64_t *withdrawals; /* 1 + regions taken out of `members` so far: never 0 */
    int ranks;
    struct tti_heap_member **members; /* `ranks` entries, the own one included; never NULL */
    void *user;
    /* Whether the own region is still mapped at [memory, memory + bytes); NULL = always. Asked for registered
     * memory. */
    bool (*still_mapped)(void *user, unsigned region, const void *memory, size_t bytes);
    /* Maps fresh private pages over the whole pages [memory, memory + bytes) of an own region. */
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

/* ---- for the engine --------------------------------------------------------------------------------------------- */

/* The name of [memory, memory + bytes), if it lies in one region of this rank; 0 = private memory. Never blocks. From 1
 * MiB up it asks the system whether registered memory is still the memory that was registered: about 1 us. NULL heap:
 * 0. */
uint64_t tti_heap_name(const struct tti_heap *heap, const void *memory, size_t bytes);

/* The address in this process of what `member` (any rank of the group) calls `name`; NULL if that is not `bytes` bytes
 * of one of its regions. */
unsigned char *tti_heap_address(const struct tti_heap *heap, int member, uint64_t name, size_t bytes);

/* Takes the whole pages of [memory, memory + bytes), a receive buffer of this rank, away from its peers. They keep the
 * pages that they had mapped. This rank gets fresh pages of undefined content, and the range is private from now on. */
void tti_heap_orphan(struct tti_heap *heap, void *memory, size_t bytes);

/* ---- for the backend, one thread at a time ---------------------------------------------------------------------- */

/* From now on this rank names the region; word 0: no longer. */
void tti_heap_own(struct tti_heap *heap, unsigned index, uint64_t word);

/* Whether a part of the range is an orphan. */
bool tti_heap_is_orphan(const struct tti_heap_orphans *orphans, const void *memory, size_t bytes);

/* Forgets orphans that overlap the range: it is no heap memory any more, or shared again. */
void tti_heap_forget_orphans(struct tti_heap_orphans *orphans, const void *memory, size_t bytes);

#endif
