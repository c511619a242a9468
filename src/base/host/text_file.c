/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A read from /proc may return less than there is, so the file is read until its end, or until the text is full. That
 * costs one more system call than a single read.
 */
#include "base/host/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int open_printed(const char *path, va_list arguments)
{
    char printed[PATH_MAX];
    const int length = vsnprintf(printed, sizeof(printed), path, arguments);
    if (length < 0 || length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(printed, O_RDONLY | O_CLOEXEC);
}

ssize_t tti_read_text(char *text, size_t capacity, const char *path, ...)
{
    va_list arguments;
    va_start(arguments, path);
    const int file = open_printed(path, arguments);
    va_end(arguments);
    text[0] = '\0';
    if (file < 0) {
        return -1;
    }
    size_t used = 0;
    ssize_t got;
    do {
        got = read(file, text + used, capacity - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    } while ((got > 0 && used < capacity - 1) || (got < 0 && errno == EINTR));
    const int reason = errno;
    close(file);
    errno = reason;
    text[got < 0 ? 0 : used] = '\0';
    return got < 0 ? -1 : (ssize_t)used;
}

/* Where the value begins in a line that begins with the key; NULL: it is another key. */
static const char *value_behind(const char *at)
{
    const char *behind = at + strspn(at, " \t");
    if (*behind == ':') {
        behind++;
    } else if (behind == at || at[strcspn(at, ":\n")] == ':') {
        return NULL; /* the key goes on */
    }
    return behind + strspn(behind, " \t");
}

bool tti_find_value(const char *text, const char *key, char *value, size_t capacity)
{
    const size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *found = strncmp(line, key, length) == 0 ? value_behind(line + length) : NULL;
        if (found) {
            snprintf(value, capacity, "%.*s", (int)strcspn(found, "\n"), found);
            return true;
        }
    }
    value[0] = '\0';
    return false;
}
