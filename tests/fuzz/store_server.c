/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of clients to the server of a unix store, descriptors included. A step of the input is a byte: the action,
 * and the client of four. The server may close any of these connections. It goes on serving other clients, and keeps no
 * descriptor of a client that has gone.
 */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"
#include "store/server/service.h"
#include "store/wire/protocol.h"

#define CLIENTS 4

/* An abstract address that the kernel chooses: fuzzers run in parallel. */
static int listen_anywhere(struct sockaddr_un *address, socklen_t *length)
{
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const sa_family_t family = AF_UNIX;
    *length = sizeof(*address);
    fuzz_expect(listener >= 0 && bind(listener, (const struct sockaddr *)&family, sizeof(family)) == 0 &&
                    listen(listener, SOMAXCONN) == 0 && getsockname(listener, (struct sockaddr *)address, length) == 0,
                "no socket to listen on");
    return listener;
}

static int connect_to(const struct sockaddr_un *address, socklen_t length)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fuzz_expect(fd >= 0 && connect(fd, (const struct sockaddr *)address, length) == 0, "the server cannot be reached");
    return fd;
}

static void settle(struct tti_service *service)
{
    for (int i = 0; i < TTI_SERVICE_DRAIN && tti_service_step(service, false); i++) {
    }
}

static void drain(int fd)
{
    unsigned char waste[4096];
    while (recv(fd, waste, sizeof(waste), 0) > 0) {
    }
}

/* Of readers, or the first key of a range and how many keys it has. */
static uint32_t number(uint8_t byte)
{
    return tti_range_number(byte % 3u, byte / 64u);
}

/* A frame with a valid header; its content comes from the input. */
static void send_frame(struct fuzz_input *in, int fd, int pass)
{
    unsigned char bytes[TTI_FRAME_HEADER + 64];
    struct tti_frame frame = {.type = (uint8_t)(1 + fuzz_byte(in) % (TTI_FRAME_TYPES - 1)),
                              .key_length = fuzz_byte(in) % 32,
                              .status = (uint16_t)fuzz_byte(in),
                              .value_length = fuzz_byte(in) % 32,
                              .number = number(fuzz_byte(in)),
                              .timeout_ms = (int8_t)fuzz_byte(in)};
    size_t body = 0;
    tti_frame_encode(&frame, bytes);
    while (body < (size_t)frame.key_length + frame.value_length && in->left > 0) {
        bytes[TTI_FRAME_HEADER + body++] = fuzz_byte(in);
    }
    tti_wire_send(fd, bytes, TTI_FRAME_HEADER + body, pass);
}

static void send_bytes(struct fuzz_input *in, int fd, int pass)
{
    unsigned char bytes[64];
    size_t length = 1 + fuzz_byte(in) % sizeof(bytes);
    for (size_t i = 0; i < length; i++) {
        bytes[i] = fuzz_byte(in);
    }
    tti_wire_send(fd, bytes, length, pass);
}

static void greet(int fd)
{
    unsigned char bytes[TTI_FRAME_HEADER];
    const struct tti_frame hello = {.type = TTI_FRAME_HELLO, .number = TTI_PROTOCOL_VERSION};
    tti_frame_encode(&hello, bytes);
    tti_wire_send(fd, bytes, sizeof(bytes), -1);
}

/* A client with a valid connection is served as before. */
static void expect_service(struct tti_service *service, const struct sockaddr_un *address, socklen_t length)
{
    const int fd = connect_to(address, length);
    unsigned char bytes[TTI_FRAME_HEADER];
    struct tti_frame reply;
    greet(fd);
    settle(service);
    fuzz_expect(recv(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) && tti_frame_decode(bytes, &reply) &&
                    reply.type == TTI_FRAME_REPLY && reply.status == TUTTI_OK,
                "the server does not serve any more");
    close(fd);
    settle(service);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct sockaddr_un address;
    socklen_t length;
    struct tti_service service;
    tutti_error error;
    int clients[CLIENTS] = {-1, -1, -1, -1};
    const int listener = listen_anywhere(&address, &length);
    fuzz_expect(tti_service_begin(&service, listener, true, "", NULL, &error) == TUTTI_OK, "no server");
    while (in.left > 0) {
        const uint8_t step = fuzz_byte(&in);
        int *fd = &clients[step % CLIENTS];
        const int pass = step & 0x40 ? STDIN_FILENO : -1;
        if (*fd < 0) {
            *fd = connect_to(&address, length);
        }
        switch (step >> 2 & 3) {
        case 0:
            send_frame(&in, *fd, pass);
            break;
        case 1:
            greet(*fd);
            break;
        case 2:
            send_bytes(&in, *fd, pass);
            break;
        default:
            close(*fd);
            *fd = -1;
            settle(&service); /* or the queue of the listener fills */
            break;
        }
        if (step & 0x80) {
            settle(&service);
        }
        if (*fd >= 0) {
            drain(*fd);
        }
    }
    settle(&service);
    expect_service(&service, &address, length);
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i] >= 0) {
            close(clients[i]);
        }
    }
    settle(&service);
    fuzz_expect(service.clients == 0 && service.unauthenticated == 0 && !service.connections,
                "a client is still counted");
    tti_service_end(&service);
    close(service.wake);
    return 0;
}
