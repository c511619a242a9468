/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/* What /proc shows of this process and of a child that has ended. */
#include "base/process/proc_stat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void own_process(void **state)
{
    (void)state;
    struct tti_proc_stat s;
    assert_int_equal(prctl(PR_SET_NAME, "a) Z 1 (b"), 0);
    assert_true(tti_proc_stat(getpid(), &s));
    assert_string_equal(s.name, "a) Z 1 (b");
    assert_int_equal(s.state, 'R');
    assert_int_equal(s.parent, getppid());
    assert_int_equal(s.group, getpgrp());
    assert_int_equal(s.threads, 1);
    assert_int_equal(s.code, 0);
    assert_true(s.started > 0);
    assert_false(tti_proc_is_dumping(getpid()));
}

static void child_that_has_ended(void **state)
{
    (void)state;
    struct tti_proc_stat s;
    siginfo_t ended;
    const pid_t child = fork();
    if (child == 0) {
        _exit(7);
    }
    assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0);
    assert_true(tti_proc_stat(child, &s));
    assert_int_equal(s.state, 'Z');
    assert_int_equal(s.parent, getpid());
    assert_true(WIFEXITED(s.code) && WEXITSTATUS(s.code) == 7);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(tti_proc_stat(child, &s));
    assert_false(tti_proc_is_dumping(child));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_process),
        cmocka_unit_test(child_that_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
