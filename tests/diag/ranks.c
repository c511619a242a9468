/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank for the tests of the flight recorder. All begin with small all_reduces, a large one and a message to the next
 * rank; then, by the argument:
 *
 *   done     say "done" and end
 *   messages large messages to the next rank, alone and in batches, often enough for the call cache
 *   late     rank 1 waits for SIGUSR1 before it comes to the barrier of the others
 *   absent   rank 1 does so before it calls tutti_init
 *   threads  three ranks are threads of this process, and the second one does so
 *   stopped  rank 1 stops itself there
 *   killed   rank 1 kills itself there; the other ranks ignore the next SIGTERM, and notice the death themselves
 *   circle   rank 0 and rank 1 both receive first
 *   started  the other ranks start a persistent all_reduce for the third time, and wait for it after SIGUSR1; rank 1
 *            starts it after SIGUSR1
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#define SMALL_CALLS 20
#define LARGE       (1 << 18)
#define LIFETIME_S  200

static tutti_group *group;
static sigset_t before; /* without SIGUSR1 blocked */

static void must(tutti_status status, const char *what)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s: %s\n", what, tutti_status_name(status));
        exit(3);
    }
}

static void begin(int32_t rank, int32_t size)
{
    static float large[LARGE];
    float two[2] = {1, 2};
    float got = 0;
    float out = (float)rank;
    DLTensor small = tutti_tensor_1d(two, &(int64_t){2}, TUTTI_F32);
    DLTensor big = tutti_tensor_1d(large, &(int64_t){LARGE}, TUTTI_F32);
    DLTensor sent = tutti_tensor_1d(&out, &(int64_t){1}, TUTTI_F32);
    DLTensor received = tutti_tensor_1d(&got, &(int64_t){1}, TUTTI_F32);
    for (int i = 0; i < SMALL_CALLS; i++) {
        must(tutti_all_reduce(group, &small, &small, TUTTI_MAX, NULL), "all_reduce");
    }
    for (int i = 0; i < 3; i++) {
        must(tutti_all_reduce(group, &big, &big, TUTTI_MAX, NULL), "large all_reduce");
    }
    must(tutti_sendrecv(group, &sent, (rank + 1) % size, 5, &received, (rank + size - 1) % size, 5, NULL, NULL),
         "sendrecv");
}

static void send_large(int32_t rank, int32_t size)
{
    static float out[LARGE];
    static float in[LARGE];
    const int32_t next = (rank + 1) % size;
    const int32_t before_it = (rank + size - 1) % size;
    DLTensor sent = tutti_tensor_1d(out, &(int64_t){LARGE}, TUTTI_F32);
    DLTensor received = tutti_tensor_1d(in, &(int64_t){LARGE}, TUTTI_F32);
    for (int i = 0; i < 4; i++) {
        must(tutti_sendrecv(group, &sent, next, 6, &received, before_it, 6, NULL, NULL), "large sendrecv");
    }
    for (int i = 0; i < 3; i++) {
        must(tutti_batch_begin(group, NULL), "batch_begin");
        must(tutti_recv(group, &received, before_it, 6, NULL, NULL), "recv");
        must(tutti_send(group, &sent, next, 6, NULL), "send");
        must(tutti_batch_end(group, NULL), "batch_end");
    }
}

static void start_again(int32_t rank)
{
    float two[2] = {1, 2};
    DLTensor t = tutti_tensor_1d(two, &(int64_t){2}, TUTTI_F32);
    const tutti_persistent_op sum = {.kind = TUTTI_OP_ALL_REDUCE, .op = TUTTI_SUM, .input = &t, .output = &t};
    tutti_persistent *p = NULL;
    must(tutti_persistent_init(group, &sum, 1, NULL, &p), "persistent_init");
    for (int run = 0; run < 3; run++) {
        if (run == 2) {
            printf("pid %d\n", (int)getpid());
            fflush(stdout);
        }
        if (run == 2 && rank == 1) {
            sigsuspend(&before);
        }
        must(tutti_persistent_start(p, NULL), "persistent_start");
        if (run == 2 && rank != 1) {
            sigsuspend(&before);
        }
        must(tutti_persistent_wait(p, TUTTI_FOREVER, NULL), "persistent_wait");
    }
    must(tutti_persistent_release(p, NULL), "persistent_release");
}

static tutti_status be_thread(tutti_group *g, void *unused)
{
    (void)unused;
    must(tutti_barrier(g, NULL), "first barrier");
    if (tutti_group_rank(g) == 1) {
        puts("ready");
        fflush(stdout);
        sigsuspend(&before);
    }
    return tutti_barrier(g, NULL);
}

static void go_on(int number)
{
    (void)number;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "done";
    tutti_config config;
    tutti_error error;
    tutti_config_init(&config);
    config.timeout_ms = -1;
    alarm(LIFETIME_S);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &before);
    signal(SIGUSR1, go_on);
    signal(SIGTERM, strcmp(mode, "killed") == 0 ? SIG_IGN : SIG_DFL);
    if (strcmp(mode, "threads") == 0) {
        must(tutti_run_threads(3, be_thread, NULL, &error), "threads");
        puts("done");
        return 0;
    }
    const char *number = getenv("TUTTI_RANK");
    if (strcmp(mode, "absent") == 0 && number && strcmp(number, "1") == 0) {
        puts("ready");
        fflush(stdout);
        sigsuspend(&before);
    }
    if (tutti_init(&config, &group, &error) != TUTTI_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 3;
    }
    const int32_t rank = tutti_group_rank(group);
    begin(rank, tutti_group_size(group));
    if (strcmp(mode, "started") == 0) {
        start_again(rank);
    } else if (strcmp(mode, "messages") == 0) {
        send_large(rank, tutti_group_size(group));
    }
    puts("ready");
    fflush(stdout);
    if (rank == 1 && strcmp(mode, "late") == 0) {
        sigsuspend(&before);
    } else if (rank == 1 && strcmp(mode, "stopped") == 0) {
        raise(SIGSTOP);
    } else if (rank == 1 && strcmp(mode, "killed") == 0) {
        raise(SIGKILL);
    } else if (strcmp(mode, "circle") == 0 && rank < 2) {
        float got = 0;
        DLTensor received = tutti_tensor_1d(&got, &(int64_t){1}, TUTTI_F32);
        must(tutti_recv(group, &received, 1 - rank, 7, NULL, NULL), "recv");
    }
    must(tutti_barrier(group, NULL), "barrier");
    must(tutti_group_destroy(group, NULL), "destroy");
    puts("done");
    return 0;
}
