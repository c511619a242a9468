/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proofs and the frames of channel.h, by functions of libsodium (sodium.h). A proof and a key are both an HMAC over
 * a label and the transcript (challenge, C, S); only the labels differ. Proofs are compared in constant time, so their
 * duration does not reveal the right one. The number of a frame is used up even if the frame cannot be decrypted, so no
 * nonce is used twice.
 */
#include "store/wire/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define LABEL 24

/* What is proven or derived, and by which side. Padded with zeros to one length, so that no label with its transcript
 * equals another one. */
static const char client_proves[LABEL] = "tutti 1 client";
static const char server_proves[LABEL] = "tutti 1 server";
static const char client_sends[LABEL] = "tutti 1 key of client";
static const char server_sends[LABEL] = "tutti 1 key of server";

struct message {
    unsigned char bytes[LABEL + sizeof(((struct tti_channel *)0)->transcript)];
};

static struct message compose(const struct tti_channel *channel, const char label[LABEL])
{
    struct message m;
    memcpy(m.bytes, label, LABEL);
    memcpy(m.bytes + LABEL, channel->transcript, sizeof(channel->transcript));
    return m;
}

static void sign(const struct tti_channel *channel, const struct tti_secret *secret, const char label[LABEL],
                 unsigned char out[TTI_SODIUM_KEY])
{
    const struct message m = compose(channel, label);
    secret->sodium->mac(out, m.bytes, sizeof(m.bytes), secret->key);
}

/* Compares in a time that does not depend on where they differ, as libsodium does it. */
static bool is_signed(const struct tti_channel *channel, const struct tti_secret *secret, const char label[LABEL],
                      const unsigned char mac[TTI_SODIUM_KEY])
{
    const struct message m = compose(channel, label);
    return secret->sodium->mac_verify(mac, m.bytes, sizeof(m.bytes), secret->key) == 0;
}

static bool fill_random(unsigned char *bytes, size_t count)
{
    ssize_t got;
    do {
        got = getrandom(bytes, count, 0); /* whole, for so few bytes */
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)count;
}

static unsigned char *client_nonce(struct tti_channel *channel)
{
    return channel->transcript + TTI_FRAME_HEADER;
}

static unsigned char *server_nonce(struct tti_channel *channel)
{
    return channel->transcript + TTI_FRAME_HEADER + TTI_CHANNEL_NONCE;
}

bool tti_channel_begin(struct tti_channel *channel, const unsigned char challenge[TTI_FRAME_HEADER],
                       unsigned char nonce[TTI_CHANNEL_NONCE])
{
    if (!fill_random(nonce, TTI_CHANNEL_NONCE)) {
        return false;
    }
    memcpy(channel->transcript, challenge, TTI_FRAME_HEADER);
    memcpy(client_nonce(channel), nonce, TTI_CHANNEL_NONCE);
    channel->stage = TTI_CHANNEL_CHALLENGED;
    return true;
}

bool tti_channel_answer(struct tti_channel *channel, const struct tti_secret *secret,
                        const unsigned char challenge[TTI_FRAME_HEADER], const unsigned char nonce[TTI_CHANNEL_NONCE],
                        unsigned char answer[TTI_CHANNEL_ANSWER])
{
    if (!fill_random(answer, TTI_CHANNEL_NONCE)) {
        return false;
    }
    memcpy(channel->transcript, challenge, TTI_FRAME_HEADER);
    memcpy(client_nonce(channel), nonce, TTI_CHANNEL_NONCE);
    memcpy(server_nonce(channel), answer, TTI_CHANNEL_NONCE);
    channel->stage = TTI_CHANNEL_CHALLENGED;
    sign(channel, secret, server_proves, answer + TTI_CHANNEL_NONCE);
    return true;
}

bool tti_channel_prove(struct tti_channel *channel, const struct tti_secret *secret,
                       const unsigned char answer[TTI_CHANNEL_ANSWER], unsigned char proof[TTI_CHANNEL_PROOF])
{
    memcpy(server_nonce(channel), answer, TTI_CHANNEL_NONCE);
    if (!is_signed(channel, secret, server_proves, answer + TTI_CHANNEL_NONCE)) {
        return false;
    }
    sign(channel, secret, client_proves, proof);
    return true;
}

bool tti_channel_check(const struct tti_channel *channel, const struct tti_secret *secret,
                       const unsigned char proof[TTI_CHANNEL_PROOF])
{
    return is_signed(channel, secret, client_proves, proof);
}

void tti_channel_seal(struct tti_channel *channel, const struct tti_secret *secret, bool client)
{
    sign(channel, secret, client ? client_sends : server_sends, channel->send_key);
    sign(channel, secret, client ? server_sends : client_sends, channel->receive_key);
    channel->sodium = secret->sodium;
    channel->sent = channel->received = 0;
    channel->stage = TTI_CHANNEL_SEALED;
}

/* A key is never used for two directions or connections, and a direction's frames are counted: no nonce recurs. */
static void write_nonce(uint64_t number, unsigned char nonce[TTI_SODIUM_NONCE])
{
    memset(nonce, 0, TTI_SODIUM_NONCE);
    for (int i = 0; i < 8; i++) {
        nonce[i] = (unsigned char)(number >> (8 * i));
    }
}

void tti_channel_encrypt(struct tti_channel *channel, const unsigned char header[TTI_FRAME_HEADER], unsigned char *body,
                         size_t length)
{
    if (channel->stage == TTI_CHANNEL_SEALED) {
        unsigned char nonce[TTI_SODIUM_NONCE];
        write_nonce(channel->sent++, nonce);
        channel->sodium->encrypt(body, NULL, body, length, header, TTI_FRAME_HEADER, NULL, nonce, channel->send_key);
    }
}

bool tti_channel_decrypt(struct tti_channel *channel, const unsigned char header[TTI_FRAME_HEADER], unsigned char *body,
                         size_t length)
{
    if (channel->stage != TTI_CHANNEL_SEALED) {
        return true;
    }
    unsigned char nonce[TTI_SODIUM_NONCE];
    write_nonce(channel->received++, nonce);
    return channel->sodium->decrypt(body, NULL, NULL, body, length + TTI_SODIUM_TAG, header, TTI_FRAME_HEADER, nonce,
                                    channel->receive_key) == 0;
}

bool tti_channel_skip(struct tti_channel *channel)
{
    const bool sealed = channel->stage == TTI_CHANNEL_SEALED;
    channel->received += sealed;
    return sealed;
}

void tti_channel_end(struct tti_channel *channel)
{
    explicit_bzero(channel, sizeof(*channel));
}
