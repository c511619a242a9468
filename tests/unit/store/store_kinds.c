/* SPDX-License-Identifier: BSD-3-Clause */
/* The promises of a store, tested on each kind: memory, unix, tcp, file. */
#include "store_support.h"
#include "time_limits.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

struct fixture {
    const char *scheme;
    struct tti_store *store;
    char url[300];
    char directory[64];
};

static int set_up(void **state, const char *scheme)
{
    struct fixture *f = calloc(1, sizeof(*f));
    char name[64];
    f->scheme = scheme;
    unique_name(name, sizeof(name));
    if (strcmp(scheme, "tcp") == 0) {
        strcpy(f->url, "tcp://127.0.0.1:0/token");
    } else if (strcmp(scheme, "file") == 0) {
        strcpy(f->directory, "/tmp/tutti-test-XXXXXX");
        if (!mkdtemp(f->directory)) {
            return -1;
        }
        snprintf(f->url, sizeof(f->url), "file:%s", f->directory);
    } else {
        snprintf(f->url, sizeof(f->url), "%s:%s", scheme, name);
    }
    f->store = open_store(f->url, true);
    *state = f;
    return f->store ? 0 : -1;
}

static int set_up_memory(void **state)
{
    return set_up(state, "memory");
}

static int set_up_unix(void **state)
{
    return set_up(state, "unix");
}

static int set_up_tcp(void **state)
{
    return set_up(state, "tcp");
}

static int set_up_file(void **state)
{
    return set_up(state, "file");
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    tti_store_release(f->store);
    if (f->directory[0]) {
        remove_directory(f->directory);
    }
    free(f);
    return 0;
}

static void stores_and_reads(void **state)
{
    struct fixture *f = *state;
    tutti_error error;
    char value[16] = "";
    size_t length = 99;
    assert_int_equal(tti_store_set(f->store, "a/key with %", "hello", 5, &error), TUTTI_OK);
    assert_int_equal(error.status, TUTTI_OK);
    assert_int_equal(tti_store_get(f->store, "a/key with %", value, sizeof(value), &length, LONG_MS, &error), TUTTI_OK);
    assert_int_equal(length, 5);
    assert_memory_equal(value, "hello", 5);
    /* again: reading does not consume */
    assert_int_equal(tti_store_get(f->store, "a/key with %", value, sizeof(value), NULL, 0, NULL), TUTTI_OK);
}

static void a_second_store_sees_the_same(void **state)
{
    struct fixture *f = *state;
    struct tti_store *other = open_store(tti_store_url(f->store), false);
    assert_non_null(other);
    char value[16];
    size_t length = 0;
    assert_int_equal(tti_store_set(f->store, "k", "v", 1, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get(other, "k", value, sizeof(value), &length, LONG_MS, NULL), TUTTI_OK);
    assert_int_equal(length, 1);
    assert_int_equal(tti_store_set(other, "k", "w", 1, NULL), TUTTI_BUSY);
    tti_store_release(other);
}

static void a_key_is_set_once(void **state)
{
    struct fixture *f = *state;
    tutti_error error;
    char value[4];
    size_t length = 0;
    assert_int_equal(tti_store_set(f->store, "once", "1", 1, NULL), TUTTI_OK);
    assert_int_equal(tti_store_set(f->store, "once", "22", 2, &error), TUTTI_BUSY);
    assert_non_null(strstr(error.message, "\"once\""));
    assert_int_equal(tti_store_get(f->store, "once", value, sizeof(value), &length, 0, NULL), TUTTI_OK);
    assert_int_equal(length, 1);
    assert_int_equal(value[0], '1');
}

static void removing_frees_the_key(void **state)
{
    struct fixture *f = *state;
    char value[4];
    assert_int_equal(tti_store_remove(f->store, "gone", NULL), TUTTI_OK);
    assert_int_equal(tti_store_set(f->store, "gone", "1", 1, NULL), TUTTI_OK);
    assert_int_equal(tti_store_remove(f->store, "gone", NULL), TUTTI_OK);
    assert_int_equal(tti_store_get(f->store, "gone", value, sizeof(value), NULL, 0, NULL), TUTTI_TIMEOUT);
    assert_int_equal(tti_store_set(f->store, "gone", "2", 1, NULL), TUTTI_OK);
}

static void a_missing_key_times_out(void **state)
{
    struct fixture *f = *state;
    tutti_error error;
    char value[4] = "xyz";
    size_t length = 77;
    assert_int_equal(tti_store_get(f->store, "missing", value, sizeof(value), &length, 0, &error), TUTTI_TIMEOUT);
    assert_non_null(strstr(error.message, "\"missing\""));
    assert_int_equal(tti_store_get(f->store, "missing", value, sizeof(value), &length, 20, &error), TUTTI_TIMEOUT);
    assert_int_equal(error.deadline_ms, 20);
    assert_int_equal(length, 77);
    assert_string_equal(value, "xyz");
}

static void empty_and_largest_values(void **state)
{
    struct fixture *f = *state;
    size_t length = 9;
    assert_int_equal(tti_store_set(f->store, "empty", NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get(f->store, "empty", NULL, 0, &length, 0, NULL), TUTTI_OK);
    assert_int_equal(length, 0);
    unsigned char *sent = malloc(TTI_STORE_VALUE_MAX);
    unsigned char *got = calloc(1, TTI_STORE_VALUE_MAX);
    for (size_t i = 0; i < TTI_STORE_VALUE_MAX; i++) {
        sent[i] = (unsigned char)(i * 7 + i / 251);
    }
    assert_int_equal(tti_store_set(f->store, "large", sent, TTI_STORE_VALUE_MAX, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get(f->store, "large", got, TTI_STORE_VALUE_MAX, &length, 0, NULL), TUTTI_OK);
    assert_int_equal(length, TTI_STORE_VALUE_MAX);
    assert_memory_equal(sent, got, TTI_STORE_VALUE_MAX);
    free(sent);
    free(got);
}

static void a_longer_value_is_reported(void **state)
{
    struct fixture *f = *state;
    char value[8] = "-------";
    size_t length = 0;
    assert_int_equal(tti_store_set(f->store, "long", "0123456789", 10, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get(f->store, "long", value, 4, &length, 0, NULL), TUTTI_PROTOCOL);
    assert_int_equal(length, 10);
    assert_string_equal(value, "0123---"); /* nothing behind the capacity */
    /* the store is as good as before */
    assert_int_equal(tti_store_set(f->store, "after", "1", 1, NULL), TUTTI_OK);
}

static void longest_keys_are_different(void **state)
{
    struct fixture *f = *state;
    char first[TTI_STORE_KEY_MAX + 2];
    char second[TTI_STORE_KEY_MAX + 2];
    char value = 0;
    memset(first, '/', sizeof(first));
    memset(second, '/', sizeof(second));
    first[TTI_STORE_KEY_MAX] = '\0';
    second[TTI_STORE_KEY_MAX - 1] = '.';
    second[TTI_STORE_KEY_MAX] = '\0';
    assert_int_equal(tti_store_set(f->store, first, "1", 1, NULL), TUTTI_OK);
    assert_int_equal(tti_store_set(f->store, second, "2", 1, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get(f->store, first, &value, 1, NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(value, '1');
    assert_int_equal(tti_store_set(f->store, "..", "3", 1, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get(f->store, "..", &value, 1, NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(value, '3');
}

static void bad_arguments_are_refused(void **state)
{
    struct fixture *f = *state;
    char key[TTI_STORE_KEY_MAX + 2];
    char value[1];
    size_t length;
    tutti_error error;
    memset(key, 'k', sizeof(key));
    key[TTI_STORE_KEY_MAX + 1] = '\0';
    assert_int_equal(tti_store_set(NULL, "k", "", 0, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_set(f->store, NULL, "", 0, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_set(f->store, "", "", 0, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_set(f->store, key, "", 0, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_set(f->store, "k", NULL, 1, &error), TUTTI_INVALID_ARGUMENT);
    char *huge = calloc(1, TTI_STORE_VALUE_MAX + 1);
    assert_int_equal(tti_store_set(f->store, "k", huge, TTI_STORE_VALUE_MAX + 1, &error), TUTTI_INVALID_ARGUMENT);
    free(huge);
    assert_int_equal(tti_store_get(f->store, key, value, 1, &length, 0, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_get(f->store, "k", NULL, 1, &length, 0, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_get(f->store, "k", value, 1, &length, -2, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_remove(f->store, "", &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_get(f->store, "k", value, 1, &length, 0, &error), TUTTI_TIMEOUT); /* nothing was set */
}

struct late_key {
    struct tti_store *store;
    atomic_int waiting;
    tutti_status status;
    char value;
};

static void *get_late_key(void *argument)
{
    struct late_key *late = argument;
    atomic_fetch_add(&late->waiting, 1);
    late->status = tti_store_get(late->store, "late", &late->value, 1, NULL, LONG_MS, NULL);
    return NULL;
}

static void a_get_waits_for_the_key(void **state)
{
    struct fixture *f = *state;
    struct late_key late[3] = {0};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        late[i].store = f->store;
        assert_int_equal(pthread_create(&threads[i], NULL, get_late_key, &late[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        while (atomic_load(&late[i].waiting) == 0) {
            sched_yield();
        }
    }
    assert_int_equal(tti_store_set(f->store, "late", "!", 1, NULL), TUTTI_OK);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(late[i].status, TUTTI_OK);
        assert_int_equal(late[i].value, '!');
    }
}

/* Every thread sets its keys, waits for those of its right neighbour, removes them. All compete for one key per
 * round. */
#define THREADS 6
#define ROUNDS  25

struct ring {
    struct tti_store *store;
    int index;
    int wins;
    const char *failed;
    atomic_int *removed;
};

static void *run_ring(void *argument)
{
    struct ring *ring = argument;
    for (int round = 0; round < ROUNDS && !ring->failed; round++) {
        char key[64];
        int value = ring->index * 1000 + round;
        snprintf(key, sizeof(key), "ring/%d/%d", round, ring->index);
        if (tti_store_set(ring->store, key, &value, sizeof(value), NULL) != TUTTI_OK) {
            ring->failed = "set";
        }
        int next = (ring->index + 1) % THREADS;
        int got = -1;
        snprintf(key, sizeof(key), "ring/%d/%d", round, next);
        if (tti_store_get(ring->store, key, &got, sizeof(got), NULL, LONG_MS, NULL) != TUTTI_OK ||
            got != next * 1000 + round) {
            ring->failed = "get";
        }
        if (tti_store_remove(ring->store, key, NULL) != TUTTI_OK) {
            ring->failed = "remove";
        }
        snprintf(key, sizeof(key), "prize/%d", round);
        tutti_status status = tti_store_set(ring->store, key, &ring->index, sizeof(int), NULL);
        ring->wins += status == TUTTI_OK;
        if (status != TUTTI_OK && status != TUTTI_BUSY) {
            ring->failed = "prize";
        }
    }
    return NULL;
}

static void many_threads_at_once(void **state)
{
    struct fixture *f = *state;
    struct ring rings[THREADS] = {0};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        rings[i].store = f->store;
        rings[i].index = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_ring, &rings[i]), 0);
    }
    int wins = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (rings[i].failed) {
            fail_msg("thread %d failed in %s", i, rings[i].failed);
        }
        wins += rings[i].wins;
    }
    assert_int_equal(wins, ROUNDS);
}

static void references_keep_it_open(void **state)
{
    struct fixture *f = *state;
    tti_store_retain(f->store);
    tti_store_release(f->store);
    assert_int_equal(tti_store_set(f->store, "still", "1", 1, NULL), TUTTI_OK);
    tti_store_retain(NULL);
    tti_store_release(NULL);
}

static int same_file(int a, int b)
{
    struct stat first;
    struct stat second;
    return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

static void descriptors_are_passed(void **state)
{
    struct fixture *f = *state;
    tutti_error error;
    int file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, "content", 7), 7);
    if (!tti_store_can_pass_fds(f->store)) {
        int fd = -1;
        assert_int_equal(tti_store_put_fd(f->store, "fd", file, 1, &error), TUTTI_UNSUPPORTED);
        assert_int_equal(tti_store_get_fd(f->store, "fd", &fd, 0, &error), TUTTI_UNSUPPORTED);
        close(file);
        return;
    }
    int before = open_descriptors();
    assert_int_equal(tti_store_put_fd(f->store, "fd", file, 2, &error), TUTTI_OK);
    assert_int_equal(tti_store_put_fd(f->store, "fd", file, 1, &error), TUTTI_BUSY);
    char byte;
    assert_int_equal(tti_store_get(f->store, "fd", &byte, 1, NULL, 0, &error), TUTTI_PROTOCOL);
    for (int reader = 0; reader < 2; reader++) {
        int fd = -1;
        char content[8] = "";
        assert_int_equal(tti_store_get_fd(f->store, "fd", &fd, LONG_MS, &error), TUTTI_OK);
        assert_true(fd >= 0 && fd != file);
        assert_true(same_file(fd, file));
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(pread(fd, content, 7, 0), 7);
        assert_string_equal(content, "content");
        close(fd);
    }
    /* The second of two readers took it along. */
    int none = -5;
    assert_int_equal(tti_store_get_fd(f->store, "fd", &none, 0, &error), TUTTI_TIMEOUT);
    assert_int_equal(none, -5);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(tti_store_put_fd(f->store, "fd", -1, 1, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_put_fd(f->store, "fd", file, 0, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_get_fd(f->store, "fd", NULL, 0, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_set(f->store, "value", "1", 1, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get_fd(f->store, "value", &none, 0, &error), TUTTI_PROTOCOL);
    /* A descriptor without a get ends with its key. */
    assert_int_equal(tti_store_put_fd(f->store, "unread", file, 9, &error), TUTTI_OK);
    assert_int_equal(tti_store_remove(f->store, "unread", &error), TUTTI_OK);
    assert_int_equal(open_descriptors(), before);
    close(file);
}

static void nothing_stays_open(void **state)
{
    (void)state;
    char url[128];
    char name[64];
    struct tti_store *store = open_store("memory:first", false); /* what a process keeps for itself exists now */
    tti_store_release(store);
    int descriptors = open_descriptors();
    int threads = count_entries("/proc/self/task");
    for (int i = 0; i < 4; i++) {
        unique_name(name, sizeof(name));
        snprintf(url, sizeof(url), i == 0 ? "unix:%s" : i == 1 ? "memory:%s" : "tcp://localhost:0/%s", name);
        store = open_store(url, true);
        assert_non_null(store);
        assert_int_equal(tti_store_set(store, "k", "v", 1, NULL), TUTTI_OK);
        tti_store_release(store);
        assert_int_equal(open_descriptors(), descriptors);
        while (count_entries("/proc/self/task") > threads) {
            sched_yield(); /* a joined thread leaves the list a moment later, a leaked one never */
        }
    }
}

static void bad_urls_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",          "x",          "unix:",       "memory:",      "file:",          "tcp://",
        "tcp://h",   "tcp://h:",   "tcp://:1",    "tcp://h:x",    "tcp://h:1x",     "tcp://h:99999",
        "tcp://h:0", "tcp://[::1", "tcp://[::1]", "tcp://[::1]:", "tcp://h:123456", "tcp://a:b:1",
        "UNIX:a",    "udp://h:1",  "unix:a\nb",   "tcp://h:-1",   "tcp://[]:1",     "tcp://h/t:1",
    };
    tutti_error error;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tti_store *store = (struct tti_store *)&error;
        if (tti_store_open(bad[i], false, 0, &store, &error) != TUTTI_INVALID_ARGUMENT) {
            fail_msg("\"%s\" was not refused: %s", bad[i], error.message);
        }
        assert_ptr_equal(store, &error); /* untouched */
        assert_true(strlen(error.message) > 10);
    }
    char url[400];
    struct tti_store *store = NULL;
    memset(url, 'n', sizeof(url));
    memcpy(url, "unix:", 5);
    url[sizeof(url) - 1] = '\0';
    assert_int_equal(tti_store_open(url, false, 0, &store, &error), TUTTI_INVALID_ARGUMENT);
    url[5 + 108] = '\0'; /* a URL, but too long for a socket's name */
    assert_int_equal(tti_store_open(url, false, 0, &store, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_open(NULL, false, 0, &store, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_open("memory:a", false, 0, NULL, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_open("memory:a", false, -2, &store, &error), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tti_store_open("file:/dev/null", false, 0, &store, &error), TUTTI_SYSTEM);
    assert_int_equal(tti_store_open("file:/nowhere/at/all", false, 0, &store, &error), TUTTI_SYSTEM);
    assert_null(store);
}

static void a_tcp_store_without_a_server(void **state)
{
    (void)state;
    /* A port that is bound but not listened on refuses all connections, and no other process gets it meanwhile. */
    int bound = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    assert_int_equal(bind(bound, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(bound, (struct sockaddr *)&address, &length), 0);
    char url[64];
    snprintf(url, sizeof(url), "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    struct tti_store *store = NULL;
    tutti_error error;
    assert_int_equal(tti_store_open(url, false, 30, &store, &error), TUTTI_TIMEOUT);
    assert_non_null(strstr(error.message, url));
    assert_null(store);
    close(bound);
}

static void *join_served(void *url)
{
    struct tti_store *store = NULL;
    return tti_store_open_served(url, LONG_MS, &store, NULL) == TUTTI_OK ? store : NULL;
}

/* tti_store_open_served never serves a unix store, and finds its server in either order of arrival. */
static void a_rank_that_joins_does_not_serve(void **state)
{
    (void)state;
    char url[80];
    struct tti_store *joined = NULL;
    tutti_error error;
    pthread_t thread;
    unique_unix_url(url);
    assert_int_equal(tti_store_open_served(url, 30, &joined, &error), TUTTI_TIMEOUT);
    assert_non_null(strstr(error.message, url));
    assert_null(joined);
    assert_int_equal(pthread_create(&thread, NULL, join_served, url), 0);
    struct tti_store *served = open_store(url, true);
    void *found = NULL;
    pthread_join(thread, &found);
    joined = found;
    assert_true(served && tti_store_served_here(served));
    assert_true(joined && !tti_store_served_here(joined));
    tti_store_release(joined);
    tti_store_release(served);
}

#define ON(kind, test)                                                                                                 \
    {                                                                                                                  \
#kind "." #test, test, set_up_##kind, tear_down, NULL                                                          \
    }
#define ON_ALL(test) ON(memory, test), ON(unix, test), ON(tcp, test), ON(file, test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_ALL(stores_and_reads),
        ON_ALL(a_second_store_sees_the_same),
        ON_ALL(a_key_is_set_once),
        ON_ALL(removing_frees_the_key),
        ON_ALL(a_missing_key_times_out),
        ON_ALL(empty_and_largest_values),
        ON_ALL(a_longer_value_is_reported),
        ON_ALL(longest_keys_are_different),
        ON_ALL(bad_arguments_are_refused),
        ON_ALL(a_get_waits_for_the_key),
        ON_ALL(many_threads_at_once),
        ON_ALL(references_keep_it_open),
        ON_ALL(descriptors_are_passed),
        cmocka_unit_test(nothing_stays_open),
        cmocka_unit_test(bad_urls_are_refused),
        cmocka_unit_test(a_tcp_store_without_a_server),
        cmocka_unit_test(a_rank_that_joins_does_not_serve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
