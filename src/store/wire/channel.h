/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a connection of a job that has a token: first both sides prove that they know the token, then frames
 * follow that no third party can read, change, repeat, drop or forge unnoticed.
 *
 * The proof is AKEP2 (Bellare and Rogaway, "Entity authentication and key distribution", 1993) with HMAC-SHA-256. C and
 * S are 32 random bytes of client and server, K the key that is made from the token, T the header of the challenge, C
 * and S:
 *
 *     client -> server   C
 *     server -> client   S, HMAC(K, "server", T)      the client goes on only if this is right
 *     client -> server   HMAC(K, "client", T)         the server goes on only if this is right
 *
 * The label before T differs for each side and each purpose, so a proof of one side is never valid as one of the other;
 * C and S are new in each connection, so no proof of an older one is valid. The two keys of the connection, one for
 * each direction, are HMAC(K, "key of client", T) and HMAC(K, "key of server", T). Each frame is ChaCha20-Poly1305 (RFC
 * 8439) with the number of the frame in its direction as the nonce, and with the header, which stays readable,
 * authenticated beside it.
 *
 * Cost: two round trips and four hashes on each side for a connection, 16 bytes and about a microsecond for a frame.
 */
#ifndef TTI_STORE_WIRE_CHANNEL_H
#define TTI_STORE_WIRE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/wire/protocol.h"
#include "store/wire/secret.h"

#define TTI_CHANNEL_NONCE  32
#define TTI_CHANNEL_PROOF  TTI_SODIUM_KEY
#define TTI_CHANNEL_ANSWER (TTI_CHANNEL_NONCE + TTI_CHANNEL_PROOF)

enum tti_channel_stage {
    TTI_CHANNEL_OPEN,       /* nothing has been sent, or there is no token */
    TTI_CHANNEL_CHALLENGED, /* C is under way, or S is */
    TTI_CHANNEL_SEALED,     /* frames are encrypted */
};

/* All zero before the beginning. */
struct tti_channel {
    enum tti_channel_stage stage;
    const struct tti_sodium *sodium;
    unsigned char transcript[TTI_FRAME_HEADER + 2 * TTI_CHANNEL_NONCE]; /* T */
    unsigned char send_key[TTI_SODIUM_KEY];
    unsigned char receive_key[TTI_SODIUM_KEY];
    uint64_t sent; /* frames, since the proof */
    uint64_t received;
};

/* The client begins: `challenge` is the header of its frame, `nonce` gets C. False without random bytes (errno). */
bool tti_channel_begin(struct tti_channel *channel, const unsigned char challenge[TTI_FRAME_HEADER],
                       unsigned char nonce[TTI_CHANNEL_NONCE]);

/* The server has got a challenge; `answer` gets S and its proof. False as above. */
bool tti_channel_answer(struct tti_channel *channel, const struct tti_secret *secret,
                        const unsigned char challenge[TTI_FRAME_HEADER], const unsigned char nonce[TTI_CHANNEL_NONCE],
                        unsigned char answer[TTI_CHANNEL_ANSWER]);

/* The client has got the answer; `proof` gets its own if that one is right. */
bool tti_channel_prove(struct tti_channel *channel, const struct tti_secret *secret,
                       const unsigned char answer[TTI_CHANNEL_ANSWER], unsigned char proof[TTI_CHANNEL_PROOF]);

/* Whether this is the client's proof. */
bool tti_channel_check(const struct tti_channel *channel, const struct tti_secret *secret,
                       const unsigned char proof[TTI_CHANNEL_PROOF]);

/* Both sides have proven it: from here on frames are sealed. */
void tti_channel_seal(struct tti_channel *channel, const struct tti_secret *secret, bool client);

/* How many bytes a frame's body is longer on this connection than key and value. */
static inline size_t tti_channel_surplus(const struct tti_channel *channel)
{
    return channel->stage == TTI_CHANNEL_SEALED ? TTI_SODIUM_TAG : 0;
}

/* Encrypts the body of a frame where it lies, with the surplus behind it. Nothing if the channel is not sealed. */
void tti_channel_encrypt(struct tti_channel *channel, const unsigned char header[TTI_FRAME_HEADER], unsigned char *body,
                         size_t length);

/* The reverse; false if the frame is not the other side's next one. */
bool tti_channel_decrypt(struct tti_channel *channel, const unsigned char header[TTI_FRAME_HEADER], unsigned char *body,
                         size_t length);

/* The other side's next frame has been read, but not kept. True: what it was remains unknown. */
bool tti_channel_skip(struct tti_channel *channel);

/* Wipes the keys. */
void tti_channel_end(struct tti_channel *channel);

#endif
