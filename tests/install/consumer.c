/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program outside the project that uses the installed Tutti. It checks that the header and the library that it was
 * linked with have one version, and that two threads can reduce.
 */
#include <stdio.h>
#include <tutti/tutti.h>

static tutti_status add(tutti_group *group, void *user)
{
    (void)user;
    int64_t count = 3;
    float values[3] = {1, 2, (float)tutti_group_rank(group)};
    DLTensor tensor = tutti_tensor_1d(values, &count, TUTTI_F32);
    tutti_error error;
    tutti_status status = tutti_all_reduce(group, &tensor, &tensor, TUTTI_SUM, TUTTI_CALL(.error = &error));
    if (status != TUTTI_OK) {
        printf("all_reduce: %s\n", error.message);
        return status;
    }
    return values[0] == 2 && values[1] == 4 && values[2] == 1 ? TUTTI_OK : TUTTI_INTERNAL;
}

int main(void)
{
    int32_t version = TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH;
    if (tutti_version() != version) {
        printf("the header is of version %d, the library of version %d\n", (int)version, (int)tutti_version());
        return 1;
    }
    tutti_error error;
    if (tutti_run_threads(2, add, NULL, &error) != TUTTI_OK) {
        printf("two ranks could not add: %s\n", error.message);
        return 1;
    }
    printf("tutti %s\n", tutti_version_string());
    return 0;
}
