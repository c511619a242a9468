/* SPDX-License-Identifier: BSD-3-Clause */
/* The small files of text in /proc and /sys. */
#ifndef TTI_BASE_HOST_TEXT_FILE_H
#define TTI_BASE_HOST_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads the file with the printed path, cut at `capacity` - 1 bytes, with a NUL behind. Returns the number of bytes, or
 * -1 with errno and an empty text. */
__attribute__((format(printf, 3, 4))) ssize_t tti_read_text(char *text, size_t capacity, const char *path, ...);

/* The value of the first line "key : value", or "key value" if the line has no colon, without its end of line, cut at
 * `capacity` - 1 bytes. False: there is no such line, and `value` is "". */
bool tti_find_value(const char *text, const char *key, char *value, size_t capacity);

#endif
