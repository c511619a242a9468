/* SPDX-License-Identifier: BSD-3-Clause */
/* A tree of files like those of the kernel, below a root of its own for each test. */
#ifndef TESTS_UNIT_BASE_HOST_MADE_TREE_H
#define TESTS_UNIT_BASE_HOST_MADE_TREE_H

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define UNIFIED_MOUNT "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

static char root[64];

static inline int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/tutti-files-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int delete_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

static inline int delete_root(void **state)
{
    (void)state;
    return nftw(root, delete_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* A file below the root, and the directories that it lies in. */
static inline void put(const char *name, const char *text)
{
    char path[sizeof(root) + PATH_MAX];
    snprintf(path, sizeof(path), "%s%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static inline void put_process(const char *groups, const char *mounts)
{
    put("/proc/self/cgroup", groups);
    put("/proc/self/mountinfo", mounts);
}

/* For a test with a tree. */
#define TREE_TEST(function) cmocka_unit_test_setup_teardown(function, make_root, delete_root)

#endif
