/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of the backend mpi. "refused" passes bad ones, which needs no MPI. "run KEY=VALUE..." opens a group with
 * these settings, describes it, and runs operations; settings.sh checks their counts and bytes. The program does not
 * use MPI itself.
 */
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

#include "mpi/expect.h"

static void expect_refused(const char *setting, const char *named)
{
    tutti_group *g = NULL;
    tutti_error error;
    const char *const settings[] = {setting, NULL};
    const tutti_status status =
        tutti_init(TUTTI_CONFIG(.backend = "null", .world_size = 1, .settings = settings), &g, &error);
    expect(status == TUTTI_INVALID_ARGUMENT && strstr(error.message, named), setting, &error);
}

static void refused(void)
{
    static const char *const bad[][2] = {
        {"mpi.cuda_aware=perhaps", "auto|yes|no"},
        {"mpi.thread_level=2", "single|funneled|serialized|multiple"},
        {"mpi.profiling=loud", "mpi.profiling"},
        {"mpi.buffer_size=100", "mpi.buffer_size"},
        {"mpi.buffer_size=-1", "mpi.buffer_size"},
        {"mpi.buffer_size=2G", "mpi.buffer_size"},
        {"mpi.blocking=yes", "auto|always|never"},
        {"mpi.env=NAME", "NAME=VALUE"},
        {"mpi.env==value", "NAME=VALUE"},
        {"mpi.env.=value", "NAME=VALUE"},
        {"mpi.env.NAME=a;b", "NAME=VALUE"},
        {"mpi.env.NAME", "has no value"},
        {"mpi.tuning=2", "all_reduce"},
        {"mpi.tuning=all_reduce", "all_reduce"},
        {"mpi.tuning=allreduce=2", "all_reduce"},
        {"mpi.tuning.scan=2", "all_reduce"},
        {"mpi.tuning.all_reduce|barrier=2", "all_reduce"},
        {"mpi.chunk=1M", "unknown"},
        {"backend.NAME=VALUE", "unknown"},
    };
    char many[400];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_refused(bad[i][0], bad[i][1]);
    }
    snprintf(many, sizeof(many), "mpi.env.NAME=%0350d", 7);
    expect_refused(many, "mpi.env is longer");
}

static DLTensor tensor(void *data, const int64_t *count)
{
    return tutti_tensor_1d(data, count, TUTTI_F32);
}

/* Per rank of two, in bytes: all_reduce 3 x 4000, broadcast 12, all_gather 40, all_to_all 80, barrier, and one message
 * of 28. */
static void work(tutti_group *g)
{
    static float from[1000];
    static float to[1000];
    const int64_t counts[] = {1000, 3, 10, 20, 7};
    const int32_t size = tutti_group_size(g);
    const int64_t joined = 10 * size;
    tutti_error error;
    DLTensor large = tensor(from, &counts[0]);
    DLTensor three = tensor(from, &counts[1]);
    DLTensor part = tensor(from, &counts[2]);
    DLTensor all = tensor(to, &joined);
    const tutti_call *call = TUTTI_CALL(.error = &error);
    for (int i = 0; i < 2; i++) {
        expect(tutti_all_reduce(g, &large, &large, TUTTI_SUM, call) == TUTTI_OK, "all_reduce", &error);
    }
    static int32_t integers[1000];
    DLTensor average = tutti_tensor_1d(integers, &counts[0], TUTTI_I32); /* through wide scratch memory */
    expect(tutti_all_reduce(g, &average, &average, TUTTI_AVG, call) == TUTTI_OK, "all_reduce", &error);
    expect(tutti_broadcast(g, &three, 0, call) == TUTTI_OK, "broadcast", &error);
    expect(tutti_all_gather(g, &part, &all, 0, call) == TUTTI_OK, "all_gather", &error);
    DLTensor out = tensor(from, &joined);
    expect(tutti_all_to_all(g, &out, &all, 0, call) == TUTTI_OK, "all_to_all", &error);
    expect(tutti_barrier(g, call) == TUTTI_OK, "barrier", &error);
    DLTensor seven = tensor(from, &counts[4]);
    DLTensor room = tensor(to, &counts[0]);
    tutti_message came;
    if (rank == 0 && size > 1) {
        expect(tutti_send(g, &seven, 1, 5, call) == TUTTI_OK, "send", &error);
    } else if (rank == 1) {
        came = (tutti_message)TUTTI_MESSAGE_INIT;
        expect(tutti_recv(g, &room, 0, 5, call, &came) == TUTTI_OK && came.count == 7 && came.bytes == 28, "recv",
               &error);
    }
}

static void run(const char *const *settings)
{
    char text[4000];
    tutti_group *g = NULL;
    tutti_error error;
    expect(tutti_init(TUTTI_CONFIG(.backend = "mpi", .settings = settings), &g, &error) == TUTTI_OK, "init", &error);
    rank = tutti_group_rank(g);
    work(g);
    if (rank == 0) {
        tutti_group_describe(g, text, sizeof(text), NULL, NULL);
        printf("%s", text);
        fflush(stdout);
    }
    expect(tutti_group_destroy(g, &error) == TUTTI_OK, "destroy", &error);
    tutti_finalize(NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "refused") == 0) {
        refused();
    } else {
        run((const char *const *)argv + (argc > 1 ? 2 : 1));
    }
    return 0;
}
