/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/* The engine's table of the heap: names and addresses at every boundary, orphans, and the allocation of an arena. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/shm/heap/arena.h"
#include "engine/memory/heap.h"

#define PAGE                 ((size_t)4096)
#define NAME(region, offset) ((uint64_t)(region) << 48 | (uint64_t)(offset))

static unsigned char *const base = (unsigned char *)0x7f1234560000; /* never touched */
static unsigned char *const peer = (unsigned char *)0x7e0000000000;

struct fixture {
    struct tti_heap heap;
    struct tti_heap_member members[2];
    struct tti_heap_member *rows[2];
    struct tti_heap_orphans orphans;
    int orphaned;
    bool mapped;
};

static bool still_mapped(void *user, unsigned region, const void *memory, size_t bytes)
{
    (void)region;
    (void)memory;
    (void)bytes;
    return ((struct fixture *)user)->mapped;
}

static void orphan(void *user, unsigned region, void *memory, size_t bytes)
{
    (void)region;
    assert_int_equal((uintptr_t)memory % PAGE, 0);
    assert_int_equal(bytes % PAGE, 0);
    ((struct fixture *)user)->orphaned++;
}

/* Rank 0 of 2: an arena of 16 pages, region 3 of 300 pages behind a gap; rank 1 has regions 1 and 64. */
static struct fixture *make(void)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->rows[0] = &f->members[0];
    f->rows[1] = &f->members[1];
    f->heap.members = f->rows;
    f->heap.ranks = 2;
    f->heap.orphans = &f->orphans;
    f->heap.user = f;
    f->heap.still_mapped = still_mapped;
    f->heap.orphan = orphan;
    f->mapped = true;
    tti_heap_own(&f->heap, 0, tti_heap_word(base, 16 * PAGE));
    tti_heap_own(&f->heap, 2, tti_heap_word(base + 100 * PAGE, 300 * PAGE));
    atomic_store(&f->members[1].regions[0], tti_heap_word(peer, 8 * PAGE));
    atomic_store(&f->members[1].regions[63], tti_heap_word(peer + 100 * PAGE, PAGE));
    return f;
}

static void names(void **state)
{
    (void)state;
    struct fixture *f = make();
    const struct tti_heap *h = &f->heap;
    assert_int_equal(tti_heap_name(NULL, base, 1), 0);
    assert_int_equal(tti_heap_name(h, base, 0), 0);
    assert_int_equal(tti_heap_name(h, base, 1), NAME(1, 0));
    assert_int_equal(tti_heap_name(h, base, 16 * PAGE), NAME(1, 0));
    assert_int_equal(tti_heap_name(h, base, 16 * PAGE + 1), 0);
    assert_int_equal(tti_heap_name(h, base + 7, 16 * PAGE - 7), NAME(1, 7));
    assert_int_equal(tti_heap_name(h, base + 7, 16 * PAGE - 6), 0);
    assert_int_equal(tti_heap_name(h, base - 1, 2), 0);
    assert_int_equal(tti_heap_name(h, base + 16 * PAGE - 1, 1), NAME(1, 16 * PAGE - 1));
    assert_int_equal(tti_heap_name(h, base + 16 * PAGE, 1), 0);
    assert_int_equal(tti_heap_name(h, base + 5, SIZE_MAX), 0);
    assert_int_equal(tti_heap_name(h, NULL, 100), 0);
    assert_int_equal(tti_heap_name(h, (void *)UINTPTR_MAX, 1), 0);
    assert_int_equal(tti_heap_name(h, base + 101 * PAGE, 5), NAME(3, PAGE));
    tti_heap_own(&f->heap, 2, 0);
    assert_int_equal(tti_heap_name(h, base + 101 * PAGE, 5), 0);
    free(f);
}

static void addresses(void **state)
{
    (void)state;
    struct fixture *f = make();
    const struct tti_heap *h = &f->heap;
    assert_ptr_equal(tti_heap_address(h, 1, NAME(1, 0), 8 * PAGE), peer);
    assert_ptr_equal(tti_heap_address(h, 1, NAME(1, 9), 8 * PAGE - 9), peer + 9);
    assert_ptr_equal(tti_heap_address(h, 1, NAME(64, 1), 7), peer + 100 * PAGE + 1);
    assert_null(tti_heap_address(NULL, 1, NAME(1, 0), 1));
    assert_null(tti_heap_address(h, 1, NAME(1, 9), 8 * PAGE - 8));
    assert_null(tti_heap_address(h, 1, NAME(1, 8 * PAGE), 1));
    assert_null(tti_heap_address(h, 1, NAME(1, 5), SIZE_MAX - 2));
    assert_null(tti_heap_address(h, 1, NAME(1, (UINT64_C(1) << 48) - 1), 1));
    assert_null(tti_heap_address(h, 1, NAME(0, 0), 1));
    assert_null(tti_heap_address(h, 1, NAME(2, 0), 1));
    assert_null(tti_heap_address(h, 1, NAME(2, 0), 0));
    assert_null(tti_heap_address(h, 1, NAME(65, 0), 1));
    assert_null(tti_heap_address(h, 1, UINT64_MAX, 1));
    assert_null(tti_heap_address(h, 0, NAME(1, 0), 1)); /* nothing mapped of it */
    assert_null(tti_heap_address(h, 2, NAME(1, 0), 1));
    assert_null(tti_heap_address(h, -1, NAME(1, 0), 1));
    free(f);
}

/* A word holds the largest region at the highest address. */
static void extremes(void **state)
{
    (void)state;
    void *highest = (void *)(uintptr_t)(TTI_HEAP_MAX_BEGIN - TTI_HEAP_PAGE);
    uint64_t word = tti_heap_word(highest, TTI_HEAP_MAX_BYTES);
    assert_int_equal(tti_heap_begin(word), (uintptr_t)highest);
    assert_int_equal(tti_heap_bytes(word), TTI_HEAP_MAX_BYTES);
}

static void checks_large_registered(void **state)
{
    (void)state;
    struct fixture *f = make();
    f->mapped = false; /* the application has unmapped it */
    assert_int_equal(tti_heap_name(&f->heap, base + 100 * PAGE, (1 << 20) - 1), NAME(3, 0));
    assert_int_equal(tti_heap_name(&f->heap, base + 100 * PAGE, 1 << 20), 0);
    assert_int_equal(tti_heap_name(&f->heap, base, 16 * PAGE), NAME(1, 0)); /* the arena is the library's own */
    f->mapped = true;
    assert_int_equal(tti_heap_name(&f->heap, base + 100 * PAGE, 1 << 20), NAME(3, 0));
    free(f);
}

static void orphans(void **state)
{
    (void)state;
    struct fixture *f = make();
    struct tti_heap *h = &f->heap;
    tti_heap_orphan(h, base + 10, PAGE - 10);   /* no whole page */
    tti_heap_orphan(h, base + 50 * PAGE, PAGE); /* in no region  */
    tti_heap_orphan(NULL, base, PAGE);
    assert_int_equal(f->orphaned, 0);
    tti_heap_orphan(h, base + 3 * PAGE - 1, PAGE + 2); /* page 3 */
    assert_int_equal(f->orphaned, 1);
    assert_int_equal(tti_heap_name(h, base + 2 * PAGE, PAGE), NAME(1, 2 * PAGE));
    assert_int_equal(tti_heap_name(h, base + 2 * PAGE, PAGE + 1), 0);
    assert_int_equal(tti_heap_name(h, base + 3 * PAGE, 1), 0);
    assert_int_equal(tti_heap_name(h, base + 4 * PAGE - 1, 1), 0);
    assert_int_equal(tti_heap_name(h, base + 4 * PAGE, 1), NAME(1, 4 * PAGE));
    tti_heap_forget_orphans(&f->orphans, base + 3 * PAGE, PAGE);
    assert_int_equal(tti_heap_name(h, base + 3 * PAGE, 1), NAME(1, 3 * PAGE));
    for (uint32_t i = 0; i < TTI_HEAP_ORPHANS; i++) {
        tti_heap_orphan(h, base + (100 + 2 * (i % 100)) * PAGE, PAGE);
    }
    assert_int_equal(tti_heap_name(h, base + 101 * PAGE, 1), NAME(3, PAGE));
    tti_heap_orphan(h, base, PAGE); /* one too many: now nothing is sure any more */
    assert_int_equal(tti_heap_name(h, base + 5 * PAGE, 1), 0);
    assert_int_equal(f->orphaned, 2 + (int)TTI_HEAP_ORPHANS);
    free(f);
}

/* Random allocations and frees against a map of the owner of each cache line. */
static void arena_random(void **state)
{
    (void)state;
    enum { LINES = 1 << 17, BLOCKS = 60 }; /* 8 MiB */
    static unsigned char owner[LINES];
    struct {
        size_t offset;
        size_t bytes;
    } blocks[BLOCKS] = {0};
    struct tti_arena *arena = tti_arena_create((size_t)LINES * 64);
    unsigned seed = 7;
    memset(owner, 0, sizeof(owner));
    for (int round = 0; round < 20000; round++) {
        unsigned i = (unsigned)rand_r(&seed) % BLOCKS;
        if (blocks[i].bytes) {
            assert_true(tti_arena_bytes(arena, blocks[i].offset) >= blocks[i].bytes);
            size_t lines = tti_arena_bytes(arena, blocks[i].offset) / 64;
            for (size_t k = 0; k < lines; k++) {
                assert_int_equal(owner[blocks[i].offset / 64 + k], i + 1);
                owner[blocks[i].offset / 64 + k] = 0;
            }
            tti_heap_arena_free(arena, blocks[i].offset, true);
            assert_int_equal(tti_arena_bytes(arena, blocks[i].offset), 0);
            blocks[i].bytes = 0;
            continue;
        }
        size_t bytes = (size_t)1 << (unsigned)rand_r(&seed) % 22;
        bytes += (size_t)rand_r(&seed) % bytes;
        size_t offset = 0;
        if (tti_heap_arena_alloc(arena, bytes, &offset) == TUTTI_OK) {
            size_t alignment = bytes >= TTI_ARENA_HUGE ? TTI_ARENA_HUGE : bytes >= PAGE ? PAGE : 64;
            size_t lines = tti_arena_bytes(arena, offset) / 64;
            assert_int_equal(offset % alignment, 0);
            assert_true(lines * 64 >= bytes && lines * 64 < bytes + (bytes >= PAGE ? PAGE : 64));
            for (size_t k = 0; k < lines; k++) {
                assert_int_equal(owner[offset / 64 + k], 0);
                owner[offset / 64 + k] = (unsigned char)(i + 1);
            }
            blocks[i].offset = offset;
            blocks[i].bytes = bytes;
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].bytes) {
            tti_heap_arena_free(arena, blocks[i].offset, true);
        }
    }
    size_t offset = 1;
    assert_int_equal(tti_heap_arena_alloc(arena, (size_t)LINES * 64, &offset), TUTTI_OK); /* all is one block again */
    assert_int_equal(offset, 0);
    tti_arena_destroy(arena);
}

static void arena_ends(void **state)
{
    (void)state;
    struct tti_arena *arena = tti_arena_create(4 * PAGE);
    size_t a = 0;
    size_t b = 0;
    assert_int_equal(tti_heap_arena_alloc(arena, 4 * PAGE + 1, &a), TUTTI_NO_MEMORY);
    assert_int_equal(tti_heap_arena_alloc(arena, SIZE_MAX, &a), TUTTI_NO_MEMORY);
    assert_int_equal(tti_heap_arena_alloc(arena, SIZE_MAX - PAGE, &a), TUTTI_NO_MEMORY);
    assert_int_equal(tti_heap_arena_alloc(arena, PAGE, &a), TUTTI_OK);
    tti_heap_arena_free(arena, a + 64, true); /* no block begins there */
    assert_int_equal(tti_arena_bytes(arena, a + 64), 0);
    tti_heap_arena_free(arena, a, false); /* its place is lost for ever */
    assert_int_equal(tti_arena_bytes(arena, a), 0);
    assert_int_equal(tti_heap_arena_alloc(arena, 4 * PAGE, &b), TUTTI_NO_MEMORY);
    assert_int_equal(tti_heap_arena_alloc(arena, 3 * PAGE, &b), TUTTI_OK);
    assert_int_equal(b, a + PAGE);
    assert_int_equal(tti_heap_arena_alloc(arena, 1, &b), TUTTI_NO_MEMORY);
    tti_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),      cmocka_unit_test(addresses),
        cmocka_unit_test(extremes),   cmocka_unit_test(checks_large_registered),
        cmocka_unit_test(orphans),    cmocka_unit_test(arena_random),
        cmocka_unit_test(arena_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
