/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=120 */
/*
 * Messages that the kernel copies once: the size from which on, and the path when the kernel cannot read or need not.
 * Also: what a sender may do with its memory after it has aborted, and names that refer to no memory.
 */
#include <unistd.h>

#include "unit/engine/p2p/p2p_fixture.h"

#define FROM    (TTI_EAGER + 4) /* bytes: less is not offered */
#define MESSAGE 300001          /* elements: two chunks */
#define NO_PID  0x7ffffff0u

/* Published costs in ps a byte: from the ring, and by the kernel (src/engine/p2p/large/single_copy.c). */
static uint64_t costs_of(uint64_t ring, uint64_t kernel)
{
    return ring << 32 | kernel;
}

static void wish(struct field *f, uint64_t from, bool at_any_distance)
{
    for (int r = 0; r < f->c.layout.size; r++) {
        f->c.engines[r]->tuning.single_copy = from;
        f->c.engines[r]->tuning.single_copy_at_any_distance = at_any_distance;
        f->c.engines[r]->tuning.single_copy_messages = from < TTI_TUNING_NEVER;
    }
}

/* Ranks with private memory, which the kernel reads from `from` bytes on. */
static struct field *remote_open(uint64_t from)
{
    struct field *f = field_open(2, false);
    wish(f, from, true);
    return f;
}

static bool refused(const struct field *f)
{
    return f->c.engines[0]->p2p->peers[1].refused;
}

static void from_the_size_on(void **state)
{
    (void)state;
    static const int64_t counts[] = {TTI_EAGER / 4, FROM / 4, FROM / 4 + 1, 300001};
    static const uint64_t limits[] = {0, FROM, TTI_TUNING_NEVER};
    for (size_t l = 0; l < 3; l++) {
        struct field *f = remote_open(limits[l]);
        for (size_t i = 0; i < 2 * sizeof(counts) / sizeof(counts[0]); i++) {
            const bool late = i % 2 != 0;
            const uint64_t n = (uint64_t)counts[i / 2] * sizeof(int32_t);
            const bool once = n > TTI_EAGER && n >= limits[l];
            const uint64_t kept = once || !late ? 0 : 2 * (n < TTI_EAGER ? n : TTI_EAGER);
            const uint64_t done = pass(f, PRIVATE, PRIVATE, counts[i / 2], late);
            assert_true(done == (once ? 2 * n : 4 * n + kept) || (late && !once && done == 4 * n));
        }
        assert_false(refused(f));
        field_close(f);
    }
}

/* Without a setting the sender decides, by what the receiver publishes if it finds itself far away; some messages
 * always go the other way. */
static void where_readers_are_far(void **state)
{
    (void)state;
    struct field *f = field_open(2, false);
    wish(f, (uint64_t)8 << 20, false);
    const uint64_t n = MESSAGE * sizeof(int32_t);
    _Atomic uint64_t *costs = &tti_pair(f->c.engines[1], 1, 0)->costs;
    double *ticks = &f->c.engines[1]->p2p->peers[0].line_ticks;
    size_t once = 0;
    size_t seldom = 0;
    for (int i = 0; i < 64; i++) {
        *ticks = 1e6;
        atomic_store(costs, costs_of(1000000, 1));
        once += pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 2 * n;
        *ticks = 1e6;
        atomic_store(costs, costs_of(1, 1000000000));
        seldom += pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 2 * n;
    }
    assert_true(once == 60);
    assert_true(seldom == 0); /* every 32nd message: here always one of the others */
    f->c.engines[0]->p2p->peers[1].large_sends = 32;
    atomic_store(costs, costs_of(1, 1000000000));
    assert_true(pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 2 * n);
    *ticks = TTI_AVERAGE_OPEN;
    atomic_store(costs, TTI_PAIR_NEAR);
    assert_true(pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 4 * n);
    assert_true(*ticks > 0);
    *ticks = 1e12;                      /* an average that a few readings do not change */
    atomic_store(costs, TTI_PAIR_NEAR); /* independent of earlier measurements */
    assert_true(pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 4 * n);
    assert_true(atomic_load(costs) != TTI_PAIR_NEAR);
    assert_true(pass(f, PRIVATE, PRIVATE, FROM / 4 - 1, false) == 4 * (FROM - 4));
    field_close(f);
}

/* In the ring the CPUs of both share the work, unless the sender receives, too. */
static void the_costs_decide(void **state)
{
    (void)state;
    struct field *f = field_open(2, false);
    wish(f, (uint64_t)8 << 20, false);
    const uint64_t n = MESSAGE * sizeof(int32_t);
    const int64_t count = 1000;
    _Atomic uint64_t *costs = &tti_pair(f->c.engines[1], 1, 0)->costs;
    struct tti_peer *p = &f->c.engines[0]->p2p->peers[1];
    f->c.engines[0]->ticks_per_ns = 1;
    p->large_sends = 1; /* not the one that goes the other way */
    p->write_ticks = 0.2;
    atomic_store(costs, costs_of(200, 300));
    assert_true(pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 4 * n);
    p->write_ticks = 0.4;
    atomic_store(costs, costs_of(200, 300));
    assert_true(pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 2 * n);
    atomic_store(costs, costs_of(200, 0)); /* the kernel's is not known */
    p->write_ticks = 0.2;
    assert_true(pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 2 * n);
    tutti_op recv = recv_op(f->memory[0][HEAP], (size_t)count, 1, 9);
    void *r = post(f, 0, &recv, LONG_MS);
    atomic_store(costs, costs_of(200, 300));
    assert_true(pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 2 * n);
    p->large_sends = 32;
    atomic_store(costs, costs_of(200, 300));
    assert_true(pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 4 * n);
    tutti_op send = send_op(f->memory[1][HEAP], &count, 0, 9);
    void *s = post(f, 1, &send, LONG_MS);
    while (!test(f, 0, r)) {
        test(f, 1, s);
    }
    while (!test(f, 1, s)) {
    }
    assert_int_equal(end(f, 0, r), TUTTI_OK);
    assert_int_equal(end(f, 1, s), TUTTI_OK);
    atomic_store(costs, TTI_PAIR_NEAR);
    assert_true(pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 4 * n);
    field_close(f);
}

/* The sender could write to the heap itself; it still offers the next message. */
static void heap_of_the_receiver_is_better(void **state)
{
    (void)state;
    struct field *f = remote_open(0);
    const uint64_t n = MESSAGE * sizeof(int32_t);
    for (int i = 0; i < 2; i++) {
        assert_true(pass(f, PRIVATE, HEAP, MESSAGE, i != 0) == 2 * n);
        assert_false(refused(f));
        assert_true(pass(f, HEAP, PRIVATE, MESSAGE, i != 0) == 2 * n);
        assert_true(pass(f, PRIVATE, PRIVATE, MESSAGE, i != 0) == 2 * n);
    }
    field_close(f);
}

/* The kernel refuses to read: from the beginning, or in the middle. The message still arrives, as do messages offered
 * meanwhile, and no later message is offered. */
static void unreadable_memory_is_sent(void **state)
{
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        struct field *f = remote_open(0);
        struct tti_segment_header *header = tti_header(f->c.engines[0], 0);
        const uint32_t pid = header->pid;
        const int64_t counts[] = {MOST, 70000, 70001};
        tutti_op sends[3];
        tutti_op recvs[3];
        void *out[3];
        void *in[3];
        fill(f->memory[0][PRIVATE], MOST, mode);
        memset(f->memory[1][PRIVATE], 0xff, BYTES);
        header->pid = mode == 0 ? NO_PID : pid;
        for (int i = 0; i < 3; i++) {
            sends[i] = send_op(f->memory[0][PRIVATE], &counts[i], 1, i);
            out[i] = post(f, 0, &sends[i], LONG_MS);
        }
        assert_int_equal(f->c.engines[0]->p2p->peers[1].remote_offers, 3);
        for (int i = 0; i < 3; i++) {
            recvs[i] = recv_op(i == 0 ? f->memory[1][PRIVATE] : f->memory[1][HEAP] + (i - 1) * 80000, MOST, 0, i);
            if (i > 0) {
                f->c.engines[1]->heap = NULL; /* private, too */
            }
            in[i] = post(f, 1, &recvs[i], LONG_MS);
            if (i == 0 && mode > 0) {
                const struct tti_incoming *m = f->c.engines[1]->p2p->peers[0].fetching;
                assert_true(m && m->arrived > 0 && m->arrived < m->bytes);
                header->pid = NO_PID;
            }
        }
        for (int i = 0; i < 3; i++) {
            while (!test(f, 1, in[i])) {
                test(f, 0, out[i]);
            }
            while (!test(f, 0, out[i])) {
            }
            assert_int_equal(end(f, 0, out[i]), TUTTI_OK);
            assert_int_equal(end(f, 1, in[i]), TUTTI_OK);
            assert_int_equal(wrong(recvs[i].dst, (size_t)counts[i], mode), 0);
        }
        header->pid = pid;
        assert_true(refused(f));
        assert_int_equal(f->c.engines[0]->p2p->peers[1].offers, 0);
        assert_int_equal(f->c.engines[0]->p2p->peers[1].remote_offers, 0);
        assert_true(pass(f, PRIVATE, PRIVATE, MESSAGE, false) == 4 * MESSAGE * sizeof(int32_t));
        field_close(f);
    }
}

/* The sender fails after a part was read, and reuses or unmaps its memory: the receive fails. */
static void sender_gives_up(void **state)
{
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        struct field *f = remote_open(0);
        const int64_t count = MOST;
        fill(f->memory[0][PRIVATE], MOST, 1);
        tutti_op send = send_op(f->memory[0][PRIVATE], &count, 1, 0);
        tutti_op recv = recv_op(f->memory[1][PRIVATE], MOST, 0, 0);
        void *s = post(f, 0, &send, gone ? 1 : LONG_MS);
        assert_int_equal(tti_engine_cancel_p2p(f->c.engines[0], s), 0); /* it has been announced */
        void *r = post(f, 1, &recv, LONG_MS);
        assert_true(f->c.engines[1]->p2p->peers[0].fetching->arrived > 0);
        if (!gone) {
            abort_group(f, 0);
        }
        while (!test(f, 0, s)) { /* its deadline, the second time */
        }
        assert_int_equal(end(f, 0, s), gone ? TUTTI_TIMEOUT : TUTTI_REVOKED);
        assert_int_equal(mprotect(f->memory[0][PRIVATE], BYTES, gone ? PROT_NONE : PROT_READ | PROT_WRITE), 0);
        const uint64_t before = moved(f);
        while (!test(f, 1, r)) {
        }
        assert_int_equal(end(f, 1, r), TUTTI_REVOKED);
        assert_true(moved(f) == before);
        assert_false(f->c.engines[1]->p2p->peers[0].unreadable);
        field_close(f);
    }
}

/* ---- corrupt peers ----------------------------------------------------------------------------------------------- */

#define OFFERED (TTI_EAGER / 4 + 1024) /* elements: whole pages */

static struct tti_record offer_of(uint64_t bytes)
{
    return (struct tti_record){
        .bytes = bytes, .place = TTI_IN_SLOT, .here = 8, .dtype = TUTTI_I32, .ndim = 1, .kind = TTI_RECORD_OFFER};
}

static void expect_refused(uint64_t from, uint64_t bytes, uint64_t name)
{
    struct field *f = remote_open(from);
    tutti_error e;
    tutti_op op = recv_op(f->memory[0][PRIVATE], OFFERED, 1, 0);
    tutti_op *ops[] = {&op};
    write_named_record(f, 1, offer_of(bytes), name);
    assert_int_equal(tti_engine_run_p2p(f->c.engines[0], ops, 1, LONG_MS, &e), TUTTI_PEER_CORRUPT);
    assert_int_equal(e.suspect, 1);
    field_close(f);
}

static void names_are_checked(void **state)
{
    (void)state;
    static const int32_t data[OFFERED];
    const uint64_t name = TTI_SINGLE_COPY_NAME | (uintptr_t)data;
    expect_refused(TTI_TUNING_NEVER, sizeof(data), name);
    expect_refused(0, TTI_EAGER, name);
    expect_refused(0, sizeof(data), TTI_SINGLE_COPY_NAME);
    expect_refused(0, sizeof(data), UINT64_MAX);
    expect_refused(0, sizeof(data), TTI_SINGLE_COPY_NAME | ((UINT64_C(1) << 56) - sizeof(data) + 4));
}

/* Names of memory that does not exist, partly or completely. The receiver refuses the offer. */
static void memory_that_is_not_mapped_is_requested(void **state)
{
    (void)state;
    const size_t bytes = OFFERED * sizeof(int32_t);
    for (int mode = 0; mode < 3; mode++) {
        struct field *f = remote_open(0);
        struct tti_engine *e = f->c.engines[0];
        unsigned char *hole = pages_of(2 * bytes);
        assert_int_equal(mprotect(mode == 0 ? hole : hole + bytes, bytes, PROT_NONE), 0);
        const uint64_t address = mode == 2 ? ((UINT64_C(1) << 56) - bytes) : (uintptr_t)hole + (size_t)mode * bytes / 2;
        int32_t *in = f->memory[0][PRIVATE];
        tutti_op op = recv_op(in, OFFERED, 1, 0);
        memset(in, 0xff, bytes);
        void *r = post(f, 0, &op, LONG_MS);
        write_named_record(f, 1, offer_of(bytes), TTI_SINGLE_COPY_NAME | address);
        assert_false(test(f, 0, r));
        assert_true(e->p2p->peers[1].unreadable);
        assert_true(atomic_load(&tti_pair(e, 0, 1)->granted) == 1);
        assert_true(atomic_load(&tti_pair(e, 0, 1)->target) == 0);
        assert_true(atomic_load(&tti_pair(e, 0, 0)->intent) == 0);
        static int32_t data[OFFERED];
        fill(data, OFFERED, mode);
        struct tti_record rest = offer_of(bytes);
        rest.place = 0;
        rest.here = (uint32_t)bytes / 2;
        rest.kind = TTI_RECORD_GRANTED;
        for (uint64_t half = 0; half < 2; half++) {
            assert_false(test(f, 0, r));
            memcpy(tti_ring(f->c.engines[1], 1, 0), data + half * OFFERED / 2, bytes / 2);
            write_named_record(f, 2 + half, rest, 0);
        }
        while (!test(f, 0, r)) {
        }
        assert_int_equal(end(f, 0, r), TUTTI_OK);
        assert_int_equal(wrong(in, OFFERED, mode), 0);
        munmap(hole, 2 * bytes);
        field_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_the_size_on),          cmocka_unit_test(where_readers_are_far),
        cmocka_unit_test(the_costs_decide),          cmocka_unit_test(heap_of_the_receiver_is_better),
        cmocka_unit_test(unreadable_memory_is_sent), cmocka_unit_test(sender_gives_up),
        cmocka_unit_test(names_are_checked),         cmocka_unit_test(memory_that_is_not_mapped_is_requested),
    };
    if (!kernel_copies()) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
