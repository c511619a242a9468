/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank holds heads / ranks heads, mlp / ranks columns of the MLP, and vocabulary / ranks rows of the embedding. The
 * vocabulary of 256 bytes is padded to 264, which 2, 3, 4, 6, 8 and 12 ranks divide; the padding never occurs in a
 * text.
 */
#include "shape.h"

#include <stdio.h>
#include <string.h>

#define VOCABULARY 264

bool shape_named(const char *name, struct shape *shape)
{
    static const struct {
        const char *name;
        struct shape shape;
    } known[] = {
        {"tiny", {2, 24, 12, 12, 48, VOCABULARY, 16}},          {"small", {4, 192, 12, 12, 528, VOCABULARY, 128}},
        {"gpt2", {12, 768, 12, 12, 2048, VOCABULARY, 512}},     {"llama-1b", {2, 2048, 32, 8, 8192, VOCABULARY, 512}},
        {"llama-8b", {1, 4096, 32, 8, 14336, VOCABULARY, 512}},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(name, known[i].name) == 0) {
            *shape = known[i].shape;
            return true;
        }
    }
    return false;
}

bool shape_check(const struct shape *s, int32_t ranks, char *why, size_t capacity)
{
    if (s->hidden % s->heads != 0) {
        snprintf(why, capacity, "%d heads do not divide the hidden width %d", s->heads, s->hidden);
        return false;
    }
    if (s->heads % s->kv_heads != 0) {
        snprintf(why, capacity, "%d heads of keys do not divide %d heads", s->kv_heads, s->heads);
        return false;
    }
    const struct {
        const char *what;
        int32_t size;
    } split[] = {
        {"heads", s->heads},
        {"heads of keys", s->kv_heads},
        {"columns of the MLP", s->mlp},
        {"entries of the vocabulary", s->vocabulary},
    };
    for (size_t i = 0; i < sizeof(split) / sizeof(split[0]); i++) {
        if (split[i].size % ranks != 0) {
            snprintf(why, capacity, "%d tensor-parallel ranks do not divide %d %s", ranks, split[i].size,
                     split[i].what);
            return false;
        }
    }
    return true;
}

int64_t shape_parameters(const struct shape *s)
{
    const int64_t hidden = s->hidden;
    const int64_t keys = hidden / s->heads * s->kv_heads;
    const int64_t block = 2 * hidden + hidden * (2 * hidden + 2 * keys) + 3 * hidden * s->mlp;
    return s->layers * block + hidden * (s->context + 1 + 2 * (int64_t)s->vocabulary);
}
