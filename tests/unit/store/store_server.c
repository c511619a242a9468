/* SPDX-License-Identifier: BSD-3-Clause */
/* Unauthenticated and broken clients lose their connection, and do no other harm to a server. */
#include "store_server_support.h"
#include "time_limits.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/mman.h>

#include "base/error.h"
#include "store/client/client.h"
#include "store/fork_safety.h"

static int connect_to(const struct fixture *f)
{
    struct sockaddr_un address;
    socklen_t length = unix_address(&address, (unsigned)geteuid(), f->name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, length), 0);
    return fd;
}

/* One write: the server closes at a wrong header, and a second write would fail. */
static void send_frame(int fd, struct tti_frame frame, const char *body, size_t length, int pass_fd)
{
    unsigned char bytes[TTI_FRAME_HEADER + 8];
    assert_true(length <= sizeof(bytes) - TTI_FRAME_HEADER);
    tti_frame_encode(&frame, bytes);
    if (length) {
        memcpy(bytes + TTI_FRAME_HEADER, body, length);
    }
    assert_int_equal(tti_wire_send(fd, bytes, TTI_FRAME_HEADER + length, pass_fd), TTI_FRAME_HEADER + length);
}

static int greet(const struct fixture *f)
{
    int fd = connect_to(f);
    send_frame(fd, (struct tti_frame){.type = TTI_FRAME_HELLO, .number = TTI_PROTOCOL_VERSION}, NULL, 0, -1);
    assert_int_equal(next_reply(fd), TUTTI_OK);
    return fd;
}

static void garbage_is_dropped_and_counted(void **state)
{
    struct fixture *f = *state;
    static const char *const garbage[] = {
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "\x16\x03\x01", /* the beginning of a TLS hello: too short for a header, but wrong already */
        "TTS2 looks like one, but is not",
        "TTS1\xff type out of range ......",
    };
    int count = (int)(sizeof(garbage) / sizeof(garbage[0]));
    for (int i = 0; i < count; i++) {
        int fd = connect_to(f);
        assert_true(send(fd, garbage[i], strlen(garbage[i]), MSG_NOSIGNAL) > 0);
        assert_int_equal(next_reply(fd), -1);
        close(fd);
    }
    expect_unharmed(f, count);
}

static void every_wrong_first_byte_string_is_survived(void **state)
{
    struct fixture *f = *state;
    /* A fixed sequence of random headers, a third of them with the right magic. */
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 300; i++) {
        unsigned char bytes[64];
        for (size_t k = 0; k < sizeof(bytes); k++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            bytes[k] = (unsigned char)seed;
        }
        if (i % 3 == 0) {
            memcpy(bytes, "TTS1", 4);
        }
        int fd = i % 2 ? connect_to(f) : greet(f);
        assert_true(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == sizeof(bytes));
        shutdown(fd, SHUT_WR);
        while (recv(fd, bytes, sizeof(bytes), 0) > 0) {
        }
        close(fd);
    }
    assert_int_equal(tti_store_set(f->store, "unharmed", NULL, 0, NULL), TUTTI_OK);
    assert_true(tti_connection_dropped() - f->dropped >= 200);
}

static void requests_out_of_place_are_dropped(void **state)
{
    struct fixture *f = *state;
    struct tti_frame hello = {.type = TTI_FRAME_HELLO, .number = TTI_PROTOCOL_VERSION};
    struct tti_frame set = {.type = TTI_FRAME_SET, .key_length = 1, .value_length = 1};
    struct tti_frame wrong[] = {
        hello,                                                                /* a second time */
        {.type = TTI_FRAME_REPLY},                                            /* from a client */
        {.type = TTI_FRAME_SET, .key_length = 0},                             /* no key */
        {.type = TTI_FRAME_GET, .key_length = 1, .value_length = 1},          /* a get with a value */
        {.type = TTI_FRAME_GET, .key_length = 1, .timeout_ms = -2},           /* no such timeout */
        {.type = TTI_FRAME_SET, .key_length = 1, .value_length = 65537},      /* too long */
        {.type = TTI_FRAME_SET, .key_length = 1, .value_length = UINT32_MAX}, /* much too long */
        {.type = TTI_FRAME_PUT_FD, .key_length = 1, .number = 1},             /* without a descriptor */
    };
    int count = (int)(sizeof(wrong) / sizeof(wrong[0]));
    for (int i = 0; i < count; i++) {
        int fd = greet(f);
        send_frame(fd, wrong[i], NULL, 0, -1);
        assert_int_equal(next_reply(fd), -1);
        close(fd);
    }
    int fd = connect_to(f); /* without hello */
    send_frame(fd, set, NULL, 0, -1);
    assert_int_equal(next_reply(fd), -1);
    close(fd);
    fd = greet(f); /* a second request while the first one waits */
    send_frame(fd, (struct tti_frame){.type = TTI_FRAME_GET, .key_length = 1, .timeout_ms = -1}, "k", 1, -1);
    send_frame(fd, set, "kv", 2, -1);
    assert_int_equal(next_reply(fd), -1);
    close(fd);
    expect_unharmed(f, count + 2);
}

static void other_versions_and_tokens_are_reported(void **state)
{
    struct fixture *f = *state;
    int fd = connect_to(f);
    send_frame(fd, (struct tti_frame){.type = TTI_FRAME_HELLO, .number = TTI_PROTOCOL_VERSION + 1}, NULL, 0, -1);
    assert_int_equal(next_reply(fd), TUTTI_VERSION);
    assert_int_equal(next_reply(fd), -1);
    close(fd);
    struct tti_store *served = open_store("tcp://127.0.0.1:0/right", true);
    assert_non_null(served);
    char url[300];
    strcpy(url, tti_store_url(served));
    struct tti_store *store = NULL;
    tutti_error error;
    strcpy(strrchr(url, '/'), "/wrong");
    assert_int_equal(tti_store_open(url, false, LONG_MS, &store, &error), TUTTI_AUTH);
    strcpy(strrchr(url, '/'), "");
    assert_int_equal(tti_store_open(url, false, LONG_MS, &store, &error), TUTTI_AUTH);
    strcpy(url, tti_store_url(served)); /* the port is taken, so the second opener becomes a client of the first */
    struct tti_store *joined = open_store(url, true);
    assert_non_null(joined);
    assert_int_equal(tti_store_set(joined, "k", NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get(served, "k", NULL, 0, NULL, 0, NULL), TUTTI_OK);
    tti_store_release(joined);
    tti_store_release(served);
    expect_unharmed(f, 3);
}

/* A socket at a free port; `port` gets its number. */
static int take_port(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void of_several_ports_the_free_one_is_taken(void **state)
{
    (void)state;
    int ports[2];
    int taken = take_port(&ports[0]);
    int next = take_port(&ports[1]);
    struct tti_store *stranger = open_store("tcp://127.0.0.1:0/other-job", true);
    assert_non_null(stranger);
    const char *others = strrchr(tti_store_url(stranger), ':') + 1;
    char url[300];
    char found[300];
    snprintf(url, sizeof(url), "tcp://127.0.0.1:%d,%d,%d/job", ports[0], (int)strtol(others, NULL, 10), ports[1]);
    snprintf(found, sizeof(found), "tcp://127.0.0.1:%d/job", ports[1]);
    tutti_error error;
    struct tti_store *store = NULL;
    assert_int_equal(tti_store_open(url, true, 0, &store, &error), TUTTI_TIMEOUT); /* none is free */
    assert_non_null(strstr(error.message, "all are taken"));
    assert_int_equal(tti_store_open(url, false, 0, &store, &error), TUTTI_TIMEOUT);
    close(next);
    struct tti_store *server = open_store(url, true);
    struct tti_store *client = open_store(url, false);
    struct tti_store *again = open_store(url, true); /* the same job again: it joins the existing server */
    assert_non_null(server);
    assert_non_null(client);
    assert_non_null(again);
    assert_true(tti_store_served_here(server));
    assert_false(tti_store_served_here(client));
    assert_false(tti_store_served_here(again));
    assert_string_equal(tti_store_url(server), found);
    assert_string_equal(tti_store_url(client), found);
    assert_int_equal(tti_store_set(again, "k", NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(tti_store_get(client, "k", NULL, 0, NULL, 0, NULL), TUTTI_OK);
    tti_store_release(again);
    tti_store_release(client);
    tti_store_release(server);
    tti_store_release(stranger);
    close(taken);
    static const char *const wrong[] = {
        "tcp://h:1,2",    "tcp://h:1,/t", "tcp://h:,1/t", "tcp://h:0,1/t",
        "tcp://h:1,2x/t", "tcp://h:1,",   "tcp://h:1,2,", "tcp://h:1,2,3,4,5,6,7,8,9/t"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(tti_store_open(wrong[i], true, 0, &store, &error), TUTTI_INVALID_ARGUMENT);
    }
}

static void a_silent_server_ends_the_wait(void **state)
{
    (void)state;
    /* A server in a process that is stopped: the kernel accepts the bytes, and no reply comes. */
    int ends[2];
    char url[300] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct tti_store *served = open_store("tcp://127.0.0.1:0", true);
        CHILD_CHECK(served && write(ends[1], tti_store_url(served), strlen(tti_store_url(served)) + 1) > 0);
        pause();
        _exit(0);
    }
    close(ends[1]); /* the child's end is the end of the wait */
    assert_true(read(ends[0], url, sizeof(url)) > 0);
    struct tti_store *store = open_store(url, false);
    assert_non_null(store);
    assert_int_equal(tti_store_set(store, "before", NULL, 0, NULL), TUTTI_OK);
    tti_store_set_response_timeout(store, 200);
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
    assert_int_equal(tti_store_get(store, "never", NULL, 0, NULL, 100, NULL), TUTTI_TIMEOUT);
    assert_int_equal(tti_store_set(store, "after", NULL, 0, NULL), TUTTI_TIMEOUT);
    tti_store_release(store);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
}

static void a_frame_may_come_byte_by_byte(void **state)
{
    struct fixture *f = *state;
    int fd = greet(f);
    unsigned char bytes[TTI_FRAME_HEADER + 8];
    tti_frame_encode(&(struct tti_frame){.type = TTI_FRAME_SET, .key_length = 5, .value_length = 3}, bytes);
    static const unsigned char body[8] = "bytesabc";
    memcpy(bytes + TTI_FRAME_HEADER, body, sizeof(body));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        assert_int_equal(send(fd, bytes + i, 1, MSG_NOSIGNAL), 1);
    }
    assert_int_equal(next_reply(fd), TUTTI_OK);
    char value[4] = "";
    assert_int_equal(tti_store_get(f->store, "bytes", value, 3, NULL, 0, NULL), TUTTI_OK);
    assert_string_equal(value, "abc");
    close(fd);
    fd = greet(f); /* and one that breaks off is no harm */
    assert_int_equal(send(fd, bytes, 10, MSG_NOSIGNAL), 10);
    close(fd);
    expect_unharmed(f, 0);
}

static void only_one_descriptor_is_taken(void **state)
{
    struct fixture *f = *state;
    int file = memfd_create("passed", MFD_CLOEXEC);
    int before = open_descriptors();
    int fd = greet(f);
    send_frame(fd, (struct tti_frame){.type = TTI_FRAME_SET, .key_length = 1}, NULL, 0, file); /* not with a set */
    assert_int_equal(next_reply(fd), -1);
    close(fd);
    fd = greet(f); /* two in one message */
    union {
        struct cmsghdr align;
        unsigned char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    unsigned char header[TTI_FRAME_HEADER];
    tti_frame_encode(&(struct tti_frame){.type = TTI_FRAME_PUT_FD, .key_length = 1, .number = 1}, header);
    struct iovec part = {.iov_base = header, .iov_len = sizeof(header)};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    memset(&control, 0, sizeof(control));
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(rights), (int[2]){file, file}, 2 * sizeof(int));
    assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), sizeof(header));
    assert_int_equal(next_reply(fd), -1);
    close(fd);
    expect_unharmed(f, 2);
    assert_int_equal(open_descriptors(), before);
    close(file);
}

static void silent_strangers_do_not_keep_others_out(void **state)
{
    struct fixture *f = *state;
    enum { UNAUTHENTICATED = 300 }; /* more than the server tolerates at a time */
    int fds[UNAUTHENTICATED];
    for (int i = 0; i < UNAUTHENTICATED; i++) {
        fds[i] = connect_to(f);
    }
    struct tti_store *store = open_store(f->url, false);
    assert_non_null(store);
    assert_int_equal(tti_store_set(store, "in", NULL, 0, NULL), TUTTI_OK);
    tti_store_release(store);
    assert_int_equal(next_reply(fds[0]), -1); /* the oldest had to go */
    for (int i = 0; i < UNAUTHENTICATED; i++) {
        close(fds[i]);
    }
}

/* More connections than may be unauthenticated, but all have sent their hello before the server accepts them: none is
 * dropped. */
static void a_crowd_is_let_in(void **state)
{
    (void)state;
    enum { CROWD = 330 };
    char name[64];
    struct sockaddr_un address;
    struct tti_service service;
    tutti_error error;
    int fds[CROWD];
    unique_name(name, sizeof(name));
    const socklen_t length = unix_address(&address, (unsigned)geteuid(), name);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, CROWD + 1), 0);
    assert_int_equal(tti_service_begin(&service, listener, true, "", NULL, &error), TUTTI_OK);
    for (int i = 0; i < CROWD; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(fds[i], (struct sockaddr *)&address, length) != 0) {
            assert_int_equal(errno, EAGAIN);
            skip(); /* net.core.somaxconn is smaller */
        }
        send_frame(fds[i], (struct tti_frame){.type = TTI_FRAME_HELLO, .number = TTI_PROTOCOL_VERSION}, NULL, 0, -1);
    }
    while (tti_service_step(&service, false)) {
    }
    assert_int_equal(service.clients, CROWD);
    assert_int_equal(service.unauthenticated, 0);
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(next_reply(fds[i]), TUTTI_OK);
        close(fds[i]);
    }
    tti_service_end(&service);
    close(service.wake);
}

static int attempts;
static int replying; /* the server's end */

/* A server that closes the first connection, as with too many unauthenticated ones. */
static tutti_status connect_in_a_crowd(struct tti_client *client, int64_t deadline_ns, int *fd, tutti_error *error)
{
    int ends[2];
    unsigned char bytes[2 * TTI_FRAME_HEADER];
    (void)client;
    (void)deadline_ns;
    (void)error;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    if (attempts++ == 0) {
        close(ends[1]);
    } else { /* two replies: to the hello, and to the request */
        const struct tti_frame reply = {.type = TTI_FRAME_REPLY, .number = TTI_PROTOCOL_VERSION};
        tti_frame_encode(&reply, bytes);
        tti_frame_encode(&reply, bytes + TTI_FRAME_HEADER);
        assert_int_equal(send(ends[1], bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
        replying = ends[1];
    }
    *fd = tti_private_adopt(ends[0]);
    return TUTTI_OK;
}

static tutti_status connect_to_no_server(struct tti_client *client, int64_t deadline_ns, int *fd, tutti_error *error)
{
    (void)client;
    (void)deadline_ns;
    (void)fd;
    attempts++;
    return tti_error_set(error, TUTTI_PEER_LEFT, "no server listens");
}

static void a_crowded_server_is_asked_again(void **state)
{
    (void)state;
    tutti_error error;
    struct tti_client *client = tti_client_make(sizeof(*client), NULL, LONG_MS);
    assert_non_null(client);
    client->connect = connect_in_a_crowd;
    attempts = 0;
    assert_int_equal(tti_client_set(&client->base, "key", "value", 5, &error), TUTTI_OK);
    assert_int_equal(attempts, 2);
    close(replying);
    tti_client_free(client);
    client = tti_client_make(sizeof(*client), NULL, LONG_MS); /* without a listener, that is the end */
    assert_non_null(client);
    client->connect = connect_to_no_server;
    attempts = 0;
    tti_client_set_response_timeout(&client->base, -1);
    assert_int_equal(tti_client_get(&client->base, "key", NULL, 0, NULL, -1, &error), TUTTI_PEER_LEFT);
    assert_int_equal(tti_client_get(&client->base, "key", NULL, 0, NULL, 0, &error), TUTTI_PEER_LEFT);
    assert_int_equal(attempts, 2);
    tti_client_free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_server_ends_the_wait), /* forks, so before there is any thread */
        TEST(garbage_is_dropped_and_counted),
        TEST(every_wrong_first_byte_string_is_survived),
        TEST(requests_out_of_place_are_dropped),
        TEST(other_versions_and_tokens_are_reported),
        TEST(of_several_ports_the_free_one_is_taken),
        TEST(a_frame_may_come_byte_by_byte),
        TEST(only_one_descriptor_is_taken),
        TEST(silent_strangers_do_not_keep_others_out),
        cmocka_unit_test(a_crowd_is_let_in),
        cmocka_unit_test(a_crowded_server_is_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
