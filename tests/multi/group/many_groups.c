/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2 timeout=120 trees=release,debug */
/* 5,000 groups at once. They share the descriptors and the mappings of the world's segments. */
#include <stdlib.h>

#include "descriptors.h"
#include "multi/expect.h"

#define GROUPS 5000
#define EXTRA  40 /* mappings for all of them together */

static int segments(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps)) {
        count += strstr(line, "tutti-") != NULL;
    }
    if (maps) {
        fclose(maps);
    }
    return count;
}

int main(void)
{
    static tutti_group *groups[GROUPS];
    static const int32_t list[2] = {1, 0};
    const int64_t one = 1;
    tutti_group *world;
    EXPECT_OK(tutti_init(NULL, &world, &err));
    const int descriptors_before = open_descriptors();
    const int segments_before = segments();
    for (int i = 0; i < GROUPS && failures == 0; i++) {
        EXPECT_OK(tutti_group_create(world, list, 2, NULL, &groups[i], &err));
    }
    for (int i = 0; i < GROUPS && failures == 0; i++) {
        int32_t value = i;
        DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
        EXPECT_OK(tutti_all_reduce(groups[i], &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &err)));
        EXPECT(value == 2 * i);
    }
    EXPECT(open_descriptors() <= descriptors_before);
    EXPECT(segments() <= segments_before + EXTRA);
    for (int i = 0; i < GROUPS && failures == 0; i++) {
        EXPECT_OK(tutti_group_destroy(groups[i], &err));
    }
    EXPECT_OK(tutti_barrier(world, TUTTI_CALL(.error = &err)));
    EXPECT_OK(tutti_finalize(&err));
    return failures != 0;
}
