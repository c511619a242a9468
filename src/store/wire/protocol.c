/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames to bytes and back, and the two system calls that move them. */
#include "store/wire/protocol.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static const unsigned char magic[4] = {'T', 'T', 'S', '1'};

static void put(unsigned char *bytes, uint64_t value, int count)
{
    for (int i = 0; i < count; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t take(const unsigned char *bytes, int count)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

void tti_frame_encode(const struct tti_frame *frame, unsigned char bytes[TTI_FRAME_HEADER])
{
    memcpy(bytes, magic, sizeof(magic));
    bytes[4] = frame->type;
    bytes[5] = frame->key_length;
    put(bytes + 6, frame->status, 2);
    put(bytes + 8, frame->value_length, 4);
    put(bytes + 12, frame->number, 4);
    put(bytes + 16, (uint64_t)frame->timeout_ms, 8);
}

bool tti_frame_may_begin(const unsigned char *bytes, size_t count)
{
    return memcmp(bytes, magic, count < sizeof(magic) ? count : sizeof(magic)) == 0;
}

bool tti_frame_decode(const unsigned char bytes[TTI_FRAME_HEADER], struct tti_frame *frame)
{
    frame->type = bytes[4];
    frame->key_length = bytes[5];
    frame->status = (uint16_t)take(bytes + 6, 2);
    frame->value_length = (uint32_t)take(bytes + 8, 4);
    frame->number = (uint32_t)take(bytes + 12, 4);
    frame->timeout_ms = (int64_t)take(bytes + 16, 8);
    return tti_frame_may_begin(bytes, TTI_FRAME_HEADER) && frame->type >= TTI_FRAME_HELLO &&
           frame->type < TTI_FRAME_TYPES && frame->value_length <= TTI_STORE_VALUE_MAX && frame->timeout_ms >= -1;
}

void tti_range_put_length(unsigned char bytes[TTI_FRAME_LENGTH], uint32_t length)
{
    put(bytes, length, TTI_FRAME_LENGTH);
}

uint32_t tti_range_take_length(const unsigned char bytes[TTI_FRAME_LENGTH])
{
    return (uint32_t)take(bytes, TTI_FRAME_LENGTH);
}

ssize_t tti_wire_send(int fd, const void *bytes, size_t length, int pass_fd)
{
    return tti_wire_send_fds(fd, bytes, length, &pass_fd, pass_fd >= 0 ? 1 : 0);
}

/* Room for the descriptors of one message. */
union control {
    struct cmsghdr align;
    unsigned char bytes[CMSG_SPACE(TTI_FRAME_FDS * sizeof(int))];
};

ssize_t tti_wire_send_fds(int fd, const void *bytes, size_t length, const int *pass_fds, uint32_t count)
{
    union control control;
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        memset(&control, 0, CMSG_SPACE(count * sizeof(int)));
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(rights), pass_fds, count * sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent;
}

static ssize_t receive(int fd, struct msghdr *message)
{
    ssize_t count;
    do {
        count = recvmsg(fd, message, MSG_CMSG_CLOEXEC);
    } while (count < 0 && errno == EINTR);
    return count;
}

ssize_t tti_wire_receive(int fd, void *bytes, size_t length, int *received)
{
    union {
        struct cmsghdr align;
        unsigned char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = length};
    /* CMSG_LEN, not CMSG_SPACE: the padding would have room for a second descriptor. */
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_LEN(sizeof(int))};
    const ssize_t count = receive(fd, &message);
    if (count < 0) {
        return count;
    }
    bool surplus = (message.msg_flags & MSG_CTRUNC) != 0;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS &&
        rights->cmsg_len == CMSG_LEN(sizeof(int))) {
        int descriptor;
        memcpy(&descriptor, CMSG_DATA(rights), sizeof(int));
        if (*received < 0 && !surplus) {
            *received = descriptor;
        } else {
            close(descriptor);
            surplus = true;
        }
    }
    if (surplus && !rights && *received < 0) {
        *received = TTI_NO_DESCRIPTOR;
    } else if (surplus) {
        errno = EPROTO;
        return -1;
    }
    return count;
}

ssize_t tti_wire_receive_fds(int fd, void *bytes, size_t length, int received[TTI_FRAME_FDS], uint32_t *count)
{
    union control control;
    struct iovec part = {.iov_base = bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_LEN(TTI_FRAME_FDS * sizeof(int))};
    const ssize_t got = receive(fd, &message);
    const struct cmsghdr *rights = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    *count = 0;
    if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS) {
        *count = (uint32_t)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(received, CMSG_DATA(rights), *count * sizeof(int));
    }
    return got;
}
