/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi,nccl,rccl,fault */
/*
 * Every collective on 2 to 4 ranks against values that this program computes: all reduce ops, all roots, joined along
 * each dimension, matrices, even and uneven parts, in place and not, element types of each kind and width.
 */
#include "collective_calls.h"
#include "ledger_support.h"

enum { LENGTH = 12, MOST_RANKS = 4, LARGEST = 65536 };

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

/* The average of engines that do not add in rank order may be of inputs that were divided first. */
static bool is_fold(tutti_group *group, float value, int64_t i, tutti_reduce_op op)
{
    float expected = (float)fold(tutti_group_size(group), i, op);
    float error = op == TUTTI_AVG && !ledger_promises(group, TUTTI_CAP_RANK_ORDER) ? expected * 1e-6f : 0;
    return value >= expected - error && value <= expected + error;
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
            EXPECT(is_fold(group, out[i], i, ops[o]));
        }
        for (int32_t root = 0; root < ranks; root++) {
            memset(out, 0, sizeof(out));
            EXPECT(tutti_reduce(group, &input, &output, ops[o], root, NULL) == TUTTI_OK);
            for (int64_t i = 0; i < LENGTH; i++) {
                EXPECT(rank == root ? is_fold(group, out[i], i, ops[o]) : out[i] == 0);
            }
        }
        DLTensor own = ledger_tensor(out, &part, TUTTI_F32);
        EXPECT(tutti_reduce_scatter(group, &input, &own, ops[o], 0, NULL) == TUTTI_OK);
        for (int64_t i = 0; i < part; i++) {
            EXPECT(is_fold(group, out[i], rank * part + i, ops[o]));
        }
        EXPECT(tutti_all_reduce(group, &input, &input, ops[o], NULL) == TUTTI_OK);
        for (int64_t i = 0; i < LENGTH; i++) {
            EXPECT(is_fold(group, in[i], i, ops[o]));
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

#define EACH_TYPE(X)                                                                                                   \
    X(F64, double)                                                                                                     \
    X(F32, float)                                                                                                      \
    X(I8, int8_t)                                                                                                      \
    X(I16, int16_t)                                                                                                    \
    X(I32, int32_t)                                                                                                    \
    X(I64, int64_t) X(U8, uint8_t) X(U16, uint16_t) X(U32, uint32_t) X(U64, uint64_t)

static void put(tutti_dtype dtype, void *data, int64_t i, int64_t value)
{
#define PUT(name, type)                                                                                                \
    case TUTTI_##name:                                                                                                 \
        ((type *)data)[i] = (type)value;                                                                               \
        break;
    switch (dtype) {
        EACH_TYPE(PUT)
    default:
        EXPECT(!"a type of the list");
    }
#undef PUT
}

/* Sum, product, minimum, maximum and average of 3 x 4 matrices; each result fits the narrowest type. */
static void matrices(tutti_group *group, int32_t rank, int32_t ranks)
{
#define NAME(name, type) TUTTI_##name,
    static const tutti_dtype types[] = {EACH_TYPE(NAME)};
#undef NAME
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_PRODUCT, TUTTI_MIN, TUTTI_MAX, TUTTI_AVG};
    const int64_t shape[2] = {3, 4};
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
            double in[LENGTH];
            double out[LENGTH] = {0};
            double expected[LENGTH] = {0};
            double rounded[LENGTH];
            for (int64_t i = 0; i < LENGTH; i++) {
                int64_t sum = 0;
                int64_t product = 1;
                int64_t least = INT64_MAX;
                int64_t most = 0;
                for (int32_t r = 0; r < ranks; r++) {
                    int64_t value = (r + i) % 3 + 1;
                    sum += value;
                    product *= value;
                    least = value < least ? value : least;
                    most = value > most ? value : most;
                    if (r == rank) {
                        put(types[t], in, i, value);
                    }
                }
                const int64_t results[] = {sum, product, least, most, sum / ranks};
                put(types[t], expected, i, results[o]);
                rounded[i] = (double)sum / ranks;
            }
            size_t bytes = LENGTH * tutti_dtype_size(types[t]);
            DLTensor input = tutti_tensor_nd(in, 2, shape, types[t]);
            DLTensor output = tutti_tensor_nd(out, 2, shape, types[t]);
            EXPECT(tutti_all_reduce(group, &input, &output, ops[o], NULL) == TUTTI_OK);
            for (int64_t i = 0; ops[o] == TUTTI_AVG && i < LENGTH && types[t] <= TUTTI_F32; i++) {
                const double average = types[t] == TUTTI_F64 ? out[i] : (double)((float *)out)[i];
                EXPECT(average > rounded[i] * 0.999999 && average < rounded[i] * 1.000001);
                put(types[t], out, i, (int64_t)rounded[i]); /* seen; integers are cut off */
            }
            EXPECT(memcmp(out, expected, bytes) == 0);
        }
    }
}

/* Rows, parts, roots, in place and not: the cases of collective_reference.h, with matrices of 1 to 3 rows. */
static void reference(tutti_group *group, int32_t rank, int32_t ranks)
{
    static const tutti_operation kinds[] = {TUTTI_OP_ALL_REDUCE, TUTTI_OP_REDUCE,        TUTTI_OP_BROADCAST,
                                            TUTTI_OP_ALL_GATHER, TUTTI_OP_GATHER,        TUTTI_OP_SCATTER,
                                            TUTTI_OP_ALL_TO_ALL, TUTTI_OP_REDUCE_SCATTER};
    static const tutti_dtype types[] = {TUTTI_F32, TUTTI_BF16, TUTTI_I8, TUTTI_I32};
    unsigned char *blocks[2] = {malloc(LARGEST), malloc(LARGEST)};
    uint32_t variant = 0;
    for (size_t k = 0; blocks[0] && blocks[1] && k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        bool variable =
            kinds[k] == TUTTI_OP_ALL_GATHER || kinds[k] == TUTTI_OP_REDUCE_SCATTER || kinds[k] == TUTTI_OP_ALL_TO_ALL;
        for (size_t rows = 1; rows <= 3; rows++) {
            for (int form = 0; form < 4; form++, variant++) {
                const struct reference_call c = {.kind = kinds[k],
                                                 .dtype = types[variant % 4],
                                                 .size = ranks,
                                                 .root = (int)variant % ranks,
                                                 .rows = rows,
                                                 .count = variant % 2 == 0 ? 7 : 300,
                                                 .in_place = form % 2 == 1,
                                                 .uneven = form >= 2 && variable,
                                                 .seed = variant};
                struct reference_tensors tensors;
                tutti_error error = {.message = ""};
                EXPECT(reference_block(&c, rank) <= LARGEST);
                reference_begin(&c, rank, blocks, &tensors);
                tutti_status status = reference_run(group, &c, &tensors, &error);
                EXPECT(reference_end(&c, rank, &tensors, status, &error) == 0);
            }
        }
    }
    EXPECT(variant > 0);
    free(blocks[0]);
    free(blocks[1]);
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
    (void)user;
    int32_t rank = tutti_group_rank(group);
    int32_t ranks = tutti_group_size(group);
    reductions(group, rank, ranks);
    broadcasts(group, rank, ranks);
    gathers(group, rank, ranks);
    exchanges(group, rank, ranks);
    matrices(group, rank, ranks);
    reference(group, rank, ranks);
    barriers(group, ranks, ledger_flag(ranks)); /* one for each number of ranks */
    return TUTTI_OK;
}

int main(void)
{
    for (int32_t ranks = 2; ranks <= MOST_RANKS; ranks++) {
        ledger_on_ranks(ranks, everything, NULL);
    }
    return ledger_result();
}
