/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=40 timeout=120 */
/*
 * The rings of messages under stress: full ones, sizes at each boundary, messages of two threads of a rank, sleeping
 * with a bound so long that a lost wake-up is a hang, which the test runner ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/p2p/rings/recv.h"
#include "engine/p2p/rings/send.h"
#include "repetitions.h"
#include "unit/engine/p2p/p2p_support.h"

#define HANG_NS INT64_C(3600000000000) /* bound of a sleep: an hour */
#define MOST    100000                 /* elements */

/* At and around the sizes of a slot, a cache line, a page, a chunk, the eager part, and several chunks. */
static const size_t counts[] = {0,    1,    7,    8,    23,   24,   25,   33,   511,   512,   1023,  1024,
                                1025, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 65535, 65536, 65537, MOST};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static int32_t value(int from, int number, size_t k)
{
    return (int32_t)((uint32_t)from * 1000003u + (uint32_t)number * 7919u + (uint32_t)k);
}

static int run(struct cluster *c, int rank, tutti_op *const *ops, size_t count)
{
    tutti_error e;
    return tti_engine_run_p2p(c->engines[rank], ops, count, TUTTI_FOREVER, &e) != TUTTI_OK;
}

/* Every rank sends to the next one and receives from the one before, both at once. */
static int around(struct cluster *c, int rank)
{
    int size = c->layout.size;
    int before = (rank + size - 1) % size;
    int32_t *in = malloc(MOST * sizeof(*in));
    int32_t *out = malloc(MOST * sizeof(*out));
    int failures = in && out ? 0 : 1;
    for (int i = 0; failures == 0 && i < repetitions(15) * (int)COUNTS; i++) {
        int64_t count = (int64_t)counts[(size_t)i % COUNTS];
        for (int64_t k = 0; k < count; k++) {
            out[k] = value(rank, i, (size_t)k);
            in[k] = -1;
        }
        tutti_op send = send_op(out, &count, (rank + 1) % size, i);
        tutti_op recv = recv_op(in, (size_t)count, i % 3 == 0 ? TUTTI_ANY_SOURCE : before, i);
        tutti_op *ops[] = {i % 2 ? &send : &recv, i % 2 ? &recv : &send};
        failures += run(c, rank, ops, 2);
        for (int64_t k = 0; k < count; k++) {
            failures += in[k] != value(before, i, (size_t)k);
        }
    }
    free(in);
    free(out);
    return failures;
}

static void all_sizes_go_around(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, size, 1, 16384, (struct waiting){1000, 20000, HANG_NS}), 0);
        assert_int_equal(cluster_run(&c, around), 0);
        cluster_close(&c);
    }
}

/* Batches of sends to and receives from all others: they fit the rings, or fill them many times. Every other batch
 * receives each two messages in the other order. */
enum { BATCH = 2 * TTI_SLOTS };

static int64_t batch_count(int i)
{
    return i % 37 == 36 ? 20000 : (int64_t)counts[(size_t)i % 12];
}

static int batches(struct cluster *c, int rank)
{
    const int peers = c->layout.size - 1;
    const size_t total = 2 * (size_t)(BATCH * peers);
    tutti_op *ops = calloc(total, sizeof(*ops));
    tutti_op **all = calloc(total, sizeof(*all));
    int64_t *lengths = calloc(BATCH, sizeof(*lengths));
    int32_t *memory[2] = {malloc(total / 2 * 20000 * sizeof(int32_t)), malloc(total / 2 * 20000 * sizeof(int32_t))};
    int failures = ops && all && lengths && memory[0] && memory[1] ? 0 : 1;
    for (int i = 0; failures == 0 && i < BATCH; i++) {
        lengths[i] = batch_count(i);
    }
    for (int round = 0; failures == 0 && round < 8; round++) {
        const int most = round < 4 ? 4 + 10 * round : BATCH;
        size_t n = 0;
        for (int i = 0; i < most; i++) {
            for (int p = 0; p < peers; p++) {
                const int peer = p < rank ? p : p + 1;
                const int tag = round % 2 ? i ^ 1 : i;
                int32_t *out = memory[0] + ((size_t)p * BATCH + (size_t)i) * 20000;
                int32_t *in = memory[1] + ((size_t)p * BATCH + (size_t)tag) * 20000;
                for (int64_t k = 0; k < lengths[i]; k++) {
                    out[k] = value(rank, round * BATCH + i, (size_t)k);
                }
                memset(in, 0xff, (size_t)lengths[tag] * sizeof(*in));
                ops[n] = recv_op(in, (size_t)lengths[tag], peer, tag);
                ops[n + 1] = send_op(out, &lengths[i], peer, i);
                all[n] = &ops[n];
                all[n + 1] = &ops[n + 1];
                n += 2;
            }
        }
        failures += run(c, rank, all, n);
        for (size_t i = 0; i < n; i++) {
            failures += ops[i].status != TUTTI_OK || ops[i].sequence <= 0;
        }
        for (int i = 0; i < most * peers; i++) {
            const int peer = i / most < rank ? i / most : i / most + 1;
            const int32_t *in = memory[1] + ((size_t)(i / most) * BATCH + (size_t)(i % most)) * 20000;
            for (int64_t k = 0; k < lengths[i % most]; k++) {
                failures += in[k] != value(peer, round * BATCH + i % most, (size_t)k);
            }
        }
    }
    free(memory[0]);
    free(memory[1]);
    free(lengths);
    free(all);
    free(ops);
    return failures;
}

static void batches_of_any_size(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size += 2) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, size, 1, 16384, (struct waiting){1000, 20000, HANG_NS}), 0);
        assert_int_equal(cluster_run(&c, batches), 0);
        cluster_close(&c);
    }
}

/* One rank sends more than the rings hold. The other receives the last message first, so it has to keep all others. */
enum { KEPT = 3 * TTI_SLOTS };

static int backwards(struct cluster *c, int rank)
{
    static const size_t some[] = {1, 24, 300, 5000, 12289};
    int failures = 0;
    int32_t *data = malloc(KEPT * sizeof(*data) * 16);
    tutti_op *ops[KEPT];
    tutti_op *own = calloc(KEPT, sizeof(*own));
    int64_t shapes[5];
    int32_t *large = malloc(12289 * sizeof(*large));
    for (int i = 0; i < 5; i++) {
        shapes[i] = (int64_t)some[i];
    }
    for (int i = 0; rank == 0 && i < KEPT; i++) {
        data[i] = value(0, i, 0);
        static const int64_t one = 1;
        own[i] = send_op(&data[i], &one, 1, i);
        ops[i] = &own[i];
    }
    failures += rank == 0 ? run(c, rank, ops, KEPT) : 0;
    for (int i = KEPT - 1; rank == 1 && i >= 0; i--) {
        tutti_op recv = recv_op(&data[i], 1, 0, i);
        tutti_op *one[] = {&recv};
        failures += run(c, rank, one, 1) + (data[i] != value(0, i, 0));
    }
    /* larger ones, all at once, matched in another order than they are sent */
    for (int i = 0; i < 40; i++) {
        size_t n = some[i % 5];
        int32_t *at = malloc(n * sizeof(*at));
        for (size_t k = 0; k < n; k++) {
            at[k] = rank == 0 ? value(0, i, k) : -1;
        }
        int tag = rank == 0 ? i : 39 - i;
        own[i] = rank == 0 ? send_op(at, &shapes[i % 5], 1, tag) : recv_op(at, n, 0, i);
        ops[rank == 0 ? i : 39 - i] = &own[i];
    }
    failures += run(c, rank, ops, 40);
    for (int i = 0; i < 40; i++) {
        int32_t *at = rank == 0 ? (int32_t *)own[i].src : own[i].dst;
        for (size_t k = 0; k < some[i % 5]; k++) {
            failures += at[k] != value(0, i, k);
        }
        free(at);
    }
    free(large);
    free(own);
    free(data);
    return failures;
}

static void order_of_receiving_is_free(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
    assert_int_equal(cluster_run(&c, backwards), 0);
    cluster_close(&c);
}

/* A ring of ranks, each of which sends more than a ring holds before it receives anything. */
static int all_send_first(struct cluster *c, int rank)
{
    int failures = 0;
    int size = c->layout.size;
    int64_t one = 1;
    for (int i = 0; i < KEPT; i++) {
        int32_t x = value(rank, i, 0);
        tutti_op send = send_op(&x, &one, (rank + 1) % size, 0);
        tutti_op *ops[] = {&send};
        failures += run(c, rank, ops, 1);
    }
    for (int i = 0; i < KEPT; i++) {
        int32_t x = -1;
        tutti_op recv = recv_op(&x, 1, (rank + size - 1) % size, 0);
        tutti_op *ops[] = {&recv};
        failures += run(c, rank, ops, 1) + (x != value((rank + size - 1) % size, i, 0));
    }
    return failures;
}

static void full_rings_are_emptied(void **state)
{
    (void)state;
    for (int size = 2; size <= 3; size++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, size, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
        assert_int_equal(cluster_run(&c, all_send_first), 0);
        cluster_close(&c);
    }
}

/* Two threads of each rank, each with its own tag. */
struct half {
    struct cluster *c;
    int rank;
    int tag;
    int failures;
};

static void *ping(void *argument)
{
    struct half *h = argument;
    static const size_t some[] = {1, 300, 10000, 3};
    int32_t *x = malloc(10000 * sizeof(*x));
    for (int i = 0; i < repetitions(1000); i++) {
        int64_t count = (int64_t)some[i % 4];
        for (int64_t k = 0; k < count; k++) {
            x[k] = h->rank == i % 2 ? value(h->tag, i, (size_t)k) : -1;
        }
        tutti_op op =
            h->rank == i % 2 ? send_op(x, &count, 1 - h->rank, h->tag) : recv_op(x, (size_t)count, 1 - h->rank, h->tag);
        tutti_op *ops[] = {&op};
        h->failures += run(h->c, h->rank, ops, 1);
        for (int64_t k = 0; k < count; k++) {
            h->failures += x[k] != value(h->tag, i, (size_t)k);
        }
    }
    free(x);
    return NULL;
}

static int two_threads(struct cluster *c, int rank)
{
    struct half halves[2] = {{.c = c, .rank = rank, .tag = 1}, {.c = c, .rank = rank, .tag = 2}};
    pthread_t other;
    if (pthread_create(&other, NULL, ping, &halves[1]) != 0) {
        abort();
    }
    ping(&halves[0]);
    pthread_join(other, NULL);
    return halves[0].failures + halves[1].failures;
}

static void threads_of_a_rank_share_the_rings(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){0, 0, HANG_NS}), 0);
    assert_int_equal(cluster_run(&c, two_threads), 0);
    cluster_close(&c);
}

/* One thread plays both ranks: more is posted than a ring of bytes holds, before anything is read. */
static void expect_kept(int64_t count)
{
    enum { SENDS = 64 };
    struct cluster c;
    tutti_error e;
    tutti_op own[SENDS];
    tutti_op *ops[SENDS];
    void *batch = NULL;
    int32_t *data = malloc(SENDS * (size_t)count * sizeof(*data));
    int32_t *in = malloc((size_t)count * sizeof(*in));
    assert_true(data && in);
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){0, 0, 0}), 0);
    for (int i = 0; i < SENDS; i++) {
        for (int64_t k = 0; k < count; k++) {
            data[i * count + k] = value(0, i, (size_t)k);
        }
        own[i] = send_op(&data[i * count], &count, 1, i);
        ops[i] = &own[i];
    }
    assert_int_equal(tti_engine_post_p2p(c.engines[0], ops, SENDS, LONG_MS, &batch, &e), TUTTI_OK);
    assert_int_equal(tti_engine_test_p2p(c.engines[0], batch), 0);
    assert_true(c.engines[0]->p2p->peers[1].posted < SENDS);
    for (int i = 0; i < SENDS; i++) {
        tutti_op recv = recv_op(in, (size_t)count, 0, i);
        tutti_op *one[] = {&recv};
        void *receive = NULL;
        assert_int_equal(tti_engine_post_p2p(c.engines[1], one, 1, LONG_MS, &receive, &e), TUTTI_OK);
        while (!tti_engine_test_p2p(c.engines[1], receive)) {
            tti_engine_test_p2p(c.engines[0], batch);
        }
        assert_int_equal(tti_engine_end_p2p(c.engines[1], receive, &e), TUTTI_OK);
        assert_memory_equal(in, &data[i * count], (size_t)count * sizeof(*in));
    }
    assert_int_equal(tti_engine_test_p2p(c.engines[0], batch), 1);
    assert_int_equal(tti_engine_end_p2p(c.engines[0], batch, &e), TUTTI_OK);
    cluster_close(&c);
    free(data);
    free(in);
}

static void nothing_is_overwritten(void **state)
{
    (void)state;
    expect_kept(2000); /* small chunks */
    expect_kept(8192); /* large ones, sent without being asked for */
    expect_kept(50000);
}

/* ---- long messages ----------------------------------------------------------------------------------------------- */

enum { LONG_COUNT = 1 << 21, LONG_OPS = 7 }; /* the fewest elements that are long */

/* Sends to and receives from the other rank: long messages between short ones. The receives are in another order. */
static int long_ones(struct cluster *c, int rank)
{
    static const int64_t lengths[LONG_OPS] = {20000, LONG_COUNT, 3, LONG_COUNT - 1, LONG_COUNT, 12289, 1};
    tutti_op own[2 * LONG_OPS];
    tutti_op *ops[2 * LONG_OPS];
    int32_t *out[LONG_OPS];
    int32_t *in[LONG_OPS];
    int failures = 0;
    for (int i = 0; i < LONG_OPS; i++) {
        const size_t n = (size_t)lengths[i];
        out[i] = malloc(n * sizeof(int32_t));
        in[i] = malloc(n * sizeof(int32_t));
        for (size_t k = 0; k < n; k++) {
            out[i][k] = value(rank, i, k);
            in[i][k] = -1;
        }
        own[i] = send_op(out[i], &lengths[i], 1 - rank, i);
        own[LONG_OPS + i] = recv_op(in[i], n, 1 - rank, i);
        ops[2 * i] = &own[i];
        ops[2 * (LONG_OPS - 1 - i) + 1] = &own[LONG_OPS + i];
    }
    for (int round = 0; round < 2; round++) {
        failures += run(c, rank, ops, (size_t)2 * LONG_OPS);
    }
    for (int i = 0; i < LONG_OPS; i++) {
        for (size_t k = 0; k < (size_t)lengths[i]; k++) {
            failures += in[i][k] != value(1 - rank, i, k);
        }
        free(out[i]);
        free(in[i]);
    }
    return failures;
}

/* What a rank has asked memory for. */
struct asked {
    const struct tti_layout *layout;
    bool refuses; /* memory behind the window */
    int windows;
    int rests;
};

static tutti_status commit(void *user, size_t offset, size_t bytes)
{
    struct asked *a = user;
    const size_t at = offset - a->layout->rings;
    const size_t rest = a->layout->ring_bytes - a->layout->ring_window;
    const bool is_rest = (at + bytes) % a->layout->ring_stride == 0;
    assert_int_equal(bytes, is_rest ? rest : a->layout->ring_stride - rest);
    a->windows += !is_rest;
    a->rests += is_rest;
    return is_rest && a->refuses ? TUTTI_NO_MEMORY : TUTTI_OK;
}

/* Whether a chunk lies behind the window. */
static bool is_behind(const struct cluster *c, int rank, uint64_t number)
{
    const struct tti_record *r = &tti_slot(c->engines[rank], rank, 1 - rank, number)->record;
    return r->place != TTI_IN_SLOT && r->place + r->here > c->layout.ring_window;
}

/* One CPU has `per_cpu` ranks. */
static void expect_long(double per_cpu, bool refuses)
{
    struct cluster c;
    struct asked asked[2];
    const bool whole = per_cpu > 1 && !refuses;
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
    for (int r = 0; r < 2; r++) {
        asked[r] = (struct asked){.layout = &c.layout, .refuses = refuses};
        c.engines[r]->ranks_per_cpu = per_cpu;
        c.engines[r]->commit = commit;
        c.engines[r]->commit_user = &asked[r];
        c.engines[r]->tuning.single_copy_messages = 0;
    }
    assert_int_equal(cluster_run(&c, long_ones), 0);
    for (int r = 0; r < 2; r++) {
        bool long_behind = false;
        for (uint64_t i = 0; i < TTI_SLOTS; i++) {
            const bool is_long = tti_slot(c.engines[r], r, 1 - r, i)->record.bytes == LONG_COUNT * sizeof(int32_t);
            assert_true(is_long || !is_behind(&c, r, i));
            long_behind = long_behind || is_behind(&c, r, i);
        }
        assert_int_equal(long_behind, whole);
        assert_int_equal(asked[r].windows, 1);
        assert_int_equal(asked[r].rests, per_cpu > 1);
    }
    cluster_close(&c);
}

static void long_messages_use_the_whole_ring(void **state)
{
    (void)state;
    expect_long(2, false);
    expect_long(1, false);
    expect_long(2, true);
}

/* ---- short messages ---------------------------------------------------------------------------------------------- */

#define SHORT_COUNT 3000        /* elements: three pages, one chunk */
#define SHORT_TIMES 30          /* there and back: more than the window holds */
#define SHORT_END   (2 * 65536) /* a message begins in the first 64 KiB of the ring, or until its reader has reported */

static size_t end_of(const struct cluster *c, uint64_t number)
{
    const struct tti_record *r = &tti_slot(c->engines[0], 0, 1, number)->record;
    return r->place + r->here;
}

static int short_times; /* there and back */

/* Each message is read before the next one is sent. */
static int short_ones(struct cluster *c, int rank)
{
    static const int64_t count = SHORT_COUNT;
    static int32_t data[2][SHORT_COUNT];
    int failures = 0;
    for (int i = 0; i < 2 * short_times; i++) {
        for (size_t k = 0; k < SHORT_COUNT; k++) {
            data[rank][k] = rank == i % 2 ? value(rank, i, k) : -1;
        }
        tutti_op op =
            rank == i % 2 ? send_op(data[rank], &count, 1 - rank, 0) : recv_op(data[rank], SHORT_COUNT, 1 - rank, 0);
        tutti_op *ops[] = {&op};
        failures += run(c, rank, ops, 1);
        for (size_t k = 0; k < SHORT_COUNT; k++) {
            failures += data[rank][k] != value(i % 2, i, k);
        }
    }
    return failures;
}

/* They use the same lines again while they are read at once, and then the whole window if they are not, less what the
 * reader has not reported. */
static void stay_in_the_caches(bool in_small_rings, int times)
{
    static int32_t out[SHORT_COUNT];
    static int32_t in[SHORT_COUNT];
    const int64_t count = SHORT_COUNT;
    struct cluster c;
    int sent = 0;
    short_times = times;
    out[0] = 0;
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
    for (int r = 0; in_small_rings && r < 2; r++) {
        c.engines[r]->layout.ring_bytes = c.engines[r]->layout.ring_window = TTI_PAIR_SMALL;
    }
    assert_int_equal(cluster_run(&c, short_ones), 0);
    for (uint64_t number = 1; number <= (uint64_t)times; number++) {
        assert_in_range(end_of(&c, number), 1, SHORT_END);
    }
    tutti_op send = send_op(out, &count, 1, 0);
    while (tti_p2p_try_send(c.engines[0], &send, TTI_DIRECT)) {
        assert_true(++sent < 100);
        out[0]++;
    }
    assert_true((size_t)sent * sizeof(out) > c.engines[0]->layout.ring_window * 5 / 8);
    tutti_op recv = recv_op(in, SHORT_COUNT, 0, 0);
    for (int i = 0; i < sent; i++) {
        assert_true(tti_p2p_try_recv(c.engines[1], &recv, TTI_DIRECT));
        assert_int_equal(in[0], i);
    }
    cluster_close(&c);
}

static void short_messages_stay_in_the_caches(void **state)
{
    (void)state;
    for (int times = 1; times <= SHORT_TIMES; times++) {
        stay_in_the_caches(false, times);
        stay_in_the_caches(true, times); /* as in groups of more than TTI_PAIR_FEW ranks */
    }
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

/* A message of `count` elements, all -1. */
static int of_ones(struct cluster *c, int rank, int64_t count)
{
    int32_t *data = calloc((size_t)count, sizeof(*data));
    for (int64_t i = 0; rank == 0 && i < count; i++) {
        data[i] = -1;
    }
    tutti_op op = rank == 0 ? send_op(data, &count, 1, 0) : recv_op(data, (size_t)count, 0, 0);
    tutti_op *ops[] = {&op};
    int failures = run(c, rank, ops, 1);
    for (int64_t i = 0; i < count; i++) {
        failures += data[i] != -1;
    }
    free(data);
    return failures;
}

static int of_ones_each(struct cluster *c, int rank)
{
    return of_ones(c, rank, 250) + of_ones(c, rank, TTI_CLAIM_FROM / 4 + 1) + of_ones(c, rank, TTI_DIRECT / 4 + 16);
}

/* Lines that the chunk has in the ring, and how many of them the receiver has stored to. */
static size_t claimed(const struct cluster *c, uint64_t number, size_t *lines)
{
    const struct tti_record *r = &tti_slot(c->engines[0], 0, 1, number)->record;
    const unsigned char *chunk = tti_ring(c->engines[0], 0, 1) + r->place;
    size_t zeros = 0;
    *lines = 0;
    for (size_t at = 0; at < r->here; at += 64) {
        zeros += chunk[at] == 0;
        ++*lines;
    }
    return zeros;
}

/* `user` says whether the peer's data may be written. */
static bool populate(void *user, int rank, size_t offset, size_t bytes, bool only_reader)
{
    (void)rank;
    (void)offset;
    (void)bytes;
    return only_reader && *(bool *)user;
}

static int of_ones_long(struct cluster *c, int rank)
{
    return of_ones(c, rank, LONG_COUNT);
}

/* Only the window may be written by the receiver, so chunks that reach beyond it are not claimed. */
static void lines_behind_the_window_are_not_claimed(void **state)
{
    (void)state;
    struct cluster c;
    bool writable = true;
    size_t behind = 0;
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
    for (int r = 0; r < 2; r++) {
        c.engines[r]->tuning.claims_near = c.engines[r]->tuning.claims_far = 1;
        c.engines[r]->tuning.single_copy_messages = 0;
        c.engines[r]->ranks_per_cpu = 2;
        c.engines[r]->populate = populate;
        c.engines[r]->commit_user = &writable;
    }
    assert_int_equal(cluster_run(&c, of_ones_long), 0);
    for (uint64_t i = 1; i < TTI_SLOTS; i++) {
        size_t lines;
        if (is_behind(&c, 0, i)) {
            assert_int_equal(claimed(&c, i, &lines), 0);
            behind++;
        }
    }
    assert_true(behind > 1);
    cluster_close(&c);
}

/* The receiver claims the lines of large chunks that it has read, if that is wanted and it may write there. */
static void lines_that_were_read_are_claimed(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const uint64_t claims = i % 2;
        bool writable = i / 2 != 0;
        struct cluster c;
        size_t lines;
        assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
        for (int r = 0; r < 2; r++) {
            c.engines[r]->tuning.claims_near = c.engines[r]->tuning.claims_far = claims;
            c.engines[r]->populate = populate;
            c.engines[r]->commit_user = &writable;
        }
        assert_int_equal(cluster_run(&c, of_ones_each), 0);
        assert_int_equal(claimed(&c, 1, &lines), 0);
        for (uint64_t number = 2; number < 7; number++) { /* one chunk, and the four large ones of another message */
            const size_t zeros = claimed(&c, number, &lines);
            assert_true(lines > 100);
            assert_int_equal(zeros, claims != 0 && writable ? lines : 0);
        }
        cluster_close(&c);
    }
}

/* Enough chunks for a sample of the distance. */
static int of_ones_often(struct cluster *c, int rank)
{
    int failures = 0;
    for (int i = 0; i < 5; i++) {
        failures += of_ones_each(c, rank);
    }
    return failures;
}

/* The receiver measures how far away the sender is, and claims lines if that pays there. */
static void the_distance_decides_about_claims(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool far = i % 2 != 0;
        const bool pays_far = i / 2 != 0;
        bool writable = true;
        struct cluster c;
        size_t lines;
        assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
        for (int r = 0; r < 2; r++) {
            c.engines[r]->tuning.claims_far = pays_far;
            c.engines[r]->tuning.claims_near = !pays_far;
            c.engines[r]->tuning.single_copy_messages = 0;
            c.engines[r]->populate = populate;
            c.engines[r]->commit_user = &writable;
        }
        struct tti_peer *sender = &c.engines[1]->p2p->peers[0];
        sender->line_ticks = far ? 1e12 : 1e-6; /* an average that a few readings do not change */
        sender->far = !far;
        assert_int_equal(cluster_run(&c, of_ones_often), 0);
        assert_int_equal(sender->far, far);
        const size_t zeros = claimed(&c, sender->read - 1, &lines); /* the last one lies in its slot */
        assert_true(lines > 100);
        assert_int_equal(zeros, far == pays_far ? lines : 0);
        cluster_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sizes_go_around),
        cmocka_unit_test(batches_of_any_size),
        cmocka_unit_test(order_of_receiving_is_free),
        cmocka_unit_test(full_rings_are_emptied),
        cmocka_unit_test(nothing_is_overwritten),
        cmocka_unit_test(threads_of_a_rank_share_the_rings),
        cmocka_unit_test(long_messages_use_the_whole_ring),
        cmocka_unit_test(short_messages_stay_in_the_caches),
        cmocka_unit_test(lines_that_were_read_are_claimed),
        cmocka_unit_test(lines_behind_the_window_are_not_claimed),
        cmocka_unit_test(the_distance_decides_about_claims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
