/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A short name for a long one: 128-bit FNV-1a in hexadecimal. Different inputs never share it by accident; it is no
 * protection against someone who makes them collide on purpose, which only concerns the same user's own jobs.
 */
#ifndef TTI_STORE_FINGERPRINT_H
#define TTI_STORE_FINGERPRINT_H

#include <stdint.h>
#include <stdio.h>

#define TTI_FINGERPRINT_LENGTH 32

static inline void tti_fingerprint(const char *text, char out[TTI_FINGERPRINT_LENGTH + 1])
{
    __extension__ typedef unsigned __int128 wide;
    const wide prime = ((wide)1 << 88) + 0x13b;
    wide hash = ((wide)0x6c62272e07bb0142u << 64) | 0x62b821756295c58du;
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        hash = (hash ^ *p) * prime;
    }
    snprintf(out, TTI_FINGERPRINT_LENGTH + 1, "%016llx%016llx", (unsigned long long)(hash >> 64),
             (unsigned long long)hash);
}

#endif
