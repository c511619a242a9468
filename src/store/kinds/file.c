/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file:PATH - a directory on a file system that all ranks see; it is made if it is missing, and stays with its keys: it
 * is the user's, and slower ranks may still read. The ranks of a later job skip the worlds of jobs that are known to
 * have ended (src/core/membership/world_name.c).
 *
 * Each key is a file. Its value is written to a draft file and then linked to the key's name. link() is atomic and
 * exclusive, on NFS as well: there, a lost answer can make it report EEXIST although it succeeded, so the number of
 * links decides. A get reads again after pauses that grow to TTI_RETRY_MAX_MS, since network file systems send no
 * events for files that other hosts make.
 */
#include "store/kinds/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/wait/retry.h"
#include "store/wire/fingerprint.h"

#define LONGEST_NAME 200 /* of a file, well below every file system's limit */

struct file_store {
    struct tti_store base;
    const char *path; /* inside base.url */
    unsigned long long nonce;
    atomic_uint counter;
};

/* The file's name for a key: letters, digits, '-' and '_' stand for themselves, all else is %xx, so that no key is "."
 * or leaves the directory. A name that is too long keeps its beginning and gets the key's fingerprint behind "%%". */
static void name_of(const char *key, char name[LONGEST_NAME + 1])
{
    size_t used = 0;
    const unsigned char *p = (const unsigned char *)key;
    for (; *p && used + 3 <= LONGEST_NAME; p++) {
        if (isascii(*p) && (isalnum(*p) || *p == '-' || *p == '_')) {
            name[used++] = (char)*p;
        } else {
            used += (size_t)sprintf(name + used, "%%%02x", *p);
        }
    }
    name[used] = '\0';
    if (*p) {
        char fingerprint[TTI_FINGERPRINT_LENGTH + 1];
        tti_fingerprint_print(tti_fingerprint_add(TTI_FINGERPRINT_EMPTY, key), fingerprint);
        sprintf(name + 100, "%%%%%s", fingerprint);
    }
}

static tutti_status open_directory(const struct file_store *self, int *directory, tutti_error *error)
{
    *directory = open(self->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*directory < 0) {
        return tti_error_system(error, errno, "the directory of the store %s cannot be opened", self->base.url);
    }
    return TUTTI_OK;
}

/* For a key: the folder, and the name of its file there. */
static tutti_status open_key(const struct file_store *self, const char *key, int *directory,
                             char name[LONGEST_NAME + 1], tutti_error *error)
{
    name_of(key, name);
    return open_directory(self, directory, error);
}

static bool write_all(int fd, const unsigned char *bytes, size_t length)
{
    while (length) {
        ssize_t count = write(fd, bytes, length);
        if (count < 0 && errno != EINTR) {
            return false;
        }
        if (count > 0) {
            bytes += count;
            length -= (size_t)count;
        }
    }
    return true;
}

/* Writes the value to the file `draft`; 0 or errno. */
static int write_draft(int directory, const char *draft, const void *value, size_t length)
{
    int fd = openat(directory, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return errno;
    }
    int code = write_all(fd, value, length) ? 0 : errno;
    if (close(fd) != 0 && code == 0) {
        code = errno; /* network file systems report a failed write here */
    }
    return code;
}

/* Gives the draft the key's name, if that is free; 0 or errno. */
static int publish(int directory, const char *draft, const char *name)
{
    struct stat about;
    if (linkat(directory, draft, directory, name, 0) == 0) {
        return 0;
    }
    int code = errno;
    if (code == EPERM || code == EOPNOTSUPP || code == ENOSYS) { /* a file system without links */
        return renameat2(directory, draft, directory, name, RENAME_NOREPLACE) == 0 ? 0 : errno;
    }
    if (code == EEXIST && fstatat(directory, draft, &about, AT_SYMLINK_NOFOLLOW) == 0 && about.st_nlink == 2) {
        return 0;
    }
    return code;
}

static tutti_status file_set(struct tti_store *store, const char *key, const void *value, size_t length,
                             tutti_error *error)
{
    struct file_store *self = (struct file_store *)store;
    char name[LONGEST_NAME + 1];
    char draft[64];
    /* relaxed: only has to be different every time */
    snprintf(draft, sizeof(draft), ".draft-%016llx-%u", self->nonce,
             atomic_fetch_add_explicit(&self->counter, 1, memory_order_relaxed));
    int directory = -1;
    tutti_status status = open_key(self, key, &directory, name, error);
    if (status != TUTTI_OK) {
        return status;
    }
    int code = write_draft(directory, draft, value, length);
    if (code == 0) {
        code = publish(directory, draft, name);
    }
    unlinkat(directory, draft, 0);
    close(directory);
    if (code == EEXIST) {
        return tti_store_error_exists(store, key, error);
    }
    return code == 0
               ? TUTTI_OK
               : tti_error_system(error, code, "the key \"%s\" cannot be written to the store %s", key, store->url);
}

/* Reads at most capacity bytes; the full length from the file's size. ENOENT: not there (yet). */
static int read_value(int directory, const char *name, void *value, size_t capacity, size_t *length)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return errno;
    }
    struct stat about;
    int code = fstat(fd, &about) == 0 ? 0 : errno;
    if (code == 0 && (!S_ISREG(about.st_mode) || about.st_size > TTI_STORE_VALUE_MAX)) {
        code = EPROTO;
    }
    size_t full = code == 0 ? (size_t)about.st_size : 0;
    size_t wanted = full < capacity ? full : capacity;
    for (size_t got = 0; got < wanted && code == 0;) {
        ssize_t count = read(fd, (unsigned char *)value + got, wanted - got);
        if (count > 0) {
            got += (size_t)count;
        } else if (count == 0) {
            code = EPROTO;
        } else if (errno != EINTR) {
            code = errno;
        }
    }
    close(fd);
    *length = full;
    return code;
}

static tutti_status file_get(struct tti_store *store, const char *key, void *value, size_t capacity, size_t *length,
                             int64_t timeout_ms, tutti_error *error)
{
    struct file_store *self = (struct file_store *)store;
    int64_t deadline = tti_deadline_ns(tti_now_ns(), timeout_ms);
    char name[LONGEST_NAME + 1];
    int directory = -1;
    tutti_status status = open_key(self, key, &directory, name, error);
    if (status != TUTTI_OK) {
        return status;
    }
    size_t full = 0;
    int code;
    int pause = 0;
    do {
        code = read_value(directory, name, value, capacity, &full);
    } while ((code == ENOENT || code == ESTALE) && tti_retry_sleep(&pause, deadline));
    close(directory);
    if (code == ENOENT || code == ESTALE) {
        return tti_store_error_timeout(store, key, timeout_ms, error);
    }
    if (code == EPROTO) {
        return tti_error_set(error, TUTTI_PROTOCOL, "the file %s/%s is not a value of a store", self->path, name);
    }
    if (code != 0) {
        return tti_error_system(error, code, "the key \"%s\" cannot be read from the store %s", key, store->url);
    }
    *length = full;
    return full <= capacity ? TUTTI_OK : tti_store_error_too_long(store, key, full, capacity, error);
}

static tutti_status file_remove(struct tti_store *store, const char *key, tutti_error *error)
{
    struct file_store *self = (struct file_store *)store;
    char name[LONGEST_NAME + 1];
    int directory = -1;
    tutti_status status = open_key(self, key, &directory, name, error);
    if (status != TUTTI_OK) {
        return status;
    }
    int code = unlinkat(directory, name, 0) == 0 ? 0 : errno;
    close(directory);
    if (code != 0 && code != ENOENT) {
        return tti_error_system(error, code, "the key \"%s\" cannot be removed from the store %s", key, store->url);
    }
    return TUTTI_OK;
}

static void file_close(struct tti_store *store)
{
    (void)store; /* nothing is held open between calls */
}

static const struct tti_store_kind file_kind = {
    .set = file_set,
    .get = file_get,
    .remove = file_remove,
    .close = file_close,
    .lasts = true,
};

tutti_status tti_store_open_file(const char *rest, struct tti_store **store, tutti_error *error)
{
    if (mkdir(rest, 0700) != 0 && errno != EEXIST) {
        return tti_error_system(error, errno, "the directory of the store file:%s cannot be made", rest);
    }
    struct file_store *self = calloc(1, sizeof(*self));
    if (!self) {
        return tti_store_error_no_memory(error);
    }
    self->base.kind = &file_kind;
    int prefix = snprintf(self->base.url, sizeof(self->base.url), "file:%s", rest) - (int)strlen(rest);
    self->path = self->base.url + prefix;
    atomic_init(&self->counter, 0);
    int directory = -1;
    tutti_status status = open_directory(self, &directory, error);
    if (status == TUTTI_OK && getrandom(&self->nonce, sizeof(self->nonce), 0) != sizeof(self->nonce)) {
        status = tti_error_system(error, errno, "no random number for the store file:%s", rest);
    }
    if (directory >= 0) {
        close(directory);
    }
    if (status != TUTTI_OK) {
        free(self);
        return status;
    }
    *store = &self->base;
    return TUTTI_OK;
}
