/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=120 */
/*
 * Where in a pair's ring the chunks of messages lie: long ones use the whole ring where ranks share CPUs, short ones
 * that are read at once its first part, all others the window. Which lines the receiver claims after it has read them.
 * And which chunks the sender writes past the caches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/p2p/large/single_copy.h"
#include "engine/p2p/rings/chunk_times.h"
#include "engine/p2p/rings/recv.h"
#include "engine/p2p/rings/send.h"
#include "unit/engine/p2p/p2p_support.h"

/* ---- long messages ----------------------------------------------------------------------------------------------- */

enum { LONG_COUNT = 1 << 20, LONG_OPS = 7 }; /* the fewest elements that are long */

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
            out[i][k] = element_of(rank, i, k);
            in[i][k] = -1;
        }
        own[i] = send_op(out[i], &lengths[i], 1 - rank, i);
        own[LONG_OPS + i] = recv_op(in[i], n, 1 - rank, i);
        ops[2 * i] = &own[i];
        ops[2 * (LONG_OPS - 1 - i) + 1] = &own[LONG_OPS + i];
    }
    for (int round = 0; round < 2; round++) {
        failures += run_messages(c, rank, ops, (size_t)2 * LONG_OPS);
    }
    for (int i = 0; i < LONG_OPS; i++) {
        for (size_t k = 0; k < (size_t)lengths[i]; k++) {
            failures += in[i][k] != element_of(1 - rank, i, k);
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
            const bool has_rest = tti_slot(c.engines[r], r, 1 - r, i)->record.bytes > TTI_EAGER;
            assert_true(has_rest || !is_behind(&c, r, i));
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

/* ---- messages that are long together ----------------------------------------------------------------------------- */

#define TOGETHER_MOST 20

static int64_t each_count; /* elements of a message */
static int together;       /* messages at once from rank 0 to rank 1 */

static int several(struct cluster *c, int rank)
{
    tutti_op own[TOGETHER_MOST];
    tutti_op *ops[TOGETHER_MOST];
    int failures = 0;
    int32_t *data = malloc((size_t)together * (size_t)each_count * sizeof(*data));
    for (int i = 0; i < together; i++) {
        int32_t *own_data = data + i * each_count;
        for (int64_t k = 0; k < each_count; k++) {
            own_data[k] = rank == 0 ? element_of(0, i, (size_t)k) : -1;
        }
        own[i] = rank == 0 ? send_op(own_data, &each_count, 1, i) : recv_op(own_data, (size_t)each_count, 0, i);
        ops[i] = &own[i];
    }
    failures += run_messages(c, rank, ops, (size_t)together);
    for (int i = 0; i < together; i++) {
        for (int64_t k = 0; k < each_count; k++) {
            failures += data[i * each_count + k] != element_of(0, i, (size_t)k);
        }
    }
    free(data);
    return failures;
}

static void expect_together(int64_t count, int times, bool whole)
{
    struct cluster c;
    bool behind = false;
    each_count = count;
    together = times;
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
    for (int r = 0; r < 2; r++) {
        c.engines[r]->ranks_per_cpu = 2;
        c.engines[r]->tuning.single_copy_messages = 0;
    }
    assert_int_equal(cluster_run(&c, several), 0);
    assert_int_equal(c.engines[0]->p2p->peers[1].open_bytes, 0);
    const unsigned char *rest = tti_ring(c.engines[0], 0, 1) + c.layout.ring_window;
    for (size_t i = 0; i < c.layout.ring_bytes - c.layout.ring_window; i++) {
        behind = behind || rest[i] != 0;
    }
    assert_int_equal(behind, whole);
    cluster_close(&c);
}

static void several_messages_may_be_long_together(void **state)
{
    (void)state;
    expect_together(LONG_COUNT - 1, 1, false);
    expect_together(LONG_COUNT / 2, 2, true);
    expect_together(LONG_COUNT / 2 - 1, 2, false);
    expect_together(TTI_EAGER / 4 + 1, 17, true);
    expect_together(TTI_EAGER / 4, 17, false); /* each is sent without a grant */
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
            data[rank][k] = rank == i % 2 ? element_of(rank, i, k) : -1;
        }
        tutti_op op =
            rank == i % 2 ? send_op(data[rank], &count, 1 - rank, 0) : recv_op(data[rank], SHORT_COUNT, 1 - rank, 0);
        tutti_op *ops[] = {&op};
        failures += run_messages(c, rank, ops, 1);
        for (size_t k = 0; k < SHORT_COUNT; k++) {
            failures += data[rank][k] != element_of(i % 2, i, k);
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
    int failures = run_messages(c, rank, ops, 1);
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
        c.engines[r]->tuning.claims = 1;
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
            c.engines[r]->tuning.claims = claims;
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

/* ---- streams to far receivers ------------------------------------------------------------------------------------ */

#define RECORDS 128 /* 8 of which are measured, by the hash of their numbers */

static bool measured[RECORDS + 1]; /* by number, which begins at 1 */

/* Messages of one large record each. Rank 1 notes by which of them it has measured the distance. `far` is what it has
 * found so far: an average that a reading changes, but does not turn round. */
static int of_ones_noted(struct cluster *c, int rank, bool far)
{
    const double average = far ? 1e12 : 1e-6;
    struct tti_peer *sender = &c->engines[1]->p2p->peers[0];
    int failures = 0;
    for (int i = 1; i <= RECORDS; i++) {
        if (rank == 1) {
            sender->line_ticks = average;
        }
        failures += of_ones(c, rank, TTI_SMALL / 4);
        if (rank == 1) {
            measured[i] = sender->line_ticks != average;
        }
    }
    return failures;
}

static int of_ones_near(struct cluster *c, int rank)
{
    return of_ones_noted(c, rank, false);
}

static int of_ones_far(struct cluster *c, int rank)
{
    return of_ones_noted(c, rank, true);
}

/* The receiver measures how far away the sender is, and tells it. To a far one large chunks go past the caches if that
 * pays, but for those by which the receiver measures. */
static void chunks_to_a_far_receiver_are_streamed(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool far = i % 2 != 0;
        const bool pays = i / 2 != 0;
        struct cluster c;
        int samples = 0;
        assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
        for (int r = 0; r < 2; r++) {
            c.engines[r]->tuning.stream_to_far = pays;
            c.engines[r]->tuning.single_copy_messages = !pays; /* a reason to measure, too */
        }
        struct tti_peer *sender = &c.engines[1]->p2p->peers[0];
        sender->far = !far;
        tti_p2p_publish_costs(c.engines[1], 0);
        assert_int_equal(tti_p2p_is_far_from(c.engines[0], 1), !far);
        assert_int_equal(cluster_run(&c, far ? of_ones_far : of_ones_near), 0);
        assert_int_equal(sender->far, far);
        assert_int_equal(tti_p2p_is_far_from(c.engines[0], 1), far);
        for (uint64_t number = 1; number <= RECORDS; number++) {
            samples += measured[number];
            assert_int_equal(tti_p2p_streams_chunk(c.engines[0], 1, number, TTI_SMALL),
                             far && pays && !measured[number]);
            assert_false(tti_p2p_streams_chunk(c.engines[0], 1, number, TTI_SMALL / 4));
        }
        assert_int_equal(samples, RECORDS / 16);
        cluster_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_messages_use_the_whole_ring),
        cmocka_unit_test(several_messages_may_be_long_together),
        cmocka_unit_test(short_messages_stay_in_the_caches),
        cmocka_unit_test(lines_that_were_read_are_claimed),
        cmocka_unit_test(lines_behind_the_window_are_not_claimed),
        cmocka_unit_test(chunks_to_a_far_receiver_are_streamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
