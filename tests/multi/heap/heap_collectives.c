/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,5 timeout=600 trees=release,debug,address,undefined */
/*
 * Every collective between processes whose tensors lie in the heap, in registered memory, in private memory, or in
 * both: the algorithm differs each time, the result does not. Then a rank aborts in the middle of a large call and uses
 * its memory again at once: no rank writes there any more.
 */
#include <unistd.h>

#include "collective_calls.h"
#include "heap_support.h"
#include "repetitions.h"
#include "time_limits.h"

#define MOST ((size_t)3 << 20)
#define ROOM (MOST + 65536)
#define PAGE ((size_t)4096)

static const char *const from_4k[] = {"engine.zero_copy_bytes=4096", NULL}; /* wherever the machine would begin */

/* Where a rank's two tensors lie. */
enum place { HEAP, REGISTERED, RAGGED, PRIVATE, PLACES };

struct memory {
    unsigned char *blocks[PLACES][2];
    unsigned char *registered[2]; /* as returned by malloc */
};

static void memory_open(tutti_group *g, struct memory *m)
{
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tutti_alloc(g, ROOM, (void **)&m->blocks[HEAP][i], &err));
        m->registered[i] = malloc(ROOM + 2 * PAGE);
        m->blocks[PRIVATE][i] = malloc(ROOM);
        if (!m->registered[i] || !m->blocks[PRIVATE][i]) {
            abort();
        }
        EXPECT_OK(tutti_register(g, m->registered[i], ROOM + 2 * PAGE, &err));
        /* whole pages, so shared; and in front of them, so half private */
        m->blocks[REGISTERED][i] = m->registered[i] + (PAGE - (uintptr_t)m->registered[i] % PAGE) % PAGE;
        m->blocks[RAGGED][i] = m->registered[i];
    }
}

static void memory_close(tutti_group *g, struct memory *m)
{
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tutti_unregister(g, m->registered[i], &err));
        EXPECT_OK(tutti_free(g, m->blocks[HEAP][i], &err));
        free(m->registered[i]);
        free(m->blocks[PRIVATE][i]);
    }
}

static void run_call(tutti_group *g, const struct reference_call *c, unsigned char *in, unsigned char *out)
{
    struct reference_tensors t;
    unsigned char *blocks[2] = {in, out};
    int32_t rank = tutti_group_rank(g);
    EXPECT(reference_block(c, rank) <= ROOM);
    reference_begin(c, rank, blocks, &t);
    tutti_status status = reference_run(g, c, &t, &err);
    failures += reference_end(c, rank, &t, status, &err);
}

/* Where the tensors of `rank` lie in the pattern: the same place on all ranks, or one that differs. */
#define PATTERNS 9
static enum place place_of(int pattern, int rank, int size, int which)
{
    switch (pattern) {
    case 0:
        return HEAP;
    case 1:
        return REGISTERED;
    case 2: /* one rank cannot be reached */
        return rank == size - 1 ? PRIVATE : HEAP;
    case 3: /* one rank alone can */
        return rank == 0 ? HEAP : PRIVATE;
    case 4:
        return which == 0 ? HEAP : PRIVATE;
    case 5:
        return which == 0 ? PRIVATE : HEAP;
    case 6:
        return rank % 2 ? REGISTERED : HEAP;
    case 7:
        return RAGGED;
    default: /* each of its own */
        return (enum place)((rank * 3 + which * 2 + 1) % PLACES);
    }
}

static const tutti_operation kinds[] = {TUTTI_OP_ALL_REDUCE, TUTTI_OP_REDUCE,        TUTTI_OP_BROADCAST,
                                        TUTTI_OP_ALL_GATHER, TUTTI_OP_GATHER,        TUTTI_OP_SCATTER,
                                        TUTTI_OP_ALL_TO_ALL, TUTTI_OP_REDUCE_SCATTER};
#define KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

/* Whether a call whose tensors all lie in shared memory had to go without staging, and did. */
static void check_algorithm(tutti_group *g, const struct reference_call *c, bool plain)
{
    const size_t bytes = c->count * c->rows * tutti_dtype_size(c->dtype) * (plain ? 1 : (size_t)c->size);
    const bool hidden = c->kind == TUTTI_OP_SCATTER && c->rows > 1; /* leaf ranks could not find their parts */
    const char *algorithm = tutti_group_algorithm(g, 0);
    bool shared = algorithm && strcmp(algorithm, "zero_copy") == 0;
    if (shared != (bytes >= 4096 && !hidden)) {
        fprintf(stderr, "rank %d of %d: %s of %zu bytes, %zu rows, root %d ran %s\n", tutti_group_rank(g), c->size,
                tutti_operation_name(c->kind), bytes, c->rows, c->root, algorithm ? algorithm : "no algorithm");
        failures++;
    }
}

/* Each kind with each pattern once; dtype, root and form alternate. */
static void all_patterns(tutti_group *g, struct memory *m, size_t bytes, int variant, bool from_threshold)
{
    int32_t rank = tutti_group_rank(g);
    int32_t size = tutti_group_size(g);
    for (int k = 0; k < KINDS; k++) {
        bool plain = kinds[k] == TUTTI_OP_ALL_REDUCE || kinds[k] == TUTTI_OP_REDUCE || kinds[k] == TUTTI_OP_BROADCAST;
        bool variable =
            kinds[k] == TUTTI_OP_ALL_GATHER || kinds[k] == TUTTI_OP_REDUCE_SCATTER || kinds[k] == TUTTI_OP_ALL_TO_ALL;
        for (int pattern = 0; pattern < PATTERNS; pattern++, variant++) {
            struct reference_call c = {.kind = kinds[k],
                                       .dtype = variant % 2 ? TUTTI_BF16 : TUTTI_F32,
                                       .size = size,
                                       .root = variant % size,
                                       .rows = variant % 5 == 4 ? 2 : 1,
                                       .uneven = variant % 7 == 6 && variable,
                                       .seed = (uint32_t)variant};
            c.count = bytes / tutti_dtype_size(c.dtype) / c.rows / (plain ? 1 : (size_t)size);
            for (int in_place = 0; in_place < 2; in_place++) {
                c.in_place = in_place;
                run_call(g, &c, m->blocks[place_of(pattern, rank, size, 0)][0],
                         m->blocks[place_of(pattern, rank, size, 1)][1]);
                if (pattern < 2 && from_threshold && !c.uneven) {
                    check_algorithm(g, &c, plain);
                }
            }
        }
    }
}

static void world_and_sub_groups(tutti_group *world, size_t sizes_used)
{
    static const size_t sizes[] = {4096 - 8, 4096, 4096 + 20, 70000, MOST - 4};
    static const size_t few[] = {4096, 200000};
    struct memory m;
    int32_t rank = tutti_group_rank(world);
    tutti_group *half = NULL;
    memory_open(world, &m);
    for (size_t i = 0; i < sizes_used && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        all_patterns(world, &m, sizes[i], (int)i * 1000, true);
    }
    EXPECT_OK(tutti_group_split(world, rank % 2, -rank, NULL, &half, &err)); /* ranks in reverse order */
    if (tutti_group_size(half) > 1) {
        for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++) {
            all_patterns(half, &m, few[i], (int)i * 1000 + 7, true);
        }
    }
    EXPECT_OK(tutti_group_destroy(half, &err));
    memory_close(world, &m);
}

/* All patterns in a group of its own, with these settings. */
static tutti_group *with_settings(const char *const *settings, const size_t *sizes, size_t count, int variant)
{
    tutti_group *g = NULL;
    struct memory m;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS, .backend = "shm", .settings = settings), &g, &err));
    if (!g) {
        abort();
    }
    memory_open(g, &m);
    for (size_t i = 0; i < count; i++) {
        all_patterns(g, &m, sizes[i], (int)i * 1000 + variant, false);
    }
    memory_close(g, &m);
    return g;
}

/* All calls that are not inline go without staging. */
static void from_the_first_byte(void)
{
    static const size_t sizes[] = {120, 1000, 3000, 5000};
    static const char *const settings[] = {"engine.zero_copy_bytes=0", "engine.packets=0", NULL};
    tutti_group *g = with_settings(settings, sizes, sizeof(sizes) / sizeof(sizes[0]), 3);
    EXPECT_OK(tutti_group_destroy(g, &err));
}

/* The kernel copies private tensors, if it is allowed to. */
static void read_by_the_kernel(void)
{
    static const size_t sizes[] = {120, 5000, 70001, (size_t)5 << 18};
    static const char *const settings[] = {"engine.single_copy_bytes=0", "engine.zero_copy_bytes=0", "engine.packets=0",
                                           NULL};
    tutti_group *g = with_settings(settings, sizes, takes_all() ? 4 : 3, 5); /* the reference takes most of the time */
    const bool always_allowed = geteuid() == 0;
    unsigned char *blocks[2] = {malloc(ROOM), malloc(ROOM)};
    for (int k = 0; k < KINDS; k++) {
        const bool folds =
            kinds[k] == TUTTI_OP_ALL_REDUCE || kinds[k] == TUTTI_OP_REDUCE || kinds[k] == TUTTI_OP_REDUCE_SCATTER;
        const struct reference_call c = {
            .kind = kinds[k], .dtype = TUTTI_F32, .size = tutti_group_size(g), .rows = 1, .count = 1000};
        run_call(g, &c, blocks[0], blocks[1]);
        const char *algorithm = tutti_group_algorithm(g, 0);
        const bool copied_once = algorithm && strcmp(algorithm, "single_copy") == 0;
        EXPECT(copied_once ? !folds : folds || !always_allowed);
    }
    free(blocks[0]);
    free(blocks[1]);
    EXPECT_OK(tutti_group_destroy(g, &err));
}

/* The first part is much larger than the others, which lie at the very ends of what their owners have registered. */
static void parts_at_the_end(tutti_group *g)
{
    const size_t large = 16 * PAGE;
    int32_t rank = tutti_group_rank(g);
    int32_t size = tutti_group_size(g);
    int64_t counts[16];
    int64_t all = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = (int64_t)(r == 0 ? large : PAGE);
        all += counts[r];
    }
    unsigned char *in = aligned_alloc(PAGE, large);
    unsigned char *out = malloc((size_t)all);
    memset(in, rank + 1, large);
    EXPECT_OK(tutti_register(g, in, large, &err));
    DLTensor input = tutti_tensor_1d(in + large - counts[rank], &counts[rank], TUTTI_I8);
    DLTensor output = tutti_tensor_1d(out, &all, TUTTI_I8);
    EXPECT_OK(tutti_all_gather_v(g, &input, &output, 0, counts, NULL, TUTTI_CALL(.error = &err)));
    const char *algorithm = tutti_group_algorithm(g, 0);
    EXPECT(algorithm && strcmp(algorithm, "zero_copy") == 0);
    for (int64_t i = 0; i < all; i++) {
        const int64_t behind = i - counts[0];
        failures += out[i] != (behind < 0 ? 1 : behind / (int64_t)PAGE + 2);
    }
    EXPECT_OK(tutti_unregister(g, in, &err));
    free(in);
    free(out);
}

/* A mark on each page. Writing the marks is quick, so another rank is still in the middle of its chunk then. */
static void mark(unsigned char *block, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PAGE) {
        memset(block + at, 0x5a, 64);
    }
}

static int is_marked(const unsigned char *block, size_t bytes)
{
    int wrong = 0;
    for (size_t at = 0; at < bytes; at += PAGE) {
        wrong += block[at] != 0x5a || memcmp(block + at, block + at + 1, 63) != 0;
    }
    return wrong == 0;
}

static bool one_of_all(tutti_group *g, bool here)
{
    const int64_t one = 1;
    int32_t value = here;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_MAX, NULL));
    return value != 0;
}

/* In each call another rank has a short deadline. A rank that returns an error marks its memory, and finds the marks
 * when all have returned. */
static void one_gives_up(tutti_group *world, bool registered, tutti_operation kind)
{
    const size_t bytes = (size_t)64 << 20;
    const int64_t count = (int64_t)(bytes / sizeof(float));
    int32_t rank = tutti_group_rank(world);
    tutti_group *g = NULL;
    unsigned char *block = NULL;
    EXPECT_OK(tutti_group_split(world, 0, rank, TUTTI_CONFIG(.timeout_ms = LONG_MS), &g, &err));
    if (registered) {
        block = malloc(bytes);
        EXPECT_OK(tutti_register(g, block, bytes, &err));
    } else {
        EXPECT_OK(tutti_alloc(g, bytes, (void **)&block, &err));
    }
    DLTensor t = tutti_tensor_1d(block, &count, TUTTI_F32);
    tutti_status status = TUTTI_OK;
    bool anybody = false;
    /* If that rank need not wait, the call succeeds and tests nothing. After some such calls the rank calls
     * early, and in the last call the other ranks call when it has returned. */
    const int last = 40;
    for (int i = 0; i <= last && !anybody; i++) {
        int32_t hasty = i % tutti_group_size(g);
        if (i < 20 || rank == hasty) {
            memset(block, 0, bytes);
        }
        EXPECT_OK(tutti_barrier(world, NULL));
        if (i >= 20 && rank != hasty) {
            memset(block, 0, bytes);
        }
        bool after_deadline = i == last; /* the other ranks call when that rank has returned */
        if (after_deadline && rank != hasty) {
            EXPECT_OK(tutti_barrier(world, NULL));
        }
        const tutti_call *call = TUTTI_CALL(.timeout_ms = rank == hasty ? 1 : LONG_MS, .error = &err);
        status = kind == TUTTI_OP_REDUCE ? tutti_reduce(g, &t, &t, TUTTI_SUM, hasty, call)
                                         : tutti_all_reduce(g, &t, &t, TUTTI_SUM, call);
        EXPECT(status == TUTTI_OK || status == TUTTI_TIMEOUT || status == TUTTI_REVOKED);
        if (status != TUTTI_OK) {
            mark(block, bytes);
        }
        if (after_deadline && rank == hasty) {
            EXPECT_OK(tutti_barrier(world, NULL));
        }
        anybody = one_of_all(world, status != TUTTI_OK);
    }
    EXPECT(anybody);
    if (status == TUTTI_OK) { /* all ranks had done their part of the call before one aborted */
        mark(block, bytes);
    }
    EXPECT(is_marked(block, bytes));
    EXPECT_OK(tutti_group_destroy(g, &err));
    EXPECT(is_marked(block, bytes));
    if (registered) {
        EXPECT_OK(tutti_unregister(world, block, &err));
        EXPECT(is_marked(block, bytes));
        free(block);
    } else {
        EXPECT_OK(tutti_free(world, block, &err));
    }
}

int main(void)
{
    tutti_group *world = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS, .backend = "shm", .settings = from_4k), &world, &err));
    if (failures == 0) {
        world_and_sub_groups(world, takes_all() ? 5 : 4); /* the largest size runs the code of the one before */
        from_the_first_byte();
        read_by_the_kernel();
        parts_at_the_end(world);
        for (int i = takes_all() ? 0 : 4; i < 8; i++) {
            one_gives_up(world, i % 2, i / 2 % 4 == 3 ? TUTTI_OP_REDUCE : TUTTI_OP_ALL_REDUCE);
        }
        world_and_sub_groups(world, 2); /* the heap is unchanged */
    }
    EXPECT_OK(tutti_finalize(&err));
    return failures != 0;
}
