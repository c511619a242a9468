/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A short name for long ones: 128-bit FNV-1a in hexadecimal. Different texts never share it by accident. It does not
 * resist collisions on purpose, but those could only concern jobs of the same user.
 */
#ifndef TTI_STORE_WIRE_FINGERPRINT_H
#define TTI_STORE_WIRE_FINGERPRINT_H

#include <stdint.h>
#include <stdio.h>

#define TTI_FINGERPRINT_LENGTH 32

__extension__ typedef unsigned __int128 tti_fingerprint;

#define TTI_FINGERPRINT_EMPTY (((tti_fingerprint)0x6c62272e07bb0142u << 64) | 0x62b821756295c58du)

/* Adds a text, its end included, so that ("ab", "c") and ("a", "bc") differ. */
static inline tti_fingerprint tti_fingerprint_add(tti_fingerprint sum, const char *text)
{
    const tti_fingerprint prime = ((tti_fingerprint)1 << 88) + 0x13b;
    const unsigned char *p = (const unsigned char *)text;
    do {
        sum = (sum ^ *p) * prime;
    } while (*p++);
    return sum;
}

static inline void tti_fingerprint_print(tti_fingerprint sum, char out[TTI_FINGERPRINT_LENGTH + 1])
{
    snprintf(out, TTI_FINGERPRINT_LENGTH + 1, "%016llx%016llx", (unsigned long long)(sum >> 64),
             (unsigned long long)sum);
}

#endif
