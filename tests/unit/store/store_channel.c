/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proofs and the sealed frames of a connection against attackers, at the level of bytes: with a server of this
 * process, clients that break the protocol, and a relay that changes frames.
 */
#include "time_limits.h"
#include "unit/store/token_store_support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>

#include "store/server/connection.h"
#include "store/server/reply.h"
#include "store/server/server.h"
#include "store/server/service.h"
#include "store/wire/channel.h"

struct fixture {
    struct tti_store *served;
    char url[300];
    int port;
    struct tti_secret secret;
    int64_t dropped;
};

static int set_up(void **state)
{
    const char *why;
    tutti_error error;
    struct fixture *f = calloc(1, sizeof(*f));
    *state = f;
    if (!f || !tti_sodium(&why)) {
        return 0; /* the tests skip themselves */
    }
    f->served = serve_with(TOKEN_A, f->url);
    f->port = (int)strtol(strrchr(f->url, ':') + 1, NULL, 10);
    f->dropped = tti_connection_dropped();
    return tti_secret_read(&f->secret, &error) == TUTTI_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f) {
        tti_store_release(f->served);
    }
    set_token(NULL);
    tti_server_shutdown_all();
    free(f);
    return 0;
}

static int connect_to(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Sends a frame in one write. The header claims `length` bytes of value; `count` are sent. */
static void send_frame(int fd, uint8_t type, uint32_t number, const void *value, size_t length, size_t count)
{
    unsigned char bytes[TTI_FRAME_HEADER + 128];
    const struct tti_frame frame = {.type = type, .number = number, .value_length = (uint32_t)length};
    assert_true(count <= 128);
    tti_frame_encode(&frame, bytes);
    if (count) {
        memcpy(bytes + TTI_FRAME_HEADER, value, count);
    }
    assert_int_equal(send(fd, bytes, TTI_FRAME_HEADER + count, MSG_NOSIGNAL), TTI_FRAME_HEADER + count);
}

/* The status of the next reply, or -1 if the server has hung up; `value` gets what comes with it. */
static int next_reply(int fd, struct tti_frame *frame, unsigned char *value)
{
    unsigned char header[TTI_FRAME_HEADER];
    *frame = (struct tti_frame){.type = 0};
    const ssize_t count = recv(fd, header, sizeof(header), MSG_WAITALL);
    if (count != sizeof(header)) {
        assert_true(count == 0 || (count < 0 && errno == ECONNRESET));
        return -1;
    }
    assert_true(tti_frame_decode(header, frame));
    assert_int_equal(frame->type, TTI_FRAME_REPLY);
    assert_true(frame->value_length <= TTI_CHANNEL_ANSWER);
    assert_int_equal(recv(fd, value, frame->value_length, MSG_WAITALL), frame->value_length);
    return frame->status;
}

static void expect_hung_up(int fd)
{
    struct tti_frame frame;
    unsigned char value[TTI_CHANNEL_ANSWER];
    assert_int_equal(next_reply(fd, &frame, value), -1);
    close(fd);
}

static void expect_refused(int fd, uint32_t why)
{
    struct tti_frame frame;
    unsigned char value[TTI_CHANNEL_ANSWER];
    assert_int_equal(next_reply(fd, &frame, value), TUTTI_AUTH);
    assert_int_equal(frame.number, why);
    expect_hung_up(fd);
}

/* A connection that has sent its challenge and got `answer`. */
static int challenge(const struct fixture *f, unsigned char answer[TTI_CHANNEL_ANSWER])
{
    static const unsigned char nonce[TTI_CHANNEL_NONCE] = "always the same";
    struct tti_frame frame;
    const int fd = connect_to(f->port);
    send_frame(fd, TTI_FRAME_CHALLENGE, TTI_PROTOCOL_VERSION, nonce, sizeof(nonce), sizeof(nonce));
    assert_int_equal(next_reply(fd, &frame, answer), TUTTI_OK);
    assert_int_equal(frame.value_length, TTI_CHANNEL_ANSWER);
    return fd;
}

static void expect_unharmed(const struct fixture *f)
{
    struct tti_store *store = open_store(f->url, false);
    assert_non_null(store);
    assert_int_equal(tti_store_set(store, "unharmed", NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(tti_store_remove(f->served, "unharmed", NULL), TUTTI_OK);
    tti_store_release(store);
}

static void malformed_proofs_cost_the_connection(void **state)
{
    struct fixture *f = *state;
    unsigned char bytes[128] = "whatever";
    unsigned char answer[TTI_CHANNEL_ANSWER];
    unsigned char other[TTI_CHANNEL_ANSWER];
    struct tti_frame frame;
    need_sodium();
    static const size_t lengths[] = {0, 1, 31, 33, 64, 65536}; /* truncated and oversized, according to the header */
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        int fd = connect_to(f->port);
        send_frame(fd, TTI_FRAME_CHALLENGE, TTI_PROTOCOL_VERSION, NULL, lengths[i], 0);
        expect_hung_up(fd);
        fd = challenge(f, answer);
        send_frame(fd, TTI_FRAME_PROOF, 0, NULL, lengths[i], 0);
        expect_hung_up(fd);
    }
    int fd = connect_to(f->port); /* a proof of nothing */
    send_frame(fd, TTI_FRAME_PROOF, 0, bytes, TTI_CHANNEL_PROOF, TTI_CHANNEL_PROOF);
    expect_hung_up(fd);
    fd = connect_to(f->port); /* requests without any */
    send_frame(fd, TTI_FRAME_SET, 0, bytes, 8, 8);
    expect_hung_up(fd);
    fd = connect_to(f->port);
    send_frame(fd, TTI_FRAME_HELLO, TTI_PROTOCOL_VERSION, NULL, 0, 0);
    expect_refused(fd, TTI_REFUSED_NO_PROOF);
    fd = challenge(f, answer); /* hello, or the challenge again, in place of the proof */
    send_frame(fd, TTI_FRAME_HELLO, TTI_PROTOCOL_VERSION, NULL, 0, 0);
    expect_hung_up(fd);
    fd = challenge(f, answer);
    send_frame(fd, TTI_FRAME_CHALLENGE, TTI_PROTOCOL_VERSION, bytes, TTI_CHANNEL_NONCE, 0);
    expect_hung_up(fd);
    fd = connect_to(f->port);
    send_frame(fd, TTI_FRAME_CHALLENGE, TTI_PROTOCOL_VERSION + 1, bytes, TTI_CHANNEL_NONCE, TTI_CHANNEL_NONCE);
    assert_int_equal(next_reply(fd, &frame, answer), TUTTI_VERSION);
    expect_hung_up(fd);
    fd = challenge(f, answer); /* an invalid proof, and the server's own proof sent back */
    send_frame(fd, TTI_FRAME_PROOF, 0, bytes, TTI_CHANNEL_PROOF, TTI_CHANNEL_PROOF);
    expect_refused(fd, TTI_REFUSED_PROOF);
    fd = challenge(f, answer);
    send_frame(fd, TTI_FRAME_PROOF, 0, answer + TTI_CHANNEL_NONCE, TTI_CHANNEL_PROOF, TTI_CHANNEL_PROOF);
    expect_refused(fd, TTI_REFUSED_PROOF);
    fd = challenge(f, answer); /* the answer that another connection got to the same challenge */
    const int second = challenge(f, other);
    assert_memory_not_equal(answer, other, TTI_CHANNEL_NONCE);
    send_frame(second, TTI_FRAME_PROOF, 0, answer + TTI_CHANNEL_NONCE, TTI_CHANNEL_PROOF, TTI_CHANNEL_PROOF);
    expect_refused(second, TTI_REFUSED_PROOF);
    close(fd); /* in the middle of it */
    expect_unharmed(f);
    assert_true(tti_connection_dropped() - f->dropped >= 20);
}

/* A server in a thread of the test, which sends the given answer to its only client. */
struct impostor {
    int listener;
    char url[64];
    pthread_t thread;
    const unsigned char *answer; /* NULL: the client's own number, and the best proof of it without the token */
};

static void *pretend(void *argument)
{
    struct impostor *i = argument;
    unsigned char bytes[TTI_FRAME_HEADER + TTI_CHANNEL_NONCE];
    unsigned char reply[TTI_FRAME_HEADER + TTI_CHANNEL_ANSWER];
    const struct tti_frame frame = {
        .type = TTI_FRAME_REPLY, .number = TTI_PROTOCOL_VERSION, .value_length = TTI_CHANNEL_ANSWER};
    const int fd = accept4(i->listener, NULL, NULL, SOCK_CLOEXEC);
    ssize_t count = recv(fd, bytes, sizeof(bytes), MSG_WAITALL);
    tti_frame_encode(&frame, reply);
    memcpy(reply + TTI_FRAME_HEADER, bytes + TTI_FRAME_HEADER, TTI_CHANNEL_NONCE);
    memcpy(reply + TTI_FRAME_HEADER + TTI_CHANNEL_NONCE, bytes + TTI_FRAME_HEADER, TTI_CHANNEL_NONCE);
    if (i->answer) {
        memcpy(reply + TTI_FRAME_HEADER, i->answer, TTI_CHANNEL_ANSWER);
    }
    send(fd, reply, sizeof(reply), MSG_NOSIGNAL);
    count += recv(fd, bytes, 1, 0); /* a client that refuses the proof sends nothing more */
    close(fd);
    return (void *)(intptr_t)count;
}

static int listen_here(char *url, size_t capacity)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0 && bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 8) == 0 &&
                getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    snprintf(url, capacity, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    return listener;
}

static void an_impostor_learns_nothing(void **state)
{
    struct fixture *f = *state;
    unsigned char recorded[TTI_CHANNEL_ANSWER];
    need_sodium();
    close(challenge(f, recorded));
    for (int round = 0; round < 2; round++) {
        struct impostor i = {.answer = round ? recorded : NULL};
        struct tti_store *store = NULL;
        tutti_error error;
        void *count = NULL;
        i.listener = listen_here(i.url, sizeof(i.url));
        assert_int_equal(pthread_create(&i.thread, NULL, pretend, &i), 0);
        assert_int_equal(tti_store_open(i.url, false, LONG_MS, &store, &error), TUTTI_AUTH);
        pthread_join(i.thread, &count);
        assert_int_equal((int)(intptr_t)count, TTI_FRAME_HEADER + TTI_CHANNEL_NONCE);
        close(i.listener);
    }
}

/* ---- a relay in between ------------------------------------------------------------------------------------------ */

enum { TO_SERVER, TO_CLIENT };

/* Carries bytes between one client and the server, keeps them, and changes one. */
struct relay {
    int listener;
    int port; /* of the server */
    char url[64];
    pthread_t thread;
    int spoil_direction;
    long spoil_at; /* -1: nothing */
    size_t counts[2];
    unsigned char kept[2][4096];
};

static bool carry(struct relay *r, int direction, int from, int to)
{
    unsigned char bytes[4096];
    const ssize_t count = recv(from, bytes, sizeof(bytes), 0);
    for (ssize_t i = 0; i < count; i++) {
        if (r->spoil_direction == direction && r->spoil_at == (long)r->counts[direction]) {
            bytes[i] ^= 0x10;
        }
        if (r->counts[direction] < sizeof(r->kept[direction])) {
            r->kept[direction][r->counts[direction]] = bytes[i];
        }
        r->counts[direction]++;
    }
    return count > 0 && send(to, bytes, (size_t)count, MSG_NOSIGNAL) == count;
}

static void *run_relay(void *argument)
{
    struct relay *r = argument;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)r->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct pollfd first = {.fd = r->listener, .events = POLLIN};
    const int client = poll(&first, 1, 20000) == 1 ? accept4(r->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    close(r->listener); /* another attempt is refused */
    bool good = client >= 0 && connect(server, (struct sockaddr *)&address, sizeof(address)) == 0;
    while (good) {
        struct pollfd p[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        good = poll(p, 2, -1) > 0;
        good = good && (!p[0].revents || carry(r, TO_SERVER, client, server));
        good = good && (!p[1].revents || carry(r, TO_CLIENT, server, client));
    }
    if (client >= 0) {
        close(client);
    }
    close(server);
    return NULL;
}

static struct relay *start_relay(const struct fixture *f, int direction, long at)
{
    struct relay *r = calloc(1, sizeof(*r));
    assert_non_null(r);
    *r = (struct relay){.port = f->port, .spoil_direction = direction, .spoil_at = at};
    r->listener = listen_here(r->url, sizeof(r->url));
    assert_int_equal(pthread_create(&r->thread, NULL, run_relay, r), 0);
    return r;
}

/* The client's requests through the relay: one set and one get. */
static tutti_status talk(const struct relay *r, int64_t timeout_ms, tutti_status *of_get, char value[8])
{
    struct tti_store *store = NULL;
    tutti_error error;
    tutti_status status = tti_store_open(r->url, false, timeout_ms, &store, &error);
    *of_get = status;
    if (status == TUTTI_OK) {
        status = tti_store_set(store, "key in between", "secret!", 8, &error);
        *of_get = tti_store_get(store, "greeting", value, 8, NULL, LONG_MS, &error);
        tti_store_release(store);
    }
    return status;
}

/* Where the frames of `talk` lie: three of the greeting, then SET and GET. */
#define CHALLENGE_AT 0
#define PROOF_AT     (TTI_FRAME_HEADER + TTI_CHANNEL_NONCE)
#define HELLO_AT     (PROOF_AT + TTI_FRAME_HEADER + TTI_CHANNEL_PROOF)
#define SET_AT       (HELLO_AT + TTI_FRAME_HEADER + TTI_SODIUM_TAG)
#define GET_AT       (SET_AT + TTI_FRAME_HEADER + 14 + 8 + TTI_SODIUM_TAG)
#define ANSWER_AT    0
#define HELLO_REPLY  (TTI_FRAME_HEADER + TTI_CHANNEL_ANSWER + TTI_FRAME_HEADER)
#define SET_REPLY    (HELLO_REPLY + TTI_FRAME_HEADER + TTI_SODIUM_TAG)
#define GET_REPLY    (SET_REPLY + TTI_FRAME_HEADER + TTI_SODIUM_TAG)
#define TIMEOUT_BYTE 16 /* of a header: read, but unused by most frames */

static void a_relay_in_between_reads_nothing(void **state)
{
    struct fixture *f = *state;
    need_sodium();
    assert_int_equal(tti_store_set(f->served, "greeting", "welcome", 8, NULL), TUTTI_OK);
    struct relay *r = start_relay(f, TO_SERVER, -1);
    char value[8] = "";
    tutti_status of_get;
    assert_int_equal(talk(r, LONG_MS, &of_get, value), TUTTI_OK);
    assert_int_equal(of_get, TUTTI_OK);
    assert_string_equal(value, "welcome");
    pthread_join(r->thread, NULL);
    assert_int_equal(r->counts[TO_SERVER], GET_AT + TTI_FRAME_HEADER + 8 + TTI_SODIUM_TAG);
    assert_int_equal(r->counts[TO_CLIENT], GET_REPLY + TTI_FRAME_HEADER + 8 + TTI_SODIUM_TAG);
    static const char *const words[] = {"key in", "secret", "greeting", "welcome", "token"};
    for (int direction = 0; direction < 2; direction++) {
        for (int i = 0; i < 5; i++) {
            assert_null(memmem(r->kept[direction], r->counts[direction], words[i], strlen(words[i])));
        }
    }
    /* A replay of the same bytes: the server has another nonce by now. */
    struct tti_frame frame;
    unsigned char answer[TTI_CHANNEL_ANSWER];
    const int fd = connect_to(f->port);
    assert_int_equal(tti_store_remove(f->served, "key in between", NULL), TUTTI_OK);
    assert_int_equal(send(fd, r->kept[TO_SERVER], PROOF_AT, MSG_NOSIGNAL), PROOF_AT);
    assert_int_equal(next_reply(fd, &frame, answer), TUTTI_OK);
    assert_int_equal(send(fd, r->kept[TO_SERVER] + PROOF_AT, HELLO_AT - PROOF_AT, MSG_NOSIGNAL), HELLO_AT - PROOF_AT);
    expect_refused(fd, TTI_REFUSED_PROOF);
    assert_int_equal(tti_store_get(f->served, "key in between", NULL, 0, NULL, 0, NULL), TUTTI_TIMEOUT);
    free(r);
}

static void a_relay_in_between_changes_nothing(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int direction;
        long at;
        bool greeted; /* the greeting has passed by then */
    } places[] = {
        {TO_SERVER, CHALLENGE_AT, false},
        {TO_SERVER, CHALLENGE_AT + TIMEOUT_BYTE, false},
        {TO_SERVER, CHALLENGE_AT + TTI_FRAME_HEADER, false},
        {TO_SERVER, PROOF_AT + TTI_FRAME_HEADER + 5, false},
        {TO_SERVER, HELLO_AT + TIMEOUT_BYTE, false},
        {TO_SERVER, HELLO_AT + TTI_FRAME_HEADER + 15, false},
        {TO_CLIENT, ANSWER_AT + TTI_FRAME_HEADER, false},
        {TO_CLIENT, ANSWER_AT + TTI_FRAME_HEADER + TTI_CHANNEL_NONCE, false},
        {TO_CLIENT, HELLO_REPLY + TIMEOUT_BYTE, false},
        {TO_CLIENT, HELLO_REPLY + TTI_FRAME_HEADER, false},
        {TO_SERVER, SET_AT + TIMEOUT_BYTE, true},
        {TO_SERVER, SET_AT + TTI_FRAME_HEADER, true},
        {TO_SERVER, SET_AT + TTI_FRAME_HEADER + 20, true},
        {TO_SERVER, SET_AT + TTI_FRAME_HEADER + 22, true},
        {TO_CLIENT, SET_REPLY + TIMEOUT_BYTE, true},
        {TO_CLIENT, GET_REPLY + TTI_FRAME_HEADER + 3, true},
        {TO_CLIENT, GET_REPLY + TTI_FRAME_HEADER + 10, true},
    };
    need_sodium();
    assert_int_equal(tti_store_set(f->served, "greeting", "welcome", 8, NULL), TUTTI_OK);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char value[8] = "before";
        tutti_status of_get;
        struct relay *r = start_relay(f, places[i].direction, places[i].at);
        const tutti_status of_set = talk(r, places[i].greeted ? LONG_MS : 0, &of_get, value);
        const bool in_get = places[i].at >= GET_REPLY && places[i].direction == TO_CLIENT;
        if (of_get == TUTTI_OK || (of_set == TUTTI_OK) != in_get || strcmp(value, "before") != 0) {
            fail_msg("byte %ld in direction %d: %d, %d, \"%s\"", places[i].at, places[i].direction, of_set, of_get,
                     value);
        }
        pthread_join(r->thread, NULL);
        free(r);
        /* A set that was changed before it reached the server has not happened; one whose reply was changed has. */
        assert_int_equal(tti_store_get(f->served, "key in between", NULL, 0, NULL, 0, NULL) == TUTTI_TIMEOUT,
                         !places[i].greeted || places[i].direction == TO_SERVER);
        assert_int_equal(tti_store_remove(f->served, "key in between", NULL), TUTTI_OK);
    }
    expect_unharmed(f);
}

/* ---- the channel by itself --------------------------------------------------------------------------------------- */

static void frames_come_once_and_in_order(void **state)
{
    struct fixture *f = *state;
    struct tti_channel client = {.stage = TTI_CHANNEL_OPEN};
    struct tti_channel server = client;
    unsigned char header[TTI_FRAME_HEADER];
    unsigned char nonce[TTI_CHANNEL_NONCE];
    unsigned char answer[TTI_CHANNEL_ANSWER];
    unsigned char proof[TTI_CHANNEL_PROOF];
    need_sodium();
    tti_frame_encode(&(struct tti_frame){.type = TTI_FRAME_CHALLENGE}, header);
    assert_true(tti_channel_begin(&client, header, nonce));
    assert_true(tti_channel_answer(&server, &f->secret, header, nonce, answer));
    assert_true(tti_channel_prove(&client, &f->secret, answer, proof));
    assert_true(tti_channel_check(&server, &f->secret, proof));
    tti_channel_seal(&client, &f->secret, true);
    tti_channel_seal(&server, &f->secret, false);
    enum { LENGTH = 10 };
    unsigned char frames[3][LENGTH + TTI_SODIUM_TAG] = {"first....", "second...", "third...."};
    unsigned char bytes[LENGTH + TTI_SODIUM_TAG];
    tti_frame_encode(&(struct tti_frame){.type = TTI_FRAME_SET}, header);
    for (int i = 0; i < 3; i++) {
        tti_channel_encrypt(&client, header, frames[i], LENGTH);
    }
    struct tti_channel fresh = server;
#define ARRIVES(channel, frame)                                                                                        \
    (memcpy(bytes, frame, sizeof(bytes)), tti_channel_decrypt(channel, header, bytes, LENGTH))
    assert_false(ARRIVES(&server, frames[1])); /* left out */
    server = fresh;
    assert_true(ARRIVES(&server, frames[0]));
    assert_string_equal((char *)bytes, "first....");
    struct tti_channel second = server;
    assert_false(ARRIVES(&server, frames[0])); /* repeated */
    server = second;
    assert_true(ARRIVES(&server, frames[1]));
    assert_true(ARRIVES(&server, frames[2]));
    assert_string_equal((char *)bytes, "third....");
    server = fresh;
    assert_false(ARRIVES(&client, frames[0])); /* sent back */
    header[12] ^= 1;                           /* under another header */
    assert_false(ARRIVES(&server, frames[0]));
    tti_channel_end(&client);
    assert_int_equal(client.stage, TTI_CHANNEL_OPEN);
}

/* ---- many, slow and silent --------------------------------------------------------------------------------------- */

static void slow_ones_do_not_keep_others_out(void **state)
{
    struct fixture *f = *state;
    enum { UNAUTHENTICATED = 300 }; /* more than the server tolerates at a time */
    static const unsigned char nonce[TTI_CHANNEL_NONCE] = "slow";
    int fds[UNAUTHENTICATED];
    need_sodium();
    for (int i = 0; i < UNAUTHENTICATED; i++) { /* silent; in the middle of the challenge; before the proof */
        fds[i] = connect_to(f->port);
        if (i % 3 != 0) {
            send_frame(fds[i], TTI_FRAME_CHALLENGE, TTI_PROTOCOL_VERSION, nonce, sizeof(nonce), i % 3 == 1 ? 5 : 32);
        }
    }
    expect_unharmed(f);
    struct pollfd oldest = {.fd = fds[0], .events = POLLIN};
    assert_int_equal(poll(&oldest, 1, LONG_MS), 1);
    expect_hung_up(fds[0]); /* the oldest had to go */
    for (int i = 1; i < UNAUTHENTICATED; i++) {
        close(fds[i]);
    }
    expect_unharmed(f);
}

/* The deadline of an unauthenticated connection begins with accept; a challenge does not begin it again. */
static void the_time_to_prove_it_ends(void **state)
{
    struct fixture *f = *state;
    struct tti_service service;
    tutti_error error;
    char url[64];
    static const unsigned char nonce[TTI_CHANNEL_NONCE] = "too slow";
    unsigned char answer[TTI_CHANNEL_ANSWER];
    struct tti_frame frame;
    need_sodium();
    const int listener = listen_here(url, sizeof(url));
    fcntl(listener, F_SETFL, O_NONBLOCK);
    assert_int_equal(tti_service_begin(&service, listener, false, "", &f->secret, &error), TUTTI_OK);
    const int fd = connect_to((int)strtol(strrchr(url, ':') + 1, NULL, 10));
    while (!service.connections) {
        tti_service_step(&service, true);
    }
    const int64_t deadline = service.connections->deadline_ns;
    send_frame(fd, TTI_FRAME_CHALLENGE, TTI_PROTOCOL_VERSION, nonce, sizeof(nonce), sizeof(nonce));
    while (service.connections->channel.stage == TTI_CHANNEL_OPEN) {
        tti_service_step(&service, true);
    }
    assert_int_equal(next_reply(fd, &frame, answer), TUTTI_OK);
    assert_int_equal(service.connections->deadline_ns, deadline);
    service.connections->deadline_ns = 0; /* long ago */
    tti_service_step(&service, false);
    assert_null(service.connections);
    assert_int_equal(service.unauthenticated, 0);
    expect_hung_up(fd);
    tti_service_end(&service);
    close(service.wake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(malformed_proofs_cost_the_connection, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_impostor_learns_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_relay_in_between_reads_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_relay_in_between_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frames_come_once_and_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slow_ones_do_not_keep_others_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_time_to_prove_it_ends, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
