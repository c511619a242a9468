/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * On one host, "auto" chooses shared memory without opening the plug-in files of Gloo and MPI, which takes longer than
 * the rest of the start. On several hosts, or by name, the plug-ins are found. Each case begins in new processes.
 */
#include "api/group/init_processes.h"
#include "time_limits.h"

#define RANKS 2

static char store[64];

/* Whether a file whose name contains `part` is mapped into this process. */
static int is_open(const char *part)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    EXPECT(maps != NULL);
    while (maps && fgets(line, sizeof(line), maps)) {
        found |= strstr(line, part) != NULL;
    }
    if (maps) {
        fclose(maps);
    }
    return found;
}

struct job {
    const char *wish;
    const char *hosts[RANKS]; /* TUTTI_HOST_ID */
    const char *found;        /* the backend that is chosen */
    int opens_gloo;
};

static void join(int32_t rank, void *user)
{
    const struct job *job = user;
    tutti_group *g = NULL;
    tutti_group *half = NULL;
    tutti_error error;
    if (job->hosts[rank]) {
        setenv("TUTTI_HOST_ID", job->hosts[rank], 1);
    }
    EXPECT_ERROR(&error, TUTTI_OK, "",
                 tutti_init(TUTTI_CONFIG(.backend = job->wish, .store = store, .rank = rank, .world_size = RANKS,
                                         .timeout_ms = LONG_MS),
                            &g, &error));
    EXPECT(g && strcmp(tutti_group_backend(g), job->found) == 0);
    EXPECT_ERROR(&error, TUTTI_OK, "", tutti_group_split(g, 0, rank, NULL, &half, &error));
    EXPECT_OK(tutti_barrier(half, NULL));
    EXPECT(is_open("tutti-gloo.so") == job->opens_gloo);
    EXPECT(!is_open("tutti-mpi-"));
    EXPECT_OK(tutti_group_destroy(half, NULL));
    EXPECT_OK(tutti_group_destroy(g, NULL));
}

int main(void)
{
    const struct job jobs[] = {
        {"auto", {NULL, NULL}, "shm", 0}, {"auto", {"a", "a"}, "shm", 0},  {"hier", {NULL, NULL}, "hier", 0},
        {"auto", {"a", "b"}, "gloo", 1},  {"hier", {"a", "b"}, "hier", 1}, {"gloo", {NULL, NULL}, "gloo", 1},
    };
    test_stand_alone();
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        struct job job = jobs[i];
        snprintf(store, sizeof(store), "unix:unopened-%d-%zu", (int)getpid(), i);
        test_processes(job.wish, RANKS, join, &job);
    }
    return test_result();
}
