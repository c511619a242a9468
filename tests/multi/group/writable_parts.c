/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2 timeout=60 trees=release,debug */
/* A rank maps its peer's segment read-only, and makes writable the data that it alone has begun to read: the stage and
 * the ring of bytes of messages. */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "multi/expect.h"

#define COUNT 4096

/* Bytes of all segments that are mapped with these rights. */
static size_t mapped(const char *rights)
{
    char line[512];
    size_t bytes = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps)) {
        size_t begin;
        size_t end;
        if (strstr(line, "tutti-segment") && strstr(line, rights) && sscanf(line, "%zx-%zx", &begin, &end) == 2) {
            bytes += end - begin;
        }
    }
    if (maps) {
        fclose(maps);
    }
    return bytes;
}

int main(void)
{
    static float values[2][COUNT];
    const int64_t count = COUNT;
    const size_t least =
        sysconf(_SC_NPROCESSORS_ONLN) >= 2 ? sizeof(values[0]) : 0; /* else only what is read is mapped */
    tutti_group *world;
    DLTensor a = tutti_tensor_1d(values[0], &count, TUTTI_F32);
    DLTensor b = tutti_tensor_1d(values[1], &count, TUTTI_F32);
    EXPECT_OK(tutti_init(NULL, &world, &err));
    const int peer = 1 - tutti_group_rank(world);
    const size_t own = mapped(" rw-s ");
    const size_t others = mapped(" r--s ");
    EXPECT(own == others);
    EXPECT_OK(tutti_all_reduce(world, &a, &a, TUTTI_SUM, TUTTI_CALL(.error = &err)));
    const size_t stage = mapped(" rw-s ") - own;
    EXPECT(stage >= least && stage < others / 2);
    EXPECT_OK(tutti_sendrecv(world, &a, peer, 0, &b, peer, 0, TUTTI_CALL(.error = &err), NULL));
    const size_t rings = mapped(" rw-s ") - own - stage;
    EXPECT(rings >= least && stage + rings < others / 2);
    EXPECT(mapped(" r--s ") == others - stage - rings);
    EXPECT_OK(tutti_finalize(&err));
    return failures != 0;
}
