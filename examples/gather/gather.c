/* SPDX-License-Identifier: BSD-3-Clause */
/* A matrix whose columns are spread over the ranks, put together on all of them: what a layer does that is cut by
 * columns. The output's shape is asked for, and its memory made by the library. Start it with `tutti run -n 3 --
 * gather`. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

enum { ROWS = 2, COLUMNS = 2 /* of each rank */, LAST = -1 };

static void must(tutti_status status, const tutti_error *error)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s\n", error->message);
        exit(1);
    }
}

int main(void)
{
    tutti_group *group;
    tutti_error error;
    must(tutti_init(NULL, &group, &error), &error);
    const int32_t rank = tutti_group_rank(group);

    float own[ROWS][COLUMNS];
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            own[r][c] = (float)(100 * r + 10 * rank + c);
        }
    }
    const int64_t own_shape[2] = {ROWS, COLUMNS};
    const DLTensor columns = tutti_tensor_nd(own, 2, own_shape, TUTTI_F32);

    int64_t shape[TUTTI_MAX_NDIM];
    int32_t ndim;
    DLManagedTensorVersioned *matrix;
    must(tutti_all_gather_shape(group, &columns, LAST, shape, &ndim, &error), &error);
    must(tutti_tensor_empty(group, TUTTI_F32, ndim, shape, &matrix, &error), &error);
    must(tutti_all_gather(group, &columns, &matrix->dl_tensor, LAST, TUTTI_CALL(.error = &error)), &error);

    if (rank == 0) {
        const float *element = matrix->dl_tensor.data;
        for (int64_t r = 0; r < shape[0]; r++) {
            for (int64_t c = 0; c < shape[1]; c++) {
                printf("%5g", (double)*element++);
            }
            puts("");
        }
    }
    matrix->deleter(matrix);
    return tutti_finalize(NULL) == TUTTI_OK ? 0 : 1;
}
