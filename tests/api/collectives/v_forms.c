/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives with parts of different length: along both dimensions of a matrix, with gaps, in any order, and empty. */
#include <stdbool.h>
#include <stdlib.h>

#include "api/check.h"

#define RANKS 4
#define OLD   (-1)

/* Element (along, across) of the tensor of rank r, `along` counted on the dimension that is cut. */
static int32_t value(int32_t r, int64_t along, int64_t across)
{
    return (int32_t)(r * 100000000 + along * 1000 + across % 1000);
}

struct matrix {
    int64_t shape[2];
    int32_t dim;
    int32_t *data;
    DLTensor t;
};

/* `along` rows on dimension `dim`, `across` on the other one. */
static struct matrix *make(int32_t dim, int64_t along, int64_t across)
{
    struct matrix *m = malloc(sizeof(*m));
    size_t count = (size_t)(along * across);
    int32_t *data = malloc((count + 1) * sizeof(*data));
    if (!m || !data) {
        abort();
    }
    m->dim = dim;
    m->data = data;
    m->shape[dim] = along;
    m->shape[1 - dim] = across;
    m->t = tutti_tensor_nd(count ? data : NULL, 2, m->shape, TUTTI_I32);
    for (size_t i = 0; i <= count; i++) {
        data[i] = OLD;
    }
    return m;
}

static void drop(struct matrix *m)
{
    EXPECT(m->data[m->shape[0] * m->shape[1]] == OLD); /* nothing was written behind the end */
    free(m->data);
    free(m);
}

static int32_t *at(struct matrix *m, int64_t along, int64_t across)
{
    return m->dim == 0 ? &m->data[along * m->shape[1] + across] : &m->data[across * m->shape[1] + along];
}

static void fill(struct matrix *m, int32_t r)
{
    for (int64_t i = 0; i < m->shape[m->dim]; i++) {
        for (int64_t j = 0; j < m->shape[1 - m->dim]; j++) {
            *at(m, i, j) = value(r, i, j);
        }
    }
}

static int64_t place_of(const int64_t *counts, const int64_t *places, int32_t r)
{
    if (places) {
        return places[r];
    }
    int64_t at_row = 0;
    for (int32_t i = 0; i < r; i++) {
        at_row += counts[i];
    }
    return at_row;
}

static void all_gather(tutti_group *g, int32_t dim, int64_t across, const int64_t *counts, const int64_t *places,
                       int64_t rows)
{
    int32_t me = tutti_group_rank(g);
    struct matrix *in = make(dim, counts[me], across);
    struct matrix *out = make(dim, rows, across);
    fill(in, me);
    EXPECT_OK(tutti_all_gather_v(g, &in->t, &out->t, dim, counts, places, NULL));
    bool right = true;
    for (int64_t i = 0; i < rows; i++) {
        int32_t owner = -1;
        for (int32_t r = 0; r < RANKS; r++) {
            int64_t from = place_of(counts, places, r);
            owner = i >= from && i < from + counts[r] ? r : owner;
        }
        for (int64_t j = 0; j < across; j++) {
            int32_t expected = owner < 0 ? OLD : value(owner, i - place_of(counts, places, owner), j);
            right = right && *at(out, i, j) == expected;
        }
    }
    EXPECT(right);
    drop(in);
    drop(out);
}

static void reduce_scatter(tutti_group *g, int32_t dim, int64_t across, const int64_t *counts)
{
    int32_t me = tutti_group_rank(g);
    int64_t rows = place_of(counts, NULL, RANKS - 1) + counts[RANKS - 1];
    int64_t from = place_of(counts, NULL, me);
    struct matrix *in = make(dim, rows, across);
    struct matrix *out = make(dim, counts[me], across);
    fill(in, me);
    EXPECT_OK(tutti_reduce_scatter_v(g, &in->t, &out->t, TUTTI_MAX, dim, counts, NULL));
    bool right = true;
    for (int64_t i = 0; i < counts[me]; i++) {
        for (int64_t j = 0; j < across; j++) {
            right = right && *at(out, i, j) == value(RANKS - 1, from + i, j);
        }
    }
    EXPECT(right);
    drop(in);
    drop(out);
}

/* What rank s sends to rank r, in rows; zero on part of the pairs. */
static int64_t traffic(int32_t s, int32_t r, int64_t scale)
{
    return (s + 2 * r) % 3 * scale;
}

static void all_to_all(tutti_group *g, int32_t dim, int64_t across, int64_t scale, bool reversed)
{
    int32_t me = tutti_group_rank(g);
    int64_t sent[RANKS];
    int64_t received[RANKS];
    int64_t from[RANKS];
    int64_t to[RANKS];
    int64_t rows_in = 0;
    int64_t rows_out = 0;
    for (int32_t i = 0; i < RANKS; i++) {
        int32_t r = reversed ? RANKS - 1 - i : i; /* the order in which the parts lie */
        sent[r] = traffic(me, r, scale);
        received[r] = traffic(r, me, scale);
        from[r] = rows_in;
        to[r] = rows_out + (reversed ? 1 : 0); /* a row between the parts that belongs to none */
        rows_in += sent[r];
        rows_out = to[r] + received[r];
    }
    struct matrix *in = make(dim, rows_in, across);
    struct matrix *out = make(dim, rows_out, across);
    fill(in, me);
    EXPECT_OK(tutti_all_to_all_v(g, &in->t, &out->t, dim, sent, reversed ? from : NULL, received, reversed ? to : NULL,
                                 NULL));
    bool right = true;
    for (int64_t i = 0; i < rows_out; i++) {
        int32_t source = -1;
        for (int32_t r = 0; r < RANKS; r++) {
            source = i >= to[r] && i < to[r] + received[r] ? r : source;
        }
        int64_t row = 0; /* of that source's input */
        for (int32_t r = 0; source >= 0 && r < RANKS; r++) {
            bool before = reversed ? r > me : r < me;
            row += before ? traffic(source, r, scale) : 0;
        }
        for (int64_t j = 0; j < across; j++) {
            int32_t expected = source < 0 ? OLD : value(source, row + i - to[source], j);
            right = right && *at(out, i, j) == expected;
        }
    }
    EXPECT(right);
    drop(in);
    drop(out);
}

/* A tensor without dimensions counts as one row. */
static void single_values(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    int32_t mine = 100 + me;
    int32_t all[RANKS] = {0};
    int64_t length = RANKS;
    const int64_t ones[RANKS] = {1, 1, 1, 1};
    const int64_t backwards[RANKS] = {3, 2, 1, 0};
    DLTensor in = tutti_tensor_nd(&mine, 0, NULL, TUTTI_I32);
    DLTensor out = tutti_tensor_1d(all, &length, TUTTI_I32);
    EXPECT_OK(tutti_all_gather(g, &in, &out, 0, NULL));
    EXPECT(all[0] == 100 && all[3] == 103);
    EXPECT_OK(tutti_all_gather_v(g, &in, &out, 0, ones, backwards, NULL));
    EXPECT(all[0] == 103 && all[3] == 100);
    EXPECT_OK(tutti_scatter(g, &out, &in, 0, 0, NULL));
    EXPECT(mine == 103 - me);
    EXPECT_OK(tutti_reduce_scatter(g, &out, &in, TUTTI_SUM, 0, NULL));
    EXPECT(mine == RANKS * (103 - me));
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    const int64_t widths[] = {1, 3, 500, 4000};
    const int64_t uneven[RANKS] = {2, 0, 7, 1};
    const int64_t gaps[RANKS] = {9, 5, 1, 8};
    const int64_t first_only[RANKS] = {5, 0, 0, 0};
    const int64_t nothing[RANKS] = {0, 0, 0, 0};
    const int64_t large[RANKS] = {60, 1, 0, 33};
    for (int w = 0; w < 4; w++) {
        for (int32_t dim = 0; dim < 2; dim++) {
            all_gather(g, dim, widths[w], uneven, NULL, 10);
            all_gather(g, dim, widths[w], uneven, gaps, 13);
            all_gather(g, dim, widths[w], first_only, NULL, 5);
            all_gather(g, dim, widths[w], nothing, nothing, 3);
            all_gather(g, dim, widths[w], large, NULL, 94);
            reduce_scatter(g, dim, widths[w], uneven);
            reduce_scatter(g, dim, widths[w], first_only);
            reduce_scatter(g, dim, widths[w], nothing);
            reduce_scatter(g, dim, widths[w], large);
            all_to_all(g, dim, widths[w], 1, false);
            all_to_all(g, dim, widths[w], 3, true);
            all_to_all(g, dim, widths[w], 25, true);
        }
    }
    single_values(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
