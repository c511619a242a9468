/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol between client and server of a unix or tcp store. A frame is a header of 24 bytes, the key, the value:
 *
 *     byte  0   magic "TTS1"
 *     byte  4   type
 *     byte  5   length of the key, 0..255
 *     byte  6   reply: status, 2 bytes
 *     byte  8   length of the value, 4 bytes, at most TTI_STORE_VALUE_MAX
 *     byte 12   HELLO, CHALLENGE and replies: version; PUT_FD: readers; a reply of AUTH: enum tti_refusal; GET_RANGE,
 *               GET_FDS: number of the first key, and 2 bytes behind how many; their replies: how many; 4 bytes
 *     byte 16   GET, GET_FD, GET_RANGE, GET_FDS: timeout in milliseconds, 8 bytes
 *
 * Numbers are little-endian on every machine. A client sends one request and reads one reply before it sends the next;
 * the first request is HELLO, whose key is the name of the job, if it has one. PUT_FD and the reply to GET_FD carry
 * exactly one descriptor with their header. A connection with any other bytes is closed.
 *
 * GET_RANGE and GET_FDS ask for the keys KEY/FIRST, KEY/(FIRST + 1) and so on. The server waits for all of them, or
 * until the timeout. The reply has those that are there, up to the first that is missing or finds no room: values, each
 * behind its length in 4 bytes, or descriptors with the header. None: the reply is that to a get of the first key.
 *
 * Where the processes of the job have a token, CHALLENGE and PROOF come before HELLO (channel.h says what is in them),
 * and from HELLO on key and value of every frame are encrypted and followed by 16 bytes that authenticate the whole
 * frame.
 */
#ifndef TTI_STORE_WIRE_PROTOCOL_H
#define TTI_STORE_WIRE_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/limits.h"

#define TTI_FRAME_HEADER     24
#define TTI_PROTOCOL_VERSION 3
#define TTI_FRAME_LENGTH     4  /* in front of each value of a range */
#define TTI_FRAME_FDS        64 /* descriptors in a reply, at most; the kernel takes 253 */

enum tti_frame_type {
    TTI_FRAME_HELLO = 1,
    TTI_FRAME_SET,
    TTI_FRAME_GET,
    TTI_FRAME_REMOVE,
    TTI_FRAME_PUT_FD,
    TTI_FRAME_GET_FD,
    TTI_FRAME_REPLY,
    TTI_FRAME_CHALLENGE,
    TTI_FRAME_PROOF,
    TTI_FRAME_GET_RANGE,
    TTI_FRAME_GET_FDS,
    TTI_FRAME_TYPES, /* all types are smaller */
};

/* Why a server answers AUTH. */
enum tti_refusal {
    TTI_REFUSED_JOB = 1,  /* it belongs to a job of another name */
    TTI_REFUSED_NO_PROOF, /* it has a token, and the client has proven none */
    TTI_REFUSED_NO_TOKEN, /* it has no token itself */
    TTI_REFUSED_PROOF,    /* the client's token is another one */
};

struct tti_frame {
    uint8_t type;
    uint8_t key_length;
    uint16_t status;
    uint32_t value_length;
    uint32_t number;
    int64_t timeout_ms;
};

void tti_frame_encode(const struct tti_frame *frame, unsigned char bytes[TTI_FRAME_HEADER]);

/* False if no frame begins with these bytes, however few they are. */
bool tti_frame_may_begin(const unsigned char *bytes, size_t count);

/* False for a header that no frame has. */
bool tti_frame_decode(const unsigned char bytes[TTI_FRAME_HEADER], struct tti_frame *frame);

/* The keys of a range, in the number of the frame. */
static inline uint32_t tti_range_number(uint32_t first, uint32_t count)
{
    return first | count << 16;
}

static inline uint32_t tti_range_first(uint32_t number)
{
    return number & TTI_STORE_RANGE_MAX;
}

static inline uint32_t tti_range_count(uint32_t number)
{
    return number >> 16;
}

/* The length in front of a value of a range. */
void tti_range_put_length(unsigned char bytes[TTI_FRAME_LENGTH], uint32_t length);
uint32_t tti_range_take_length(const unsigned char bytes[TTI_FRAME_LENGTH]);

/* One sendmsg without SIGPIPE; pass_fd (-1: none) is sent with the first byte. As send(). */
ssize_t tti_wire_send(int fd, const void *bytes, size_t length, int pass_fd);

/* The same with up to TTI_FRAME_FDS descriptors. */
ssize_t tti_wire_send_fds(int fd, const void *bytes, size_t length, const int *pass_fds, uint32_t count);

/* One recvmsg. A descriptor that arrived along is stored in *received, close-on-exec; TTI_NO_DESCRIPTOR if this process
 * has no number left for it. Any beyond one, or one that arrives while *received is taken already, is closed and
 * reported as EPROTO. As recv(). */
#define TTI_NO_DESCRIPTOR (-2)
ssize_t tti_wire_receive(int fd, void *bytes, size_t length, int *received);

/* One recvmsg. Up to TTI_FRAME_FDS descriptors that arrived along are stored in `received`, close-on-exec, and counted
 * in
 * *count. Where this process has no number left, fewer arrive than were sent. As recv(). */
ssize_t tti_wire_receive_fds(int fd, void *bytes, size_t length, int received[TTI_FRAME_FDS], uint32_t *count);

#endif
