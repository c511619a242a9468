/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores between processes. Children are forked while this process has no thread but the main one, so that they may
 * start servers of their own under ThreadSanitizer, too.
 */
#include "store_support.h"
#include "time_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include "store/server/reply.h"
#include "store/server/server.h"

#define CHILDREN 4

/* All processes open the same URL at the same moment, set a key, and read the keys of all. */
static void exchange(const char *url, int index)
{
    struct tti_store *store = open_store(url, false);
    CHILD_CHECK(store);
    char key[32];
    snprintf(key, sizeof(key), "of/%d", index);
    CHILD_CHECK(tti_store_set(store, key, &index, sizeof(index), NULL) == TUTTI_OK);
    for (int i = 0; i < CHILDREN; i++) {
        int got = -1;
        snprintf(key, sizeof(key), "of/%d", i);
        CHILD_CHECK(tti_store_get(store, key, &got, sizeof(got), NULL, LONG_MS, NULL) == TUTTI_OK);
        CHILD_CHECK(got == i);
    }
    /* The serving process must not end before the others have finished. */
    snprintf(key, sizeof(key), "done/%d", index);
    CHILD_CHECK(tti_store_set(store, key, NULL, 0, NULL) == TUTTI_OK);
    for (int i = 0; i < CHILDREN; i++) {
        snprintf(key, sizeof(key), "done/%d", i);
        tutti_status status = tti_store_get(store, key, NULL, 0, NULL, LONG_MS, NULL);
        CHILD_CHECK(status == TUTTI_OK || status == TUTTI_PEER_LEFT);
    }
    tti_store_release(store);
}

static void run_children(void (*run)(const char *url, int index), const char *url)
{
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            run(url, i);
            tti_server_shutdown_all();
            _exit(0);
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        expect_child(children[i], 0);
    }
}

static void processes_join_by_unix(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        char url[80];
        unique_unix_url(url);
        run_children(exchange, url);
    }
}

static void processes_join_by_file(void **state)
{
    (void)state;
    char directory[] = "/tmp/tutti-test-XXXXXX";
    char url[80];
    assert_non_null(mkdtemp(directory));
    snprintf(url, sizeof(url), "file:%s", directory);
    run_children(exchange, url);
    remove_directory(directory);
}

static void open_often(const char *url, int index)
{
    (void)index;
    for (int round = 0; round < 50; round++) {
        struct tti_store *store = open_store(url, false);
        CHILD_CHECK(store);
        tti_store_release(store);
    }
}

/* The name is free the moment a server ends, and the next one takes it: a process that opens in between must find a
 * store. */
static void servers_follow_one_another(void **state)
{
    (void)state;
    char url[80];
    unique_unix_url(url);
    run_children(open_often, url);
}

/* A child that waits until it is sent a line. */
struct helper {
    pid_t pid;
    int to;
    int from;
};

static struct helper start_helper(void (*run)(int from_parent, int to_parent))
{
    int down[2];
    int up[2];
    struct helper helper;
    assert_int_equal(pipe2(down, O_CLOEXEC), 0);
    assert_int_equal(pipe2(up, O_CLOEXEC), 0);
    helper.pid = fork();
    assert_true(helper.pid >= 0);
    if (helper.pid == 0) {
        close(down[1]);
        close(up[0]);
        run(down[0], up[1]);
        _exit(0);
    }
    close(down[0]);
    close(up[1]);
    helper.to = down[1];
    helper.from = up[0];
    return helper;
}

static void end_helper(struct helper *helper, int code)
{
    close(helper->to);
    close(helper->from);
    expect_child(helper->pid, code);
}

static void send_text(int fd, const char *text)
{
    ssize_t written = write(fd, text, strlen(text) + 1);
    (void)written;
}

/* Reads one text with its NUL; false at the end. */
static bool receive_text(int fd, char *text, size_t capacity)
{
    for (size_t i = 0; i < capacity; i++) {
        if (read(fd, text + i, 1) != 1) {
            return false;
        }
        if (text[i] == '\0') {
            return true;
        }
    }
    return false;
}

static struct tti_store *open_sent_store(int from)
{
    char url[300];
    CHILD_CHECK(receive_text(from, url, sizeof(url)));
    struct tti_store *store = open_store(url, false);
    CHILD_CHECK(store);
    return store;
}

/* Sends it the text, and waits for its answer. */
static struct helper start_ready_helper(void (*run)(int from_parent, int to_parent), const char *sent)
{
    char text[16];
    struct helper helper = start_helper(run);
    send_text(helper.to, sent);
    assert_true(receive_text(helper.from, text, sizeof(text)));
    return helper;
}

static void tcp_child(int from, int to)
{
    char text[8];
    struct tti_store *store = open_sent_store(from);
    char value[8] = "";
    CHILD_CHECK(tti_store_get(store, "question", value, sizeof(value), NULL, LONG_MS, NULL) == TUTTI_OK);
    CHILD_CHECK(tti_store_set(store, "answer", value, 2, NULL) == TUTTI_OK);
    send_text(to, "done");
    CHILD_CHECK(!receive_text(from, text, sizeof(text)));
    tti_store_release(store);
}

static void processes_join_by_tcp(void **state)
{
    (void)state;
    static const char *const urls[] = {"tcp://127.0.0.1:0", "tcp://localhost:0/some-token"};
    for (int i = 0; i < 2; i++) {
        struct helper helper = start_helper(tcp_child);
        struct tti_store *store = open_store(urls[i], true);
        assert_non_null(store);
        send_text(helper.to, tti_store_url(store));
        assert_int_equal(tti_store_set(store, "question", "42", 2, NULL), TUTTI_OK);
        char value[8] = "";
        assert_int_equal(tti_store_get(store, "answer", value, sizeof(value), NULL, LONG_MS, NULL), TUTTI_OK);
        assert_string_equal(value, "42");
        end_helper(&helper, 0);
        tti_store_release(store);
        tti_server_shutdown_all();
    }
}

static void serving_child(int from, int to)
{
    char text[8];
    struct tti_store *store = open_sent_store(from);
    int fd = memfd_create("passed", MFD_CLOEXEC);
    CHILD_CHECK(write(fd, "memory", 6) == 6);
    CHILD_CHECK(tti_store_put_fd(store, "fd", fd, 2, NULL) == TUTTI_OK);
    close(fd);
    send_text(to, "served");
    CHILD_CHECK(receive_text(from, text, sizeof(text)));
    tti_store_release(store); /* the parent is connected: the server goes on */
    send_text(to, "left");
    receive_text(from, text, sizeof(text));
}

static void read_passed(struct tti_store *store)
{
    int fd = -1;
    char content[8] = "";
    assert_int_equal(tti_store_get_fd(store, "fd", &fd, LONG_MS, NULL), TUTTI_OK);
    assert_int_equal(pread(fd, content, 6, 0), 6);
    assert_string_equal(content, "memory");
    close(fd);
}

static void the_first_one_may_leave(void **state)
{
    (void)state;
    char url[80];
    char text[16];
    unique_unix_url(url);
    struct helper helper = start_ready_helper(serving_child, url);
    struct tti_store *store = open_store(url, false);
    assert_non_null(store);
    read_passed(store);
    send_text(helper.to, "go");
    assert_true(receive_text(helper.from, text, sizeof(text)));
    read_passed(store);
    assert_int_equal(tti_store_set(store, "later", "1", 1, NULL), TUTTI_OK);
    struct tti_store *second = open_store(url, false); /* newcomers are let in as long as it lives */
    assert_non_null(second);
    assert_int_equal(tti_store_get(second, "later", text, 1, NULL, 0, NULL), TUTTI_OK);
    tti_store_release(second);
    end_helper(&helper, 0);
    /* Now the process has ended, and its server with it. */
    tutti_error error;
    assert_int_equal(tti_store_get(store, "never", text, 1, NULL, LONG_MS, &error), TUTTI_PEER_LEFT);
    assert_non_null(strstr(error.message, url));
    tti_store_release(store);
}

static void killed_child(int from, int to)
{
    char text[8];
    (void)open_sent_store(from);
    send_text(to, "served");
    receive_text(from, text, sizeof(text));
    _exit(1);
}

static void a_killed_server_ends_a_waiting_get(void **state)
{
    (void)state;
    char url[80];
    char text[16];
    unique_unix_url(url);
    struct helper helper = start_ready_helper(killed_child, url);
    pid_t killer = fork();
    if (killer == 0) {
        /* After the parent has seen the key, the child is inside its get, or about to be: either must end. */
        struct tti_store *store = open_store(url, false);
        CHILD_CHECK(store);
        CHILD_CHECK(tti_store_get(store, "ready", NULL, 0, NULL, LONG_MS, NULL) == TUTTI_OK);
        kill(helper.pid, SIGKILL);
        _exit(0);
    }
    struct tti_store *store = open_store(url, false);
    assert_non_null(store);
    tutti_status status_of_set = tti_store_set(store, "ready", NULL, 0, NULL);
    assert_true(status_of_set == TUTTI_OK || status_of_set == TUTTI_PEER_LEFT); /* it may die before it can answer */
    tutti_error error;
    char number[24];
    snprintf(number, sizeof(number), "(%d)", (int)helper.pid);
    assert_int_equal(tti_store_get(store, "never", text, 1, NULL, -1, &error), TUTTI_PEER_LEFT);
    assert_non_null(strstr(error.message, number));
    tti_store_release(store);
    expect_child(killer, 0);
    close(helper.to);
    close(helper.from);
    int status = 0;
    assert_int_equal(waitpid(helper.pid, &status, 0), helper.pid);
    assert_true(WIFSIGNALED(status));
    /* The name is free at once. */
    store = open_store(url, false);
    assert_non_null(store);
    tti_store_release(store);
}

/* In a child of fork every call on the parent's store is FORKED. Releasing it does nothing, and opening another one
 * works. */
static void in_forked_child(struct tti_store *store)
{
    tutti_error error;
    int fd = -1;
    CHILD_CHECK(tti_store_set(store, "k", "", 0, &error) == TUTTI_FORKED);
    CHILD_CHECK(tti_store_get(store, "k", NULL, 0, NULL, 0, &error) == TUTTI_FORKED);
    CHILD_CHECK(tti_store_remove(store, "k", &error) == TUTTI_FORKED);
    CHILD_CHECK(tti_store_put_fd(store, "k", 0, 1, &error) == TUTTI_FORKED);
    CHILD_CHECK(tti_store_get_fd(store, "k", &fd, 0, &error) == TUTTI_FORKED);
    tti_store_release(store);
    tti_store_release(store);
    tti_server_shutdown_all();
    struct tti_store *again = open_store(tti_store_url(store), false);
    CHILD_CHECK(again);
    bool shared = strncmp(tti_store_url(store), "memory:", 7) != 0;
    CHILD_CHECK(tti_store_get(again, "parents", NULL, 0, NULL, 0, NULL) == (shared ? TUTTI_OK : TUTTI_TIMEOUT));
    tti_store_release(again);
}

static void a_forked_child_is_refused(void **state)
{
    (void)state;
    static const char *const schemes[] = {"memory", "unix"};
    for (int i = 0; i < 2; i++) {
        char name[64];
        char url[80];
        unique_name(name, sizeof(name));
        snprintf(url, sizeof(url), "%s:%s", schemes[i], name);
        struct tti_store *store = open_store(url, false);
        assert_non_null(store);
        assert_int_equal(tti_store_set(store, "parents", NULL, 0, NULL), TUTTI_OK);
        pid_t child = fork();
        if (child == 0) {
            in_forked_child(store);
            _exit(0);
        }
        expect_child(child, 0);
        assert_int_equal(tti_store_get(store, "parents", NULL, 0, NULL, 0, NULL), TUTTI_OK);
        tti_store_release(store);
    }
}

/* A child that outlives its parent must not keep the name of the parent's server in use. */
static void a_forked_child_keeps_nothing(void **state)
{
    (void)state;
    char url[80];
    unique_unix_url(url);
    struct tti_store *store = open_store(url, false);
    assert_non_null(store);
    assert_int_equal(tti_store_set(store, "old", NULL, 0, NULL), TUTTI_OK);
    int hold[2];
    assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        CHILD_CHECK(read(hold[0], &byte, 1) == 0);
        _exit(0);
    }
    tti_store_release(store);
    store = open_store(url, false);
    assert_non_null(store);
    assert_int_equal(tti_store_get(store, "old", NULL, 0, NULL, 0, NULL), TUTTI_TIMEOUT);
    tti_store_release(store);
    close(hold[0]);
    close(hold[1]);
    expect_child(child, 0);
}

/* A user without a number in its user namespace has the same number as all other such users. Its process trusts no peer
 * until the user has a number. */
static void unmapped_user_trusts_no_peer(void **state)
{
    (void)state;
    enum { CANNOT_BE_TRIED = 77 };
    char url[80];
    unique_unix_url(url);
    const unsigned outside = (unsigned)geteuid();
    const pid_t child = fork();
    if (child == 0) {
        struct tti_store *store = NULL;
        tutti_error error;
        char text[32];
        if (unshare(CLONE_NEWUSER) != 0) {
            _exit(CANNOT_BE_TRIED);
        }
        CHILD_CHECK(tti_store_open(url, false, LONG_MS, &store, &error) == TUTTI_AUTH && !store);
        CHILD_CHECK(strstr(error.message, "user namespace"));
        const int map = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
        const int length = snprintf(text, sizeof(text), "12 %u 1\n", outside);
        if (map < 0 || write(map, text, (size_t)length) != length) {
            _exit(CANNOT_BE_TRIED);
        }
        CHILD_CHECK(geteuid() == 12);
        store = open_store(url, false);
        CHILD_CHECK(store && tti_store_set(store, "k", "", 0, &error) == TUTTI_OK);
        tti_store_release(store);
        tti_server_shutdown_all();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_BE_TRIED) {
        skip();
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Becomes another user, and reads the name of root's store. Returns a socket; *address is the store's. */
static int become_other_user(int from, struct sockaddr_un *address, socklen_t *length)
{
    char name[64];
    CHILD_CHECK(receive_text(from, name, sizeof(name)));
    CHILD_CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    *length = unix_address(address, 0, name);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* Another user connects: the server drops the connection unread. */
static void other_user_knocks(int from, int to)
{
    struct sockaddr_un address;
    socklen_t length;
    (void)to;
    int fd = become_other_user(from, &address, &length);
    CHILD_CHECK(connect(fd, (struct sockaddr *)&address, length) == 0);
    char byte;
    ssize_t count = read(fd, &byte, 1);
    CHILD_CHECK(count == 0 || (count < 0 && errno == ECONNRESET));
    close(fd);
}

static void another_user_is_not_let_in(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    char url[80];
    const char *name = unique_unix_url(url);
    struct helper helper = start_helper(other_user_knocks);
    struct tti_store *store = open_store(url, false);
    assert_non_null(store);
    int64_t dropped = tti_connection_dropped();
    send_text(helper.to, name);
    end_helper(&helper, 0);
    assert_int_equal(tti_connection_dropped(), dropped + 1);
    assert_int_equal(tti_store_set(store, "k", "", 0, NULL), TUTTI_OK);
    tti_store_release(store);
}

/* Another user occupies the name: the store refuses to connect to it. */
static void other_user_occupies(int from, int to)
{
    char text[8];
    struct sockaddr_un address;
    socklen_t length;
    int fd = become_other_user(from, &address, &length);
    CHILD_CHECK(bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 8) == 0);
    send_text(to, "bound");
    receive_text(from, text, sizeof(text));
    close(fd);
}

static void another_users_server_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    char url[80];
    const char *name = unique_unix_url(url);
    struct helper helper = start_ready_helper(other_user_occupies, name);
    struct tti_store *store = NULL;
    tutti_error error;
    assert_int_equal(tti_store_open(url, false, LONG_MS, &store, &error), TUTTI_AUTH);
    assert_null(store);
    end_helper(&helper, 0);
}

static int shut_down(void **state)
{
    (void)state;
    tti_server_shutdown_all();
    return 0;
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* of the tests' own pipes */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(processes_join_by_unix, shut_down),
        cmocka_unit_test_teardown(processes_join_by_file, shut_down),
        cmocka_unit_test_teardown(processes_join_by_tcp, shut_down),
        cmocka_unit_test_teardown(servers_follow_one_another, shut_down),
        cmocka_unit_test_teardown(the_first_one_may_leave, shut_down),
        cmocka_unit_test_teardown(a_killed_server_ends_a_waiting_get, shut_down),
        cmocka_unit_test_teardown(a_forked_child_is_refused, shut_down),
        cmocka_unit_test_teardown(a_forked_child_keeps_nothing, shut_down),
        cmocka_unit_test_teardown(unmapped_user_trusts_no_peer, shut_down),
        cmocka_unit_test_teardown(another_user_is_not_let_in, shut_down),
        cmocka_unit_test_teardown(another_users_server_is_refused, shut_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
