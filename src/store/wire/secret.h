/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The token of a job: a secret that only its processes know. The user gives it to every host, in TUTTI_JOB_TOKEN or
 * in a file that TUTTI_JOB_TOKEN_FILE names; it is never a part of a command line or of a URL, and never sent.
 */
#ifndef TTI_STORE_WIRE_SECRET_H
#define TTI_STORE_WIRE_SECRET_H

#include <stdbool.h>
#include <tutti/status.h>

#include "store/wire/sodium.h"

#define TTI_TOKEN_VARIABLE      "TUTTI_JOB_TOKEN"
#define TTI_TOKEN_FILE_VARIABLE "TUTTI_JOB_TOKEN_FILE"
#define TTI_TOKEN_MIN           16 /* bytes */
#define TTI_TOKEN_MAX           512

struct tti_secret {
    bool known;                        /* false: this process has no token, and the rest means nothing */
    unsigned char key[TTI_SODIUM_KEY]; /* SHA-256 of the token */
    const struct tti_sodium *sodium;
    const char *variable; /* the environment variable that it came from */
};

/* Reads the token of this process. OK without one, too; NOT_AVAILABLE if there is one, but no libsodium to prove it. */
tutti_status tti_secret_read(struct tti_secret *secret, tutti_error *error);

/* Wipes it. */
void tti_secret_wipe(struct tti_secret *secret);

#endif
