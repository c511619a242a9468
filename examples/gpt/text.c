/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The corpus and the prompt. zlib reads compressed and plain files alike. Files with a NUL byte or with bytes that are
 * not UTF-8 are no text: in a folder they are skipped (indices, pictures), a single one is refused.
 */
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define READ_AT_ONCE (1u << 20)
#define TEXT_MOST    ((size_t)1 << 30)

size_t text_utf8_length(uint8_t first)
{
    return first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

bool text_is_utf8(const void *bytes, size_t count)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < count;) {
        const size_t length = text_utf8_length(b[i]);
        if (length == 0 || length > count - i) {
            return false;
        }
        for (size_t k = 1; k < length; k++) {
            if ((b[i + k] & 0xc0) != 0x80) {
                return false;
            }
        }
        if ((b[i] == 0xe0 && b[i + 1] < 0xa0) || (b[i] == 0xed && b[i + 1] > 0x9f) ||
            (b[i] == 0xf0 && b[i + 1] < 0x90) || (b[i] == 0xf4 && b[i + 1] > 0x8f)) {
            return false; /* overlong, a surrogate, or above U+10FFFF */
        }
        i += length;
    }
    return true;
}

static bool make_room(struct text *text, size_t *room, char *why, size_t capacity)
{
    if (*room - text->count >= READ_AT_ONCE) {
        return true;
    }
    const size_t more = *room * 2 + READ_AT_ONCE;
    uint8_t *bytes = more <= TEXT_MOST ? realloc(text->bytes, more) : NULL;
    if (!bytes) {
        snprintf(why, capacity, "no memory for the text: it has more than %zu bytes", *room);
        return false;
    }
    text->bytes = bytes;
    *room = more;
    return true;
}

/* Appends one file. A file that is no text is skipped, or an error if `required`. */
static bool append_file(struct text *text, size_t *room, const char *path, bool required, char *why, size_t capacity)
{
    const size_t before = text->count;
    gzFile file = gzopen(path, "rb");
    if (!file) {
        snprintf(why, capacity, "cannot read the text %s: %s", path, strerror(errno));
        return false;
    }
    int got = 0;
    bool good = true;
    do {
        good = make_room(text, room, why, capacity);
        got = good ? gzread(file, text->bytes + text->count, READ_AT_ONCE) : 0;
        text->count += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    const bool whole = gzclose_r(file) == Z_OK && got == 0;
    if (!good) {
        return false;
    }
    if (!whole) {
        snprintf(why, capacity, "cannot read the text %s to its end: it is cut short or damaged", path);
        return false;
    }
    const uint8_t *begin = text->bytes + before;
    const size_t count = text->count - before;
    if (memchr(begin, 0, count) || !text_is_utf8(begin, count)) {
        text->count = before;
        if (required) {
            snprintf(why, capacity, "%s is not UTF-8 text: convert it with iconv, or name another file", path);
        }
        return !required;
    }
    return true;
}

static bool append_folder(struct text *text, size_t *room, const char *path, char *why, size_t capacity)
{
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, NULL, alphasort);
    bool good = count >= 0;
    if (!good) {
        snprintf(why, capacity, "cannot read the folder %s: %s", path, strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        char file[4096];
        struct stat status;
        snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
        if (good && lstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
            good = append_file(text, room, file, false, why, capacity);
        }
        free(entries[i]);
    }
    free(entries);
    return good;
}

bool text_read(struct text *text, const char *path, char *why, size_t capacity)
{
    struct stat status;
    size_t room = 0;
    bool good = stat(path, &status) == 0;
    *text = (struct text){0};
    if (!good) {
        snprintf(why, capacity, "cannot read the text %s: %s; name a file or folder of text with --text", path,
                 strerror(errno));
    } else if (S_ISDIR(status.st_mode)) {
        good = append_folder(text, &room, path, why, capacity);
    } else {
        good = append_file(text, &room, path, true, why, capacity);
    }
    if (good && text->count == 0) {
        snprintf(why, capacity, "%s holds no text", path);
        good = false;
    }
    if (!good) {
        text_free(text);
    }
    return good;
}

void text_free(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}
