/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the cases, each in processes of its own.
 *
 *   selftest_nccl DRIVER LIBRARY [CASE]
 *   selftest_nccl --rank CASE DRIVER LIBRARY RANK RANKS BOARD     (itself)
 *
 * tutti-test: timeout=300 trees=release,debug
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl.h"
#include "nccl_cases.h"

static struct board *make_board(int ranks, int *fd)
{
    pthread_barrierattr_t shared;
    *fd = memfd_create("board", 0); /* inherited by the ranks */
    if (*fd < 0 || ftruncate(*fd, sizeof(struct board)) != 0) {
        perror("board");
        exit(1);
    }
    struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (board == MAP_FAILED) {
        perror("board");
        exit(1);
    }
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board->barrier, &shared, (unsigned)ranks);
    pthread_barrierattr_destroy(&shared);
    return board;
}

static pid_t start_rank(const struct test *test, char **libraries, int rank, int ranks, int board)
{
    const pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child != 0) {
        return child;
    }
    char numbers[3][16];
    snprintf(numbers[0], sizeof(numbers[0]), "%d", rank);
    snprintf(numbers[1], sizeof(numbers[1]), "%d", ranks);
    snprintf(numbers[2], sizeof(numbers[2]), "%d", board);
    if (test->words && (test->words_rank < 0 || test->words_rank == rank)) {
        setenv("TUTTI_DOUBLE_NCCL", test->words, 1);
    } else {
        unsetenv("TUTTI_DOUBLE_NCCL");
    }
    char *arguments[] = {"selftest_nccl", "--rank",   (char *)test->name, libraries[0], libraries[1],
                         numbers[0],      numbers[1], numbers[2],         NULL};
    execv("/proc/self/exe", arguments);
    perror("execv");
    _exit(1);
}

static pid_t wait_for_any(int *status)
{
    pid_t child;
    do {
        child = waitpid(-1, status, 0);
    } while (child < 0 && errno == EINTR);
    if (child < 0) {
        perror("waitpid");
        exit(1);
    }
    return child;
}

static void stop(const pid_t *children, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        if (children[rank] > 0) {
            kill(children[rank], SIGKILL);
        }
    }
}

/* Whether all ranks ended as the case demands. */
static bool run(const struct test *test, char **libraries, int ranks)
{
    int fd;
    struct board *board = make_board(ranks, &fd);
    pid_t children[MAX_RANKS];
    bool good = true;
    for (int rank = 0; rank < ranks; rank++) {
        children[rank] = start_rank(test, libraries, rank, ranks, fd);
    }
    for (int ended = 0; ended < ranks; ended++) {
        int status = 0;
        const pid_t child = wait_for_any(&status);
        const bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
        int rank = 0;
        while (children[rank] != child) {
            rank++;
        }
        children[rank] = 0;
        if (good && !(test->ends_by_abort ? aborted : status == 0)) {
            fprintf(stderr, "%s: rank %d of %d ended with status 0x%x\n", test->name, rank, ranks, status);
            good = false;
            stop(children, ranks); /* they may wait for it */
        }
    }
    munmap(board, sizeof(*board));
    close(fd);
    return good;
}

static const struct test *find_test(const char *name)
{
    for (const struct test *test = tests; test->name; test++) {
        if (!strcmp(test->name, name)) {
            return test;
        }
    }
    fprintf(stderr, "there is no case %s\n", name);
    exit(1);
}

static int run_rank(char **arguments)
{
    alarm(120); /* a rank whose peer has failed waits for ever */
    const struct test *test = find_test(arguments[2]);
    struct rank t = rank_begin(arguments + 3);
    test->function(&t);
    return 0;
}

/* The variant by the name of its folder: nccl_old, rccl_new. */
static int variant_of(const char *library)
{
    return strstr(library, "_old/") ? OLD : strstr(library, "_middle/") ? MIDDLE : NEW;
}

int main(int argc, char **argv)
{
    if (argc == 8 && !strcmp(argv[1], "--rank")) {
        return run_rank(argv);
    }
    if (argc < 3) {
        fprintf(stderr, "usage: %s DRIVER LIBRARY [CASE]\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int variant = variant_of(argv[2]) | (strstr(argv[2], "rccl_old") ? MIDDLE : 0);
    int failures = 0;
    int count = 0;
    for (const struct test *test = tests; test->name; test++) {
        if (!(test->variants & variant) || (argc > 3 && strcmp(argv[3], test->name) != 0)) {
            continue;
        }
        for (int ranks = test->least; ranks <= test->most; ranks++) {
            const bool good = run(test, argv + 1, ranks);
            printf("%s with %d ranks: %s\n", test->name, ranks, good ? "ok" : "FAILED");
            failures += !good;
            count++;
        }
    }
    printf("%d cases, %d failures\n", count, failures);
    return failures > 0 || count == 0;
}
