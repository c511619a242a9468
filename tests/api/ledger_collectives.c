/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective on 2 to 4 ranks against values that are computed here: all reduce ops, all roots, several dimensions. */
#include "ledger_support.h"

enum { LENGTH = 12, MOST_RANKS = 4 };

/* Different on every rank and at every place; the products stay small enough to be exact. */
static double value_of(int32_t rank, int64_t i)
{
    return (double)((rank * 5 + i * 3) % 7 + 1);
}

static double fold(int32_t ranks, int64_t i, tutti_reduce_op op)
{
    double result = value_of(0, i);
    for (int32_t r = 1; r < ranks; r++) {
        double v = value_of(r, i);
        switch (op) {
        case TUTTI_SUM:
        case TUTTI_AVG:
            result += v;
            break;
        case TUTTI_PRODUCT:
            result *= v;
            break;
        case TUTTI_MIN:
            result = v < result ? v : result;
            break;
        default:
            result = v > result ? v : result;
        }
    }
    return op == TUTTI_AVG ? result / ranks : result;
}

static void fill(float *data, int32_t rank)
{
    for (int64_t i = 0; i < LENGTH; i++) {
        data[i] = (float)value_of(rank, i);
    }
}

static void reductions(tutti_group *group, int32_t rank, int32_t ranks)
{
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_MAX, TUTTI_MIN, TUTTI_PRODUCT};
    const int64_t length = LENGTH;
    const int64_t part = LENGTH / ranks;
    for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
        float in[LENGTH];
        float out[LENGTH] = {0};
        fill(in, rank);
        DLTensor input = ledger_tensor(in, &length, TUTTI_F32);
        DLTensor output = ledger_tensor(out, &length, TUTTI_F32);
        EXPECT(tutti_all_reduce(group, &input, &output, ops[o], NULL) == TUTTI_OK);
        for (int64_t i = 0; i < LENGTH; i++) {
            EXPECT(out[i] == (float)fold(ranks, i, ops[o]));
        }
        for (int32_t root = 0; root < ranks; root++) {
            memset(out, 0, sizeof(out));
            EXPECT(tutti_reduce(group, &input, &output, ops[o], root, NULL) == TUTTI_OK);
            for (int64_t i = 0; i < LENGTH; i++) {
                EXPECT(out[i] == (rank == root ? (float)fold(ranks, i, ops[o]) : 0));
            }
        }
        DLTensor own = ledger_tensor(out, &part, TUTTI_F32);
        EXPECT(tutti_reduce_scatter(group, &input, &own, ops[o], 0, NULL) == TUTTI_OK);
        for (int64_t i = 0; i < part; i++) {
            EXPECT(out[i] == (float)fold(ranks, rank * part + i, ops[o]));
        }
        EXPECT(tutti_all_reduce(group, &input, &input, ops[o], NULL) == TUTTI_OK);
        for (int64_t i = 0; i < LENGTH; i++) {
            EXPECT(in[i] == (float)fold(ranks, i, ops[o]));
        }
    }
}

static void broadcasts(tutti_group *group, int32_t rank, int32_t ranks)
{
    const int64_t length = LENGTH;
    for (int32_t root = 0; root < ranks; root++) {
        float data[LENGTH];
        fill(data, rank);
        DLTensor tensor = ledger_tensor(data, &length, TUTTI_F32);
        EXPECT(tutti_broadcast(group, &tensor, root, NULL) == TUTTI_OK);
        for (int64_t i = 0; i < LENGTH; i++) {
            EXPECT(data[i] == (float)value_of(root, i));
        }
    }
}

/* Rank r has rows of 2 x 3; joined along a dimension, element (a, b) of part r has the value r * 6 + a * 3 + b. */
static void gathers(tutti_group *group, int32_t rank, int32_t ranks)
{
    const int64_t part_shape[2] = {2, 3};
    for (int32_t dim = 0; dim < 2; dim++) {
        int64_t shape[2] = {dim == 0 ? 2 * ranks : 2, dim == 1 ? 3 * ranks : 3};
        int32_t part[6];
        int32_t joined[6 * MOST_RANKS];
        for (int32_t i = 0; i < 6; i++) {
            part[i] = rank * 6 + i;
        }
        DLTensor input = ledger_tensor(part, part_shape, TUTTI_I32);
        DLTensor output = ledger_tensor(joined, shape, TUTTI_I32);
        input.ndim = 2;
        output.ndim = 2;
        memset(joined, 0xff, sizeof(joined));
        EXPECT(tutti_all_gather(group, &input, &output, dim, NULL) == TUTTI_OK);
        for (int64_t a = 0; a < shape[0]; a++) {
            for (int64_t b = 0; b < shape[1]; b++) {
                int64_t expected = dim == 0 ? a / 2 * 6 + a % 2 * 3 + b : b / 3 * 6 + a * 3 + b % 3;
                EXPECT(joined[a * shape[1] + b] == expected);
            }
        }
        for (int32_t root = 0; root < ranks; root++) {
            int32_t at_root[6 * MOST_RANKS];
            memset(at_root, 0xff, sizeof(at_root));
            DLTensor collected = ledger_tensor(at_root, shape, TUTTI_I32);
            collected.ndim = 2;
            EXPECT(tutti_gather(group, &input, &collected, dim, root, NULL) == TUTTI_OK);
            for (int64_t i = 0; i < 6 * ranks; i++) {
                EXPECT(at_root[i] == (rank == root ? joined[i] : -1));
            }
            /* And back again: every rank gets its part from root's joined tensor. */
            int32_t back[6] = {0};
            DLTensor returned = ledger_tensor(back, part_shape, TUTTI_I32);
            returned.ndim = 2;
            EXPECT(tutti_scatter(group, &output, &returned, dim, root, NULL) == TUTTI_OK);
            EXPECT(memcmp(back, part, sizeof(part)) == 0);
        }
        /* A joined tensor of the wrong shape is refused on all ranks, and the group stays usable. */
        shape[dim]++;
        EXPECT(tutti_all_gather(group, &input, &output, dim, NULL) == TUTTI_INVALID_ARGUMENT);
        EXPECT(tutti_barrier(group, NULL) == TUTTI_OK);
    }
}

/* Rank r sends r * 10 + s to rank s; with the variable form it sends s + 1 copies. Rank r contributes r + 1 rows. */
static void exchanges(tutti_group *group, int32_t rank, int32_t ranks)
{
    int64_t n = ranks;
    int32_t in[16];
    int32_t out[16];
    for (int32_t s = 0; s < ranks; s++) {
        in[s] = rank * 10 + s;
        out[s] = -1;
    }
    DLTensor input = ledger_tensor(in, &n, TUTTI_I32);
    DLTensor output = ledger_tensor(out, &n, TUTTI_I32);
    EXPECT(tutti_all_to_all(group, &input, &output, 0, NULL) == TUTTI_OK);
    for (int32_t s = 0; s < ranks; s++) {
        EXPECT(out[s] == s * 10 + rank);
    }

    int64_t counts[MOST_RANKS];
    int64_t own[MOST_RANKS];
    int64_t all = 0;
    int64_t mine = (int64_t)ranks * (rank + 1);
    for (int32_t s = 0; s < ranks; s++) {
        counts[s] = s + 1;
        own[s] = rank + 1;
        for (int32_t i = 0; i <= s; i++) {
            in[all++] = rank * 10 + s;
        }
    }
    memset(out, 0xff, sizeof(out));
    input.shape = &all;
    output.shape = &mine;
    EXPECT(tutti_all_to_all_v(group, &input, &output, 0, counts, NULL, own, NULL, NULL) == TUTTI_OK);
    for (int64_t i = 0; i < mine; i++) {
        EXPECT(out[i] == i / (rank + 1) * 10 + rank);
    }

    int64_t rows = rank + 1;
    for (int64_t i = 0; i < rows; i++) {
        in[i] = rank * 10 + (int32_t)i;
    }
    memset(out, 0xff, sizeof(out));
    input.shape = &rows;
    output.shape = &all;
    EXPECT(tutti_all_gather_v(group, &input, &output, 0, counts, NULL, NULL) == TUTTI_OK);
    for (int32_t r = 0, at = 0; r < ranks; r++) {
        for (int32_t i = 0; i <= r; i++) {
            EXPECT(out[at++] == r * 10 + i);
        }
    }

    for (int64_t i = 0; i < all; i++) {
        in[i] = (rank + 1) * (int32_t)i;
    }
    memset(out, 0xff, sizeof(out));
    input.shape = &all;
    output.shape = &rows;
    EXPECT(tutti_reduce_scatter_v(group, &input, &output, TUTTI_SUM, 0, counts, NULL) == TUTTI_OK);
    for (int64_t i = 0; i < rows; i++) {
        EXPECT(out[i] == ranks * (ranks + 1) / 2 * (rank * (rank + 1) / 2 + i));
    }
}

/* No rank may leave round k before all have entered it. */
static void barriers(tutti_group *group, int32_t ranks, atomic_int *entered)
{
    for (int round = 1; round <= 100; round++) {
        atomic_fetch_add(entered, 1);
        EXPECT(tutti_barrier(group, NULL) == TUTTI_OK);
        EXPECT(atomic_load(entered) >= round * ranks);
    }
    EXPECT(tutti_barrier(NULL, NULL) != TUTTI_OK);
}

static tutti_status everything(tutti_group *group, void *user)
{
    ledger_ran();
    int32_t rank = tutti_group_rank(group);
    int32_t ranks = tutti_group_size(group);
    reductions(group, rank, ranks);
    broadcasts(group, rank, ranks);
    gathers(group, rank, ranks);
    exchanges(group, rank, ranks);
    barriers(group, ranks, user);
    return TUTTI_OK;
}

int main(void)
{
    for (int32_t ranks = 2; ranks <= MOST_RANKS; ranks++) {
        atomic_int entered = 0;
        ledger_on_threads(ranks, everything, &entered);
    }
    return ledger_result();
}
