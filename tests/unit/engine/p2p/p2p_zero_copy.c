/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=30 timeout=120 */
/*
 * Messages that are copied once: either side's tensor can be reached, sizes at each boundary, and more offers than may
 * be open. Also: a side that aborts in the middle and reuses its memory, and corrupt records of a peer.
 */
#include <sched.h>

#include "unit/engine/p2p/p2p_fixture.h"

#define OFFERS_FROM 32768 /* bytes: larger messages from the heap are offered, with more ranks than CPUs */

static const int64_t counts[] = {OFFERS_FROM / 4, OFFERS_FROM / 4 + 1, 16385,  TTI_EAGER / 4 - 1,
                                 TTI_EAGER / 4,   TTI_EAGER / 4 + 1,   300001, (int)MOST};

static void each_byte_is_copied_once(void **state)
{
    (void)state;
    for (int mode = 0; mode < 10; mode++) {
        const bool threads = mode >= 8;
        const bool late = mode % 2 != 0;
        const enum where from = mode & 2 ? HEAP : PRIVATE;
        const enum where to = mode & 4 ? HEAP : PRIVATE;
        struct field *f = field_open(2, threads);
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            const uint64_t n = (uint64_t)counts[i] * sizeof(int32_t);
            const bool unasked = n <= TTI_EAGER; /* copied in and out, and so is a kept message */
            const bool offered = (threads || from == HEAP) && n > OFFERS_FROM;
            const uint64_t expected = offered ? 2 * n : to == HEAP && !unasked ? 2 * n + 2 * TTI_EAGER : 4 * n;
            const uint64_t kept = late && !offered ? 2 * (n < TTI_EAGER ? n : TTI_EAGER) : 0;
            const uint64_t done = pass(f, from, to, counts[i], late);
            assert_true(done == expected || done == expected + kept);
        }
        field_close(f);
    }
}

/* Where each rank has a CPU, zero copy pays for smaller messages. */
static void smaller_ones_with_a_cpu_each(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        struct field *f = field_open(2, threads != 0);
        f->c.engines[0]->ranks_per_cpu = 1;
        assert_int_equal(pass(f, HEAP, PRIVATE, 2048, false), 4 * 8192);
        assert_int_equal(pass(f, HEAP, PRIVATE, 2049, false), 2 * 8196);
        f->c.engines[0]->tuning.zero_copy = 8200;
        assert_int_equal(pass(f, HEAP, PRIVATE, 2049, false), 4 * 8196);
        assert_int_equal(pass(f, HEAP, PRIVATE, 2050, false), 2 * 8200);
        field_close(f);
    }
}

/* The first messages are not received for a while; later ones and those of another tag do not wait for that. */
static void offers_hold_nothing_back(void **state)
{
    (void)state;
    enum { SENDS = 3 * TTI_OFFERS };
    for (int mode = 0; mode < 3; mode++) {
        struct field *f = field_open(2, mode == 2);
        const int64_t count = 10000;
        tutti_op ops[SENDS + 1];
        void *batches[SENDS + 1];
        int32_t *out = f->memory[0][mode == 0 ? HEAP : PRIVATE];
        int32_t *in = f->memory[1][HEAP];
        fill(out, SENDS * (size_t)count, 7);
        for (int i = 0; i <= SENDS; i++) {
            ops[i] = send_op(out + (i % SENDS) * count, &count, 1, i);
            batches[i] = post(f, 0, &ops[i], LONG_MS);
        }
        assert_int_equal(f->c.engines[0]->p2p->peers[1].offers, mode == 1 ? 0 : TTI_OFFERS);
        for (int i = SENDS; i >= 0; i--) {
            tutti_op recv = recv_op(in, (size_t)count, 0, i);
            void *r = post(f, 1, &recv, LONG_MS);
            while (!test(f, 1, r)) {
                test(f, 0, batches[i]);
            }
            assert_int_equal(end(f, 1, r), TUTTI_OK);
            assert_memory_equal(in, out + (i % SENDS) * count, (size_t)count * sizeof(*in));
            while (!test(f, 0, batches[i])) {
            }
            assert_int_equal(end(f, 0, batches[i]), TUTTI_OK);
        }
        assert_int_equal(f->c.engines[0]->p2p->peers[1].offers, 0);
        field_close(f);
    }
}

/* Threads of three ranks, all ways mixed. */
static struct field *shared;

static int around(struct cluster *c, int rank)
{
    int failures = 0;
    const int size = c->layout.size;
    for (int i = 0; i < 60; i++) {
        const int64_t count = counts[(size_t)i % 7];
        const int before = (rank + size - 1) % size;
        int32_t *out = shared->memory[rank][(i + rank) % 2];
        int32_t *in = shared->memory[rank][(i + rank + 1) % 2];
        fill(out, (size_t)count, rank + i);
        tutti_op send = send_op(out, &count, (rank + 1) % size, i);
        tutti_op recv = recv_op(in, (size_t)count, i % 3 == 0 ? TUTTI_ANY_SOURCE : before, i);
        tutti_op *ops[] = {&send, &recv};
        tutti_error e;
        failures += tti_engine_run_p2p(c->engines[rank], ops, 2, LONG_MS, &e) != TUTTI_OK;
        failures += wrong(in, (size_t)count, before + i) != 0;
    }
    return failures;
}

static void ranks_access_one_another(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        shared = field_open(3, threads != 0);
        assert_int_equal(cluster_run(&shared->c, around), 0);
        field_close(shared);
    }
}

/* ---- aborting -------------------------------------------------------------------------------------------------- */

/* The sender fails after a part was copied, and reuses its memory: the receive fails. */
static void sender_gives_up(void **state)
{
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        struct field *f = field_open(2, threads != 0);
        const int64_t count = MOST;
        int32_t *out = f->memory[0][HEAP];
        int32_t *in = f->memory[1][PRIVATE];
        fill(out, MOST, 1);
        tutti_op send = send_op(out, &count, 1, 0);
        tutti_op recv = recv_op(in, MOST, 0, 0);
        void *s = post(f, 0, &send, LONG_MS);
        void *r = post(f, 1, &recv, LONG_MS);
        const struct tti_incoming *m = f->c.engines[1]->p2p->peers[0].fetching;
        assert_non_null(m);
        assert_true(m->arrived > 0 && m->arrived < m->bytes);
        abort_group(f, 0);
        assert_true(test(f, 0, s));
        assert_int_not_equal(end(f, 0, s), TUTTI_OK);
        memset(out, 0, BYTES);
        const uint64_t before = moved(f);
        assert_true(test(f, 1, r));
        assert_int_not_equal(end(f, 1, r), TUTTI_OK);
        assert_true(moved(f) == before);
        field_close(f);
    }
}

/* The receiver fails while the sender writes to its tensor. */
static void receiver_gives_up(void **state)
{
    (void)state;
    struct field *f = field_open(2, false);
    const int64_t count = MOST;
    int32_t *out = f->memory[0][PRIVATE];
    int32_t *in = f->memory[1][HEAP];
    fill(out, MOST, 1);
    tutti_op send = send_op(out, &count, 1, 0);
    tutti_op recv = recv_op(in, MOST, 0, 0);
    void *r = post(f, 1, &recv, LONG_MS);
    void *s = post(f, 0, &send, LONG_MS);
    assert_false(test(f, 1, r));
    assert_false(test(f, 0, s));
    assert_true(f->c.engines[0]->p2p->peers[1].streaming->writes_direct);
    abort_group(f, 1);
    assert_true(test(f, 1, r));
    assert_int_not_equal(end(f, 1, r), TUTTI_OK);
    memset(in, 0, BYTES);
    assert_true(test(f, 0, s));
    assert_int_not_equal(end(f, 0, s), TUTTI_OK);
    for (size_t k = 0; k < MOST; k++) {
        assert_int_equal(in[k], 0);
    }
    assert_int_equal(atomic_load(&f->orphaned), 0);
    field_close(f);
}

struct giving_up {
    struct field *f;
    void *batch;
    _Atomic bool over;
};

static void *give_up(void *argument)
{
    struct giving_up *g = argument;
    abort_group(g->f, 0);
    while (!test(g->f, 0, g->batch)) {
    }
    atomic_store(&g->over, true);
    return NULL;
}

/* The owner waits for a thread that is in the middle of a chunk. */
static void chunks_end_before_their_owner(void **state)
{
    (void)state;
    struct field *f = field_open(2, true);
    const int64_t count = MOST;
    tutti_op send = send_op(f->memory[0][PRIVATE], &count, 1, 0);
    struct giving_up g = {.f = f, .batch = post(f, 0, &send, LONG_MS)};
    _Atomic uint64_t *intent = &tti_pair(f->c.engines[1], 1, 1)->intent;
    atomic_store(intent, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, give_up, &g), 0);
    for (int i = 0; i < 2000; i++) {
        sched_yield();
        assert_false(atomic_load(&g.over));
    }
    atomic_store(intent, 0);
    pthread_join(thread, NULL);
    assert_int_not_equal(end(f, 0, g.batch), TUTTI_OK);
    field_close(f);
}

/* The owner does not wait for a process that never ends its chunk: later writes go to orphaned pages. */
static void pages_are_taken_away(void **state)
{
    (void)state;
    struct field *f = field_open(2, false);
    const int64_t count = MOST;
    tutti_op send = send_op(f->memory[0][PRIVATE], &count, 1, 0);
    tutti_op recv = recv_op(f->memory[1][HEAP], MOST, 0, 0);
    void *r = post(f, 1, &recv, LONG_MS);
    void *s = post(f, 0, &send, LONG_MS);
    assert_false(test(f, 1, r)); /* it grants */
    atomic_store(&tti_pair(f->c.engines[0], 0, 0)->intent, 2);
    abort_group(f, 1);
    assert_true(test(f, 1, r));
    assert_int_not_equal(end(f, 1, r), TUTTI_OK);
    assert_true(atomic_load(&f->orphaned) == BYTES);
    assert_true(test(f, 0, s));
    assert_int_not_equal(end(f, 0, s), TUTTI_OK);
    field_close(f);
}

/* A rank that leaves takes its memory along. */
static void memory_of_those_who_left_is_not_read(void **state)
{
    (void)state;
    struct field *f = field_open(2, true);
    const int64_t count = MOST;
    tutti_op send = send_op(f->memory[0][PRIVATE], &count, 1, 0);
    tutti_op recv = recv_op(f->memory[1][PRIVATE], MOST, 0, 0);
    void *s = post(f, 0, &send, LONG_MS);
    tti_engine_leave(f->c.engines[0]);
    void *r = post(f, 1, &recv, LONG_MS);
    while (!test(f, 1, r)) {
    }
    assert_int_equal(end(f, 1, r), TUTTI_PEER_LEFT);
    assert_int_equal(f->c.engines[1]->p2p->bytes_copied, 0);
    abort_group(f, 0);
    assert_true(test(f, 0, s));
    end(f, 0, s);
    field_close(f);
}

static void deadline_and_cancel(void **state)
{
    (void)state;
    struct field *f = field_open(2, true);
    const int64_t count = MOST;
    tutti_op send = send_op(f->memory[0][PRIVATE], &count, 1, 0);
    void *s = post(f, 0, &send, 1);
    assert_int_equal(tti_engine_cancel_p2p(f->c.engines[0], s), 0); /* it has been announced */
    while (!test(f, 0, s)) {
    }
    assert_int_equal(end(f, 0, s), TUTTI_TIMEOUT);
    field_close(f);
}

/* ---- corrupt peers ----------------------------------------------------------------------------------------------- */

#define OFFERED (TTI_EAGER / 4 + 16) /* elements */

static void expect_record(struct tti_record record, uint64_t name, bool heap, tutti_status expected)
{
    struct field *f = field_open(2, false);
    tutti_error e;
    tutti_op op = recv_op(f->memory[0][PRIVATE], OFFERED, 1, 0);
    tutti_op *ops[] = {&op};
    f->c.engines[0]->heap = heap ? f->c.engines[0]->heap : NULL;
    write_named_record(f, 1, record, name);
    assert_int_equal(tti_engine_run_p2p(f->c.engines[0], ops, 1, LONG_MS, &e), expected);
    assert_true(expected == TUTTI_OK || e.suspect == 1);
    field_close(f);
}

static void offers_are_checked(void **state)
{
    (void)state;
    const uint64_t base = (uint64_t)(REGION + 1) << 48;
    const uint64_t bytes = OFFERED * sizeof(int32_t);
    const struct tti_record good = {
        .bytes = bytes, .place = TTI_IN_SLOT, .here = 8, .dtype = TUTTI_I32, .ndim = 1, .kind = TTI_RECORD_OFFER};
    expect_record(good, base, true, TUTTI_OK);
    expect_record(good, base + BYTES - bytes, true, TUTTI_OK);
    expect_record(good, base + BYTES - bytes + 4, true, TUTTI_PEER_CORRUPT);
    expect_record(good, base + BYTES, true, TUTTI_PEER_CORRUPT);
    expect_record(good, UINT64_MAX, true, TUTTI_PEER_CORRUPT);
    expect_record(good, 0, true, TUTTI_PEER_CORRUPT);
    expect_record(good, (uint64_t)(REGION + 2) << 48, true, TUTTI_PEER_CORRUPT);
    expect_record(good, base, false, TUTTI_PEER_CORRUPT);
    struct tti_record r = good;
    r.here = 12;
    expect_record(r, base, true, TUTTI_PEER_CORRUPT);
    r.here = 0;
    expect_record(r, base, true, TUTTI_PEER_CORRUPT);
    r = good;
    r.bytes = 0;
    expect_record(r, base, true, TUTTI_PEER_CORRUPT);
    r = good;
    r.kind = TTI_RECORD_WRITTEN; /* nothing was granted */
    expect_record(r, base, true, TUTTI_PEER_CORRUPT);
    r.here = 0;
    expect_record(r, base, true, TUTTI_PEER_CORRUPT);
}

/* A record that claims a direct write without a grant / with a chunk. */
static void endings_are_checked(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct field *f = field_open(2, false);
        const struct tti_record first = {.bytes = OFFERED * sizeof(int32_t),
                                         .place = 0,
                                         .here = TTI_EAGER,
                                         .dtype = TUTTI_I32,
                                         .ndim = 1,
                                         .kind = TTI_RECORD_FIRST};
        struct tti_record last = first;
        last.kind = TTI_RECORD_WRITTEN;
        last.here = i == 1 ? 8 : 0;
        tutti_op op = recv_op(f->memory[0][i == 0 ? PRIVATE : HEAP], OFFERED, 1, 0);
        write_named_record(f, 1, first, 0);
        write_named_record(f, 2, last, 0);
        tutti_op *ops[] = {&op};
        tutti_error e;
        assert_int_equal(tti_engine_run_p2p(f->c.engines[0], ops, 1, LONG_MS, &e),
                         i == 2 ? TUTTI_OK : TUTTI_PEER_CORRUPT);
        field_close(f);
    }
}

/* A grant of an offered message is ignored; a target that does not exist is not written to. An acknowledgement of a
 * message that was never sent names its publisher. */
static void claims_of_a_reader_end_nothing(void **state)
{
    (void)state;
    struct field *f = field_open(2, false);
    struct tti_pair_control *control = tti_pair(f->c.engines[1], 1, 0);
    const int64_t count = OFFERED;
    tutti_op send = send_op(f->memory[0][HEAP], &count, 1, 0);
    void *s = post(f, 0, &send, LONG_MS);
    atomic_store(&control->granted, 1);
    assert_false(test(f, 0, s));
    atomic_store(&control->fetched[0], 1);
    assert_true(test(f, 0, s));
    assert_int_equal(end(f, 0, s), TUTTI_OK);

    send = send_op(f->memory[0][PRIVATE], &count, 1, 0);
    s = post(f, 0, &send, LONG_MS);
    atomic_store(&control->target, (uint64_t)(REGION + 1) << 48 | (BYTES - 8));
    atomic_store(&control->granted, 2);
    assert_true(test(f, 0, s)); /* through the ring */
    assert_int_equal(end(f, 0, s), TUTTI_OK);

    send = send_op(f->memory[0][HEAP], &count, 1, 0);
    s = post(f, 0, &send, LONG_MS);
    atomic_store(&control->fetched[1], 99);
    assert_true(test(f, 0, s));
    assert_int_equal(end(f, 0, s), TUTTI_PEER_CORRUPT);
    field_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_byte_is_copied_once),
        cmocka_unit_test(smaller_ones_with_a_cpu_each),
        cmocka_unit_test(offers_hold_nothing_back),
        cmocka_unit_test(ranks_access_one_another),
        cmocka_unit_test(sender_gives_up),
        cmocka_unit_test(receiver_gives_up),
        cmocka_unit_test(chunks_end_before_their_owner),
        cmocka_unit_test(pages_are_taken_away),
        cmocka_unit_test(memory_of_those_who_left_is_not_read),
        cmocka_unit_test(deadline_and_cancel),
        cmocka_unit_test(offers_are_checked),
        cmocka_unit_test(endings_are_checked),
        cmocka_unit_test(claims_of_a_reader_end_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
