/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations in chunks (core/memory/chunks.h) give the same results as whole ones: every collective, in chunks of
 * several sizes, with parts in rows, of different length and empty, in place and not. A real engine runs them, and the
 * results are compared with the reference. The memory of a chunk is exactly as large as tti_chunks_room returns, and
 * "the device" is the host, so address sanitizer checks every copy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/memory/chunks.h"
#include "unit/engine/engine_calls.h"

#define SIZES 5

static const size_t chunk_bytes[SIZES] = {1, 600, 4096, 20000, 1 << 20};
static _Thread_local size_t bytes_now;
static _Thread_local int64_t most_chunks;

static tutti_status run_chunk(struct tti_engine *e, const struct tti_chunks *p, int64_t k, int64_t *counts,
                              tutti_error *error)
{
    size_t room[2];
    tti_chunks_room(p, room);
    void *in = malloc(room[0] + 1);
    void *out = p->in_place ? NULL : malloc(room[1] + 1);
    if (p->in_place && room[1] > room[0]) {
        free(in);
        in = malloc(room[1] + 1);
    }
    tutti_status status = tti_chunks_load(p, k, in, &tti_device_host, NULL, error);
    tutti_op op = tti_chunks_op(p, k, in, out ? out : in, counts);
    if (status == TUTTI_OK && (status = tti_engine_run(e, &op, error)) == TUTTI_OK) {
        status = tti_chunks_store(p, k, out ? out : in, &tti_device_host, NULL, error);
    }
    free(in);
    free(out);
    return status;
}

static tutti_status run_in_chunks(struct tti_engine *e, tutti_op *op, tutti_error *error)
{
    struct tti_chunks p;
    int64_t counts[2 * RANKS_MAX];
    tutti_status status = TUTTI_OK;
    tti_chunks_cut(&p, op, e->rank, e->size, bytes_now);
    most_chunks = p.count > most_chunks ? p.count : most_chunks;
    for (int64_t k = 0; k < p.count && status == TUTTI_OK; k++) {
        status = run_chunk(e, &p, k, counts, error);
    }
    return status;
}

static int one_kind(struct tti_engine *e, tutti_operation kind, size_t count, int round)
{
    static const tutti_dtype dtypes[] = {TUTTI_F32, TUTTI_I8, TUTTI_BF16};
    const bool variable = kind == TUTTI_OP_ALL_GATHER || kind == TUTTI_OP_REDUCE_SCATTER || kind == TUTTI_OP_ALL_TO_ALL;
    int failures = 0;
    for (int form = 0; form < 5; form++) {
        struct reference_call c = {.kind = kind,
                                   .dtype = dtypes[round % 3],
                                   .size = e->size,
                                   .root = round % e->size,
                                   .rows = form == 2 || form == 4 ? 7 : 1,
                                   .count = count,
                                   .in_place = form == 1,
                                   .uneven = form >= 3,
                                   .seed = (uint32_t)round};
        if ((form == 2 && !sends_joined(kind) && !receives_joined(kind)) || (form >= 3 && !variable)) {
            continue;
        }
        failures += run_call_by(run_in_chunks, e, 0, &c, NULL);
    }
    return failures;
}

static int every_kind(struct cluster *cluster, int rank)
{
    static const tutti_operation kinds[] = {TUTTI_OP_ALL_REDUCE, TUTTI_OP_REDUCE,         TUTTI_OP_BROADCAST,
                                            TUTTI_OP_ALL_GATHER, TUTTI_OP_GATHER,         TUTTI_OP_SCATTER,
                                            TUTTI_OP_ALL_TO_ALL, TUTTI_OP_REDUCE_SCATTER, TUTTI_OP_BARRIER};
    static const size_t counts[] = {0, 1, 63, 64, 65, 1000, 4999};
    struct tti_engine *e = cluster->engines[rank];
    int failures = 0;
    int round = 0;
    for (size_t s = 0; s < SIZES; s++) {
        bytes_now = chunk_bytes[s];
        most_chunks = 0;
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                failures += one_kind(e, kinds[k], counts[i], round++);
            }
        }
        failures += s == 0 && most_chunks < 100; /* else nothing was cut */
        failures += s + 1 == SIZES && most_chunks != 1;
    }
    return failures;
}

static void in_chunks(int size)
{
    struct cluster c;
    const struct waiting waiting = {.spin_ns = 0, .yield_ns = 200000, .sleep_ns = 1000000};
    assert_int_equal(cluster_open(&c, size, 1, 16384, waiting), 0);
    assert_int_equal(cluster_run(&c, every_kind), 0);
    cluster_close(&c);
}

static void one_rank(void **state)
{
    (void)state;
    in_chunks(1);
}

static void three_ranks(void **state)
{
    (void)state;
    in_chunks(3);
}

/* A mismatch of the calls is found in the first chunk, though its length is the same on all ranks. */
static int different_lengths(struct cluster *cluster, int rank)
{
    struct tti_engine *e = cluster->engines[rank];
    float data[4096] = {0};
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, data, data, rank == 1 ? 4096 : 2048, 0);
    tutti_error error;
    bytes_now = 4096;
    const tutti_status status = run_in_chunks(e, &op, &error);
    return status == TUTTI_MISMATCH && strstr(error.message, "4096") ? 0 : 1;
}

static void mismatch(void **state)
{
    (void)state;
    struct cluster c;
    const struct waiting waiting = {.spin_ns = 0, .yield_ns = 200000, .sleep_ns = 1000000};
    assert_int_equal(cluster_open(&c, 2, 1, 16384, waiting), 0);
    assert_int_equal(cluster_run(&c, different_lengths), 0);
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank), cmocka_unit_test(three_ranks),
                                       cmocka_unit_test(mismatch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
