/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/wire/sodium.h"

#include <pthread.h>
#include <stdio.h>

#include "base/library.h"

static const char *const names[] = {"libsodium.so.26", "libsodium.so.23", "libsodium.so", NULL};

static const struct tti_symbol symbols[] = {
    {offsetof(struct tti_sodium, init), "sodium_init", NULL, true},
    {offsetof(struct tti_sodium, hash), "crypto_hash_sha256", NULL, true},
    {offsetof(struct tti_sodium, mac), "crypto_auth_hmacsha256", NULL, true},
    {offsetof(struct tti_sodium, mac_verify), "crypto_auth_hmacsha256_verify", NULL, true},
    {offsetof(struct tti_sodium, encrypt), "crypto_aead_chacha20poly1305_ietf_encrypt", NULL, true},
    {offsetof(struct tti_sodium, decrypt), "crypto_aead_chacha20poly1305_ietf_decrypt", NULL, true},
};

/* Written once, by `load`. */
static struct tti_sodium functions;
static char reason[400];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const struct tti_library library = {.display_name = "libsodium",
                                               .variable = "TUTTI_SODIUM_LIBRARY",
                                               .names = names,
                                               .symbols = symbols,
                                               .count = sizeof(symbols) / sizeof(symbols[0])};
    if (tti_library_open(&library, &functions, reason, sizeof(reason)) && functions.init() < 0) {
        snprintf(reason, sizeof(reason), "libsodium cannot start: sodium_init has failed");
    }
}

const struct tti_sodium *tti_sodium(const char **why)
{
    pthread_once(&once, load);
    *why = reason;
    return reason[0] == '\0' ? &functions : NULL;
}
