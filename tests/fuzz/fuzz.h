/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the fuzz targets. A target is one file with the function that libFuzzer calls. A reader splits the input,
 * and returns zeros once it is used up. A target allocates nothing that outlives a call, waits for nothing, and aborts
 * when an invariant is broken.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->at++;
}

/* `count` bytes, little-endian. */
static inline uint64_t fuzz_number(struct fuzz_input *in, int count)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++) {
        value |= (uint64_t)fuzz_byte(in) << (8 * i);
    }
    return value;
}

/* The bytes up to the next newline as a string, cut to `capacity`. False at the end. */
static inline int fuzz_line(struct fuzz_input *in, char *line, size_t capacity)
{
    if (in->left == 0) {
        return 0;
    }
    size_t length = 0;
    while (in->left > 0) {
        const char c = (char)fuzz_byte(in);
        if (c == '\n') {
            break;
        }
        if (c != '\0' && length + 1 < capacity) {
            line[length++] = c;
        }
    }
    line[length] = '\0';
    return 1;
}

/* An invariant that holds for every input. */
static inline void fuzz_expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz: %s\n", what);
        abort();
    }
}

#endif
