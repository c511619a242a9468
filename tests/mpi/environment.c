/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of floats while each rank rounds in another direction: the bits are those of the default environment, each
 * rank keeps its direction, and no result depends on the rank. The argument is the setting mpi.blocking. The program
 * does not use MPI itself.
 */
#include <fenv.h>
#include <string.h>

#include "mpi/expect.h"

#define COUNT 1000

struct inputs {
    float f32[COUNT];
    uint16_t f16[COUNT];
};

static void reduce(tutti_group *world, tutti_dtype dtype, tutti_reduce_op op, const struct inputs *in, void *out)
{
    int64_t count = COUNT;
    tutti_error error;
    void *from = (void *)(uintptr_t)(dtype == TUTTI_F32 ? (const void *)in->f32 : in->f16);
    const DLTensor input = tutti_tensor_1d(from, &count, dtype);
    DLTensor output = tutti_tensor_1d(out, &count, dtype);
    expect(tutti_all_reduce(world, &input, &output, op, TUTTI_CALL(.scale = 0.7, .error = &error)) == TUTTI_OK,
           "all_reduce", &error);
}

static void compare(tutti_group *world, tutti_dtype dtype, tutti_reduce_op op, const struct inputs *in)
{
    static const int directions[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    float by_default[COUNT] = {0};
    float by_direction[COUNT] = {0};
    reduce(world, dtype, op, in, by_default);
    for (int i = 0; i < 2; i++) { /* the second one is a call from the call cache */
        fesetround(directions[rank % 3]);
        reduce(world, dtype, op, in, by_direction);
        const int after = fegetround();
        fesetround(FE_TONEAREST);
        expect(after == directions[rank % 3], "the direction stays", &(tutti_error){0});
        expect(memcmp(by_default, by_direction, sizeof(by_default)) == 0, tutti_reduce_op_name(op), &(tutti_error){0});
    }
}

int main(int argc, char **argv)
{
    tutti_group *world = NULL;
    tutti_error error;
    struct inputs in;
    char blocking[32];
    snprintf(blocking, sizeof(blocking), "mpi.blocking=%s", argc > 1 ? argv[1] : "");
    const char *const settings[] = {blocking, NULL};
    expect(tutti_init(TUTTI_CONFIG(.backend = "mpi", .settings = settings), &world, &error) == TUTTI_OK, "init",
           &error);
    rank = tutti_group_rank(world);
    for (int i = 0; i < COUNT; i++) {
        in.f32[i] = 1.0f + (float)((i * 37 + rank * 11) % 101) / 97;
        in.f16[i] = (uint16_t)(0x3c00 + (i * 37 + rank * 11) % 0x400); /* from 1 to 2 */
    }
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_PREMUL_SUM};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        compare(world, TUTTI_F32, ops[i], &in);
        compare(world, TUTTI_F16, ops[i], &in);
    }
    expect(tutti_group_destroy(world, &error) == TUTTI_OK, "destroy", &error);
    return 0;
}
