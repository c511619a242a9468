/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers of a broken store, or of a program that is no store, to a client. The answers lie in the socket before the
 * client asks; behind them the connection ends, so nothing waits. Half of the inputs start with a valid greeting. If
 * the connection ends during the greeting, the client connects a second time, and then no server is there any more.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "fuzz.h"
#include "store/client/client.h"
#include "store/fork_safety.h"
#include "store/range.h"
#include "store/wire/protocol.h"

static struct fuzz_input *answers;
static int attempts; /* of one request */

static tutti_status connect_to_input(struct tti_client *client, int64_t deadline_ns, int *fd, tutti_error *error)
{
    (void)client;
    (void)deadline_ns;
    if (attempts++ == 2) {
        return tti_error_set(error, TUTTI_PEER_LEFT, "no server listens");
    }
    int ends[2];
    unsigned char bytes[2 * TTI_FRAME_HEADER + 512];
    size_t length = 0;
    const uint8_t how = fuzz_byte(answers);
    fuzz_expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "no sockets");
    if (how & 1) {
        const struct tti_frame greeting = {.type = TTI_FRAME_REPLY, .number = TTI_PROTOCOL_VERSION};
        tti_frame_encode(&greeting, bytes);
        length = TTI_FRAME_HEADER;
    }
    if (how & 2) { /* a reply with any content */
        struct tti_frame reply = {.type = how & 4 ? TTI_FRAME_REPLY : (uint8_t)(fuzz_byte(answers) % 9),
                                  .key_length = how & 8 ? fuzz_byte(answers) : 0,
                                  .status = fuzz_byte(answers) % 40,
                                  .value_length = (uint32_t)fuzz_number(answers, how & 16 ? 4 : 1),
                                  .number = fuzz_byte(answers)};
        tti_frame_encode(&reply, bytes + length);
        length += TTI_FRAME_HEADER;
    }
    for (size_t more = fuzz_number(answers, 2) % 512; more > 0 && answers->left > 0; more--) {
        bytes[length++] = fuzz_byte(answers);
    }
    tti_wire_send(ends[1], bytes, length, how & 32 ? STDIN_FILENO : -1);
    shutdown(ends[1], SHUT_WR);
    if (how & 64) {
        close(ends[1]);
    }
    *fd = tti_private_adopt(ends[0]);
    if (!(how & 64)) { /* it takes the request, but does not answer; closed with the next one */
        static int before = -1;
        if (before >= 0) {
            close(before);
        }
        before = ends[1];
    }
    return TUTTI_OK;
}

static const struct tti_store_kind kind = {.set = tti_client_set,
                                           .get = tti_client_get,
                                           .remove = tti_client_remove,
                                           .put_fd = tti_client_put_fd,
                                           .get_fd = tti_client_get_fd,
                                           .get_range = tti_client_get_range,
                                           .close = tti_client_close};

static void check(tutti_status status, const tutti_error *error)
{
    fuzz_expect(status == TUTTI_OK || (error->status == status && error->message[0]), "an error without a sentence");
}

/* Up to four values of four bytes. */
static tutti_status get_values(struct tti_client *client, unsigned char *value, tutti_error *error)
{
    size_t lengths[4];
    struct tti_store_range range = {
        .stem = "key", .first = 1, .count = 4, .values = value, .stride = 4, .lengths = lengths};
    const tutti_status status = tti_client_get_range(&client->base, &range, 10, error);
    fuzz_expect((status == TUTTI_OK) == (range.got > 0) && range.got <= 4, "values without a call that succeeded");
    return status;
}

static tutti_status get_fds(struct tti_client *client, tutti_error *error)
{
    int fds[4];
    struct tti_store_range range = {.stem = "key", .first = 1, .count = 4, .fds = fds};
    const tutti_status status = tti_client_get_range(&client->base, &range, 10, error);
    fuzz_expect((status == TUTTI_OK) == (range.got > 0) && range.got <= 4, "descriptors without a call that succeeded");
    for (uint32_t i = 0; i < range.got; i++) {
        close(fds[i]);
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    answers = &in;
    struct tti_client *client = tti_client_make(sizeof(*client), &kind, 60000);
    if (!client) {
        return 0;
    }
    client->connect = connect_to_input;
    strcpy(client->base.url, "unix:fuzz");
    tutti_error error;
    while (in.left > 0) {
        unsigned char *value = malloc(16);
        size_t length = 0;
        int fd = -1;
        tutti_status status;
        attempts = 0;
        switch (fuzz_byte(&in) % 7) {
        case 0:
            status = tti_client_set(&client->base, "key", "value", 5, &error);
            break;
        case 1:
            status = tti_client_get(&client->base, "key", value, 16, &length, 10, &error);
            fuzz_expect(status != TUTTI_OK || length <= 16, "more bytes than there is room for");
            break;
        case 2:
            status = tti_client_remove(&client->base, "key", &error);
            break;
        case 3:
            status = tti_client_put_fd(&client->base, "key", STDIN_FILENO, 1, &error);
            break;
        case 4:
            status = get_values(client, value, &error);
            break;
        case 5:
            status = get_fds(client, &error);
            break;
        default:
            status = tti_client_get_fd(&client->base, "key", &fd, 10, &error);
            fuzz_expect((status == TUTTI_OK) == (fd >= 0),
                        "a descriptor without a call that succeeded, or the reverse");
            tti_private_close(fd);
            break;
        }
        check(status, &error);
        free(value);
    }
    tti_client_free(client);
    return 0;
}
