/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake of a job with a token, and the frames behind it: what clients with and without the token send to the
 * server, and what true and false servers answer to a client. The input chooses the frames. Each connection has its own
 * random numbers, so this file makes valid frames and changes them as the input says. Invariants: a client that has not
 * proven the token gets a refusal only, in every order of frames; a changed sealed frame is never accepted; the server
 * goes on serving.
 *
 * Without libsodium the target does nothing.
 */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "fuzz.h"
#include "store/client/client.h"
#include "store/client/exchange.h"
#include "store/fork_safety.h"
#include "store/server/service.h"

static struct tti_secret secret; /* of the server, and of the clients that belong to the job */
static struct tti_secret wrong;

static int begin(void)
{
    const char *why;
    if (!secret.known && (secret.sodium = tti_sodium(&why)) != NULL) {
        wrong = secret;
        memset(secret.key, 0x5a, sizeof(secret.key));
        memset(wrong.key, 0xa5, sizeof(wrong.key));
        secret.known = wrong.known = true;
        secret.variable = wrong.variable = TTI_TOKEN_VARIABLE;
    }
    return secret.known;
}

/* ---- the server -------------------------------------------------------------------------------------------------- */

struct peer {
    int fd;
    const struct tti_secret *secret;
    struct tti_channel channel;
    unsigned char answer[TTI_CHANNEL_ANSWER];
    int altered; /* a frame broke the protocol or was false: only a refusal may follow */
};

static void settle(struct tti_service *service)
{
    for (int i = 0; i < TTI_SERVICE_DRAIN && tti_service_step(service, false); i++) {
    }
}

/* A connection of the service without a listener: the other end of a socket pair. */
static int connect_client(const struct sockaddr_un *address, socklen_t length)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fuzz_expect(fd >= 0 && connect(fd, (const struct sockaddr *)address, length) == 0, "the server cannot be reached");
    return fd;
}

/* Sends one frame, changed in one byte if the input wants that, or cut. */
static void say(struct fuzz_input *in, struct peer *p, struct tti_frame frame, const unsigned char *body, int honest)
{
    unsigned char bytes[TTI_FRAME_HEADER + 64 + TTI_SODIUM_TAG];
    const size_t content = (size_t)frame.key_length + frame.value_length;
    size_t length = TTI_FRAME_HEADER + content + tti_channel_surplus(&p->channel);
    tti_frame_encode(&frame, bytes);
    memcpy(bytes + TTI_FRAME_HEADER, body, content);
    tti_channel_encrypt(&p->channel, bytes, bytes + TTI_FRAME_HEADER, content);
    if (!honest) {
        const uint8_t how = fuzz_byte(in);
        const size_t at = fuzz_byte(in) % length;
        bytes[at] ^= how & 0x7f;
        length = how & 0x80 ? at : length;
        p->altered = p->altered || how != 0;
    }
    tti_wire_send(p->fd, bytes, length, -1);
}

/* The status of the reply, or -1 without a whole one. */
static int receive_reply(struct peer *p, struct tti_frame *reply, unsigned char *value, size_t capacity)
{
    unsigned char bytes[TTI_FRAME_HEADER];
    if (recv(p->fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        return -1;
    }
    fuzz_expect(tti_frame_decode(bytes, reply) && reply->type == TTI_FRAME_REPLY && reply->value_length <= capacity,
                "the server says what servers do not");
    const size_t length = reply->value_length + tti_channel_surplus(&p->channel);
    fuzz_expect(length == 0 || recv(p->fd, value, length, 0) == (ssize_t)length, "half a reply");
    fuzz_expect(tti_channel_decrypt(&p->channel, bytes, value, reply->value_length), "the server seals wrongly");
    return reply->status;
}

static void be_client(struct fuzz_input *in, struct tti_service *service, struct peer *p)
{
    unsigned char header[TTI_FRAME_HEADER];
    unsigned char nonce[TTI_CHANNEL_NONCE];
    unsigned char proof[TTI_CHANNEL_PROOF];
    unsigned char value[128 + TTI_SODIUM_TAG];
    struct tti_frame frame = {
        .type = TTI_FRAME_CHALLENGE, .number = TTI_PROTOCOL_VERSION, .value_length = sizeof(nonce)};
    struct tti_frame reply;
    tti_frame_encode(&frame, header);
    fuzz_expect(tti_channel_begin(&p->channel, header, nonce), "no random bytes");
    say(in, p, frame, nonce, fuzz_byte(in) % 2);
    settle(service);
    if (receive_reply(p, &reply, value, 128) != TUTTI_OK || reply.value_length != sizeof(p->answer)) {
        return;
    }
    memcpy(p->answer, value, sizeof(p->answer));
    const bool right = tti_channel_prove(&p->channel, p->secret, p->answer, proof);
    fuzz_expect(right == (p->secret == &secret && !p->altered), "the server's proof");
    if (!right) {
        memcpy(proof, fuzz_byte(in) % 2 ? p->answer : p->answer + TTI_CHANNEL_NONCE, sizeof(proof)); /* reflected */
    }
    frame = (struct tti_frame){.type = TTI_FRAME_PROOF, .value_length = sizeof(proof)};
    const int before = p->altered;
    p->altered = 0;
    say(in, p, frame, proof, fuzz_byte(in) % 2);
    settle(service);
    const int status = receive_reply(p, &reply, value, 128);
    fuzz_expect(status != TUTTI_OK || right, "a client was accepted without the token");
    if (status != TUTTI_OK) {
        return;
    }
    p->altered = before; /* only the proof of this frame matters, and it has arrived */
    tti_channel_seal(&p->channel, p->secret, true);
    for (int frames = 0; frames < 4 && in->left > 0; frames++) {
        frame = (struct tti_frame){.type = frames == 0 ? TTI_FRAME_HELLO : (uint8_t)(1 + fuzz_byte(in) % 9),
                                   .number = TTI_PROTOCOL_VERSION,
                                   .key_length = frames == 0 ? 0 : fuzz_byte(in) % 16,
                                   .value_length = frames == 0 ? 0 : fuzz_byte(in) % 48};
        memset(value, 'k', sizeof(value));
        p->altered = 0;
        say(in, p, frame, value, fuzz_byte(in) % 4);
        settle(service);
        const int answer = receive_reply(p, &reply, value, 128);
        fuzz_expect(!p->altered || answer < 0, "a frame was taken that had been changed");
        if (answer < 0) {
            return;
        }
    }
}

/* Any frames, from a client without the token. */
static void be_stranger(struct fuzz_input *in, struct tti_service *service, struct peer *p)
{
    while (in->left > 0) {
        unsigned char value[128];
        const struct tti_frame frame = {.type = (uint8_t)(1 + fuzz_byte(in) % 9),
                                        .key_length = fuzz_byte(in) % 8,
                                        .value_length = fuzz_byte(in) % 2 ? 32 : fuzz_byte(in) % 50,
                                        .number = fuzz_byte(in) % 4,
                                        .timeout_ms = (int8_t)fuzz_byte(in)};
        struct tti_frame reply;
        for (int i = 0; i < 58; i++) {
            value[i] = fuzz_byte(in);
        }
        say(in, p, frame, value, fuzz_byte(in) % 4);
        settle(service);
        const int status = receive_reply(p, &reply, value, sizeof(value));
        if (status < 0) {
            return;
        }
        fuzz_expect(status == TUTTI_AUTH || status == TUTTI_VERSION ||
                        (status == TUTTI_OK && reply.value_length == TTI_CHANNEL_ANSWER),
                    "a stranger was let in");
    }
}

static void try_server(struct fuzz_input *in)
{
    struct sockaddr_un address;
    socklen_t length = sizeof(address);
    const sa_family_t family = AF_UNIX;
    struct tti_service service;
    tutti_error error;
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fuzz_expect(listener >= 0 && bind(listener, (const struct sockaddr *)&family, sizeof(family)) == 0 &&
                    listen(listener, SOMAXCONN) == 0 &&
                    getsockname(listener, (struct sockaddr *)&address, &length) == 0,
                "no socket to listen on");
    fuzz_expect(tti_service_begin(&service, listener, false, "", &secret, &error) == TUTTI_OK, "no server");
    while (in->left > 0) {
        const uint8_t who = fuzz_byte(in);
        struct peer p = {.fd = connect_client(&address, length), .secret = who & 1 ? &secret : &wrong};
        if (who & 2) {
            be_stranger(in, &service, &p);
        } else {
            be_client(in, &service, &p);
        }
        close(p.fd);
        settle(&service);
    }
    fuzz_expect(service.clients == 0 && service.unauthenticated == 0 && !service.connections,
                "a client is still counted");
    tti_service_end(&service);
    close(service.wake);
}

/* ---- the client -------------------------------------------------------------------------------------------------- */

/* All answers lie in the socket before the client asks, so none of them can be a proof. */
static void try_client(struct fuzz_input *in)
{
    int ends[2];
    unsigned char bytes[1024];
    size_t length = 0;
    struct tti_client *client = tti_client_make(sizeof(*client), NULL, 0);
    fuzz_expect(client && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "no sockets");
    client->secret = secret;
    while (in->left > 0 && length + TTI_FRAME_HEADER + 128 < sizeof(bytes)) {
        const uint8_t how = fuzz_byte(in);
        const struct tti_frame frame = {.type = how & 1 ? TTI_FRAME_REPLY : (uint8_t)(fuzz_byte(in) % 10),
                                        .status = how & 2 ? TUTTI_OK : fuzz_byte(in) % 30,
                                        .value_length = how & 4 ? TTI_CHANNEL_ANSWER : fuzz_byte(in) % 128,
                                        .number = how & 8 ? TTI_PROTOCOL_VERSION : fuzz_byte(in) % 8};
        tti_frame_encode(&frame, bytes + length);
        length += TTI_FRAME_HEADER;
        for (uint32_t i = 0; i < frame.value_length && i < 128 && in->left > 0; i++) {
            bytes[length++] = fuzz_byte(in);
        }
    }
    tti_wire_send(ends[1], bytes, length, -1);
    shutdown(ends[1], SHUT_WR);
    tutti_error error;
    struct tti_client_connection line = {.fd = ends[0]};
    fuzz_expect(tti_client_handshake(client, &line, tti_deadline_ns(tti_now_ns(), 60000), &error) != TUTTI_OK &&
                    error.message[0],
                "a client trusts a server without a proof");
    fuzz_expect(line.channel.stage != TTI_CHANNEL_SEALED, "a channel is sealed without a proof");
    close(ends[0]);
    close(ends[1]);
    tti_client_free(client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    if (begin()) {
        if (fuzz_byte(&in) % 2) {
            try_client(&in);
        } else {
            try_server(&in);
        }
    }
    return 0;
}
