/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=240 */
/*
 * The stage as up to three rings of bytes. One thread plays owner and reader. Both compute the same places for spans of
 * any size and any beginning, in all rings. A span is acquired again only when its stamp allows it, and as soon as it
 * does. Memory for a ring comes in chunks, and no more of them after a resource error or a failure of the group. Then
 * calls of all kinds and sizes in random order, over several lanes at once, each rank in any ring.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "repetitions.h"
#include "unit/engine/engine_calls.h"

static uint32_t random_number(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* Two engines, whose ranks the test plays itself: lane 0 of the owner (rank 0) and of the reader (rank 1). */
struct pair {
    struct cluster cluster;
    struct tti_lane *owner;
    struct tti_lane *reader;
    tutti_error error;
    tutti_op op;
};

/* The rings behind the first one, in quarters of its bytes. */
struct others {
    size_t far;
    size_t small;
};
#define NONE       ((struct others){0})
#define FAR(n)     ((struct others){.far = (n)})
#define SMALL(n)   ((struct others){.small = (n)})
#define BOTH(n, m) ((struct others){.far = (n), .small = (m)})

static int rings_open(struct cluster *c, int size, int lanes, size_t window, struct others others)
{
    struct tti_tuning_overrides wishes = no_overrides;
    wishes.window = (int64_t)window;
    wishes.stream = 0;
    struct tti_tuning tuning = built_in_tuning(size, &wishes);
    tuning.stage_far = others.far * tuning.stage / 4;
    tuning.stage_small = others.small * tuning.stage / 4;
    if (cluster_open_tuned(c, size, lanes, tuning, (struct waiting){500, 20000, 0}) != 0) {
        return -1;
    }
    for (int r = 0; r < size; r++) {
        c->engines[r]->ranks_per_cpu = 1; /* whatever machine the test runs on, calls of all sizes take either ring */
    }
    return 0;
}

/* Sets whether readers seem far away; this decides which ring the next call takes. */
static void seem_far(struct tti_lane *lane, bool far)
{
    lane->publish_ticks = (far ? 1e6 : 1e-6) * lane->engine->ticks_per_ns;
}

static void pair_open(struct pair *p, size_t window, struct others others)
{
    assert_int_equal(rings_open(&p->cluster, 2, 1, window, others), 0);
    p->op = op_of(TUTTI_OP_BROADCAST, NULL, NULL, 0, 0);
    p->op.timeout_ms = 100; /* no rank may wait: all that a call needs is published before */
    p->owner = &p->cluster.engines[0]->lanes[0];
    p->reader = &p->cluster.engines[1]->lanes[0];
    struct tti_lane *both[] = {p->owner, p->reader};
    for (int i = 0; i < 2; i++) {
        both[i]->op = &p->op;
        both[i]->error = &p->error;
    }
}

static void next_call(struct pair *p, size_t stride, bool small)
{
    p->owner->call++;
    p->reader->call++;
    tutti_status mark;
    assert_int_equal(tti_stage_begin(p->owner, stride, 1, small, &mark), TUTTI_OK);
    assert_int_equal(mark, TUTTI_OK);
    tti_stage_shape(p->reader, stride);
    tti_stage_start(p->reader, 0, tti_stage_place(p->owner));
}

/* A span that the owner must be able to acquire at once. */
static unsigned char *acquire(struct pair *p, size_t index)
{
    unsigned char *span = NULL;
    assert_int_equal(tti_stage_acquire(p->owner, index, &span), TUTTI_OK);
    assert_ptr_equal(span, tti_stage_peer(p->reader, 0, index));
    const unsigned char *stage = p->cluster.segments[0] + p->cluster.layout.stages + p->owner->stage->base;
    assert_true(span >= stage && span + p->owner->stage->stride <= stage + p->owner->stage->ring);
    assert_int_equal((size_t)(span - stage) % 64, 0);
    return span;
}

/* A live span: the reader has not read it. */
struct live {
    unsigned char *begin;
    size_t bytes;
    uint64_t call;
    uint64_t phase;
};

enum { LIVE = 64 };

/* The reader reads the oldest of the live spans. */
static void take_oldest(struct pair *p, struct live *live, size_t *count)
{
    uint64_t now = p->reader->call;
    p->reader->call = live[0].call;
    tti_advance(p->reader, live[0].phase);
    p->reader->call = now;
    (*count)--;
    memmove(live, live + 1, *count * sizeof(*live));
}

/* The largest stride that calls take: a window and its largest slice. */
static size_t largest(const struct pair *p)
{
    size_t window = (size_t)p->cluster.engines[0]->tuning.window;
    return window + window / 2;
}

static void places(size_t window, struct others others, uint64_t seed)
{
    struct pair p = {0};
    pair_open(&p, window, others);
    struct live live[LIVE];
    size_t count = 0;
    int calls[TTI_STAGE_RINGS] = {0};
    assert_true(p.cluster.layout.stage >= TTI_STAGE_SPANS * largest(&p));
    for (int call = 0; call < repetitions(3000); call++) {
        if (random_number(&seed) % 8 == 0) {
            seem_far(p.owner, random_number(&seed) % 2);
        }
        /* as many small ones as large ones */
        size_t most = largest(&p) >> random_number(&seed) % 11;
        next_call(&p, 1 + random_number(&seed) % most, random_number(&seed) % 2);
        calls[p.owner->stage - p.owner->rings]++;
        size_t stride = p.owner->stage->stride;
        const bool smaller = p.owner->stage->ring < p.cluster.layout.stage;
        const size_t ring = smaller ? p.owner->stage->ring : p.cluster.layout.stage;
        const size_t gap = smaller ? ring / TTI_STAGE_SPANS : largest(&p);
        size_t spans = 1 + random_number(&seed) % 12;
        for (size_t k = 0; k < spans; k++) {
            /* what the reader must have read so that the span fits, whatever gap lies before it */
            size_t used = 0;
            for (size_t i = 0; i < count; i++) {
                used += live[i].bytes;
            }
            while (count == LIVE || (count > 0 && (used + 3 * stride + gap > ring || random_number(&seed) % 4 == 0))) {
                used -= live[0].bytes;
                take_oldest(&p, live, &count);
            }
            unsigned char *span = acquire(&p, k);
            for (size_t i = 0; i < count; i++) {
                assert_true(span + stride <= live[i].begin || live[i].begin + live[i].bytes <= span);
            }
            tti_stage_stamp(p.owner, k + 1, 1);
            live[count++] = (struct live){span, stride, p.owner->call, k + 1};
        }
    }
    assert_true(calls[TTI_RING_FIRST] > 0);
    assert_int_equal(calls[TTI_RING_FAR] > 0, others.far > 0);
    assert_int_equal(calls[TTI_RING_SMALL] > 0, others.small > 0);
    cluster_close(&p.cluster);
}

static void owner_and_reader_agree(void **state)
{
    (void)state;
    places(16384, NONE, 1);
    places(8192, FAR(16), 2);
    places(24576, FAR(8), 3); /* the ring is no power of two */
    places(57344, FAR(16), 4);
    places(16384, SMALL(1), 5);
    places(57344, SMALL(2), 6);
    places(16384, BOTH(8, 1), 7);
    places(57344, BOTH(16, 2), 8);
}

/* A ring that is full of spans gives no more; each span that the reader has read makes room for one. */
static void full_ring(size_t window, size_t stride)
{
    struct pair p = {0};
    pair_open(&p, window, NONE);
    next_call(&p, stride, false);
    size_t each = p.cluster.layout.stage / p.owner->stage->stride;
    each = each < TTI_STAMPS ? each : TTI_STAMPS;
    for (size_t k = 0; k < each; k++) {
        memset(acquire(&p, k), (int)k, stride);
        tti_stage_stamp(p.owner, k + 1, 1);
    }
    assert_int_equal(p.owner->stage->stamps_count, each);
    for (size_t k = each; k < 5 * each; k++) {
        assert_int_equal(*tti_stage_peer(p.reader, 0, k - each), (int)((k - each) % 256));
        tti_advance(p.reader, k - each + 1);
        memset(acquire(&p, k), (int)(k % 256), stride);
        assert_int_equal(*tti_stage_peer(p.reader, 0, k), (int)(k % 256));
        tti_stage_stamp(p.owner, k + 1, 1);
        assert_int_equal(p.owner->stage->stamps_count, each);
    }
    unsigned char *span;
    p.op.timeout_ms = 1;
    assert_int_equal(tti_stage_acquire(p.owner, 5 * each, &span), TUTTI_TIMEOUT);
    cluster_close(&p.cluster);
}

static void spans_are_reused_one_by_one(void **state)
{
    (void)state;
    full_ring(16384, 64); /* 64 stamps are fewer than what the ring holds */
    full_ring(16384, 2000);
    full_ring(16384, 24576);
    full_ring(24576, 12288);
    full_ring(24576, 28672); /* does not divide the ring */
}

/* TTI_PHASE_NEXT: only the arrival at the next call frees the span. */
static void arrival_at_the_next_call(void **state)
{
    (void)state;
    struct pair p = {0};
    pair_open(&p, 16384, NONE);
    size_t stride = p.cluster.layout.stage / 2;
    next_call(&p, stride, false);
    acquire(&p, 0);
    tti_stage_stamp(p.owner, 5, -1);
    tti_stage_stamp(p.owner, TTI_PHASE_NEXT, -1); /* the second stamp replaces the first */
    assert_int_equal(p.owner->stage->stamps_count, 1);
    acquire(&p, 1);
    tti_stage_stamp(p.owner, TTI_PHASE_NEXT, -1);
    tti_advance(p.reader, TTI_PHASE_FINAL - 1); /* not the phase of the stamp */
    next_call(&p, stride, false);
    assert_int_equal(tti_arrive(p.reader, NULL, 0), TUTTI_OK);
    acquire(&p, 0);
    assert_int_equal(p.owner->stage->stamps_count, 0 + 1);
    tti_stage_stamp(p.owner, TTI_PHASE_NEXT, -1);
    unsigned char *span;
    next_call(&p, stride, false);
    assert_int_equal(tti_stage_acquire(p.owner, 0, &span), TUTTI_OK); /* the second span of the first call */
    p.op.timeout_ms = 1;
    tti_stage_stamp(p.owner, TTI_PHASE_NEXT, -1);
    next_call(&p, stride, false);
    assert_int_equal(tti_stage_acquire(p.owner, 0, &span), TUTTI_TIMEOUT); /* rank 1 has not arrived at the call */
    cluster_close(&p.cluster);
}

/* ---- random calls ----------------------------------------------------------------------------------------------- */

#define LANES 3

static const tutti_operation kinds[] = {TUTTI_OP_ALL_REDUCE, TUTTI_OP_REDUCE,         TUTTI_OP_BROADCAST,
                                        TUTTI_OP_ALL_GATHER, TUTTI_OP_GATHER,         TUTTI_OP_SCATTER,
                                        TUTTI_OP_ALL_TO_ALL, TUTTI_OP_REDUCE_SCATTER, TUTTI_OP_BARRIER};

/* The same call on every rank. Many small ones, some that fill the ring several times; runs of rooted calls. */
static struct reference_call random_call(int size, int lane, int number)
{
    static const tutti_dtype dtypes[] = {TUTTI_F32, TUTTI_I8, TUTTI_BF16, TUTTI_I32};
    uint64_t block = ((uint64_t)lane << 32 | (uint32_t)(number / 8)) * 0x9e3779b97f4a7c15u;
    uint64_t seed = ((uint64_t)lane << 32 | (uint32_t)number) * 0xbf58476d1ce4e5b9u;
    random_number(&block);
    random_number(&seed);
    struct reference_call c = {.size = size, .seed = (uint32_t)number, .dtype = dtypes[random_number(&seed) % 4]};
    bool alike = random_number(&block) % 2; /* eight calls of one kind and root in a row: the root runs ahead */
    uint64_t *choice = alike ? &block : &seed;
    c.kind = kinds[random_number(choice) % (sizeof(kinds) / sizeof(kinds[0]))];
    c.root = (int)(random_number(choice) % (uint32_t)size);
    c.rows = random_number(&seed) % 4 == 0 ? 1 + random_number(&seed) % 5 : 1;
    bool joined = sends_joined(c.kind) || receives_joined(c.kind);
    c.uneven = random_number(&seed) % 3 == 0 && joined && !reference_is_rooted(c.kind);
    c.in_place = random_number(&seed) % 3 == 0;
    size_t most = (size_t)200000 >> random_number(&seed) % 16;
    most = most / tutti_dtype_size(c.dtype) / c.rows / (joined ? (size_t)size : 1);
    c.count = random_number(&seed) % (most + 2);
    return c;
}

struct lane_start {
    struct cluster *cluster;
    int rank;
    int lane;
    int calls;
    int failures;
    uint64_t state; /* of random numbers that differ by rank */
};

static void *lane_main(void *argument)
{
    struct lane_start *s = argument;
    for (int i = 0; i < s->calls; i++) {
        struct reference_call c = random_call(s->cluster->layout.size, s->lane, i);
        struct tti_engine *e = s->cluster->engines[s->rank];
        if (random_number(&s->state) % 4 == 0) {
            seem_far(&e->lanes[s->lane], random_number(&s->state) % 2);
        }
        s->failures += run_call(e, s->lane, &c, NULL);
    }
    return NULL;
}

static void run_random(int size, size_t window, struct others others, int calls)
{
    struct cluster c;
    assert_int_equal(rings_open(&c, size, LANES, window, others), 0);
    pthread_t threads[RANKS_MAX * LANES];
    struct lane_start starts[RANKS_MAX * LANES];
    int failures = 0;
    for (int i = 0; i < size * LANES; i++) {
        starts[i] = (struct lane_start){
            .cluster = &c, .rank = i / LANES, .lane = i % LANES, .calls = repetitions(calls), .state = (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, lane_main, &starts[i]), 0);
    }
    for (int i = 0; i < size * LANES; i++) {
        pthread_join(threads[i], NULL);
        failures += starts[i].failures;
    }
    assert_int_equal(failures, 0);
    cluster_close(&c);
}

static void random_calls(void **state)
{
    (void)state;
    run_random(2, 16384, FAR(16), 3000);
    run_random(2, 65536, SMALL(1), 3000);
    run_random(2, 65536, BOTH(8, 1), 3000);
    run_random(3, 24576, FAR(8), 1500);
    run_random(3, 24576, BOTH(8, 1), 1500);
    run_random(3, 24576, SMALL(1), 1500);
    run_random(5, 8192, NONE, 1000);
}

/* Each large call is followed by a small one. None publishes a position, so the distance has to be probed. */
static int large_and_small(struct cluster *c, int rank)
{
    const struct reference_call large = {
        .size = 2, .kind = TUTTI_OP_ALL_GATHER, .dtype = TUTTI_I32, .rows = 1, .count = 8192};
    const struct reference_call small = {.size = 2, .kind = TUTTI_OP_BARRIER, .dtype = TUTTI_I8, .rows = 1};
    int failures = 0;
    for (int i = 0; i < 32; i++) {
        failures += run_call(c->engines[rank], 0, &large, NULL);
        failures += run_call(c->engines[rank], 0, &small, NULL);
    }
    return failures;
}

/* Whether a call with far readers takes their ring. */
static bool takes_far_ring(struct pair *p, size_t stride, double ranks_per_cpu)
{
    tutti_status mark;
    p->owner->engine->ranks_per_cpu = ranks_per_cpu;
    seem_far(p->owner, true);
    p->owner->call++;
    assert_int_equal(tti_stage_begin(p->owner, stride, 1, false, &mark), TUTTI_OK);
    assert_int_equal(mark, TUTTI_OK);
    return tti_stage_is_far(p->owner);
}

static void ring_where_ranks_share_cpus(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, 65536, FAR(16));
    assert_true(takes_far_ring(&p, 4096, 1));
    assert_false(takes_far_ring(&p, 4096, 2));
    assert_true(takes_far_ring(&p, 16384, 2));
    cluster_close(&p.cluster);
}

static void distance_is_probed_between_small_calls(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(rings_open(&c, 2, 1, 65536, FAR(16)), 0);
    assert_int_equal(cluster_run(&c, large_and_small), 0);
    for (int rank = 0; rank < 2; rank++) {
        assert_true(c.engines[rank]->lanes[0].publish_ticks > 0);
    }
    cluster_close(&c);
}

/* Plays the backend that commits memory of a ring, and the other rank meanwhile. */
struct supply {
    struct pair *pair;
    size_t given; /* bytes */
    int chunks;
    int fails_at;   /* a resource error at this chunk; 0: none */
    int revokes_at; /* meanwhile the other rank revokes the group; 0: it does not */
};

static tutti_status supply(void *user, size_t offset, size_t bytes)
{
    struct supply *s = user;
    const struct tti_stage *stage = s->pair->owner->stage;
    assert_int_equal(offset, s->pair->cluster.layout.stages + stage->base + s->given); /* where the last one ended */
    assert_true(s->given + bytes <= stage->ring);
    if (++s->chunks == s->revokes_at) {
        tti_fault_revoke(s->pair->cluster.engines[1], TUTTI_OP_REVOKE);
    }
    if (s->chunks == s->fails_at) {
        return TUTTI_NO_MEMORY;
    }
    s->given += bytes;
    return TUTTI_OK;
}

static tutti_status begin_supplied(struct pair *p, struct supply *s, tutti_status *mark)
{
    p->cluster.engines[0]->commit = supply;
    p->cluster.engines[0]->commit_user = s;
    p->owner->call++;
    return tti_stage_begin(p->owner, 65536, 1, false, mark);
}

static void memory_in_chunks(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, (size_t)1 << 20, NONE);
    struct supply s = {.pair = &p, .fails_at = 3};
    tutti_status mark;
    assert_int_equal(begin_supplied(&p, &s, &mark), TUTTI_OK);
    assert_int_equal(mark, TUTTI_NO_MEMORY);
    const size_t before = s.given;
    assert_true(before > 0 && before < p.owner->stage->ring);
    assert_int_equal(begin_supplied(&p, &s, &mark), TUTTI_OK); /* the rest, and no chunk twice */
    assert_int_equal(mark, TUTTI_OK);
    assert_int_equal(s.given, p.owner->stage->ring);
    const int chunks = s.chunks;
    assert_int_equal(begin_supplied(&p, &s, &mark), TUTTI_OK);
    assert_int_equal(s.chunks, chunks);
    cluster_close(&p.cluster);
}

static tutti_status supply_small_ring_only(void *user, size_t offset, size_t bytes)
{
    const struct pair *p = user;
    (void)bytes;
    return offset < p->cluster.layout.stages + p->cluster.layout.stage ? TUTTI_NO_MEMORY : TUTTI_OK;
}

/* A call that does not belong into the small ring reports that there is no memory for the other one, also if its
 * spans are small: its readers count with those that the other one holds. */
static void no_memory_for_the_first_ring(void **state)
{
    (void)state;
    struct pair p;
    tutti_status mark;
    pair_open(&p, 65536, SMALL(1));
    p.cluster.engines[0]->commit = supply_small_ring_only;
    p.cluster.engines[0]->commit_user = &p;
    p.owner->call++;
    assert_int_equal(tti_stage_begin(p.owner, 64, 1, true, &mark), TUTTI_OK);
    assert_int_equal(mark, TUTTI_OK);
    assert_ptr_equal(p.owner->stage, &p.owner->rings[TTI_RING_SMALL]);
    p.owner->call++;
    assert_int_equal(tti_stage_begin(p.owner, 64, 1, false, &mark), TUTTI_OK);
    assert_int_equal(mark, TUTTI_NO_MEMORY);
    p.owner->call++;
    assert_int_equal(tti_stage_begin(p.owner, largest(&p), 1, false, &mark), TUTTI_OK);
    assert_int_equal(mark, TUTTI_NO_MEMORY);
    p.owner->call++;
    assert_int_equal(tti_stage_begin(p.owner, 64, 1, true, &mark), TUTTI_OK);
    assert_int_equal(mark, TUTTI_OK);
    cluster_close(&p.cluster);
}

static void failure_between_chunks(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, (size_t)1 << 20, NONE);
    struct supply s = {.pair = &p, .revokes_at = 2};
    tutti_status mark;
    assert_int_equal(begin_supplied(&p, &s, &mark), TUTTI_REVOKED);
    assert_int_equal(p.error.suspect, 1);
    assert_int_equal(s.chunks, 2);
    assert_true(s.given < p.owner->stage->ring);
    cluster_close(&p.cluster);
}

static tutti_status supply_all_but_the_far_ring(void *user, size_t offset, size_t bytes)
{
    const struct pair *p = user;
    const struct tti_layout *l = &p->cluster.layout;
    const size_t far = l->stages + l->stage;
    return offset + bytes > far && offset < far + l->stage_far ? TUTTI_NO_MEMORY : TUTTI_OK;
}

/* Then calls with far readers take the first ring, wherever the call before was. */
static void no_memory_for_the_far_ring(void **state)
{
    (void)state;
    struct pair p;
    tutti_status mark;
    pair_open(&p, 65536, BOTH(8, 1));
    p.cluster.engines[0]->commit = supply_all_but_the_far_ring;
    p.cluster.engines[0]->commit_user = &p;
    for (int i = 0; i < 2; i++) {
        seem_far(p.owner, false);
        p.owner->call++;
        assert_int_equal(tti_stage_begin(p.owner, 64, 1, true, &mark), TUTTI_OK);
        assert_int_equal(mark, TUTTI_OK);
        assert_ptr_equal(p.owner->stage, &p.owner->rings[TTI_RING_SMALL]);
        seem_far(p.owner, true);
        p.owner->call++;
        assert_int_equal(tti_stage_begin(p.owner, largest(&p), 1, false, &mark), TUTTI_OK);
        assert_int_equal(mark, TUTTI_OK);
        assert_ptr_equal(p.owner->stage, &p.owner->rings[TTI_RING_FIRST]);
    }
    cluster_close(&p.cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owner_and_reader_agree),       cmocka_unit_test(spans_are_reused_one_by_one),
        cmocka_unit_test(arrival_at_the_next_call),     cmocka_unit_test(memory_in_chunks),
        cmocka_unit_test(no_memory_for_the_first_ring), cmocka_unit_test(no_memory_for_the_far_ring),
        cmocka_unit_test(failure_between_chunks),       cmocka_unit_test(random_calls),
        cmocka_unit_test(ring_where_ranks_share_cpus),  cmocka_unit_test(distance_is_probed_between_small_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
