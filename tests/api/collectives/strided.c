/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strided tensors. Every operation runs on a matrix with gaps between its rows, on its transpose, and on both reversed.
 * The results equal those of compact tensors, and the gaps are never written.
 */
#include <stdbool.h>

#include "api/check.h"

#define RANKS 3
#define ROWS  (2 * RANKS)
#define COLS  (3 * RANKS)
#define PITCH (COLS + 5)
#define GAP   (-77)

enum { TRANSPOSED = 1, BACKWARDS = 2, HOWS = 4 };

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

/* A tensor of rows x cols inside larger memory full of GAP; transposed: a column lies behind the other; backwards: the
 * first element is the one with the highest address. */
static void make(struct matrix *m, int64_t rows, int64_t cols, unsigned how)
{
    for (size_t i = 0; i < sizeof(m->data) / sizeof(m->data[0]); i++) {
        m->data[i] = GAP;
    }
    m->shape[0] = rows;
    m->shape[1] = cols;
    const int64_t sign = how & BACKWARDS ? -1 : 1;
    m->strides[0] = sign * (how & TRANSPOSED ? 1 : PITCH);
    m->strides[1] = sign * (how & TRANSPOSED ? PITCH : 1);
    const int64_t first = how & BACKWARDS && rows > 0 ? -((rows - 1) * m->strides[0] + (cols - 1) * m->strides[1]) : 0;
    m->t = tutti_tensor_nd(m->data, 2, m->shape, TUTTI_I32);
    m->t.strides = m->strides;
    m->t.byte_offset = (uint64_t)first * sizeof(int32_t);
}

static int32_t *at(struct matrix *m, int64_t row, int64_t col)
{
    return &m->data[(int64_t)(m->t.byte_offset / sizeof(int32_t)) + row * m->strides[0] + col * m->strides[1]];
}

static void fill(struct matrix *m, int32_t r)
{
    for (int64_t i = 0; i < m->shape[0]; i++) {
        for (int64_t j = 0; j < m->shape[1]; j++) {
            *at(m, i, j) = value(r, i, j);
        }
    }
}

/* Clears the elements, so that only gaps are left, and checks those. */
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

static void whole(tutti_group *g, unsigned in_how, unsigned out_how)
{
    int32_t me = tutti_group_rank(g);
    struct matrix in;
    struct matrix out;
    make(&in, ROWS, COLS, in_how);
    make(&out, ROWS, COLS, out_how);
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

static void joined(tutti_group *g, int32_t dim, unsigned part_how, unsigned joined_how)
{
    int32_t me = tutti_group_rank(g);
    int64_t rows;
    int64_t cols;
    const int32_t along = dim < 0 ? dim + 2 : dim;
    part_shape(along, &rows, &cols);
    struct matrix part;
    struct matrix all;
    make(&part, rows, cols, part_how);
    make(&all, ROWS, COLS, joined_how);
    int64_t step_row = along == 0 ? rows : 0;
    int64_t step_col = along == 1 ? cols : 0;

    fill(&part, me);
    EXPECT_OK(tutti_all_gather(g, &part.t, &all.t, dim, NULL));
    for (int pass = 0; pass < 2; pass++) {
        bool right = true;
        for (int64_t i = 0; i < ROWS; i++) {
            for (int64_t j = 0; j < COLS; j++) {
                int32_t r = (int32_t)(along == 0 ? i / rows : j / cols);
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
    make(&other, ROWS, COLS, part_how);
    EXPECT_OK(tutti_all_to_all(g, &all.t, &other.t, dim, NULL));
    bool right = true;
    for (int64_t i = 0; i < ROWS; i++) {
        for (int64_t j = 0; j < COLS; j++) {
            int32_t r = (int32_t)(along == 0 ? i / rows : j / cols);
            right = right && *at(&other, i, j) == value(r, i + (me - r) * step_row, j + (me - r) * step_col);
        }
    }
    EXPECT(right);
    EXPECT(only_gaps_left(&other));
}

/* Rows of a strided output that belong to no part keep what they had, and so do the gaps. */
static void variable(tutti_group *g, unsigned how)
{
    int32_t me = tutti_group_rank(g);
    const int64_t counts[RANKS] = {1, 0, 2};
    const int64_t places[RANKS] = {4, 0, 1};
    struct matrix part;
    struct matrix all;
    make(&part, counts[me], COLS, how);
    make(&all, ROWS, COLS, how);
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
    make(&in, ROWS, COLS, how);
    fill(&in, me);
    const int64_t shares[RANKS] = {1, 3, 2};
    struct matrix own;
    make(&own, shares[me], COLS, how ^ TRANSPOSED);
    EXPECT_OK(tutti_reduce_scatter_v(g, &in.t, &own.t, TUTTI_SUM, 0, shares, NULL));
    expect_sums(&own, me == 0 ? 0 : (me == 1 ? 1 : 4), 0);
}

/* The own part of a strided joined tensor, with its strides, is in place. */
static void own_part(tutti_group *g, unsigned how)
{
    int32_t me = tutti_group_rank(g);
    struct matrix all;
    make(&all, ROWS, COLS, how);
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
    fill(&all, me);
    EXPECT_OK(tutti_reduce_scatter(g, &all.t, &own, TUTTI_SUM, 0, NULL));
    bool right = true;
    for (int64_t i = 0; i < shape[0]; i++) {
        for (int64_t j = 0; j < COLS; j++) {
            right = right && *at(&all, me * shape[0] + i, j) == sum_of(me * shape[0] + i, j);
        }
    }
    EXPECT(right);
    EXPECT(only_gaps_left(&all));
}

/* Both run towards each other in one array without overlap: no element is shared, so the call is not refused. */
static void neighbours(tutti_group *g)
{
    enum { N = 5 };
    int32_t me = tutti_group_rank(g);
    int32_t data[2 * N + 2];
    const int64_t n = N;
    int64_t back = -1;
    for (int i = 0; i < 2 * N + 2; i++) {
        data[i] = GAP;
    }
    DLTensor in = tutti_tensor_1d(data + 2 * N, &n, TUTTI_I32); /* data[N + 1 .. 2 N] */
    in.strides = &back;
    DLTensor out = tutti_tensor_1d(data + N, &n, TUTTI_I32); /* data[1 .. N] */
    out.strides = &back;
    for (int i = 0; i < N; i++) {
        data[2 * N - i] = value(me, 0, i);
    }
    EXPECT_OK(tutti_all_reduce(g, &in, &out, TUTTI_SUM, NULL));
    bool right = data[0] == GAP && data[2 * N + 1] == GAP;
    for (int i = 0; i < N; i++) {
        right = right && data[N - i] == sum_of(0, i) && data[2 * N - i] == value(me, 0, i);
    }
    EXPECT(right);
    tutti_error e;
    out.data = data + N + 1; /* and here they share one */
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "output overlaps input",
                 tutti_all_reduce(g, &in, &out, TUTTI_SUM, TUTTI_CALL(.error = &e)));
    EXPECT_USABLE(g);
}

/* The same memory again and again, read forwards and backwards: the call cache must not take one call for the other. */
static void again_and_again(tutti_group *g)
{
    enum { N = 6 };
    int32_t me = tutti_group_rank(g);
    int32_t data[2 * N];
    int32_t result[N];
    const int64_t n = N;
    int64_t strides[3] = {1, -1, 0};
    for (int i = 0; i < 2 * N; i++) {
        data[i] = value(me, 0, i);
    }
    DLTensor in = tutti_tensor_1d(data + N, &n, TUTTI_I32);
    DLTensor out = tutti_tensor_1d(result, &n, TUTTI_I32);
    for (int round = 0; round < 24; round++) {
        const int64_t stride = strides[round / 4 % 3];
        in.strides = &strides[round / 4 % 3];
        EXPECT_OK(tutti_all_reduce(g, &in, &out, TUTTI_SUM, NULL));
        bool right = true;
        for (int i = 0; i < N; i++) {
            right = right && result[i] == sum_of(0, N + i * stride);
        }
        EXPECT(right);
    }
}

/* Without elements any stride is valid. */
static void nothing(tutti_group *g)
{
    int64_t shape[2] = {0, 3};
    int64_t strides[4][2] = {{-3, -1}, {0, 0}, {INT64_MIN, INT64_MAX}, {0, -1}};
    int32_t element = GAP;
    for (int i = 0; i < 4; i++) {
        DLTensor t = tutti_tensor_nd(&element, 2, shape, TUTTI_I32);
        t.strides = strides[i];
        t.byte_offset = i % 2 ? 4 : 0;
        EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, NULL));
        EXPECT_OK(tutti_broadcast(g, &t, 1, NULL));
        EXPECT_OK(tutti_all_gather(g, &t, &t, 0, NULL));
        EXPECT_OK(tutti_all_to_all(g, &t, &t, -1, NULL));
        if (tutti_group_rank(g) == 0) {
            EXPECT_OK(tutti_send(g, &t, 1, 0, NULL));
        } else if (tutti_group_rank(g) == 1) {
            EXPECT_OK(tutti_recv(g, &t, 0, 0, NULL, NULL));
        }
    }
    EXPECT(element == GAP);
}

/* A tensor that the root of a broadcast reads may be expanded; elsewhere it is written, and may not. */
static void expanded_root(tutti_group *g)
{
    tutti_error e;
    int32_t me = tutti_group_rank(g);
    int32_t data[4] = {value(me, 1, 0), GAP, GAP, GAP};
    const int64_t n = 4;
    int64_t zero = 0;
    DLTensor t = tutti_tensor_1d(data, &n, TUTTI_I32);
    if (me != 1) {
        DLTensor expanded = t;
        expanded.strides = &zero;
        EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "tensor overlaps itself",
                     tutti_broadcast(g, &expanded, 1, TUTTI_CALL(.error = &e)));
    } else {
        t.strides = &zero;
    }
    EXPECT_OK(tutti_broadcast(g, &t, 1, NULL));
    for (int i = 0; i < 4; i++) {
        EXPECT(data[i] == (me != 1 || i == 0 ? value(1, 1, 0) : GAP));
    }
}

/* A message of any length fills the beginning of a strided tensor and nothing else. */
static void messages(tutti_group *g, unsigned how)
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
            make(&m, ROWS, COLS, how);
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
    make(&m, ROWS, COLS, how);
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
    for (unsigned in = 0; in < HOWS; in++) {
        for (unsigned out = 0; out < HOWS; out++) {
            whole(g, in, out);
            joined(g, 0, in, out);
            joined(g, 1, in, out);
            joined(g, -1, in, out);
        }
        variable(g, in);
        own_part(g, in & BACKWARDS);
        messages(g, in);
    }
    neighbours(g);
    again_and_again(g);
    nothing(g);
    expanded_root(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
