/* SPDX-License-Identifier: BSD-3-Clause */
/* How the server of a store reports resource errors, and how it ends: waiting clients get the status. */
#include "store_server_support.h"
#include "time_limits.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void running_out_of_descriptors_is_survived(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    enum { CLIENTS = 40 };
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fds[i] >= 0);
    }
    /* The server runs in this process and can accept a few of them only. */
    struct rlimit less = {.rlim_cur = (rlim_t)fds[CLIENTS - 1] + 4, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    struct sockaddr_un address;
    socklen_t length = unix_address(&address, (unsigned)geteuid(), f->name);
    int refused = 0;
    for (int i = 0; i < CLIENTS; i++) {
        unsigned char header[TTI_FRAME_HEADER];
        tti_frame_encode(&(struct tti_frame){.type = TTI_FRAME_HELLO, .number = TTI_PROTOCOL_VERSION}, header);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&address, length), 0);
        send(fds[i], header, sizeof(header), MSG_NOSIGNAL); /* it may have been refused already */
        const int status = next_reply(fds[i]);
        assert_true(status == TUTTI_OK || status == TUTTI_NO_RESOURCE);
        refused += status != TUTTI_OK;
    }
    assert_int_equal(tti_store_set(f->store, "alive", NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(refused > 0);
    assert_int_equal(tti_store_refused_count(f->store), refused);
    for (int i = 0; i < CLIENTS; i++) {
        close(fds[i]);
    }
    struct tti_store *store = open_store(f->url, false);
    assert_non_null(store);
    tti_store_release(store);
}

/* The server has no descriptor left: the client gets NO_RESOURCE, and the server continues. */
static void a_descriptor_without_a_number_is_reported(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;
    tutti_error error;
    const int file = memfd_create("passed", MFD_CLOEXEC);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(tti_store_set(f->store, "before", NULL, 0, NULL), TUTTI_OK);
    const int next = dup(file); /* all below it are taken */
    close(next);
    const struct rlimit less = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    const tutti_status status = tti_store_put_fd(f->store, "k", file, 1, &error);
    int got = -1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, TUTTI_NO_RESOURCE);
    assert_non_null(strstr(error.message, "ulimit -n"));
    assert_int_equal(tti_store_get_fd(f->store, "k", &got, -1, &error),
                     TUTTI_NO_RESOURCE); /* in vain, and not for ever */
    assert_int_equal(tti_store_get_fd(f->store, "other", &got, 0, &error), TUTTI_TIMEOUT);
    assert_int_equal(tti_store_put_fd(f->store, "k", file, 2, &error), TUTTI_OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0); /* and the other way round */
    const tutti_status taken = tti_store_get_fd(f->store, "k", &got, 0, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(taken, TUTTI_NO_RESOURCE);
    assert_non_null(strstr(error.message, "open files"));
    assert_int_equal(tti_store_get_fd(f->store, "k", &got, 0, &error), TUTTI_OK);
    close(got);
    close(file);
    expect_unharmed(f, 0);
}

static void *wait_for_ever(void *argument)
{
    static char value;
    return (void *)(intptr_t)tti_store_get(argument, "never", &value, 1, NULL, -1, NULL);
}

static void shutting_down_ends_a_wait(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, f->store), 0);
    tti_server_shutdown_all();
    pthread_join(thread, &result);
    assert_int_equal((int)(intptr_t)result, TUTTI_PEER_LEFT);
    tti_server_shutdown_all(); /* again is fine */
    assert_int_equal(tti_store_set(f->store, "k", NULL, 0, NULL), TUTTI_PEER_LEFT);
}

/* The serving process cannot take part: pending and later requests get the cause. */
static void a_server_that_gives_up_notifies_all_clients(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    void *result = NULL;
    tutti_error error;
    struct tti_store *other = open_store(f->url, false);
    assert_non_null(other);
    assert_int_equal(tti_store_set(f->store, "there", NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, other), 0);
    tti_store_fail(other, TUTTI_NO_RESOURCE); /* not its server */
    assert_int_equal(tti_store_get(other, "there", NULL, 0, NULL, 0, &error), TUTTI_OK);
    tti_store_fail(f->store, TUTTI_NO_RESOURCE);
    pthread_join(thread, &result);
    assert_int_equal((int)(intptr_t)result, TUTTI_NO_RESOURCE);
    assert_int_equal(tti_store_get(other, "there", NULL, 0, NULL, 0, &error), TUTTI_NO_RESOURCE);
    assert_non_null(strstr(error.message, f->url));
    tti_store_release(other);
}

static void a_released_server_waits_for_its_clients(void **state)
{
    struct fixture *f = *state;
    struct tti_store *other = open_store(f->url, false);
    assert_non_null(other);
    assert_int_equal(tti_store_set(f->store, "k", NULL, 0, NULL), TUTTI_OK);
    tti_store_release(f->store); /* it serves; the other one is still connected */
    assert_int_equal(tti_store_get(other, "k", NULL, 0, NULL, 0, NULL), TUTTI_OK);
    int threads = count_entries("/proc/self/task");
    tti_store_release(other);
    while (count_entries("/proc/self/task") >= threads) {
        sched_yield(); /* the last client has gone, so the server's thread ends */
    }
    f->store = open_store(f->url, false);
    assert_non_null(f->store);
    assert_int_equal(tti_store_get(f->store, "k", NULL, 0, NULL, 0, NULL), TUTTI_TIMEOUT);
}

/* Threads open, use and release the same store all the time, so that servers begin and end meanwhile. */
static void *come_and_go(void *argument)
{
    const char *url = argument;
    for (int i = 0; i < 40; i++) {
        struct tti_store *store = NULL;
        if (tti_store_open(url, false, LONG_MS, &store, NULL) != TUTTI_OK) {
            return "open";
        }
        char key[64];
        snprintf(key, sizeof(key), "%p/%d", (void *)&store, i);
        tutti_status set = tti_store_set(store, key, &i, sizeof(i), NULL);
        int got = -1;
        tutti_status get = tti_store_get(store, key, &got, sizeof(got), NULL, LONG_MS, NULL);
        tti_store_release(store);
        if (set != TUTTI_OK || get != TUTTI_OK || got != i) {
            return "use";
        }
    }
    return NULL;
}

static void servers_come_and_go(void **state)
{
    struct fixture *f = *state;
    char url[80];
    pthread_t threads[4];
    unique_unix_url(url);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, url), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        if (failed) {
            fail_msg("a thread failed to %s its store", (const char *)failed);
        }
    }
    expect_unharmed(f, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(running_out_of_descriptors_is_survived),
        TEST(a_descriptor_without_a_number_is_reported),
        TEST(shutting_down_ends_a_wait),
        TEST(a_server_that_gives_up_notifies_all_clients),
        TEST(a_released_server_waits_for_its_clients),
        TEST(servers_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
