/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap's calls to the engine, without an engine. All ranks of a group understand a name, in every group that may
 * use it and in no other. Also: the effect of registering on memory, on the other ranks, and on a range that is
 * unmapped.
 */
#include "heap_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/shm/heap/ranges.h"
#include "backends/shm/heap/state.h"
#include "base/error.h"

#define PAGE ((size_t)4096)
#define MIB  ((size_t)1 << 20)

static unsigned char *pages(size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static unsigned char *take(struct rank *x, size_t bytes)
{
    void *memory = NULL;
    EXPECT_E(tti_heap_alloc(x->view, bytes, &x->exchange, &memory, &x->error) == TUTTI_OK);
    return memory;
}

static void give(struct rank *x, void *memory)
{
    EXPECT_E(tti_heap_release(x->view, memory, &x->error) == TUTTI_OK);
}

static void allocated_on(struct rank *x)
{
    static const size_t sizes[] = {64, PAGE, 3 * PAGE + 10, 2 * MIB, 5 * MIB + 1};
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 5; i++) {
            unsigned char *memory = take(x, sizes[i]);
            CHECK_SHARED(x, memory, sizes[i]);
            if (i != 3 || round) {
                give(x, memory);
            }
        }
    }
}

static void allocated(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST_RANKS; size++) {
        assert_int_equal(run_ranks(size, allocated_on), 0);
    }
}

/* Ranks 0-1 and 1-2 allocate in pairs first: no name leaves a group if one of its members cannot use it. */
static struct rendezvous low_rendezvous;
static struct rendezvous high_rendezvous;

static void overlapping_on(struct rank *x)
{
    static const int32_t low_ranks[] = {0, 1};
    static const int32_t high_ranks[] = {1, 2};
    struct rank low = {0};
    struct rank high = {0};
    unsigned char *of_low = NULL;
    unsigned char *of_high = NULL;
    struct tti_heap *world = tti_heap_view_table(x->view);
    if (x->rank <= 1) {
        rank_open(&low, &low_rendezvous, x->rank, low_ranks, x->view);
        of_low = take(&low, 3 * PAGE);
        CHECK_SHARED(&low, of_low, 3 * PAGE);
        EXPECT(tti_heap_name(world, of_low, 1) == 0);
    }
    if (x->rank >= 1) {
        rank_open(&high, &high_rendezvous, x->rank - 1, high_ranks, x->view);
        EXPECT(!of_low || tti_heap_name(tti_heap_view_table(high.view), of_low, 1) == 0);
        of_high = take(&high, 2 * MIB);
        CHECK_SHARED(&high, of_high, 2 * MIB);
    }
    rank_barrier(x);
    /* both neighbours of rank 1 have mapped its arena now, but not one another's */
    EXPECT((tti_heap_name(world, of_low ? of_low : of_high, 1) != 0) == (x->rank == 1));
    if (x->rank == 1) {
        EXPECT(tti_heap_name(tti_heap_view_table(low.view), of_high, 2 * MIB) != 0);
    }
    rank_barrier(x);
    give(x, take(x, 100)); /* the world maps all */
    CHECK_SHARED(x, of_low ? of_low : of_high, 3 * PAGE);
    if (of_low) {
        tti_heap_view_close(low.view);
        give(x, of_low);
    }
    if (of_high) {
        CHECK_SHARED(&high, of_high, MIB);
        give(x, of_high);
        tti_heap_view_close(high.view);
    }
}

static void overlapping(void **state)
{
    (void)state;
    rendezvous_init(&low_rendezvous, 2);
    rendezvous_init(&high_rendezvous, 2);
    assert_int_equal(run_ranks(3, overlapping_on), 0);
    pthread_barrier_destroy(&low_rendezvous.barrier);
    pthread_barrier_destroy(&high_rendezvous.barrier);
}

/* Ragged on both sides, of different sizes, less than a page on rank 2 and nothing on rank 3. */
static void registered_on(struct rank *x)
{
    size_t bytes = x->rank < 2 ? (size_t)(5 + 600 * x->rank) * PAGE + 100 : x->rank == 2 ? 900 : 0;
    unsigned char *all = pages(bytes + 3 * PAGE);
    unsigned char *memory = bytes ? all + 50 : NULL;
    struct tti_heap *heap = tti_heap_view_table(x->view);
    for (size_t i = 0; i < bytes + 2 * PAGE; i++) {
        all[i] = (unsigned char)(i * 7 + (size_t)x->rank);
    }
    for (int round = 0; round < 3; round++) {
        EXPECT_E(tti_heap_register(x->view, memory, bytes, &x->exchange, &x->error) == TUTTI_OK);
        size_t wrong = 0;
        for (size_t i = 0; i < bytes + 2 * PAGE; i++) {
            wrong += all[i] != (unsigned char)(i * 7 + (size_t)x->rank);
        }
        EXPECT(wrong == 0);
        EXPECT(!memory || tti_heap_name(heap, memory, 100) == 0); /* the ragged edge */
        EXPECT(bytes < PAGE || tti_heap_name(heap, all + PAGE, bytes / PAGE * PAGE - PAGE) != 0);
        EXPECT(bytes < PAGE || tti_heap_name(heap, all + PAGE, bytes / PAGE * PAGE + 1) == 0);
        uint64_t names[MOST_RANKS];
        exchange_names(x, all + PAGE, 2 * PAGE, names);
        for (int r = 0; r < x->rendezvous->size; r++) {
            EXPECT((names[r] != 0) == (r < 2));
            unsigned char *seen = names[r] ? address(x, r, names[r], 2 * PAGE) : NULL;
            EXPECT(!names[r] || (seen && seen[5] == (unsigned char)((PAGE + 5) * 7 + (size_t)r)));
        }
        rank_barrier(x);
        if (x->rank == 3) { /* into the others' memory, for the time after */
            address(x, 0, names[0], 2 * PAGE)[6] = (unsigned char)(200 + round);
            address(x, 1, names[1], 2 * PAGE)[6] = (unsigned char)(100 + round);
        }
        EXPECT_E(tti_heap_unregister(x->view, memory, &x->exchange, &x->error) == TUTTI_OK);
        EXPECT(tti_heap_name(heap, all + PAGE, 1) == 0);
        if (x->rank < 2) {
            EXPECT(all[PAGE + 6] == 200 - 100 * x->rank + round);
            all[PAGE + 6] = (unsigned char)((PAGE + 6) * 7 + (size_t)x->rank);
        }
        wrong = 0;
        for (size_t i = 0; i < bytes + 2 * PAGE; i++) {
            wrong += all[i] != (unsigned char)(i * 7 + (size_t)x->rank);
        }
        EXPECT(wrong == 0);
    }
    munmap(all, bytes + 3 * PAGE);
}

static void registered(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(4, registered_on), 0);
}

/* The address is reused for other memory: large calls detect that, and unregistering leaves the new content alone. */
static void reused_on(struct rank *x)
{
    unsigned char *memory = pages(4 * MIB);
    struct tti_heap *heap = tti_heap_view_table(x->view);
    memset(memory, 1, 4 * MIB);
    EXPECT_E(tti_heap_register(x->view, memory, 4 * MIB, &x->exchange, &x->error) == TUTTI_OK);
    EXPECT(tti_heap_name(heap, memory, 4 * MIB) != 0);
    EXPECT(mmap(memory + MIB, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           memory + MIB);
    memory[MIB] = 77;
    int maps = tti_heap_maps_open(); /* not before Linux 6.11 */
    EXPECT((tti_heap_name(heap, memory, 4 * MIB) == 0) == (maps >= 0));
    close(maps);
    EXPECT(tti_heap_name(heap, memory, MIB) != 0);
    EXPECT(tti_heap_name(heap, memory + 2 * MIB, 2 * MIB) != 0);
    EXPECT_E(tti_heap_unregister(x->view, memory, &x->exchange, &x->error) == TUTTI_OK);
    EXPECT(memory[MIB - 1] == 1 && memory[MIB] == 77 && memory[MIB + 1] == 0 && memory[2 * MIB] == 1);
    munmap(memory, 4 * MIB);
}

static void reused(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(2, reused_on), 0);
}

/* A double of the engine's messages: returns whether one is pending, and reads the neighbour's memory in `quiesced`. */
struct mover {
    struct rank *rank;
    uint64_t name;           /* of the neighbour's memory */
    const unsigned char *at; /* where it lies here */
    bool under_way;
    bool in_call; /* a collective uses what it has found */
    int settled;
};

static bool use(void *user, const void *memory, size_t bytes)
{
    const struct mover *m = user;
    return m->under_way && memory && bytes == 2 * PAGE;
}

static bool settle(void *user, uint64_t withdrawal)
{
    struct mover *m = user;
    const int next = (m->rank->rank + 1) % m->rank->rendezvous->size;
    EXPECT(address(m->rank, next, m->name, 2 * PAGE) == NULL); /* no later lookup finds it */
    EXPECT(m->at[2 * PAGE - 1] == 'a' + next);                 /* an earlier lookup stays valid */
    EXPECT(withdrawal > 1);
    m->settled++;
    return !m->in_call;
}

/* No memory is released during a message: its owner refuses, and other ranks wait until the message has ended. */
static void moved_on(struct rank *x)
{
    uint64_t names[MOST_RANKS] = {0};
    unsigned char *memory = pages(2 * PAGE);
    const int next = (x->rank + 1) % x->rendezvous->size;
    EXPECT_E(tti_heap_register(x->view, memory, 2 * PAGE, &x->exchange, &x->error) == TUTTI_OK);
    memset(memory, 'a' + x->rank, 2 * PAGE);
    exchange_names(x, memory, 2 * PAGE, names);
    struct mover m = {
        .rank = x, .name = names[next], .at = address(x, next, names[next], 2 * PAGE), .under_way = x->rank == 1};
    tti_heap_view_attach(x->view, &(struct tti_heap_group_ops){.user = &m, .use = use, .quiesced = settle});
    EXPECT(tti_heap_unregister(x->view, memory, &x->exchange, &x->error) == TUTTI_BUSY);
    EXPECT(x->error.suspect == 1 && strstr(x->error.message, "under way") && m.settled == 0);
    EXPECT(tti_heap_name(tti_heap_view_table(x->view), memory, 2 * PAGE) != 0);
    EXPECT(address(x, next, m.name, 2 * PAGE) == m.at);
    m.under_way = false;
    EXPECT_E(tti_heap_unregister(x->view, memory, &x->exchange, &x->error) == TUTTI_OK);
    EXPECT(m.settled == x->rendezvous->size - 1);
    tti_heap_view_attach(x->view, NULL);
    munmap(memory, 2 * PAGE);
}

static void moved(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(2, moved_on), 0);
}

/* A failed call has replaced pages: the others keep writing to the old ones, and no rank uses the range's name any
 * more. */
static void orphaned_on(struct rank *x)
{
    uint64_t names[MOST_RANKS];
    struct tti_heap *heap = tti_heap_view_table(x->view);
    unsigned char *block = take(x, 8 * PAGE);
    unsigned char *plain = pages(8 * PAGE);
    unsigned char *beside = take(x, 8 * PAGE);
    EXPECT_E(tti_heap_register(x->view, plain, 8 * PAGE, &x->exchange, &x->error) == TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        unsigned char *memory = i ? plain : block;
        memset(memory, 1, 8 * PAGE);
        exchange_names(x, memory, 8 * PAGE, names);
        int next = (x->rank + 1) % x->rendezvous->size;
        unsigned char *other = address(x, next, names[next], 8 * PAGE);
        tti_heap_orphan(heap, memory + PAGE + 1, 3 * PAGE); /* pages 2 and 3 */
        rank_barrier(x);
        memset(other, 2, 8 * PAGE); /* too late */
        rank_barrier(x);
        EXPECT(memory[2 * PAGE - 1] == 2 && memory[2 * PAGE] != 2 && memory[4 * PAGE - 1] != 2 &&
               memory[4 * PAGE] == 2);
        EXPECT(tti_heap_name(heap, memory, 3 * PAGE) == 0);
        EXPECT(tti_heap_name(heap, memory + 4 * PAGE, 4 * PAGE) != 0);
        memory[2 * PAGE] = 9;
    }
    give(x, block);
    unsigned char *again = take(x, 8 * PAGE);
    EXPECT(again >= block + 8 * PAGE || again + 8 * PAGE <= block); /* a late rank may still write there */
    CHECK_SHARED(x, again, 8 * PAGE);
    CHECK_SHARED(x, beside, 8 * PAGE);
    EXPECT_E(tti_heap_unregister(x->view, plain, &x->exchange, &x->error) == TUTTI_OK);
    EXPECT(plain[0] == 2 && plain[2 * PAGE] == 9 && plain[4 * PAGE] == 2);
    EXPECT_E(tti_heap_register(x->view, plain, 8 * PAGE, &x->exchange, &x->error) == TUTTI_OK);
    CHECK_SHARED(x, plain, 8 * PAGE);
    munmap(plain, 8 * PAGE); /* without tutti_unregister */
}

static void orphaned(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(2, orphaned_on), 0);
}

/* Memory that is registered when the group ends is private memory again. */
static void left_registered_on(struct rank *x)
{
    static unsigned char *kept[2];
    if (!kept[x->rank]) {
        kept[x->rank] = pages(3 * PAGE);
        memset(kept[x->rank], 5, 3 * PAGE);
    }
    EXPECT(kept[x->rank][0] == 5 && kept[x->rank][3 * PAGE - 1] == 5);
    EXPECT_E(tti_heap_register(x->view, kept[x->rank], 3 * PAGE, &x->exchange, &x->error) == TUTTI_OK);
    CHECK_SHARED(x, kept[x->rank], 3 * PAGE);
    memset(kept[x->rank], 5, 3 * PAGE);
}

static void left_registered(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_ranks(2, left_registered_on), 0);
    }
}

/* One too many: 63 ranges beside the arena. */
static void too_many_on(struct rank *x)
{
    unsigned char *all = pages(200 * PAGE);
    for (unsigned i = 0; i < TTI_HEAP_REGIONS - 1; i++) {
        EXPECT_E(tti_heap_register(x->view, all + 2 * i * PAGE, PAGE, &x->exchange, &x->error) == TUTTI_OK);
    }
    EXPECT(tti_heap_register(x->view, all + 150 * PAGE, PAGE, &x->exchange, &x->error) == TUTTI_NO_RESOURCE);
    CHECK_SHARED(x, all + 124 * PAGE, PAGE);
    EXPECT_E(tti_heap_unregister(x->view, all, &x->exchange, &x->error) == TUTTI_OK);
    EXPECT_E(tti_heap_register(x->view, all + 150 * PAGE, PAGE, &x->exchange, &x->error) == TUTTI_OK);
    CHECK_SHARED(x, all + 150 * PAGE, PAGE);
}

static void too_many(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(2, too_many_on), 0);
}

/* A false record of rank 1, in place of the true one. */
static _Thread_local struct {
    bool on;
    uint32_t region;
    int32_t status;
} lie;

static tutti_status gather_lies(void *self, const void *mine, size_t bytes, void *all, tutti_error *error)
{
    struct rank *x = self;
    struct tti_heap_record record;
    EXPECT(bytes == sizeof(record));
    memcpy(&record, mine, sizeof(record));
    if (x->rank == 1 && lie.on) {
        record.region = lie.region;
        record.status = lie.status;
    }
    return gather(self, &record, bytes, all, error);
}

static void lied_to_on(struct rank *x)
{
    static const uint32_t regions[] = {0, 1, TTI_HEAP_REGIONS, 1000000, UINT32_MAX};
    unsigned char *private = pages(3 * PAGE);
    void *memory = NULL;
    x->exchange.gather = gather_lies;
    lie.on = true;
    for (size_t i = 0; i < sizeof(regions) / sizeof(regions[0]); i++) {
        lie.region = regions[i];
        const bool arena = regions[i] == TTI_HEAP_ARENA;
        tutti_status status =
            arena ? TUTTI_PEER_CORRUPT : tti_heap_alloc(x->view, PAGE, &x->exchange, &memory, &x->error);
        EXPECT_E(status == TUTTI_PEER_CORRUPT && (arena || strstr(x->error.message, "rank 1 names region")));
        status = regions[i] == 1 ? TUTTI_PEER_CORRUPT
                                 : tti_heap_register(x->view, private, 3 * PAGE, &x->exchange, &x->error);
        EXPECT_E(status == TUTTI_PEER_CORRUPT);
    }
    lie.status = 12345; /* no failure has that number */
    EXPECT_E(tti_heap_alloc(x->view, PAGE, &x->exchange, &memory, &x->error) == TUTTI_PEER_CORRUPT);
    lie.on = false;
    CHECK_SHARED(x, take(x, 2 * PAGE), 2 * PAGE);
    EXPECT_E(tti_heap_register(x->view, private, 3 * PAGE, &x->exchange, &x->error) == TUTTI_OK);
    CHECK_SHARED(x, private, 3 * PAGE);
}

static void lied_to(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(2, lied_to_on), 0);
}

/* Rank 1 releases one region, but its record names another one, which rank 0 is using. */
static void lied_to_in_a_call_on(struct rank *x)
{
    uint64_t names[MOST_RANKS] = {0};
    unsigned char *memory = pages(6 * PAGE);
    const int next = 1 - x->rank;
    EXPECT_E(tti_heap_register(x->view, memory, 2 * PAGE, &x->exchange, &x->error) == TUTTI_OK); /* region 1 */
    memset(memory, 'a' + x->rank, 2 * PAGE);
    exchange_names(x, memory, 2 * PAGE, names);
    struct mover m = {.rank = x, .name = names[next], .at = address(x, next, names[next], 2 * PAGE), .in_call = true};
    if (x->rank == 0) {
        tti_heap_view_attach(x->view, &(struct tti_heap_group_ops){.user = &m, .use = use, .quiesced = settle});
    }
    EXPECT_E(tti_heap_register(x->view, memory + 3 * PAGE, PAGE, &x->exchange, &x->error) == TUTTI_OK);
    EXPECT(m.settled == 0);
    x->exchange.gather = gather_lies;
    lie.on = true;
    lie.region = 1;
    lie.status = TUTTI_OK;
    EXPECT_E(tti_heap_unregister(x->view, memory + 3 * PAGE, &x->exchange, &x->error) == TUTTI_OK);
    if (x->rank == 0) {
        EXPECT(m.settled > 0 && m.at[PAGE] == 'b'); /* it can be read to the end */
    }
    const int asked = m.settled;
    m.in_call = false;
    lie.on = false;
    EXPECT_E(tti_heap_register(x->view, memory + 5 * PAGE, PAGE, &x->exchange, &x->error) == TUTTI_OK);
    EXPECT(x->rank == 1 || (m.settled > asked && !x->view->shared->retired_mappings)); /* then it goes */
    tti_heap_view_attach(x->view, NULL);
    rank_barrier(x);
}

static void lied_to_in_a_call(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(2, lied_to_in_a_call_on), 0);
}

/* A group that fails at the third poll. */
static tutti_status fail_third(void *user, tutti_error *error)
{
    int *looks = user;
    return ++*looks < 3 ? TUTTI_OK : tti_error_set(error, TUTTI_PEER_DEAD, "rank 7 has died");
}

static bool use_nothing(void *user, const void *memory, size_t bytes)
{
    (void)user, (void)memory, (void)bytes;
    return false;
}

static bool settle_at_once(void *user, uint64_t withdrawal)
{
    (void)user, (void)withdrawal;
    return true;
}

static int failing; /* the rank whose group fails */

/* A rank that commits memory while the group fails stops in the middle and gives the memory back; no rank waits for
 * it. */
static void failed_meanwhile_on(struct rank *x)
{
    int looks = 0;
    void *memory = NULL;
    unsigned char *range = pages(16 * MIB);
    const struct tti_heap_group_ops group_ops = {
        .user = &looks, .use = use_nothing, .quiesced = settle_at_once, .failure = fail_third};
    EXPECT(tti_heap_alloc(x->view, 0, &x->exchange, &memory, &x->error) ==
           TUTTI_OK); /* makes what the first allocation sets up */
    if (x->rank == failing) {
        tti_heap_view_attach(x->view, &group_ops);
    }
    EXPECT(tti_heap_alloc(x->view, 48 * MIB, &x->exchange, &memory, &x->error) == TUTTI_PEER_DEAD);
    EXPECT(strstr(x->error.message, "rank 7 has died") && x->error.suspect == failing);
    EXPECT(looks == (x->rank == failing ? 3 : 0));
    looks = 0;
    EXPECT(tti_heap_register(x->view, range, 16 * MIB, &x->exchange, &x->error) == TUTTI_PEER_DEAD);
    EXPECT(strstr(x->error.message, "rank 7 has died") && x->error.suspect == failing);
    EXPECT(looks == (x->rank == failing ? 3 : 0));
    tti_heap_view_attach(x->view, NULL);
    rank_barrier(x);
    give(x, take(x, 48 * MIB)); /* which is more than would be left */
    munmap(range, 16 * MIB);
}

static void failed_meanwhile(void **state)
{
    (void)state;
    for (failing = 0; failing < 3; failing++) {
        assert_int_equal(run_ranks(3, failed_meanwhile_on), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lied_to),           cmocka_unit_test(allocated),        cmocka_unit_test(overlapping),
        cmocka_unit_test(registered),        cmocka_unit_test(reused),           cmocka_unit_test(orphaned),
        cmocka_unit_test(left_registered),   cmocka_unit_test(too_many),         cmocka_unit_test(moved),
        cmocka_unit_test(lied_to_in_a_call), cmocka_unit_test(failed_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
