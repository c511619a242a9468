/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest program: every rank contributes a number, every rank learns the sum. Start it with
 * `tutti run -n 4 -- hello`. */
#include <stdio.h>
#include <tutti/tutti.h>

int main(void)
{
    tutti_group *group;
    tutti_error error;
    if (tutti_init(NULL, &group, &error) != TUTTI_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    float value = (float)tutti_group_rank(group) + 1;
    int64_t count = 1;
    DLTensor tensor = tutti_tensor_1d(&value, &count, TUTTI_F32);
    if (tutti_all_reduce(group, &tensor, &tensor, TUTTI_SUM, TUTTI_CALL(.error = &error)) != TUTTI_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("rank %d of %d: the sum is %g\n", tutti_group_rank(group), tutti_group_size(group), (double)value);
    return tutti_finalize(NULL) == TUTTI_OK ? 0 : 1;
}
