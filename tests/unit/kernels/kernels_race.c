/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=thread */
/*
 * ThreadSanitizer sees the arrays of a fold, although folds are compiled without it (kernels/dispatch.h). A child
 * process lets one thread fold, and another one use an array afterwards that no lock protects: it has to end with a
 * report.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/kernels.h"

#define COUNT    100
#define REPORTED 66 /* TSan's exit code */

enum form { FOLD, PUSH, STREAM };

struct race {
    enum form form;
    float sources[2][COUNT];
    float outputs[2][COUNT];
    atomic_bool folded;
};

static void *fold(void *argument)
{
    struct race *r = argument;
    const void *src[] = {r->sources[0], r->sources[1]};
    void *dst[] = {r->outputs[0], r->outputs[1]};
    const struct tti_fold f = {.dtype = TUTTI_F32, .op = TUTTI_SUM};
    switch (r->form) {
    case FOLD:
        tti_fold(dst[0], src, 2, COUNT, &f);
        break;
    case PUSH:
        tti_fold_push(dst, 2, src, 2, COUNT, &f);
        break;
    case STREAM:
        tti_fold_stream(dst[0], src, 2, COUNT, &f);
        break;
    }
    /* relaxed: orders nothing, so for TSan what the other thread does is no later than the fold */
    atomic_store_explicit(&r->folded, true, memory_order_relaxed);
    return NULL;
}

/* Ends the child: the first thread adds to *used after the fold; if `joined` it may. */
static void child(struct race *r, float *used, bool joined)
{
    const int nowhere = open("/dev/null", O_WRONLY);
    pthread_t thread;
    dup2(nowhere, STDERR_FILENO);
    if (pthread_create(&thread, NULL, fold, r) != 0) {
        _exit(1);
    }
    while (!atomic_load_explicit(&r->folded, memory_order_relaxed)) {
    }
    if (joined) {
        pthread_join(thread, NULL);
    }
    *used += 1;
    if (!joined) { /* a thread that is left over is reported, too */
        pthread_join(thread, NULL);
    }
    _exit(0);
}

static void expect(struct race *r, float *used, bool joined, int code)
{
    int status;
    r->folded = false;
    const pid_t pid = fork();
    if (pid == 0) {
        child(r, used, joined);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static void races_are_reported(void **state)
{
    (void)state;
    static struct race r;
    for (r.form = FOLD; r.form <= STREAM; r.form++) {
        expect(&r, &r.sources[1][COUNT - 1], true, 0);
        expect(&r, &r.sources[0][0], false, REPORTED);
        expect(&r, &r.sources[1][COUNT - 1], false, REPORTED);
        expect(&r, &r.outputs[0][COUNT / 2], false, REPORTED);
        if (r.form == PUSH) {
            expect(&r, &r.outputs[1][COUNT - 1], false, REPORTED);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(races_are_reported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
