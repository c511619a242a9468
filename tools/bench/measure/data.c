/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data that can be written and compared at the speed of memory. Each rank's input repeats a short random sequence of
 * its own, and each call starts it at another place; so does the reduction of all inputs, which therefore is computed
 * only once. The length of the sequence is a prime: no two chunks, parts or calls that an engine could confuse start at
 * the same place in it. The expected reduction comes from the conformance suite's reference.
 */
#include "bench/measure/data.h"

#include <stdlib.h>
#include <string.h>

#include "check/data/data.h"
#include "check/reference/expect.h"
#include "check/reference/float_format.h"
#include "check/reference/fold.h"

#define PERIOD 509u
_Static_assert(PERIOD <= TTI_CHECK_BLOCK, "the reference folds one block");

/* Two periods of everything, so that a whole one can be had from any place on. */
struct tti_bench_data {
    int ranks;
    size_t item;
    struct tti_check_fold *fold; /* NULL if nothing is reduced; has the bound of the error */
    unsigned char *folded;
    unsigned char *inputs; /* rank by rank */
};

static size_t span(const struct tti_bench_data *data)
{
    return 2 * PERIOD * data->item;
}

static void repeat(const struct tti_bench_data *data, unsigned char *sequence)
{
    memcpy(sequence + span(data) / 2, sequence, span(data) / 2);
}

struct tti_bench_data *tti_bench_data_create(int ranks, tutti_dtype dtype, tutti_reduce_op op, tutti_wire wire,
                                             uint32_t capabilities)
{
    struct tti_bench_data *data = calloc(1, sizeof(*data));
    if (!data) {
        return NULL;
    }
    data->ranks = ranks;
    data->item = tutti_dtype_size(dtype);
    data->inputs = malloc((size_t)ranks * span(data));
    data->folded = malloc(span(data));
    data->fold = op ? malloc(sizeof(*data->fold)) : NULL;
    if (!data->inputs || !data->folded || (op && !data->fold)) {
        tti_bench_data_destroy(data);
        return NULL;
    }
    if (op) {
        tti_check_fold_start(data->fold, dtype, op, PERIOD, !tti_check_promises_bits(capabilities, dtype));
        tti_check_fold_wire(data->fold, wire, capabilities);
        data->fold->wire_block = PERIOD; /* a call may start anywhere in it */
    }
    const enum tti_check_pattern pattern = op ? tti_check_pattern_for(dtype, op) : TTI_CHECK_RAW;
    for (int r = 0; r < ranks; r++) {
        unsigned char *sequence = data->inputs + (size_t)r * span(data);
        tti_check_generate(sequence, dtype, pattern, tti_check_mix(0, (uint64_t)r), 0, PERIOD);
        repeat(data, sequence);
        if (op) {
            tti_check_fold_add(data->fold, sequence, tti_check_scale(r, dtype));
        }
    }
    if (op) {
        tti_check_fold_finish(data->fold, data->folded);
        repeat(data, data->folded);
    }
    return data;
}

void tti_bench_data_destroy(struct tti_bench_data *data)
{
    if (data) {
        free(data->inputs);
        free(data->folded);
        free(data->fold);
        free(data);
    }
}

/* Where in the sequence an element of a call lies. */
static size_t place_of(uint64_t number, size_t first)
{
    return (size_t)((number % PERIOD * 197 + first % PERIOD) % PERIOD);
}

void tti_bench_data_fill(const struct tti_bench_data *data, void *out, int rank, uint64_t number, size_t first,
                         size_t count)
{
    const unsigned char *from = data->inputs + (size_t)rank * span(data) + place_of(number, first) * data->item;
    unsigned char *to = out;
    for (size_t done = 0; done < count; done += PERIOD) {
        const size_t n = count - done < PERIOD ? count - done : PERIOD;
        memcpy(to + done * data->item, from, n * data->item);
    }
}

/* A result that is within its bound is expected from now on: most calls give the same one, which memcmp finds soon. */
static void expect(const struct tti_bench_data *data, size_t place, uint64_t bits)
{
    tti_check_bits_store(data->folded + place * data->item, data->item, bits);
    tti_check_bits_store(data->folded + (place + PERIOD) * data->item, data->item, bits);
}

/* Element by element, `got` and `wanted` of which differ somewhere. `place`: of the first one in the sequence. */
static int64_t count_wrong(const struct tti_bench_data *data, const unsigned char *got, const unsigned char *wanted,
                           bool folded, size_t place, size_t count)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t w = tti_check_bits_load(wanted + i * data->item, data->item);
        const uint64_t g = tti_check_bits_load(got + i * data->item, data->item);
        const bool close = g != w && folded && tti_check_fold_close(data->fold, (place + i) % PERIOD, w, g);
        if (close) {
            expect(data, (place + i) % PERIOD, g);
        }
        wrong += g == w || close ? 0 : 1;
    }
    return wrong;
}

int64_t tti_bench_data_count_wrong(const struct tti_bench_data *data, const void *got, int source, uint64_t number,
                                   size_t first, size_t count)
{
    const bool folded = source == TTI_BENCH_FOLD;
    const size_t place = place_of(number, first);
    const unsigned char *sequence = folded ? data->folded : data->inputs + (size_t)source * span(data);
    const unsigned char *wanted = sequence + place * data->item;
    const unsigned char *bytes = got;
    int64_t wrong = 0;
    for (size_t done = 0; done < count; done += PERIOD) {
        const size_t n = count - done < PERIOD ? count - done : PERIOD;
        const unsigned char *here = bytes + done * data->item;
        if (memcmp(here, wanted, n * data->item) != 0) {
            wrong += count_wrong(data, here, wanted, folded, place, n);
        }
    }
    return wrong;
}
