/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=60 */
/* A peer of the same user may write anything into its own segment. Each value is checked before use; errors name the
 * peer. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/shm/heap/file.h"
#include "backends/shm/segment.h"
#include "engine/memory/single_copy.h"
#include "unit/engine/engine_support.h"

static void segment_is_checked(void **state)
{
    (void)state;
    struct tti_layout layout = tti_layout_make(2, 1, 16384, 0, 0);
    unsigned char *segment = aligned_alloc(TTI_PAGE, layout.segment_bytes);
    memset(segment, 0, layout.segment_bytes);
    struct tti_segment_header *h = (struct tti_segment_header *)segment;
    tutti_error e;
    assert_int_equal(tti_engine_segment_check(segment, &layout, 1, 7, &e), TUTTI_PROTOCOL);
    tti_engine_segment_init(segment, &layout, 1, 7);
    assert_int_equal(tti_engine_segment_check(segment, &layout, 1, 7, &e), TUTTI_OK);
    assert_int_equal(tti_engine_segment_check(segment, &layout, 0, 7, &e), TUTTI_PROTOCOL);
    assert_int_equal(tti_engine_segment_check(segment, &layout, 1, 8, &e), TUTTI_PROTOCOL);
    h->abi++;
    assert_int_equal(tti_engine_segment_check(segment, &layout, 1, 7, &e), TUTTI_VERSION);
    assert_non_null(strstr(e.message, "rank 1"));
    free(segment);
}

/* The kernel writes a byte there for this process, or says that it may not. */
static bool is_writable(unsigned char *memory)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "", 1), 1);
    const bool written = read(ends[0], memory, 1) == 1;
    assert_true(written || errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
    return written;
}

static void descriptors_are_checked(void **state)
{
    (void)state;
    tutti_error e;
    struct tti_mapping m = {.fd = -1};
    struct tti_mapping got = {.fd = -1};
    assert_int_equal(tti_mapping_create("test", 8192, 0, 4096, &m, &e), TUTTI_OK);
    assert_int_equal(tti_mapping_adopt(dup(m.fd), 8192, 0, false, 3, &got, &e), TUTTI_PROTOCOL); /* not sealed */
    assert_non_null(strstr(e.message, "rank 3"));
    assert_int_equal(tti_memory_seal(m.fd, &e), TUTTI_OK);
    assert_int_equal(tti_mapping_adopt(dup(m.fd), 4096, 0, false, 3, &got, &e), TUTTI_PROTOCOL); /* another size */
    assert_int_equal(tti_mapping_adopt(dup(m.fd), 8192, 0, false, 3, &got, &e), TUTTI_OK);
    m.base[4095] = 99; /* the peer sees it */
    assert_int_equal(got.base[4095], 99);
    assert_int_equal(tti_mapping_commit(&m, 4096, 4096), TUTTI_OK);
    assert_false(is_writable(got.base));
    tti_memory_make_writable(got.base + 4096, 4096);
    assert_true(is_writable(got.base + 4096));
    assert_false(is_writable(got.base));
    /* no process can shrink it or grow it any more */
    assert_int_equal(ftruncate(m.fd, 4096), -1);
    assert_int_equal(ftruncate(m.fd, 16384), -1);
    tti_mapping_close(&got);
    tti_mapping_close(&m);
}

/* A file of this size with these seals, as a peer might pass it. */
static int file_with(off_t bytes, int seals)
{
    const int fd = memfd_create("a peer's", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0 && ftruncate(fd, bytes) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static void heap_files_are_checked(void **state)
{
    (void)state;
    tutti_error e;
    size_t bytes = 0;
    int good = -1;
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const int wrong[] = {
        file_with(65536, 0),
        file_with(65536, F_SEAL_SHRINK | F_SEAL_GROW),
        file_with(65536, F_SEAL_SHRINK | F_SEAL_SEAL), /* may grow */
        file_with(65536, F_SEAL_GROW | F_SEAL_SEAL),   /* may shrink: SIGBUS for its readers */
        file_with(65536, sealed | F_SEAL_WRITE),
        file_with(0, sealed),
        file_with(65537, sealed),
        ends[0], /* no memory at all */
        ends[1],
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(tti_heap_file_check(wrong[i], 3, &bytes, &e), TUTTI_PROTOCOL);
        assert_non_null(strstr(e.message, "rank 3"));
        assert_int_equal(bytes, 0);
        close(wrong[i]);
    }
    assert_int_equal(tti_heap_file_create("test", 65536, &good, &e), TUTTI_OK);
    assert_int_equal(tti_heap_file_check(good, 3, &bytes, &e), TUTTI_OK);
    assert_int_equal(bytes, 65536);
    close(good);
}

/* Hints only: a doorbell full of random bytes costs time, not results. */
static int sums_under_noise(struct cluster *c, int rank)
{
    int failures = 0;
    for (int i = 0; i < 300; i++) {
        int32_t x[100];
        for (int k = 0; k < 100; k++) {
            x[k] = rank + k;
        }
        _Atomic uint64_t *words = (_Atomic uint64_t *)(c->doorbell + TTI_LINE);
        for (size_t w = 0; w < (c->layout.doorbell_bytes - TTI_LINE) / 8; w++) {
            atomic_store(&words[w], (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) * (w + 1));
        }
        atomic_fetch_add((_Atomic uint32_t *)c->doorbell, 1);
        tutti_error e;
        tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, x, x, 100, 0);
        failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_OK;
        for (int k = 0; k < 100; k++) {
            failures += x[k] != c->layout.size * k + c->layout.size * (c->layout.size - 1) / 2;
        }
    }
    return failures;
}

static void doorbell_holds_hints_only(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(cluster_open(&c, 3, 1, 16384, (struct waiting){0, 0, 0}), 0);
    assert_int_equal(cluster_run(&c, sums_under_noise), 0);
    cluster_close(&c);
}

static void expect_corrupt(tutti_status status, const tutti_error *e)
{
    assert_int_equal(status, TUTTI_PEER_CORRUPT);
    assert_int_equal(e->suspect, 1);
    assert_non_null(strstr(e->message, "rank 1"));
}

static int add(struct cluster *c, int rank)
{
    int32_t x[3] = {1, 2, 3};
    tutti_error e;
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, x, x, 3, 0);
    return tti_engine_run(c->engines[rank], &op, &e) != TUTTI_OK;
}

/* The engine compares the number of a peer's call, and never computes with it: an impossible number gives no result,
 * and the error names the peer. The test plays rank 1. An impossible number is beyond the call, or belongs to another
 * slot; the number of a late rank is neither. */
static void numbers_of_calls_are_checked(void **state)
{
    (void)state;
    static const struct {
        uint64_t number;
        bool may_be;
    } cases[] = {{UINT64_MAX, false},
                 {UINT64_C(1) << 63, false},
                 {1000000, false},
                 {3, false},
                 {2 + TTI_RING, false},
                 {1, false},
                 {0, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int size = 2; size <= 3; size++) {
            struct cluster c;
            tutti_error e;
            int32_t x[3] = {1, 2, 3};
            assert_int_equal(cluster_open(&c, size, 1, 16384, (struct waiting){-1, -1, 0}), 0);
            assert_int_equal(cluster_run(&c, add), 0); /* call 1 goes well */
            struct tti_arrival *line = tti_arrival_of(&c.engines[0]->lanes[0], 1, 2);
            atomic_store_explicit(&line->sequence, cases[i].number,
                                  memory_order_relaxed); /* relaxed: no other thread reads it yet */
            tutti_op op = op_of(size == 2 ? TUTTI_OP_ALL_REDUCE : TUTTI_OP_BROADCAST, size == 2 ? x : NULL, x, 3, 1);
            op.timeout_ms = 200;
            const tutti_status status = tti_engine_run(c.engines[0], &op, &e);
            if (cases[i].may_be) {
                assert_int_equal(status, TUTTI_TIMEOUT);
                assert_int_equal(e.suspect, 1);
            } else {
                expect_corrupt(status, &e);
            }
            cluster_close(&c);
        }
    }
}

enum { EXCHANGING = 3, ELEMENTS = 3 * 16384 };

static uint64_t lie;

/* By its row rank 1 sends so many bytes to rank 0, and rank 0 expects them. */
static void corrupt_rows(struct cluster *c)
{
    unsigned char *rows[] = {tti_stage_own(&c->engines[0]->lanes[0], 0), tti_stage_own(&c->engines[1]->lanes[0], 0)};
    memcpy(rows[0] + (EXCHANGING + 1) * sizeof(lie), &lie, sizeof(lie));
    memcpy(rows[1], &lie, sizeof(lie));
}

static int exchange_with_a_liar(struct cluster *c, int rank)
{
    static int32_t sent[EXCHANGING][EXCHANGING * ELEMENTS], got[EXCHANGING][EXCHANGING * ELEMENTS];
    static const int64_t counts[] = {ELEMENTS, ELEMENTS, ELEMENTS}, at[] = {0, ELEMENTS, 2 * ELEMENTS};
    const tutti_parts parts = {.outer = 1, .unit = sizeof(int32_t), .counts = counts, .displacements = at};
    tutti_op op = op_of(TUTTI_OP_ALL_TO_ALL, sent[rank], got[rank], ELEMENTS, 0);
    tutti_error e;
    op.send_parts = parts;
    op.recv_parts = parts;
    op.timeout_ms = 20000;
    for (int r = 0; rank == 2 && r < 2; r++) {
        /* acquire: pairs with the arrival, which is behind the row */
        while (atomic_load_explicit(&tti_arrival_of(&c->engines[2]->lanes[0], r, 1)->sequence, memory_order_acquire) !=
               1) {
            sched_yield();
        }
    }
    if (rank == 2) {
        corrupt_rows(c);
    }
    const tutti_status status = tti_engine_run(c->engines[rank], &op, &e);
    return rank == 2 ? status != TUTTI_PEER_CORRUPT || e.suspect != 1 : status == TUTTI_OK;
}

/* Steps and slots follow from lengths that a peer wrote. */
static void lengths_of_parts_are_checked(void **state)
{
    (void)state;
    const uint64_t own = ELEMENTS * sizeof(int32_t);
    const uint64_t lies[] = {UINT64_C(1) << 60, UINT64_MAX, UINT64_MAX - own + 65536 /* the sum is small */};
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct cluster c;
        lie = lies[i];
        assert_int_equal(cluster_open(&c, EXCHANGING, 1, 16384, (struct waiting){-1, -1, 0}), 0);
        assert_int_equal(cluster_run(&c, exchange_with_a_liar), 0);
        cluster_close(&c);
    }
}

/* A rank that waits without a deadline sees it, too. */
static void impossible_numbers_end_long_waits(void **state)
{
    (void)state;
    struct cluster c;
    tutti_error e;
    int32_t x[3] = {1, 2, 3};
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){-1, -1, 0}), 0);
    assert_int_equal(cluster_run(&c, add), 0);
    atomic_store_explicit(&tti_arrival_of(&c.engines[0]->lanes[0], 1, 2)->sequence, 1, memory_order_relaxed);
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, x, x, 3, 0);
    op.timeout_ms = -1;
    expect_corrupt(tti_engine_run(c.engines[0], &op, &e), &e);
    cluster_close(&c);
}

/* The line of a large call of rank 1, correct apart from these attributes. */
static void attributes_are_checked(void **state)
{
    (void)state;
    static const struct tti_attributes wrong[] = {
        {.resource_error = 77}, {.resource_error = UINT32_MAX}, {.resource_error = TUTTI_TIMEOUT}};
    static int32_t x[20000];
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct cluster c;
        tutti_error e;
        assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){-1, -1, 0}), 0);
        struct tti_arrival *line = tti_arrival_of(&c.engines[0]->lanes[0], 1, 1);
        tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, x, x, 20000, 0);
        uint64_t descriptor[2];
        tti_descriptor_make(&op, 2, descriptor);
        memcpy(line->descriptor, descriptor, sizeof(descriptor));
        memcpy(line->payload, &wrong[i], sizeof(wrong[i]));
        atomic_store_explicit(&line->sequence, 1, memory_order_relaxed);
        expect_corrupt(tti_engine_run(c.engines[0], &op, &e), &e);
        cluster_close(&c);
    }
}

/* Rank 1, the root of a gather, lets rank 0 write an output that it does not share: it has named none, or one for the
 * kernel, which reads only. */
static void only_shared_outputs_are_written(void **state)
{
    (void)state;
    static int32_t x[20000];
    const uint64_t names[] = {0, TTI_SINGLE_COPY_NAME | (uintptr_t)x};
    for (size_t i = 0; kernel_copies() && i < sizeof(names) / sizeof(names[0]); i++) {
        struct cluster c;
        tutti_error e;
        assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){-1, -1, 0}), 0);
        struct tti_engine *engine = c.engines[0];
        struct tti_lane *lane = &engine->lanes[0];
        struct tti_arrival *line = tti_arrival_of(lane, 1, 1);
        const struct tti_attributes attributes = {.output = names[i]};
        tutti_op op = op_of(TUTTI_OP_GATHER, x, NULL, 20000, 1);
        op.timeout_ms = 200;
        engine->tuning.zero_copy = 0;
        engine->tuning.single_copy = 0;
        engine->tuning.single_copy_at_any_distance = 1;
        atomic_store(&engine->remote, TTI_READS_ALL);
        tti_descriptor_make(&op, 2, line->descriptor);
        memcpy(line->payload, &attributes, sizeof(attributes));
        /* relaxed: no other thread reads them yet */
        atomic_store_explicit(tti_position_of(lane, 1), UINT64_C(1) << TTI_PHASE_BITS | TTI_PHASE_PUSH,
                              memory_order_relaxed);
        atomic_store_explicit(&line->sequence, 1, memory_order_relaxed);
        expect_corrupt(tti_engine_run(engine, &op, &e), &e);
        cluster_close(&c);
    }
}

/* A call in the middle: rank 0 has located the tensor of rank 1, which the test plays, and waits for rank 1. */
struct standing {
    struct cluster cluster;
    struct tti_heap heap;
    unsigned char *tensors[2]; /* of TENSOR bytes */
    tutti_status status;
};

#define TENSOR ((size_t)1 << 20)

static void *stand(void *argument)
{
    struct standing *s = argument;
    tutti_error e;
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, s->tensors[0], s->tensors[0], TENSOR / 4, 0);
    s->status = tti_engine_run(s->cluster.engines[0], &op, &e);
    return NULL;
}

/* Rank 1 arrives at the call of rank 0 with the same descriptor, and exposes its tensor. */
static void come(struct standing *s)
{
    const struct tti_arrival *own = tti_arrival_of(&s->cluster.engines[0]->lanes[0], 0, 1);
    struct tti_arrival *line = tti_arrival_of(&s->cluster.engines[0]->lanes[0], 1, 1);
    while (atomic_load_explicit(&own->sequence, memory_order_acquire) != 1) {
        sched_yield();
    }
    memcpy(line->descriptor, own->descriptor, sizeof(line->descriptor));
    memcpy(line->payload, own->payload, sizeof(line->payload));
    atomic_store_explicit(&line->sequence, 1, memory_order_release);
    while (atomic_load_explicit(&s->cluster.engines[0]->lanes[0].holds_heap, memory_order_acquire) == 0) {
        sched_yield();
    }
}

/* A withdrawal cannot take memory from a call that uses it. A withdrawal before the call does not wait for it, a
 * withdrawal during the call waits for its end. */
static void memory_in_use_is_known(void **state)
{
    (void)state;
    static struct standing s;
    static struct tti_heap_member members[2];
    static struct tti_heap_member *rows[] = {&members[0], &members[1]};
    static struct tti_heap_orphans orphans;
    _Atomic uint64_t withdrawals = 5;
    const tutti_error cause = {.size = sizeof(cause), .status = TUTTI_REVOKED, .suspect = -1};
    pthread_t thread;
    assert_int_equal(cluster_open(&s.cluster, 2, 1, 16384, (struct waiting){-1, -1, 0}), 0);
    for (int r = 0; r < 2; r++) {
        s.tensors[r] = mmap(NULL, TENSOR, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        atomic_store(&members[r].regions[1], tti_heap_word(s.tensors[r], TENSOR));
    }
    s.heap = (struct tti_heap){.withdrawals = &withdrawals, .orphans = &orphans, .ranks = 2, .members = rows};
    tti_heap_own(&s.heap, 1, tti_heap_word(s.tensors[0], TENSOR));
    struct tti_engine *e = s.cluster.engines[0];
    e->heap = &s.heap;
    e->tuning.zero_copy = 0;
    assert_true(tti_engine_heap_quiescent(e, 6));
    assert_int_equal(pthread_create(&thread, NULL, stand, &s), 0);
    come(&s);
    assert_true(tti_engine_heap_quiescent(e, 5));
    assert_false(tti_engine_heap_quiescent(e, 6));
    tti_engine_abort(e, -1, &cause);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(s.status, TUTTI_REVOKED);
    assert_true(tti_engine_heap_quiescent(e, 6));
    cluster_close(&s.cluster);
    munmap(s.tensors[0], TENSOR);
    munmap(s.tensors[1], TENSOR);
}

/* An error may have no suspect. */
static void there_may_be_no_suspect(void **state)
{
    (void)state;
    static const int ranks[] = {-1, 2, 1};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        struct cluster c;
        tutti_error e;
        assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){-1, -1, 0}), 0);
        tti_error_set(&e, TUTTI_NO_MEMORY, "a test");
        assert_int_equal(tti_fault_raise_suspect(c.engines[0], &c.engines[0]->lanes[0], ranks[i], &e), TUTTI_NO_MEMORY);
        assert_int_equal(e.suspect, ranks[i] < 2 ? ranks[i] : -1);
        assert_int_equal(e.scope, TUTTI_SCOPE_GROUP);
        assert_int_equal(tti_engine_failure(c.engines[1], &e), TUTTI_NO_MEMORY);
        assert_int_equal(e.suspect, ranks[i] == 1 ? 1 : 0); /* else the rank that wrote the record */
        cluster_close(&c);
    }
}

/* A rank without memory for its stage still arrives: all ranks return NO_MEMORY and continue. */
static tutti_status no_memory(void *user, size_t offset, size_t bytes)
{
    (void)offset;
    (void)bytes;
    return *(int *)user > 0 ? TUTTI_NO_MEMORY : TUTTI_OK;
}

static int short_of_memory(struct cluster *c, int rank)
{
    static _Thread_local int missing;
    int32_t x[1000] = {0};
    tutti_error e;
    int failures = 0;
    missing = rank == 1;
    c->engines[rank]->commit = no_memory;
    c->engines[rank]->commit_user = &missing;
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, x, x, 1000, 0);
    failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_NO_MEMORY || e.suspect != 1;
    op = op_of(TUTTI_OP_BROADCAST, NULL, x, 1000, 1);
    failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_NO_MEMORY;
    op = op_of(TUTTI_OP_ALL_REDUCE, x, x, 3, 0); /* small calls need no stage */
    failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_OK;
    missing = 0;
    op = op_of(TUTTI_OP_ALL_REDUCE, x, x, 1000, 0);
    failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_OK;
    return failures;
}

/* A rank that cannot take part in a call keeps counting: its peers do not match its next call with this one. Their
 * error has its call and the reason. */
static int cannot_take_part(struct cluster *c, int rank)
{
    static const size_t counts[] = {3, 1000, 20000};
    int failures = 0;
    int32_t *x = calloc(20000, sizeof(*x));
    for (int i = 0; i < 3; i++) {
        char words[120];
        tutti_error e;
        tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, x, x, counts[i], 0);
        op.failed = rank == 1 ? TUTTI_NO_RESOURCE : TUTTI_OK;
        tutti_status status = tti_engine_run(c->engines[rank], &op, &e);
        failures += status != (rank == 1 ? TUTTI_NO_RESOURCE : TUTTI_MISMATCH);
        snprintf(words, sizeof(words), "rank 1 called all_reduce(i32 sum, count %zu) and cannot take part: %s, but ",
                 counts[i], tutti_status_string(TUTTI_NO_RESOURCE));
        failures += rank != 1 && (e.suspect != 1 || strncmp(e.message, words, strlen(words)) != 0);
        for (size_t k = 0; k < counts[i]; k++) {
            x[k] = (int32_t)k + rank;
        }
        op = op_of(TUTTI_OP_ALL_REDUCE, x, x, counts[i], 0);
        failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_OK;
        for (size_t k = 0; k < counts[i]; k++) {
            failures += x[k] != 3 * (int32_t)k + 3;
        }
    }
    free(x);
    return failures;
}

static void failed_ranks_stay_in_step(void **state)
{
    (void)state;
    for (int direct = 0; direct < 2; direct++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, 3, 1, 16384, (struct waiting){-1, -1, 0}), 0);
        for (int r = 0; r < 3; r++) {
            c.engines[r]->direct = direct != 0;
        }
        assert_int_equal(cluster_run(&c, cannot_take_part), 0);
        cluster_close(&c);
    }
}

static void missing_memory_is_reported(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(cluster_open(&c, 3, 1, 16384, (struct waiting){-1, -1, 0}), 0);
    assert_int_equal(cluster_run(&c, short_of_memory), 0);
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segment_is_checked),
        cmocka_unit_test(descriptors_are_checked),
        cmocka_unit_test(only_shared_outputs_are_written),
        cmocka_unit_test(heap_files_are_checked),
        cmocka_unit_test(doorbell_holds_hints_only),
        cmocka_unit_test(numbers_of_calls_are_checked),
        cmocka_unit_test(impossible_numbers_end_long_waits),
        cmocka_unit_test(lengths_of_parts_are_checked),
        cmocka_unit_test(attributes_are_checked),
        cmocka_unit_test(missing_memory_is_reported),
        cmocka_unit_test(failed_ranks_stay_in_step),
        cmocka_unit_test(memory_in_use_is_known),
        cmocka_unit_test(there_may_be_no_suspect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
