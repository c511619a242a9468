/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strided tensors: every operation on a matrix with gaps between its rows, and on its transpose, gives what compact
 * tensors give; what lies in the gaps is never written.
 */
#include <stdbool.h>

#include "check.h"

#define RANKS 3
#define ROWS  (2 * RANKS)
#define COLS  (3 * RANKS)
#define PITCH (COLS + 5)
#define GAP   (-77)

struct matrix {
    int32_t data[ROWS * PITCH + COLS * PITCH]; /* large enough for the transpose too */
    int64_t shape[2];
    int64_t strides[2];
    DLTensor t;
};

static int32_t value(int32_t r, int64_t row, int64_t col)
{
    return (int32_t)(r * 10000 + row * 100 + col);
}

/* A tensor of rows x cols inside larger memory full of GAP; transposed: a column lies behind the other. */
static void make(struct matrix *m, int64_t rows, int64_t cols, bool transposed)
{
    for (size_t i = 0; i < sizeof(m->data) / sizeof(m->data[0]); i++) {
        m->data[i] = GAP;
    }
    m->shape[0] = rows;
    m->shape[1] = cols;
    m->strides[0] = transposed ? 1 : PITCH;
    m->strides[1] = transposed ? PITCH : 1;
    m->t = tutti_tensor_nd(m->data, 2, m->shape, TUTTI_I32);
    m->t.strides = m->strides;
}

static int32_t *at(struct matrix *m, int64_t row, int64_t col)
{
    return &m->data[row * m->strides[0] + col * m->strides[1]];
}

static void fill(struct matrix *m, int32_t r)
{
    for (int64_t i = 0; i < m->shape[0]; i++) {
        for (int64_t j = 0; j < m->shape[1]; j++) {
            *at(m, i, j) = value(r, i, j);
        }
    }
}

/* Takes the elements out, so that only gaps are left, and looks at those. */
static bool only_gaps_left(struct matrix *m)
{
    for (int64_t i = 0; i < m->shape[0]; i++) {
        for (int64_t j = 0; j < m->shape[1]; j++) {
            *at(m, i, j) = GAP;
        }
    }
    for (size_t i = 0; i < sizeof(m->data) / sizeof(m->data[0]); i++) {
        if (m->data[i] != GAP) {
            return false;
        }
    }
    return true;
}

static int32_t sum_of(int64_t row, int64_t col)
{
    int32_t sum = 0;
    for (int32_t r = 0; r < RANKS; r++) {
        sum += value(r, row, col);
    }
    return sum;
}

static void expect_sums(struct matrix *m, int64_t from_row, int64_t from_col)
{
    bool right = true;
    for (int64_t i = 0; i < m->shape[0]; i++) {
        for (int64_t j = 0; j < m->shape[1]; j++) {
            right = right && *at(m, i, j) == sum_of(from_row + i, from_col + j);
        }
    }
    EXPECT(right);
    EXPECT(only_gaps_left(m));
}

static void expect_values(struct matrix *m, int32_t r, int64_t from_row, int64_t from_col)
{
    bool right = true;
    for (int64_t i = 0; i < m->shape[0]; i++) {
        for (int64_t j = 0; j < m->shape[1]; j++) {
            right = right && *at(m, i, j) == value(r, from_row + i, from_col + j);
        }
    }
    EXPECT(right);
    EXPECT(only_gaps_left(m));
}

static void whole(tutti_group *g, bool in_transposed, bool out_transposed)
{
    int32_t me = tutti_group_rank(g);
    struct matrix in;
    struct matrix out;
    make(&in, ROWS, COLS, in_transposed);
    make(&out, ROWS, COLS, out_transposed);
    fill(&in, me);
    EXPECT_OK(tutti_all_reduce(g, &in.t, &out.t, TUTTI_SUM, NULL));
    expect_sums(&out, 0, 0);
    EXPECT_OK(tutti_reduce(g, &in.t, &out.t, TUTTI_SUM, 1, NULL));
    if (me == 1) {
        expect_sums(&out, 0, 0);
    } else {
        EXPECT(only_gaps_left(&out));
    }
    expect_values(&in, me, 0, 0); /* the inputs are untouched */
    fill(&in, me);
    EXPECT_OK(tutti_all_reduce(g, &in.t, &in.t, TUTTI_SUM, NULL));
    expect_sums(&in, 0, 0);
    fill(&in, me);
    EXPECT_OK(tutti_broadcast(g, &in.t, 2, NULL));
    expect_values(&in, 2, 0, 0);
}

/* Part r along `dim`, as the joined matrix of rank `source` has it. */
static void part_shape(int32_t dim, int64_t *rows, int64_t *cols)
{
    *rows = dim == 0 ? ROWS / RANKS : ROWS;
    *cols = dim == 1 ? COLS / RANKS : COLS;
}

static void joined(tutti_group *g, int32_t dim, bool part_transposed, bool joined_transposed)
{
    int32_t me = tutti_group_rank(g);
    int64_t rows;
    int64_t cols;
    part_shape(dim, &rows, &cols);
    struct matrix part;
    struct matrix all;
    make(&part, rows, cols, part_transposed);
    make(&all, ROWS, COLS, joined_transposed);
    int64_t step_row = dim == 0 ? rows : 0;
    int64_t step_col = dim == 1 ? cols : 0;

    fill(&part, me);
    EXPECT_OK(tutti_all_gather(g, &part.t, &all.t, dim, NULL));
    for (int pass = 0; pass < 2; pass++) {
        bool right = true;
        for (int64_t i = 0; i < ROWS; i++) {
            for (int64_t j = 0; j < COLS; j++) {
                int32_t r = (int32_t)(dim == 0 ? i / rows : j / cols);
                right = right && *at(&all, i, j) == value(r, i - r * step_row, j - r * step_col);
            }
        }
        EXPECT(right || (pass == 1 && me != 1));
        EXPECT(only_gaps_left(&all));
        if (pass == 0) {
            EXPECT_OK(tutti_gather(g, &part.t, &all.t, dim, 1, NULL));
        }
    }

    fill(&all, me);
    EXPECT_OK(tutti_scatter(g, &all.t, &part.t, dim, 1, NULL));
    expect_values(&part, 1, me * step_row, me * step_col);
    EXPECT_OK(tutti_reduce_scatter(g, &all.t, &part.t, TUTTI_SUM, dim, NULL));
    expect_sums(&part, me * step_row, me * step_col);

    struct matrix other;
    make(&other, ROWS, COLS, part_transposed);
    EXPECT_OK(tutti_all_to_all(g, &all.t, &other.t, dim, NULL));
    bool right = true;
    for (int64_t i = 0; i < ROWS; i++) {
        for (int64_t j = 0; j < COLS; j++) {
            int32_t r = (int32_t)(dim == 0 ? i / rows : j / cols);
            right = right && *at(&other, i, j) == value(r, i + (me - r) * step_row, j + (me - r) * step_col);
        }
    }
    EXPECT(right);
    EXPECT(only_gaps_left(&other));
}

/* Rows of a strided output that belong to no part keep what they had, and so do the gaps. */
static void variable(tutti_group *g, bool transposed)
{
    int32_t me = tutti_group_rank(g);
    const int64_t counts[RANKS] = {1, 0, 2};
    const int64_t places[RANKS] = {4, 0, 1};
    struct matrix part;
    struct matrix all;
    make(&part, counts[me], COLS, transposed);
    make(&all, ROWS, COLS, transposed);
    fill(&part, me);
    fill(&all, 9);
    EXPECT_OK(tutti_all_gather_v(g, &part.t, &all.t, 0, counts, places, NULL));
    bool right = true;
    for (int64_t j = 0; j < COLS; j++) {
        right = right && *at(&all, 0, j) == value(9, 0, j) && *at(&all, 3, j) == value(9, 3, j) &&
                *at(&all, 5, j) == value(9, 5, j) && *at(&all, 4, j) == value(0, 0, j) &&
                *at(&all, 1, j) == value(2, 0, j) && *at(&all, 2, j) == value(2, 1, j);
    }
    EXPECT(right);
    EXPECT(only_gaps_left(&all));
    struct matrix in;
    make(&in, ROWS, COLS, transposed);
    fill(&in, me);
    const int64_t shares[RANKS] = {1, 3, 2};
    struct matrix own;
    make(&own, shares[me], COLS, !transposed);
    EXPECT_OK(tutti_reduce_scatter_v(g, &in.t, &own.t, TUTTI_SUM, 0, shares, NULL));
    expect_sums(&own, me == 0 ? 0 : (me == 1 ? 1 : 4), 0);
}

/* The own part of a strided joined tensor, with its strides, is in place. */
static void own_part(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    struct matrix all;
    make(&all, ROWS, COLS, false);
    int64_t shape[2] = {ROWS / RANKS, COLS};
    DLTensor own = tutti_tensor_nd(at(&all, me * shape[0], 0), 2, shape, TUTTI_I32);
    own.strides = all.strides;
    for (int64_t i = 0; i < shape[0]; i++) {
        for (int64_t j = 0; j < COLS; j++) {
            *at(&all, me * shape[0] + i, j) = value(7, me * shape[0] + i, j);
        }
    }
    EXPECT_OK(tutti_all_gather(g, &own, &all.t, 0, NULL));
    expect_values(&all, 7, 0, 0);
}

/* A message of any length fills the beginning of a strided tensor and nothing else. */
static void messages(tutti_group *g, bool transposed)
{
    int32_t me = tutti_group_rank(g);
    for (int64_t length = 0; length <= ROWS * COLS; length++) {
        if (me == 0) {
            int32_t compact[ROWS * COLS];
            for (int64_t i = 0; i < length; i++) {
                compact[i] = value(3, i / COLS, i % COLS);
            }
            DLTensor t = tutti_tensor_1d(compact, &length, TUTTI_I32);
            EXPECT_OK(tutti_send(g, &t, 1, 0, NULL));
        } else if (me == 1) {
            struct matrix m;
            tutti_message message = TUTTI_MESSAGE_INIT;
            make(&m, ROWS, COLS, transposed);
            EXPECT_OK(tutti_recv(g, &m.t, 0, 0, NULL, &message));
            EXPECT(message.count == length && message.bytes == length * 4 && message.source == 0);
            bool right = true;
            for (int64_t i = 0; i < ROWS * COLS; i++) {
                int32_t expected = i < length ? value(3, i / COLS, i % COLS) : GAP;
                right = right && *at(&m, i / COLS, i % COLS) == expected;
            }
            EXPECT(right);
            EXPECT(only_gaps_left(&m));
        }
    }
    struct matrix m;
    make(&m, ROWS, COLS, transposed);
    if (me == 0) {
        fill(&m, 5);
        EXPECT_OK(tutti_send(g, &m.t, 1, 1, NULL));
    } else if (me == 1) {
        DLManagedTensorVersioned *managed = NULL;
        EXPECT_OK(tutti_recv_alloc(g, 0, 1, NULL, &managed, NULL));
        if (managed) {
            const int32_t *data = managed->dl_tensor.data;
            bool right = managed->dl_tensor.ndim == 2 && managed->dl_tensor.shape[0] == ROWS &&
                         managed->dl_tensor.shape[1] == COLS && tutti_tensor_is_compact(&managed->dl_tensor);
            for (int64_t i = 0; right && i < ROWS * COLS; i++) {
                right = data[i] == value(5, i / COLS, i % COLS);
            }
            EXPECT(right);
            managed->deleter(managed);
        }
    }
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    for (int i = 0; i < 4; i++) {
        whole(g, i & 1, i & 2);
        joined(g, 0, i & 1, i & 2);
        joined(g, 1, i & 1, i & 2);
    }
    variable(g, false);
    variable(g, true);
    own_part(g);
    messages(g, false);
    messages(g, true);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
