/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the tests of the stores: names that no other run uses, children that report, and counts of open
 * descriptors.
 */
#ifndef TESTS_UNIT_STORE_STORE_SUPPORT_H
#define TESTS_UNIT_STORE_STORE_SUPPORT_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "descriptors.h"
#include "store/store.h"
#include "time_limits.h"

/* For a child, where cmocka's assertions would jump into the parent's copy: prints what failed and ends with 1. */
#define CHILD_CHECK(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: in the child: %s\n", __FILE__, __LINE__, #condition);                              \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static inline void unique_name(char *name, size_t capacity)
{
    static int counter;
    snprintf(name, capacity, "test-%d-%d", (int)getpid(), counter++);
}

/* Writes unix:NAME. Returns NAME. */
static inline const char *unique_unix_url(char url[80])
{
    char name[64];
    unique_name(name, sizeof(name));
    snprintf(url, 80, "unix:%s", name);
    return strchr(url, ':') + 1;
}

static inline void expect_child(pid_t child, int code)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static inline int count_entries(const char *path)
{
    DIR *directory = opendir(path);
    if (!directory) {
        return -1;
    }
    int count = 0;
    while (readdir(directory)) {
        count++;
    }
    closedir(directory);
    return count;
}

static inline struct tti_store *open_store(const char *url, bool serve)
{
    struct tti_store *store = NULL;
    tutti_error error;
    if (tti_store_open(url, serve, LONG_MS, &store, &error) != TUTTI_OK) {
        fprintf(stderr, "%s: %s\n", url, error.message);
        return NULL;
    }
    return store;
}

/* The address of unix:NAME for `uid`, as store/kinds/unix.c makes it. */
static inline socklen_t unix_address(struct sockaddr_un *address, unsigned uid, const char *name)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    int length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "tutti-%u-%s", uid, name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* Removes a flat directory. */
static inline void remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    if (!directory) {
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            unlinkat(dirfd(directory), entry->d_name, 0);
        }
    }
    closedir(directory);
    rmdir(path);
}

#endif
