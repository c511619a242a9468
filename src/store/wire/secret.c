/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading the token. A file counts only if its owner is this user or root, and no other user can read or write it. The
 * checks use the open descriptor, so the file cannot be exchanged between check and use. The bytes of the token are
 * wiped as soon as the key is made; the environment stays as it is.
 */
#include "store/wire/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static tutti_status check_file(int fd, const char *path, tutti_error *error)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return tti_error_system(error, errno, "the file \"%.200s\" of %s cannot be examined", path,
                                TTI_TOKEN_FILE_VARIABLE);
    }
    if (!S_ISREG(about.st_mode)) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s names \"%.200s\", which is not a file",
                             TTI_TOKEN_FILE_VARIABLE, path);
    }
    if (about.st_uid != geteuid() && about.st_uid != 0) {
        return tti_error_set(error, TUTTI_AUTH, "the file \"%.200s\" of %s belongs to user %u, not to this one (%u)",
                             path, TTI_TOKEN_FILE_VARIABLE, (unsigned)about.st_uid, (unsigned)geteuid());
    }
    if (about.st_mode & (S_IRWXG | S_IRWXO)) {
        return tti_error_set(
            error, TUTTI_AUTH,
            "the file \"%.200s\" of %s is open to others (mode %03o): chmod 600 it, and put a new token into it", path,
            TTI_TOKEN_FILE_VARIABLE, (unsigned)(about.st_mode & 0777));
    }
    return TUTTI_OK;
}

/* Reads at most `capacity` bytes. */
static tutti_status read_file(const char *path, unsigned char *bytes, size_t capacity, size_t *length,
                              tutti_error *error)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* opening a FIFO must not block */
    if (fd < 0) {
        return tti_error_system(error, errno, "the file \"%.200s\" of %s cannot be opened", path,
                                TTI_TOKEN_FILE_VARIABLE);
    }
    tutti_status status = check_file(fd, path, error);
    *length = 0;
    while (status == TUTTI_OK && *length < capacity) {
        const ssize_t count = read(fd, bytes + *length, capacity - *length);
        if (count == 0) {
            break;
        }
        if (count > 0) {
            *length += (size_t)count;
        } else if (errno != EINTR) {
            status = tti_error_system(error, errno, "the file \"%.200s\" of %s cannot be read", path,
                                      TTI_TOKEN_FILE_VARIABLE);
        }
    }
    close(fd);
    return status;
}

/* `token` has TTI_TOKEN_MAX + 2 bytes, so that a token that is too long is noticed, whatever its end of line. */
static tutti_status read_token(struct tti_secret *secret, unsigned char *token, size_t *length, tutti_error *error)
{
    const char *text = getenv(TTI_TOKEN_VARIABLE);
    const char *path = getenv(TTI_TOKEN_FILE_VARIABLE);
    if (text && path) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "both %s and %s are set: a job has one token",
                             TTI_TOKEN_VARIABLE, TTI_TOKEN_FILE_VARIABLE);
    }
    if (!text && !path) {
        return TUTTI_OK;
    }
    secret->variable = text ? TTI_TOKEN_VARIABLE : TTI_TOKEN_FILE_VARIABLE;
    tutti_status status = TUTTI_OK;
    if (text) {
        *length = strnlen(text, TTI_TOKEN_MAX + 1);
        memcpy(token, text, *length);
    } else {
        status = read_file(path, token, TTI_TOKEN_MAX + 2, length, error);
    }
    while (*length > 0 && strchr("\r\n", token[*length - 1])) { /* the end of line that editors and echo add */
        --*length;
    }
    if (status == TUTTI_OK && (*length < TTI_TOKEN_MIN || *length > TTI_TOKEN_MAX)) {
        status = tti_error_set(
            error, TUTTI_INVALID_ARGUMENT,
            "the job token of %s has %s bytes: it must have %d to %d, and be random, as from: head -c "
            "32 /dev/urandom | base64",
            secret->variable, *length > TTI_TOKEN_MAX ? "too many" : "too few", TTI_TOKEN_MIN, TTI_TOKEN_MAX);
    }
    secret->known = status == TUTTI_OK;
    return status;
}

tutti_status tti_secret_read(struct tti_secret *secret, tutti_error *error)
{
    unsigned char token[TTI_TOKEN_MAX + 2];
    size_t length = 0;
    *secret = (struct tti_secret){.known = false};
    tutti_status status = read_token(secret, token, &length, error);
    if (status == TUTTI_OK && secret->known) {
        const char *why;
        secret->sodium = tti_sodium(&why);
        if (!secret->sodium) {
            status =
                tti_error_set(error, TUTTI_NOT_AVAILABLE,
                              "the job has a token (%s), which is proven by libsodium, and this host has %s; install "
                              "it here (Debian: libsodium23), or take the token from all hosts",
                              secret->variable, why);
        } else {
            secret->sodium->hash(secret->key, token, length);
        }
    }
    explicit_bzero(token, sizeof(token));
    if (status != TUTTI_OK) {
        tti_secret_wipe(secret);
    }
    return status;
}

void tti_secret_wipe(struct tti_secret *secret)
{
    explicit_bzero(secret, sizeof(*secret));
}
