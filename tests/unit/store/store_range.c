/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of keys: read in few requests from unix and tcp stores, key by key from the others, with the same results. */
#include "store_support.h"
#include "time_limits.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>

#include "descriptors.h"
#include "store/limits.h"

#define KEYS   300
#define STRIDE 16
#define LONG   30000 /* bytes: two fit into a reply, three do not */

static unsigned char values[KEYS][STRIDE];
static size_t lengths[KEYS];

static void set_number(struct tti_store *store, int number)
{
    char key[32];
    snprintf(key, sizeof(key), "of/%d", number);
    assert_int_equal(tti_store_set(store, key, &number, sizeof(number), NULL), TUTTI_OK);
}

/* Reads all, in as many requests as it takes. */
static int read_all(struct tti_store *store, uint32_t first, uint32_t count)
{
    int requests = 0;
    for (uint32_t done = 0; done < count; requests++) {
        struct tti_store_range range = {.stem = "of",
                                        .first = first + done,
                                        .count = count - done,
                                        .values = values[done],
                                        .stride = STRIDE,
                                        .lengths = lengths + done};
        assert_int_equal(tti_store_get_range(store, &range, LONG_MS, NULL), TUTTI_OK);
        assert_in_range(range.got, 1, count - done);
        done += range.got;
    }
    return requests;
}

static void expect_numbers(uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int number = -1;
        memcpy(&number, values[i], sizeof(number));
        assert_int_equal(number, (int)(first + i));
        assert_int_equal(lengths[i], sizeof(number));
    }
}

static const char *urls(int kind, char url[300], char directory[64])
{
    char name[64];
    unique_name(name, sizeof(name));
    strcpy(directory, "/tmp/tutti-test-XXXXXX");
    if (kind == 0) {
        snprintf(url, 300, "unix:%s", name);
    } else if (kind == 1) {
        strcpy(url, "tcp://127.0.0.1:0/token");
    } else if (kind == 2) {
        snprintf(url, 300, "memory:%s", name);
    } else {
        assert_non_null(mkdtemp(directory));
        snprintf(url, 300, "file:%s", directory);
    }
    return url;
}

static void reads_on_each_kind(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        char url[300];
        char directory[64];
        struct tti_store *store = open_store(urls(kind, url, directory), true);
        assert_non_null(store);
        for (int i = KEYS - 1; i >= 0; i--) {
            set_number(store, i);
        }
        memset(values, 0, sizeof(values));
        assert_int_equal(read_all(store, 0, KEYS), kind < 2 ? 1 : KEYS);
        expect_numbers(0, KEYS);
        read_all(store, 99, 2);
        expect_numbers(99, 2);
        tti_store_release(store);
        if (kind == 3) {
            remove_directory(directory);
        }
    }
}

/* What is there counts, up to the first gap; nothing there is a time-out. */
static void gives_what_is_there(void **state)
{
    (void)state;
    char url[80];
    unique_unix_url(url);
    struct tti_store *store = open_store(url, true);
    tutti_error error;
    struct tti_store_range range = {
        .stem = "of", .count = 10, .values = values[0], .stride = STRIDE, .lengths = lengths};
    assert_int_equal(tti_store_get_range(store, &range, 0, &error), TUTTI_TIMEOUT);
    assert_int_equal(tti_store_get_range(store, &range, 20, &error), TUTTI_TIMEOUT);
    assert_int_equal(range.got, 0);
    set_number(store, 0);
    set_number(store, 1);
    set_number(store, 3);
    for (int64_t timeout_ms = 0; timeout_ms <= 20; timeout_ms += 20) {
        assert_int_equal(tti_store_get_range(store, &range, timeout_ms, &error), TUTTI_OK);
        assert_int_equal(range.got, 2);
        expect_numbers(0, 2);
    }
    range.first = 2;
    assert_int_equal(tti_store_get_range(store, &range, 20, &error), TUTTI_TIMEOUT);
    range.first = 3;
    range.count = 1;
    assert_int_equal(tti_store_get_range(store, &range, 0, &error), TUTTI_OK);
    expect_numbers(3, 1);
    tti_store_release(store);
}

static void *set_late(void *argument)
{
    struct tti_store *store = argument;
    for (int i = KEYS - 1; i >= 0; i--) {
        set_number(store, i);
    }
    return NULL;
}

static void waits_for_all(void **state)
{
    (void)state;
    char url[80];
    pthread_t thread;
    unique_unix_url(url);
    struct tti_store *store = open_store(url, true);
    assert_int_equal(pthread_create(&thread, NULL, set_late, store), 0);
    assert_int_equal(read_all(store, 0, KEYS), 1);
    expect_numbers(0, KEYS);
    pthread_join(thread, NULL);
    tti_store_release(store);
}

/* Long values take several replies. One that is longer than its place says so. A descriptor is no value. */
static void long_values_and_others(void **state)
{
    (void)state;
    static unsigned char sent[TTI_STORE_VALUE_MAX];
    static unsigned char got[5][LONG];
    char url[80];
    unique_unix_url(url);
    struct tti_store *store = open_store(url, true);
    for (int i = 0; i < 5; i++) {
        char key[32];
        snprintf(key, sizeof(key), "long/%d", i);
        memset(sent, 'a' + i, sizeof(sent));
        assert_int_equal(tti_store_set(store, key, sent, i == 4 ? 60000 : LONG, NULL), TUTTI_OK);
    }
    uint32_t done = 0;
    int requests = 0;
    for (; done < 5; requests++) {
        struct tti_store_range range = {.stem = "long",
                                        .first = done,
                                        .count = 5 - done,
                                        .values = got[done],
                                        .stride = LONG,
                                        .lengths = lengths + done};
        assert_int_equal(tti_store_get_range(store, &range, LONG_MS, NULL), TUTTI_OK);
        done += range.got;
    }
    assert_int_equal(requests, 3);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(lengths[i], i == 4 ? 60000 : LONG);
        assert_int_equal(got[i][0], 'a' + i);
        assert_int_equal(got[i][LONG - 1], 'a' + i);
    }
    struct tti_store_range range = {
        .stem = "of", .count = 2, .values = values[0], .stride = STRIDE, .lengths = lengths};
    assert_int_equal(tti_store_put_fd(store, "of/0", STDERR_FILENO, 1, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get_range(store, &range, 0, NULL), TUTTI_PROTOCOL);
    range.count = 0;
    assert_int_equal(tti_store_get_range(store, &range, 0, NULL), TUTTI_INVALID_ARGUMENT);
    tti_store_release(store);
}

static bool is_file(int fd, ino_t wanted)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_ino == wanted;
}

/* Each descriptor comes once for each reader, in the order of the keys, whether many or few numbers are free. */
static void descriptors_come_in_order(void **state)
{
    (void)state;
    enum { FILES = 100, READERS = 3 };
    char url[80];
    ino_t files[FILES];
    int fds[FILES];
    unique_unix_url(url);
    struct tti_store *store = open_store(url, true);
    for (int i = 0; i < FILES; i++) {
        char key[32];
        int ends[2];
        struct stat st;
        snprintf(key, sizeof(key), "file/%d", i);
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_int_equal(fstat(ends[0], &st), 0);
        files[i] = st.st_ino;
        assert_int_equal(tti_store_put_fd(store, key, ends[0], READERS, NULL), TUTTI_OK);
        close(ends[0]);
        close(ends[1]);
    }
    for (int reader = 0; reader < READERS; reader++) {
        struct rlimit before;
        const int open_before = open_descriptors();
        const bool tight = reader == 1;
        assert_true(!tight || leave_descriptors(9, &before));
        int requests = 0;
        for (uint32_t done = 0; done < FILES; requests++) {
            struct tti_store_range range = {.stem = "file", .first = done, .count = FILES - done, .fds = fds};
            assert_int_equal(tti_store_get_range(store, &range, LONG_MS, NULL), TUTTI_OK);
            for (uint32_t i = 0; i < range.got; i++) {
                assert_true(is_file(fds[i], files[done + i]));
                assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
                close(fds[i]);
            }
            done += range.got;
        }
        assert_in_range(requests, tight ? FILES / 8 : 2, tight ? FILES : 4);
        assert_true(!tight || setrlimit(RLIMIT_NOFILE, &before) == 0);
        /* The server's copies go with the last reader. It answers the next request after that. */
        assert_int_equal(tti_store_remove(store, "none", NULL), TUTTI_OK);
        assert_int_equal(open_descriptors(), reader == READERS - 1 ? open_before - FILES : open_before);
    }
    struct tti_store_range range = {.stem = "file", .count = FILES, .fds = fds};
    assert_int_equal(tti_store_get_range(store, &range, 0, NULL), TUTTI_TIMEOUT);
    assert_int_equal(tti_store_set(store, "file/0", "", 1, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get_range(store, &range, 0, NULL), TUTTI_PROTOCOL);
    tti_store_release(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_on_each_kind),
        cmocka_unit_test(gives_what_is_there),
        cmocka_unit_test(waits_for_all),
        cmocka_unit_test(long_values_and_others),
        cmocka_unit_test(descriptors_come_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
