/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of one process that behave like several processes, with private memory and a heap: for tests of messages that
 * are copied once. */
#ifndef TESTS_UNIT_ENGINE_P2P_P2P_FIXTURE_H
#define TESTS_UNIT_ENGINE_P2P_P2P_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "unit/engine/p2p/p2p_support.h"

#define REGION  1u
#define MOST    ((size_t)1 << 22) /* elements: 16 MiB, more than a few rounds copy */
#define BYTES   (MOST * sizeof(int32_t))
#define WAITING ((struct waiting){1000, 20000, 0})

enum where { PRIVATE, HEAP };

/* Ranks whose heaps are ordinary memory, at the same address for all of them. */
struct field {
    struct cluster c;
    struct tti_heap heaps[RANKS_MAX];
    struct tti_heap_member tables[RANKS_MAX];
    struct tti_heap_member *members[RANKS_MAX];
    struct tti_heap_orphans orphans[RANKS_MAX];
    int32_t *memory[RANKS_MAX][2]; /* private, heap */
    _Atomic size_t orphaned;
};

static inline void orphan(void *user, unsigned region, void *memory, size_t bytes)
{
    (void)region;
    (void)memory;
    atomic_fetch_add(&((struct field *)user)->orphaned, bytes);
}

static inline void *pages_of(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static inline struct field *field_open(int size, bool threads)
{
    struct field *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    assert_int_equal(cluster_open(&f->c, size, 1, 16384, WAITING), 0);
    for (int r = 0; r < size; r++) {
        f->memory[r][PRIVATE] = pages_of(BYTES);
        f->memory[r][HEAP] = pages_of(BYTES);
        f->members[r] = &f->tables[r];
        atomic_store(&f->tables[r].regions[REGION], tti_heap_word(f->memory[r][HEAP], BYTES));
        f->heaps[r] = (struct tti_heap){
            .orphans = &f->orphans[r], .ranks = size, .members = f->members, .user = f, .orphan = orphan};
        tti_heap_own(&f->heaps[r], REGION, tti_heap_word(f->memory[r][HEAP], BYTES));
        f->c.engines[r]->direct = threads;
        f->c.engines[r]->ranks_per_cpu = 2; /* on every machine */
        f->c.engines[r]->heap = threads ? NULL : &f->heaps[r];
        f->c.engines[r]->tuning.single_copy_messages = 0;
    }
    return f;
}

static inline void field_close(struct field *f)
{
    for (int r = 0; r < f->c.layout.size; r++) {
        munmap(f->memory[r][PRIVATE], BYTES);
        munmap(f->memory[r][HEAP], BYTES);
    }
    cluster_close(&f->c);
    free(f);
}

static inline int32_t value(int from, size_t k)
{
    return (int32_t)((uint32_t)from * 1000003u + (uint32_t)k);
}

static inline void fill(int32_t *data, size_t count, int from)
{
    for (size_t k = 0; k < count; k++) {
        data[k] = value(from, k);
    }
}

static inline size_t wrong(const int32_t *data, size_t count, int from)
{
    size_t n = 0;
    for (size_t k = 0; k < count; k++) {
        n += data[k] != value(from, k);
    }
    return n;
}

static inline void *post(struct field *f, int rank, tutti_op *op, int64_t timeout_ms)
{
    tutti_error e;
    void *batch = NULL;
    tutti_op *ops[] = {op};
    assert_int_equal(tti_engine_post_p2p(f->c.engines[rank], ops, 1, timeout_ms, &batch, &e), TUTTI_OK);
    return batch;
}

static inline bool test(struct field *f, int rank, void *batch)
{
    return tti_engine_test_p2p(f->c.engines[rank], batch) != 0;
}

static inline tutti_status end(struct field *f, int rank, void *batch)
{
    tutti_error e;
    return tti_engine_end_p2p(f->c.engines[rank], batch, &e);
}

static inline uint64_t moved(const struct field *f)
{
    return f->c.engines[0]->p2p->bytes_copied + f->c.engines[1]->p2p->bytes_copied;
}

/* One thread plays both ranks. Returns the bytes loaded and stored. */
static inline uint64_t pass(struct field *f, enum where from, enum where to, int64_t count, bool late)
{
    int32_t *out = f->memory[0][from];
    int32_t *in = f->memory[1][to];
    uint64_t before = moved(f);
    fill(out, (size_t)count, (int)count);
    memset(in, 0xff, (size_t)count * sizeof(*in));
    tutti_op send = send_op(out, &count, 1, 3);
    tutti_op recv = recv_op(in, (size_t)count, 0, 3);
    void *s = late ? post(f, 0, &send, LONG_MS) : NULL;
    void *r = post(f, 1, &recv, LONG_MS);
    s = late ? s : post(f, 0, &send, LONG_MS);
    while (!test(f, 1, r)) {
        test(f, 0, s);
    }
    while (!test(f, 0, s)) {
    }
    assert_int_equal(end(f, 0, s), TUTTI_OK);
    assert_int_equal(end(f, 1, r), TUTTI_OK);
    assert_int_equal(wrong(in, (size_t)count, (int)count), 0);
    return moved(f) - before;
}

static inline void abort_group(struct field *f, int rank)
{
    tutti_error cause;
    tti_error_set(&cause, TUTTI_PEER_DEAD, "for a test");
    cause.suspect = -1;
    tti_engine_abort(f->c.engines[rank], -1, &cause);
}

/* Rank 1's next record for rank 0, with a name or another content. */
static inline void write_named_record(struct field *f, uint64_t number, struct tti_record record, uint64_t name)
{
    memcpy(tti_slot(f->c.engines[1], 1, 0, number)->body, &name, sizeof(name));
    write_record(&f->c, number, record);
}

#endif
