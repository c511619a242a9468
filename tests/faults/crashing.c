/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,4 timeout=300 trees=release,debug,undefined cpus=2 */
/*
 * A rank crashes and writes a core dump. Until the dump is written the process has not ended. The other ranks, after a
 * while of waiting, check it and report that it is crashing. If the dump ends before they check, the rank is dead,
 * which is right, and the next round's dump has more memory to write.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

static bool was_seen(const struct round_state *s)
{
    bool all = true;
    for (int32_t i = 0; i < s->round.size; i++) {
        const struct seen *own = &s->seen[i];
        all = all &&
              (i == s->round.victim || (own->status == TUTTI_PEER_CRASHING && strstr(own->error.message, "core dump")));
    }
    return all;
}

static void remove_dumps(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder)) != NULL;) {
        unlinkat(dirfd(folder), e->d_name, 0);
    }
    if (folder) {
        closedir(folder);
    }
}

int main(int argc, char **argv)
{
    struct round r = {.size = argc > 1 ? atoi(argv[1]) : 2,
                      .victim = 1,
                      .point = POINT_BETWEEN,
                      .disturbance = DISTURBANCE_DUMP,
                      .work = WORK_SMALL,
                      .calls = 2,
                      .delay_us = 300000, /* the other ranks have begun to check */
                      .init_ms = LONG_MS,
                      .call_ms = LONG_MS};
    char folder[] = "/tmp/tutti-crashing-XXXXXX";
    char text[COMPLAINT] = "";
    bool seen = false;
    if (no_core_files()) {
        printf("skipped: %s\n", no_core_files());
        return 77;
    }
    if (!mkdtemp(folder) || chdir(folder) != 0) {
        perror("crashing");
        return 1;
    }
    struct round_state *state = round_state_make();
    for (size_t megabytes = 64; !seen && !text[0] && megabytes <= 512; megabytes *= 2) {
        r.resident = megabytes << 20;
        run_checked_round(state, &r, text);
        seen = was_seen(state);
        remove_dumps(folder);
    }
    rmdir(folder);
    if (text[0]) {
        print_round(&r, stderr);
        fprintf(stderr, ": %s\n", text);
        return 1;
    }
    if (!seen) {
        printf("skipped: this machine writes 512 MiB of core dump before anybody looks\n");
    }
    return seen ? 0 : 77;
}
