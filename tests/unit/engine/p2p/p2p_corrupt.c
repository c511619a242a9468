/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=60 */
/* A corrupt peer may write anything into its rings. The reader checks all values and names the peer. Here the test
 * plays rank 1, which sends to rank 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "unit/engine/p2p/p2p_support.h"

#define CHUNK 16384
#define COUNT (TTI_EAGER / 4 + 1) /* elements of the large message: more than is sent without being asked for */

static const struct tti_record small = {
    .bytes = 16, .place = TTI_IN_SLOT, .here = 16, .dtype = TUTTI_I32, .ndim = 1, .kind = TTI_RECORD_FIRST};
static const struct tti_record large = {.bytes = COUNT * sizeof(int32_t),
                                        .place = 0,
                                        .here = CHUNK,
                                        .dtype = TUTTI_I32,
                                        .ndim = 1,
                                        .kind = TTI_RECORD_FIRST};

static tutti_status receive(struct cluster *c, size_t count, tutti_error *e)
{
    static int32_t data[COUNT];
    tutti_op op = op_of(TUTTI_OP_RECV, NULL, data, count, 1);
    tutti_op *ops[] = {&op};
    return tti_engine_run_p2p(c->engines[0], ops, 1, 1000, e);
}

/* A good record, and behind it a spoilt one. */
static void expect_corrupt(struct tti_record first, struct tti_record second)
{
    struct cluster c;
    tutti_error e = {0};
    int32_t found = 0;
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){0, 0, 0}), 0);
    write_record(&c, 1, first);
    assert_int_equal(tti_engine_probe(c.engines[0], 1, 0, &found, NULL, &e), TUTTI_OK);
    assert_int_equal(found, 1);
    bool complete = first.here == first.bytes;
    if (complete) {
        assert_int_equal(receive(&c, 4, &e), TUTTI_OK);
    }
    write_record(&c, 2, second);
    assert_int_equal(receive(&c, complete ? 4 : COUNT, &e), TUTTI_PEER_CORRUPT);
    assert_non_null(strstr(e.message, "rank 1"));
    assert_int_equal(e.suspect, 1);
    cluster_close(&c);
}

static void first_records_are_checked(void **state)
{
    (void)state;
    struct tti_record r = small;
    r.dtype = 77;
    expect_corrupt(small, r);
    r = small;
    r.ndim = 100;
    expect_corrupt(small, r);
    r = small;
    r.ndim = -1;
    expect_corrupt(small, r);
    r = small;
    r.tag = -1;
    expect_corrupt(small, r);
    r = small;
    r.bytes = 14; /* no whole elements */
    expect_corrupt(small, r);
    r = small;
    r.bytes = 8; /* more here than there is */
    expect_corrupt(small, r);
    r = small;
    r.here = 0;
    expect_corrupt(small, r);
    r = small;
    r.here = TTI_SLOT_BODY + 4; /* more than the slot holds */
    r.bytes = r.here;
    expect_corrupt(small, r);
    r = small;
    r.kind = 0;
    expect_corrupt(small, r);
    r = small;
    r.kind = TTI_RECORD_GRANTED + 1;
    expect_corrupt(small, r);
    r = small;
    r.kind = TTI_RECORD_NEXT; /* of nothing */
    expect_corrupt(small, r);
    r.kind = TTI_RECORD_GRANTED; /* without a grant */
    expect_corrupt(small, r);
}

static void places_are_checked(void **state)
{
    (void)state;
    struct tti_record r = small;
    uint32_t ring = (uint32_t)tti_pair_ring_bytes(2);
    r.place = ring - 8;
    expect_corrupt(small, r);
    r.place = ring + 1;
    expect_corrupt(small, r);
    r.place = TTI_IN_SLOT - 1;
    expect_corrupt(small, r);
    r = small;
    r.place = ring - 16; /* the last that is possible */
    struct cluster c;
    tutti_error e = {0};
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){0, 0, 0}), 0);
    write_record(&c, 1, r);
    assert_int_equal(receive(&c, 4, &e), TUTTI_OK);
    cluster_close(&c);
}

static void later_records_are_checked(void **state)
{
    (void)state;
    struct tti_record r = large;
    expect_corrupt(large, r); /* another message before the eager part of the first is complete */
    r.kind = TTI_RECORD_GRANTED;
    expect_corrupt(large, r); /* the rest before it */
    r.kind = TTI_RECORD_NEXT;
    r.here = TTI_EAGER - CHUNK + 4; /* more than the eager part */
    expect_corrupt(large, r);
    r.here = 0;
    expect_corrupt(large, r);
}

static void shapes_are_checked(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{-2, -2}, {2, 3}, {INT64_MAX, 8}, {0, 4}, {4, 0}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct cluster c;
        tutti_error e = {0};
        struct tti_record r = small;
        r.ndim = 2;
        r.here = 32;
        assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){0, 0, 0}), 0);
        memcpy(tti_slot(c.engines[1], 1, 0, 1)->body, shapes[i], sizeof(shapes[i]));
        write_record(&c, 1, r);
        assert_int_equal(receive(&c, 4, &e), TUTTI_PEER_CORRUPT);
        cluster_close(&c);
    }
}

static void numbers_are_checked(void **state)
{
    (void)state;
    struct cluster c;
    tutti_error e = {0};
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){0, 0, 0}), 0);
    write_record(&c, 1, small);
    assert_int_equal(receive(&c, 4, &e), TUTTI_OK);
    atomic_store(&tti_slot(c.engines[1], 1, 0, 2)->number, 99);
    assert_int_equal(receive(&c, 4, &e), TUTTI_PEER_CORRUPT);
    cluster_close(&c);
}

static void expect_corrupt_claim(struct cluster *c, void *batch)
{
    tutti_error e = {0};
    while (!tti_engine_test_p2p(c->engines[0], batch)) {
    }
    assert_int_equal(tti_engine_end_p2p(c->engines[0], batch, &e), TUTTI_PEER_CORRUPT);
    assert_non_null(strstr(e.message, "rank 1"));
    assert_int_equal(e.suspect, 1);
}

/* A grant of a message that was never sent is PEER_CORRUPT; a correct one is followed. */
static void grants_are_checked(void **state)
{
    (void)state;
    static int32_t data[COUNT];
    for (int wrong = 0; wrong < 2; wrong++) {
        struct cluster c;
        tutti_error e = {0};
        assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){0, 0, 0}), 0);
        struct tti_pair_control *control = tti_pair(c.engines[1], 1, 0);
        tutti_op op = op_of(TUTTI_OP_SEND, data, NULL, COUNT, 1);
        op.ndim = 1;
        tutti_op *ops[] = {&op};
        void *batch = NULL;
        assert_int_equal(tti_engine_post_p2p(c.engines[0], ops, 1, 1000, &batch, &e), TUTTI_OK);
        assert_true(c.engines[0]->p2p->peers[1].posted > 0);
        atomic_store(&control->granted, wrong ? 77 : 1);
        if (wrong) {
            expect_corrupt_claim(&c, batch);
        } else {
            while (!tti_engine_test_p2p(c.engines[0], batch)) {
            }
            assert_int_equal(tti_engine_end_p2p(c.engines[0], batch, &e), TUTTI_OK);
        }
        cluster_close(&c);
    }
}

/* So is an impossible number of read records: more than were sent, or fewer than before. It is read when a ring is
 * full. */
static void room_is_checked(void **state)
{
    (void)state;
    static const uint64_t claims[] = {UINT64_C(1) << 40, UINT64_MAX, TTI_SLOTS + 1, 0};
    static int32_t data[4];
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        struct cluster c;
        tutti_error e = {0};
        void *batch = NULL;
        assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){0, 0, 0}), 0);
        struct tti_pair_control *control = tti_pair(c.engines[1], 1, 0);
        tutti_op op = op_of(TUTTI_OP_SEND, data, NULL, 4, 1);
        op.ndim = 1;
        tutti_op *ops[] = {&op};
        for (unsigned n = 0; n < TTI_SLOTS; n++) {
            assert_int_equal(tti_engine_run_p2p(c.engines[0], ops, 1, 1000, &e), TUTTI_OK);
        }
        if (claims[i] == 0) { /* after a right one */
            atomic_store(&control->taken, 1);
            assert_int_equal(tti_engine_run_p2p(c.engines[0], ops, 1, 1000, &e), TUTTI_OK);
        }
        atomic_store(&control->taken, claims[i]);
        assert_int_equal(tti_engine_post_p2p(c.engines[0], ops, 1, LONG_MS, &batch, &e), TUTTI_OK);
        expect_corrupt_claim(&c, batch);
        cluster_close(&c);
    }
}

static void *post_receive(struct cluster *c, tutti_op *op)
{
    tutti_op *ops[] = {op};
    void *batch = NULL;
    tutti_error e;
    assert_int_equal(tti_engine_post_p2p(c->engines[0], ops, 1, LONG_MS, &batch, &e), TUTTI_OK);
    return batch;
}

/* The round that ends the receive from rank 1 finds that rank 2 is corrupt. The receive ends well: it was not open any
 * more. */
static void what_has_arrived_is_received(void **state)
{
    (void)state;
    struct cluster c;
    tutti_error e = {0};
    const int64_t count = 4;
    const int32_t sent[4] = {7, 8, 9, 10};
    int32_t data[2][4] = {{0}, {0}};
    struct tti_record spoilt = small;
    spoilt.dtype = 77;
    assert_int_equal(cluster_open(&c, 3, 1, 16384, (struct waiting){0, 0, 0}), 0);
    tutti_op from_first = recv_op(data[0], 4, 1, 0);
    tutti_op from_second = recv_op(data[1], 4, 2, 0);
    void *first = post_receive(&c, &from_first);
    void *second = post_receive(&c, &from_second);
    tutti_op send = send_op(sent, &count, 0, 0);
    assert_int_equal(run_messages(&c, 1, (tutti_op *[]){&send}, 1), 0);
    write_record_of(&c, 2, 1, spoilt);
    assert_int_equal(tti_engine_test_p2p(c.engines[0], first), 1);
    assert_int_equal(tti_fault_first(c.engines[0], &e), TUTTI_PEER_CORRUPT);
    assert_int_equal(e.suspect, 2);
    assert_int_equal(tti_engine_end_p2p(c.engines[0], first, &e), TUTTI_OK);
    assert_int_equal(from_first.status, TUTTI_OK);
    assert_memory_equal(data[0], sent, sizeof(sent));
    assert_int_equal(tti_engine_test_p2p(c.engines[0], second), 1);
    assert_int_not_equal(tti_engine_end_p2p(c.engines[0], second, &e), TUTTI_OK);
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_records_are_checked), cmocka_unit_test(places_are_checked),
        cmocka_unit_test(later_records_are_checked), cmocka_unit_test(shapes_are_checked),
        cmocka_unit_test(numbers_are_checked),       cmocka_unit_test(grants_are_checked),
        cmocka_unit_test(room_is_checked),           cmocka_unit_test(what_has_arrived_is_received),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
