/* SPDX-License-Identifier: BSD-3-Clause */
/* Text as tokens: each byte of UTF-8 is one token, so the vocabulary has 256 entries and needs no table. */
#ifndef EXAMPLES_GPT_TEXT_H
#define EXAMPLES_GPT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_VOCABULARY 256

struct text {
    uint8_t *bytes;
    size_t count;
};

/* Reads a file, plain or compressed by gzip. Of a folder it reads all files that are UTF-8 text, in the order of their
 * names. On failure nothing is allocated and `why` holds one sentence. */
bool text_read(struct text *text, const char *path, char *why, size_t capacity);
void text_free(struct text *text);

/* Whether the bytes are UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. */
bool text_is_utf8(const void *bytes, size_t count);

/* The number of bytes of the sequence that begins with `first`; 0 if no sequence begins with it. */
size_t text_utf8_length(uint8_t first);

#endif
