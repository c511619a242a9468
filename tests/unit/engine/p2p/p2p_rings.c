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

#include "repetitions.h"
#include "unit/engine/p2p/p2p_support.h"

#define HANG_NS INT64_C(3600000000000) /* bound of a sleep: an hour */
#define MOST    100000                 /* elements */

/* At and around the sizes of a slot, a cache line, a page, a chunk, the eager part, and several chunks. */
static const size_t counts[] = {0,    1,    7,    8,    23,   24,   25,   33,   511,   512,   1023,  1024,
                                1025, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 65535, 65536, 65537, MOST};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

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
            out[k] = element_of(rank, i, (size_t)k);
            in[k] = -1;
        }
        tutti_op send = send_op(out, &count, (rank + 1) % size, i);
        tutti_op recv = recv_op(in, (size_t)count, i % 3 == 0 ? TUTTI_ANY_SOURCE : before, i);
        tutti_op *ops[] = {i % 2 ? &send : &recv, i % 2 ? &recv : &send};
        failures += run_messages(c, rank, ops, 2);
        for (int64_t k = 0; k < count; k++) {
            failures += in[k] != element_of(before, i, (size_t)k);
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
                    out[k] = element_of(rank, round * BATCH + i, (size_t)k);
                }
                memset(in, 0xff, (size_t)lengths[tag] * sizeof(*in));
                ops[n] = recv_op(in, (size_t)lengths[tag], peer, tag);
                ops[n + 1] = send_op(out, &lengths[i], peer, i);
                all[n] = &ops[n];
                all[n + 1] = &ops[n + 1];
                n += 2;
            }
        }
        failures += run_messages(c, rank, all, n);
        for (size_t i = 0; i < n; i++) {
            failures += ops[i].status != TUTTI_OK || ops[i].sequence <= 0;
        }
        for (int i = 0; i < most * peers; i++) {
            const int peer = i / most < rank ? i / most : i / most + 1;
            const int32_t *in = memory[1] + ((size_t)(i / most) * BATCH + (size_t)(i % most)) * 20000;
            for (int64_t k = 0; k < lengths[i % most]; k++) {
                failures += in[k] != element_of(peer, round * BATCH + i % most, (size_t)k);
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
        data[i] = element_of(0, i, 0);
        static const int64_t one = 1;
        own[i] = send_op(&data[i], &one, 1, i);
        ops[i] = &own[i];
    }
    failures += rank == 0 ? run_messages(c, rank, ops, KEPT) : 0;
    for (int i = KEPT - 1; rank == 1 && i >= 0; i--) {
        tutti_op recv = recv_op(&data[i], 1, 0, i);
        tutti_op *one[] = {&recv};
        failures += run_messages(c, rank, one, 1) + (data[i] != element_of(0, i, 0));
    }
    /* larger ones, all at once, matched in another order than they are sent */
    for (int i = 0; i < 40; i++) {
        size_t n = some[i % 5];
        int32_t *at = malloc(n * sizeof(*at));
        for (size_t k = 0; k < n; k++) {
            at[k] = rank == 0 ? element_of(0, i, k) : -1;
        }
        int tag = rank == 0 ? i : 39 - i;
        own[i] = rank == 0 ? send_op(at, &shapes[i % 5], 1, tag) : recv_op(at, n, 0, i);
        ops[rank == 0 ? i : 39 - i] = &own[i];
    }
    failures += run_messages(c, rank, ops, 40);
    for (int i = 0; i < 40; i++) {
        int32_t *at = rank == 0 ? (int32_t *)own[i].src : own[i].dst;
        for (size_t k = 0; k < some[i % 5]; k++) {
            failures += at[k] != element_of(0, i, k);
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
        int32_t x = element_of(rank, i, 0);
        tutti_op send = send_op(&x, &one, (rank + 1) % size, 0);
        tutti_op *ops[] = {&send};
        failures += run_messages(c, rank, ops, 1);
    }
    for (int i = 0; i < KEPT; i++) {
        int32_t x = -1;
        tutti_op recv = recv_op(&x, 1, (rank + size - 1) % size, 0);
        tutti_op *ops[] = {&recv};
        failures += run_messages(c, rank, ops, 1) + (x != element_of((rank + size - 1) % size, i, 0));
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
            x[k] = h->rank == i % 2 ? element_of(h->tag, i, (size_t)k) : -1;
        }
        tutti_op op =
            h->rank == i % 2 ? send_op(x, &count, 1 - h->rank, h->tag) : recv_op(x, (size_t)count, 1 - h->rank, h->tag);
        tutti_op *ops[] = {&op};
        h->failures += run_messages(h->c, h->rank, ops, 1);
        for (int64_t k = 0; k < count; k++) {
            h->failures += x[k] != element_of(h->tag, i, (size_t)k);
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
            data[i * count + k] = element_of(0, i, (size_t)k);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sizes_go_around),        cmocka_unit_test(batches_of_any_size),
        cmocka_unit_test(order_of_receiving_is_free), cmocka_unit_test(full_rings_are_emptied),
        cmocka_unit_test(nothing_is_overwritten),     cmocka_unit_test(threads_of_a_rank_share_the_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
