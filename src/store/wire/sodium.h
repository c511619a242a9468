/* SPDX-License-Identifier: BSD-3-Clause */
/* libsodium, whose functions are looked up at run time: only a job that has a token needs it. */
#ifndef TTI_STORE_WIRE_SODIUM_H
#define TTI_STORE_WIRE_SODIUM_H

#include <stddef.h>

#define TTI_SODIUM_KEY   32 /* bytes of a key, of a SHA-256 and of an HMAC-SHA-256 */
#define TTI_SODIUM_NONCE 12
#define TTI_SODIUM_TAG   16

struct tti_sodium {
    int (*init)(void);
    int (*hash)(unsigned char *out, const unsigned char *in, unsigned long long length);
    int (*mac)(unsigned char *out, const unsigned char *in, unsigned long long length, const unsigned char *key);
    int (*mac_verify)(const unsigned char *mac, const unsigned char *in, unsigned long long length,
                      const unsigned char *key);
    int (*encrypt)(unsigned char *out, unsigned long long *out_length, const unsigned char *in,
                   unsigned long long length, const unsigned char *beside, unsigned long long beside_length,
                   const unsigned char *unused, const unsigned char *nonce, const unsigned char *key);
    int (*decrypt)(unsigned char *out, unsigned long long *out_length, unsigned char *unused, const unsigned char *in,
                   unsigned long long length, const unsigned char *beside, unsigned long long beside_length,
                   const unsigned char *nonce, const unsigned char *key);
};

/* The functions; NULL if this process cannot load them, and *why is the reason, valid as long as the process. */
const struct tti_sodium *tti_sodium(const char **why);

#endif
